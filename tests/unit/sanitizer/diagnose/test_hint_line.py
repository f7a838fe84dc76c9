"""A promise stands at the call that makes it, not at what made the value."""

from __future__ import annotations

import pytest

from kerncap.sanitizer.diagnose.hint_line import hint_location
from kerncap.sanitizer.ttir.ir import UNKNOWN_LOCATION, Frame, Location

SOURCE = """\
def kernel(x_ptr, n, B: tl.constexpr):
    first = tl.program_id(0) * B + n
    other = first + 1
    first = tl.multiple_of(first, 16)
    lanes = tl.max_contiguous(tl.multiple_of((first + tl.arange(0, B)) % n, B), B)
    wrapped = lanes % n
    wrapped = tl.max_contiguous(tl.multiple_of(wrapped, B), B)
    both = tl.max_contiguous(
        lanes
        + wrapped,
        4,
    )


def stranger(first):
    return tl.multiple_of(first, 8)
"""


def _line(made_at: int, hint: str, source: str = SOURCE) -> int:
    made = Location((Frame("kernel.py", made_at, 5), Frame("caller.py", 70, 1)), "first")
    found = hint_location(made, hint, {"kernel.py": source})
    assert found.frames[1:] == made.frames[1:]
    assert found.name == "first"
    return found.frames[0].line


@pytest.mark.parametrize(
    ("made_at", "hint", "line"),
    [
        (2, "multiple_of", 4),
        (5, "multiple_of", 5),
        (5, "max_contiguous", 5),
        (6, "max_contiguous", 7),
        (6, "multiple_of", 7),
        (10, "max_contiguous", 8),
        (3, "multiple_of", 3),  # nobody promises anything of `other`
        (2, "max_constancy", 2),
    ],
)
def test_the_line_of_the_call(made_at: int, hint: str, line: int) -> None:
    assert _line(made_at, hint) == line


def test_without_a_source_that_can_be_read_it_stays_where_it_is() -> None:
    assert _line(2, "multiple_of", "def kernel(:\n") == 2
    assert _line(99, "multiple_of") == 99
    assert hint_location(UNKNOWN_LOCATION, "multiple_of", {}) is UNKNOWN_LOCATION

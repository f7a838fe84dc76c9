"""Which launches are in a range, counted by the hook itself and by the shim."""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any

import pytest

from kerncap.capture.options import Selection, parse_kernel_launch, parse_launches
from kerncap.errors import UsageError

ORDER = ["norm", "matmul", "swiglu"] * 3


@pytest.fixture
def span(package: Any) -> Any:
    from kerncap_triton import launch_span  # type: ignore[import-not-found,unused-ignore]

    return launch_span


def positions(span: Any, **selection: Any) -> list[int]:
    """The positions of those launches of ORDER that are in the range."""
    chosen = Selection(**selection)
    options: Any = SimpleNamespace(
        launches=chosen.launches, from_kernel=chosen.from_kernel, from_skip=chosen.from_skip,
        to_kernel=chosen.to_kernel, to_skip=chosen.to_skip, whole_range=None, graph=None, range=None,
    )  # fmt: skip
    counted = span.asked_for(options)
    kernels = [SimpleNamespace(name=name, qualified_name=f"app.{name}") for name in ORDER]
    found = [counted.position(kernel, None) for kernel in kernels]
    taken = [position for position in found if position >= 0]
    assert all(position in (span.BEFORE, span.BEHIND) for position in found if position < 0)
    # Launches after the range are not taken for launches before it: the hook stops looking.
    assert (found[-1] == span.BEHIND) == (bool(taken) and taken[-1] < len(ORDER) - 1)
    return taken


@pytest.mark.parametrize(
    ("selection", "expected"),
    [
        ({"launches": (2, 5)}, [2, 3, 4]),
        ({"launches": (7, 99)}, [7, 8]),
        ({"from_kernel": "matmul", "to_kernel": "norm"}, [1, 2, 3]),
        ({"from_kernel": "^norm$", "from_skip": 1, "to_kernel": "swiglu"}, [3, 4, 5]),
        ({"from_kernel": "norm", "to_kernel": "norm"}, [0]),
        ({"from_kernel": "norm", "to_kernel": "norm", "to_skip": 1}, [0, 1, 2, 3]),
        ({"from_kernel": "app.swiglu", "from_skip": 1, "to_kernel": "never"}, [5, 6, 7, 8]),
        ({"from_kernel": "never", "to_kernel": "norm"}, []),
    ],
)
def test_positions(span: Any, selection: dict[str, Any], expected: list[int]) -> None:
    assert positions(span, **selection) == expected


def test_the_shim_counts_where_it_is_live(span: Any) -> None:
    asked: list[tuple[bool, bool]] = []

    class Shim:
        range_is_counted = True

        def count_launch(self, starts: bool, ends: bool, occurrence: int) -> int:
            asked.append((starts, ends))
            return 41

    options: Any = SimpleNamespace(
        launches=None,
        from_kernel="norm",
        from_skip=0,
        to_kernel="swi",
        to_skip=0,
        whole_range=None,
        graph=None,
        range=None,
    )
    counted = span.asked_for(options)
    kernel = SimpleNamespace(name="swiglu", qualified_name="app.swiglu")
    assert counted.position(kernel, Shim()) == 41 and asked == [(False, True)] and counted.over


@pytest.mark.parametrize(("number", "expected"), [(0, [1, 2]), (1, [4, 5, 6]), (2, [7]), (3, [])])
def test_all_within_an_occurrence(
    span: Any, monkeypatch: pytest.MonkeyPatch, number: int, expected: list[int]
) -> None:
    options: Any = SimpleNamespace(
        launches=None,
        from_kernel=None,
        from_skip=0,
        to_kernel=None,
        to_skip=0,
        whole_range=number,
        graph=None,
        range="step",
    )
    occurrences = [0, 5, 5, 0, 6, 6, 6, 9]
    monkeypatch.setattr(span.nvtx_ranges, "occurrence", lambda pattern: occurrences.pop(0))
    counted, kernel = span.asked_for(options), SimpleNamespace(name="norm", qualified_name="app.norm")
    found = [counted.position(kernel, None) for _ in range(8)]
    assert [position for position in found if position >= 0] == expected
    assert counted.over == (number < 2)


def test_how_it_is_written() -> None:
    assert parse_launches("3:6") == (3, 6)
    assert parse_kernel_launch("void at::native::add") == ("void at::native::add", 0)
    assert parse_kernel_launch("at::native::add<4>:12") == ("at::native::add<4>", 12)
    for text in ("3", "6:3", "3:3", "a:b", ":4"):
        with pytest.raises(UsageError, match="--launches"):
            parse_launches(text)

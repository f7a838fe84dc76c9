"""Digests of memory, as the Triton hook asks for them."""

from __future__ import annotations

import pytest

from tests.native.common.captured import Run
from tests.traced_digests import digest

SIZES = (8, 4096, 4097, 3 * 4096 + 5)


def asked(capture: Run, **environment: object) -> list[str]:
    out = capture({"chunk_bytes": 4096, "trace": True, "list_only": True}, "capture_digests", **environment)
    return out.split()


def test_each_range_has_its_own(capture: Run) -> None:
    contents = [bytes((i * 31 + number) % 251 for i in range(size)) for number, size in enumerate(SIZES)]
    assert asked(capture) == [digest(each, 4096) for each in contents]


@pytest.mark.parametrize(
    "environment",
    [
        {"SHIFT": 4},  # words are read whole
        {"GAP": 1},  # behind the range is memory that is not allocated
        {"CAPTURING": 1},
        {"NO_KERNELS": 1},
    ],
    ids=lambda each: next(iter(each)),
)
def test_what_the_device_can_not_look_into(capture: Run, environment: dict[str, object]) -> None:
    assert asked(capture, **environment) == ["none"]

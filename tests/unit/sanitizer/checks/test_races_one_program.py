"""Two accesses of one program at one place: unproven if two lanes make them and no barrier is between."""

from __future__ import annotations

import inspect

import pytest
import triton
import triton.language as tl

from kerncap.sanitizer.checks.races.one_program import OTHER_LANES
from kerncap.sanitizer.engine import sanitize
from kerncap.sanitizer.findings import Unproven
from tests.unit.sanitizer.checks.race_runs import launched, zeros

F = "*fp32"


@triton.jit
def accesses(x, o, c, n, HOW: tl.constexpr, B: tl.constexpr):
    i = tl.arange(0, B)
    p = tl.program_id(0) * B
    v = tl.load(x + p + i)
    if HOW == "turned":
        tl.store(o + p + i, v)
        tl.store(x + p + i, tl.load(o + p + B - 1 - i))  # turned
    elif HOW == "turned after a barrier":
        tl.store(o + p + i, v)
        tl.debug_barrier()
        tl.store(x + p + i, tl.load(o + p + B - 1 - i))
    elif HOW == "turned in place":
        tl.store(x + p + B - 1 - i, v)  # turned in place
    elif HOW == "turned in place after a sum":
        tl.store(x + p + B - 1 - i, v / tl.sum(v, axis=0))
    elif HOW == "turned in place after a loop":
        total = 0.0
        for k in range(n):
            total += tl.sum(tl.load(x + p + (i + k) % B), axis=0)
        tl.store(x + p + B - 1 - i, v / total)
    elif HOW == "turned after a sum":
        tl.store(o + p + i, v)
        total = tl.sum(v, axis=0)
        tl.store(x + p + i, total + tl.load(o + p + B - 1 - i))  # turned after a sum
    elif HOW == "same lanes":
        tl.store(o + p + i, v)
        tl.store(o + p + i, tl.load(o + p + i) + 1)
    elif HOW == "other tile":
        tl.store(o + p + i, v)
        j = tl.arange(0, B // 4)
        tl.store(x + p + j, tl.load(o + p + j))  # other tile
    elif HOW == "one number":
        tl.store(c + p, 2.0)
        tl.store(o + p + i, v * tl.load(c + p))  # one number
    elif HOW == "counted up":
        tl.store(c + p, tl.load(c + p) + 1)
    elif HOW == "stored twice":
        tl.store(c + p, 1.0)
        tl.store(c + p, tl.load(x + p))
    elif HOW == "beside":
        tl.store(o + p + i, v, i < B // 2)
        tl.store(x + p + i, tl.load(o + p + B - 1 - i, i < B // 2, 0.0))
    elif HOW == "all over":
        tl.store(o + p + i, v)
        tl.store(o + p + i // 2 * 2, 1.0)  # all over
    elif HOW == "rounds of a loop":
        for k in range(2):
            w = tl.load(x + p + (i + k) % B)  # rounds of a loop
            tl.store(x + p + i, w + 1)  # rounds of a loop
    elif HOW == "a lane in the middle":
        for k in range(3):
            tl.store(o + p + (i + 64 - k * (k - 2)) % B, v)  # a lane in the middle
        tl.store(x + p + i, tl.load(o + p + i))  # a lane in the middle
    elif HOW == "rounds with a barrier":
        for k in range(2):
            w = tl.load(x + p + (i + k) % B)
            tl.debug_barrier()
            tl.store(x + p + i, w + 1)
            tl.debug_barrier()
    elif HOW == "rounds of the same lanes":
        for k in range(2):
            tl.store(x + p + i, tl.load(x + p + i) + k)
    elif HOW == "barrier in a branch":
        tl.store(o + p + i, v)
        if n > 100:
            tl.debug_barrier()
        tl.store(x + p + i, tl.load(o + p + B - 1 - i))  # barrier in a branch
    elif HOW == "places from memory":
        tl.store(o + p + i, v)
        tl.store(x + p + i, tl.load(o + p + tl.load(c + p + i).to(tl.int32)))  # places from memory
    elif HOW == "result of an atomic":
        tl.store(o + p + i, v)
        count = tl.atomic_add(c + p, 1.0)
        tl.store(x + p + i, tl.load(o + p + B - 1 - i) + count)
    elif HOW == "atomic without a result":
        tl.store(o + p + i, v)
        tl.atomic_add(c + p, 1.0)
        tl.store(x + p + i, tl.load(o + p + B - 1 - i))  # atomic without a result


def open_lines(how: str, programs: int = 3) -> list[int]:
    """The lines of accesses that meet an earlier one of another lane."""
    size = 64 * programs
    launch = launched(
        accesses, (programs,), {"x": F, "o": F, "c": F, "n": "i32"}, [zeros(size)] * 3,
        x=(size,), o=(size,), c=(size,), n=5, HOW=how, B=64,
    )  # fmt: skip
    return sorted(
        {
            one.location.frames[0].line
            for one in sanitize(launch).settled
            if one.verdict == Unproven(OTHER_LANES)
        }
    )


@pytest.mark.parametrize("how", [
    "turned", "turned in place", "other tile", "one number", "all over", "rounds of a loop",
    "barrier in a branch", "places from memory", "atomic without a result", "turned after a sum",
    "a lane in the middle",
])  # fmt: skip
def test_lanes_that_meet(how: str) -> None:
    lines, first = inspect.getsourcelines(accesses.fn)
    expected = [first + at for at, text in enumerate(lines) if text.endswith(f"  # {how}\n")]
    assert expected
    assert open_lines(how) == open_lines(how, programs=1) == expected


@pytest.mark.parametrize("how", [
    "turned after a barrier", "turned in place after a sum", "turned in place after a loop", "same lanes",
    "counted up", "stored twice", "beside", "rounds with a barrier", "rounds of the same lanes",
    "result of an atomic",
])  # fmt: skip
def test_lanes_that_are_ordered_or_apart(how: str) -> None:
    assert open_lines(how) == []

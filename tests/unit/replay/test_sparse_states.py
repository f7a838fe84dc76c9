"""Large memory of which little is touched: what is a hole is not looked at, and nothing is missed by that."""

from __future__ import annotations

import os
import re
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from kerncap.format import schema
from kerncap.replay.worker.common import bitmap, ranges

from .build import BASE, Launch
from .resident import Resident, resident

pytest.importorskip("triton")
pytest.importorskip("torch")

FLAGS = st.lists(st.booleans(), max_size=40)


def ranges_of(flags: list[bool]) -> list[ranges.Range]:
    return ranges.union((at, at + 1) for at, flag in enumerate(flags) if flag)


def members(found: list[ranges.Range]) -> set[int]:
    return {at for start, stop in found for at in range(start, stop)}


@given(FLAGS, FLAGS, st.integers(0, 40), st.integers(0, 40))
def test_ranges_are_sets_of_bytes(one: list[bool], other: list[bool], start: int, stop: int) -> None:
    a, b = ranges_of(one), ranges_of(other)
    assert members(ranges.union(a, b)) == members(a) | members(b)
    assert members(ranges.minus(a, b)) == members(a) - members(b)
    assert members(ranges.common(a, b)) == members(a) & members(b)
    assert members(ranges.clipped(a, start, stop)) == members(a) & set(range(start, stop))


def test_the_data_of_a_sparse_file(tmp_path: Path) -> None:
    page = os.sysconf("SC_PAGE_SIZE")
    with (tmp_path / "sparse").open("wb+") as file:
        os.ftruncate(file.fileno(), 64 * page)
        os.pwrite(file.fileno(), b"x", 10 * page + 5)
        found = ranges.data_of(file.fileno(), 8 * page, 40 * page)
        assert (2 * page + 5) in members(found)
        assert ranges.data_of(file.fileno(), 0, 0) == []


# --- states ----------------------------------------------------------------------------------------

SIZE = 300_005
SKEW = 24  # regions begin where their allocation does, which is at no page


@pytest.fixture(scope="module")
def memory() -> Any:
    import torch

    from kerncap.replay.worker.common.host_memory import HostMemory

    region: Any = {"base": BASE + 0x7000_0000_0000 % 0x1000_0000 + SKEW, "size": SIZE}
    found = HostMemory([region])
    found.reserve(relocate=True)
    found.open(torch)
    return found


OPERATIONS = st.lists(
    st.tuples(
        st.sampled_from(["write", "fill", "restore", "snapshot", "put", "forget"]),
        st.integers(0, SIZE - 1),
        st.integers(1, 90_000),
        st.sampled_from(["pre", "post", "mine"]),
    ),
    max_size=8,
)


@settings(max_examples=60, deadline=None)
@given(OPERATIONS)
def test_states_are_what_plain_arrays_are(
    memory: Any, tmp_path_factory: pytest.TempPathFactory, operations: list[Any]
) -> None:
    from kerncap.replay.worker.common.poison import words
    from kerncap.replay.worker.torch_backend.states import States

    folder = tmp_path_factory.mktemp("job")
    kept = {name: np.zeros(SIZE, np.uint8) for name in ("pre", "post", "mine")}
    kept["pre"][5_000:5_100] = kept["post"][100_000:200_003] = 7
    for name in ("pre", "post"):
        with (folder / name).open("wb+") as file:
            os.ftruncate(file.fileno(), SIZE)
            for at in np.flatnonzero(kept[name])[[0, -1]].tolist():
                os.pwrite(file.fileno(), kept[name].tobytes()[at : at + 1], at)
            start, stop = np.flatnonzero(kept[name])[[0, -1]].tolist()
            os.pwrite(file.fileno(), kept[name][start : stop + 1].tobytes(), start)
    job: Any = {"hostile": False, "regions": [{"pre": "pre", "post": "post", "size": SIZE}]}
    states = States(memory, job, folder)
    states.restore()
    states.snapshot("mine")
    now, kept["mine"] = kept["pre"].copy(), kept["pre"].copy()
    for what, start, length, name in operations:
        stop = min(SIZE, start + length)
        chosen = np.zeros(SIZE, np.bool_)
        chosen[start:stop:3] = True
        mask = bitmap.of_flags(chosen)
        if what == "write":
            memory.tensor(0, start, stop - start).fill_(9)
            now[start:stop] = 9
        elif what == "fill":
            states.fill(0, 0, SIZE, 1, mask)
            now[chosen] = words(np, 1, 0, 0, SIZE)[chosen]
        elif what == "restore":
            states.restore(name)
            now = kept[name].copy()
        elif what == "snapshot":
            states.snapshot("mine")
            kept["mine"] = now.copy()
        elif what == "put":
            states.put(name, 0, mask)
            now[chosen] = kept[name][chosen]
        else:
            memory.forget(0, start, stop)
            now[start:stop] = 0
    assert np.array_equal(memory.tensor(0, 0, SIZE).numpy(), now)
    for name, state in kept.items():
        differs = state != now
        assert states.differing(name) == ([0] if differs.any() else [])
        found = states.diff(0, name, 0)
        assert (bitmap.empty(SIZE) if found is None else found) == bitmap.of_flags(differs)
    untouched = states.untouched(0)
    if untouched is not None:
        assert not now[untouched.flags()].any()


# --- a launch --------------------------------------------------------------------------------------

BYTES = 16 << 20
FIRST = """
@triton.jit
def first(x_ptr, out_ptr, n, BLOCK: tl.constexpr):
    i = tl.arange(0, BLOCK)
    tl.store(out_ptr + i, tl.load(x_ptr + i, mask=i < n) + 1, mask=i < n)
"""


@pytest.fixture(scope="module")
def large(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Resident]:
    x, out = np.zeros(BYTES, np.int8), np.zeros(BYTES, np.int8)
    x[:64] = np.arange(64)
    out[:64] = x[:64] + 1
    launch = Launch(FIRST, "first")
    for name, before, after in (("x_ptr", x, x), ("out_ptr", np.zeros(BYTES, np.int8), out)):
        region = launch.region(before, after, base=BASE + SKEW + len(launch.regions) * 0x1000_0000)
        view = launch.view(name, region, "int8", (BYTES,))
        launch.argument(name, schema.TensorValue(view=view))
    with resident(
        launch.argument("n", 64).constexpr("BLOCK", 64), tmp_path_factory.mktemp("large")
    ) as opened:
        yield opened


def test_a_large_tensor_is_judged_as_a_small_one(large: Resident) -> None:
    assert large.judge().line == "Result: PASS (33,554,432 bytes identical, 64 written bytes poisoned)"


@pytest.mark.parametrize("place", [4 << 20, BYTES - 64])
def test_zeros_over_zeros_far_from_what_is_touched_are_seen(large: Resident, place: int) -> None:
    line = f"    tl.store(out_ptr + {place} + i, i * 0)\n"
    verdict = large.judge(FIRST + line)
    # A byte of poison is zero by chance now and then.
    expected = rf"6[0-4] bytes outside the write set were changed \(first at out_ptr\[{place}\]\)"
    assert re.search(expected, verdict.reasons[0])


def test_what_is_read_far_away_does_no_harm(large: Resident) -> None:
    line = f"    tl.store(out_ptr + i, tl.load(x_ptr + {5 << 20} + i) * 0 + tl.load(x_ptr + i) + 1)\n"
    assert large.judge(FIRST + line).passed

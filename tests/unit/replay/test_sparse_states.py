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

from kerncap.answer import Answer
from kerncap.format import schema
from kerncap.replay.worker.common import bitmap, byte_ranges

from .build import BASE, Launch, Sparse
from .resident import Resident, resident

pytest.importorskip("triton")
pytest.importorskip("torch")

FLAGS = st.lists(st.booleans(), max_size=40)


def ranges_of(flags: list[bool]) -> list[byte_ranges.Range]:
    return byte_ranges.union((at, at + 1) for at, flag in enumerate(flags) if flag)


def members(found: list[byte_ranges.Range]) -> set[int]:
    return {at for start, stop in found for at in range(start, stop)}


@given(FLAGS, FLAGS, st.integers(0, 40), st.integers(0, 40))
def test_ranges_are_sets_of_bytes(one: list[bool], other: list[bool], start: int, stop: int) -> None:
    a, b = ranges_of(one), ranges_of(other)
    assert members(byte_ranges.union(a, b)) == members(a) | members(b)
    assert members(byte_ranges.minus(a, b)) == members(a) - members(b)
    assert members(byte_ranges.common(a, b)) == members(a) & members(b)
    assert members(byte_ranges.clipped(a, start, stop)) == members(a) & set(range(start, stop))


def test_the_data_of_a_sparse_file(tmp_path: Path) -> None:
    page = os.sysconf("SC_PAGE_SIZE")
    with (tmp_path / "sparse").open("wb+") as file:
        os.ftruncate(file.fileno(), 64 * page)
        os.pwrite(file.fileno(), b"x", 10 * page + 5)
        found = byte_ranges.data_of(file.fileno(), 8 * page, 40 * page)
        assert (2 * page + 5) in members(found)
        assert byte_ranges.data_of(file.fileno(), 0, 0) == []


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


@settings(max_examples=30, deadline=None)
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
    region = {"pre": ["pre"], "post": ["post"], "changed": [[0, SIZE]], "size": SIZE}
    job: Any = {"hostile": False, "regions": [region]}
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
        idle = states.idle(0, name)
        for at in range(0, SIZE, 10_000):
            if idle(memory.tensor(0, at, min(10_000, SIZE - at))):
                assert not now[at : at + 10_000].any() and not state[at : at + 10_000].any()
    untouched = states.untouched(0)
    if untouched is not None:
        assert not now[untouched.flags()].any()


# --- a launch --------------------------------------------------------------------------------------

BYTES = 5 << 30
TAIL = BYTES - 64
FIRST = """
@triton.jit
def ends(x_ptr, out_ptr, n, TAIL, BLOCK: tl.constexpr):
    i = tl.arange(0, BLOCK)
    x = tl.load(x_ptr + i, mask=i < n)
    tl.store(out_ptr + i, x + 1, mask=i < n)
    tl.store(out_ptr + TAIL + i, x + 2, mask=i < n)
"""


@pytest.fixture(scope="module")
def large(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Resident]:
    x = np.arange(64, dtype=np.int8)
    data = {0: (x + np.int8(1)).tobytes(), TAIL: (x + np.int8(2)).tobytes()}
    launch = Launch(FIRST, "ends")
    for name, before, after in (
        ("x_ptr", {0: x.tobytes()}, {0: x.tobytes()}), ("out_ptr", {}, data),
    ):  # fmt: skip
        base = BASE + SKEW + len(launch.regions) * 2 * BYTES
        region = launch.region(Sparse(BYTES, before), Sparse(BYTES, after), base=base)
        view = launch.view(name, region, "int8", (BYTES,))
        launch.argument(name, schema.TensorValue(view=view))
    launch.argument("n", 64).argument("TAIL", TAIL).constexpr("BLOCK", 64)
    with resident(launch, tmp_path_factory.mktemp("large")) as opened:
        yield opened


def test_a_large_tensor_is_judged_as_a_small_one(large: Resident) -> None:
    assert large.judge().line == f"Result: PASS ({2 * BYTES:,} bytes identical, 128 written bytes poisoned)"
    assert large.measured.written_bytes == 128
    kept = large.measured.as_write_set()
    assert [kept.written_bytes(region) for region in range(2)] == [0, 128]


@pytest.mark.parametrize("place", [4 << 20, TAIL - 64])
def test_zeros_over_zeros_far_from_what_is_touched_are_seen(large: Resident, place: int) -> None:
    line = f"    tl.store(out_ptr + {place} + i, i * 0)\n"
    verdict = large.judge(FIRST + line)
    # A byte of poison is zero by chance now and then.
    expected = rf"6[0-4] bytes outside the write set were changed \(first at out_ptr\[{place}\]\)"
    assert re.search(expected, verdict.reasons[0])


def test_what_is_read_far_away_does_no_harm(large: Resident) -> None:
    line = f"    tl.store(out_ptr + i, tl.load(x_ptr + {5 << 20} + i) * 0 + tl.load(x_ptr + i) + 1)\n"
    assert large.judge(FIRST + line).passed


def test_a_wrong_byte_in_the_last_page_is_found_and_nothing_beside_it_is_looked_at(large: Resident) -> None:
    verdict = large.judge(FIRST.replace("x + 2, mask=i < n", "tl.where(i == 63, 9, x + 2), mask=i < n"))
    assert verdict.answer is Answer.NO
    assert any(f"[{BYTES - 1}]" in reason for reason in verdict.reasons), verdict.reasons
    [mismatch] = [stats for stats in verdict.views if stats.different]
    assert (mismatch.elements, mismatch.different) == (BYTES, 1)
    for region in range(2):
        assert bitmap.count(large.engine.untouched(region)) > BYTES - (64 << 20)

"""Queues, compactions, buckets: where an addition sends an access is proved for any order."""

from __future__ import annotations

import inspect
from typing import Any

import numpy as np
import pytest
import triton
import triton.language as tl

from kerncap.sanitizer.checks.bounds.bounds_watcher import BoundsWatcher
from kerncap.sanitizer.checks.races.evaluated.race_observer import RaceObserver
from kerncap.sanitizer.concrete.events import AccessEvent
from kerncap.sanitizer.concrete.memory import Memory
from kerncap.sanitizer.concrete.run import evaluate
from kerncap.sanitizer.engine import sanitize
from kerncap.sanitizer.findings import Check, Proved, Verdict, Violated
from kerncap.sanitizer.launch import Launch
from kerncap.sanitizer.ttir.ir import Operation
from tests.unit.sanitizer.checks.race_runs import launched
from tests.unit.sanitizer.compiled import analysis_of

PROGRAMS, BLOCK = 8, 4
KEYS = np.array(
    [3, 0, 5, 1, 0, 0, 7, 2, 9, 0, 1, 0, 0, 0, 0, 0, 4, 4, 4, 4, 0, 1, 2, 3, 6, 0, 0, 6, 1, 1, 0, 8]
)
KEPT = int((KEYS > 0).sum())


@triton.jit
def queue(count, x, o):
    pid = tl.program_id(0)
    slot = tl.atomic_add(count, 1)
    tl.store(o + slot, pid)


@triton.jit
def blocks(count, x, o, B: tl.constexpr):
    slot = tl.atomic_add(count, B)
    tl.store(o + slot + tl.arange(0, B), 1)


@triton.jit
def blocks_too_wide(count, x, o, B: tl.constexpr):
    """Each takes one more than it claims: in order, too, but for the mask of the last."""
    slot = tl.atomic_add(count, B - 1)
    tl.store(o + slot + tl.arange(0, B), 1)


@triton.jit
def compaction(count, x, o, B: tl.constexpr):
    v = tl.load(x + tl.program_id(0) * B + tl.arange(0, B))
    keep = v > 0
    start = tl.atomic_add(count, tl.sum(keep.to(tl.int32)))
    place = start + tl.cumsum(keep.to(tl.int32)) - 1
    tl.store(o + place, v, mask=keep)


@triton.jit
def last_takes_more(count, x, o):
    """More than it claimed: in order, nobody comes behind it."""
    pid = tl.program_id(0)
    slot = tl.atomic_add(count, 1)
    more = tl.arange(0, 2)
    tl.store(o + slot + more, 1, mask=(more == 0) | (pid == 7))


@triton.jit
def buckets(count, x, o, B: tl.constexpr):
    key = tl.load(x + tl.program_id(0) * B + tl.arange(0, B))
    slot = tl.atomic_add(count + key, 1)
    tl.store(o + key * 20 + slot, key)


@triton.jit
def buckets_too_near(count, x, o, B: tl.constexpr):
    """Bucket 0 is longer than the way to the next; in order, what is in its tail is bucket 0's alone."""
    key = tl.load(x + tl.program_id(0) * B + tl.arange(0, B))
    slot = tl.atomic_add(count + key, 1)
    tl.store(o + key * 12 + slot, key)


@triton.jit
def by_row(count, x, o, stride):
    row = tl.atomic_add(count, 1).to(tl.int64)
    tl.store(o + row * stride + tl.arange(0, 4), 1)


@triton.jit
def set_to_what_it_drew(count, x, o):
    pid = tl.program_id(0)
    slot = tl.atomic_add(count, 1)
    tl.atomic_xchg(count, slot + 1)
    tl.store(o + slot, pid)


@triton.jit
def raised(count, x, o):
    """In order, nobody finds less than 8: one who comes between the two draws what is drawn again."""
    pid = tl.program_id(0)
    tl.atomic_max(count, 8)
    slot = tl.atomic_add(count, 1)
    tl.store(o + slot, pid)


@triton.jit
def queue_and_exchange(count, x, o):
    """The second store follows no claim: in order, program t finds t - 1."""
    pid = tl.program_id(0)
    slot = tl.atomic_add(count, 1)
    tl.store(o + slot, pid)
    before = tl.atomic_xchg(x, pid)
    tl.store(x + 4 + pid * 2 - before, pid)


@triton.jit
def first_takes_more(count, x, o):
    """Within what it claimed; whoever is the last may be the one."""
    pid = tl.program_id(0)
    slot = tl.atomic_add(count, 2)
    tl.store(o + slot + (pid == 0).to(tl.int32), pid)


@triton.jit
def halves(count, x, o):
    """In order, program 0 stays away from where the other half begins."""
    pid = tl.program_id(0)
    half = pid // 4
    slot = tl.atomic_add(count + half, 2)
    tl.store(o + half * 7 + slot + (pid == 0).to(tl.int32), pid)


@triton.jit
def shrinks(count, x, o):
    pid = tl.program_id(0)
    slot = tl.atomic_add(count, 1 - 2 * (pid % 2))
    tl.store(o + slot + 8, pid)


@triton.jit
def adds_what_it_drew(count, x, o):
    slot = tl.atomic_add(count, 1)
    more = tl.atomic_add(count, (slot > 2).to(tl.int32))
    tl.store(o + more, 1)


@triton.jit
def within_the_program(count, x, o):
    pid = tl.program_id(0)
    slot = tl.atomic_add(count, 1, scope="cta")
    tl.store(o + slot, pid)


@triton.jit
def masked_off(count, x, o):
    """Programs that drew nothing store all the same."""
    pid = tl.program_id(0)
    slot = tl.atomic_add(count, 1, mask=pid % 2 == 0)
    tl.store(o + slot + pid * 2, pid)


@triton.jit
def twice(count, x, o):
    """The second store goes where the first of another program may go."""
    pid = tl.program_id(0)
    slot = tl.atomic_add(count, 2)
    tl.store(o + slot, pid)
    tl.store(o + slot + 1, pid)


@triton.jit
def beside(count, x, o):
    """Another store has a place of its own behind the queue."""
    pid = tl.program_id(0)
    tl.store(o + 8 + pid, pid)
    slot = tl.atomic_add(count, 1)
    tl.store(o + slot, pid)


@triton.jit
def among(count, x, o):
    """In order, program t stores to the place that it draws later."""
    pid = tl.program_id(0)
    tl.store(o + pid, pid)
    slot = tl.atomic_add(count, 1)
    tl.store(o + slot, pid)


@triton.jit
def turned_round(count, x, o):
    pid = tl.program_id(0)
    slot = tl.atomic_add(count, 1)
    tl.store(o + 7 - slot, pid)


@triton.jit
def from_two(count, x, o):
    a = tl.atomic_add(count, 1)
    b = tl.atomic_add(count + 1, 1)
    tl.store(o + a * 8 + b, 1)


@triton.jit
def drawn_for_long(count, x, o, n):
    """Dynamic scheduling: how often it runs depends on what was drawn."""
    tile = tl.atomic_add(count, 1)
    while tile < n:
        tl.store(o + tile, 1)
        tile = tl.atomic_add(count, 1)


@triton.jit
def in_a_loop(count, x, o):
    for _ in range(3):
        slot = tl.atomic_add(count, 1)
        tl.store(o + slot, 1)


ONE = {"B": BLOCK}


def launch(kernel: Any, places: int, values: dict[str, Any], start: int = 0) -> Launch:
    contents = [np.full(16, start, np.int32), KEYS.astype(np.int32), np.zeros(places, np.int32)]
    signature = {"count": "*i32", "x": "*i32", "o": "*i32", **{name: "i32" for name in values if name != "B"}}
    return launched(
        kernel, (PROGRAMS,), signature, contents, count=(16,), x=(len(KEYS),), o=(places,), **values
    )


def last_store(kernel: Any) -> int:
    lines, first = inspect.getsourcelines(kernel.fn)
    return max(first + index for index, text in enumerate(lines) if "tl.store" in text)


def verdicts(
    kernel: Any, places: int, values: dict[str, Any], start: int = 0, **options: Any
) -> dict[Check, Verdict]:
    """What the checks say of the kernel's last store."""
    report = sanitize(launch(kernel, places, values, start), **options)
    at = last_store(kernel)
    return {one.check: one.verdict for one in report.settled if one.location.frames[0].line == at}


def proved(kernel: Any, places: int, values: dict[str, Any], start: int = 0) -> tuple[bool, bool]:
    """Whether the bounds, and that no two programs meet, are proved."""
    found = verdicts(kernel, places, values, start)
    return isinstance(found["oob"], Proved), isinstance(found["race"], Proved)


RIGHT = [
    (queue, PROGRAMS, {}),
    (blocks, PROGRAMS * BLOCK, ONE),
    (compaction, KEPT, ONE),
    (buckets, 181, ONE),
    (by_row, PROGRAMS * 6 - 2, {"stride": 6}),
    (twice, PROGRAMS * 2, {}),
    (first_takes_more, PROGRAMS * 2, {}),
    (in_a_loop, PROGRAMS * 3, {}),
]


@pytest.mark.parametrize(("kernel", "needs", "values"), RIGHT)
def test_proved_for_any_order(kernel: Any, needs: int, values: dict[str, Any]) -> None:
    assert proved(kernel, needs, values) == (True, True)
    assert proved(kernel, needs - 1, values)[0] is False, "there is no room for the last"
    assert proved(kernel, needs, values, start=1)[0] is False, "nor where counting starts later"
    assert proved(kernel, needs + 21, values, start=1) == (True, True)


@pytest.mark.parametrize(
    ("kernel", "values", "expected"),
    [
        (turned_round, {}, (True, True)),
        (from_two, {}, (False, False)),
        (blocks_too_wide, ONE, (True, False)),
        (last_takes_more, {}, (True, False)),
        (buckets_too_near, ONE, (True, False)),
        (by_row, {"stride": 3}, (True, False)),
        (among, {}, (True, False)),
        (beside, {}, (True, True)),
        (set_to_what_it_drew, {}, (False, False)),
        (raised, {}, (False, False)),
        (halves, {}, (True, False)),
        (queue_and_exchange, {}, (False, False)),
        (shrinks, {}, (False, False)),
        (adds_what_it_drew, {}, (False, False)),
        (within_the_program, {}, (False, False)),
        (masked_off, {}, (False, False)),
    ],
)
def test_not_more_than_what_holds(kernel: Any, values: dict[str, Any], expected: tuple[bool, bool]) -> None:
    assert proved(kernel, 200, values) == expected


def test_what_was_drawn_decides_how_often() -> None:
    """No claim: how much is added depends on what was drawn."""
    assert proved(drawn_for_long, 8, {"n": 8})[1] is False


class Orders:
    """Which checks fail in some order of the programs, of many."""

    def __init__(self, kernel: Any, places: int, values: dict[str, Any], start: int) -> None:
        self.analysis = analysis_of(launch(kernel, places, values, start))
        self.line = last_store(kernel)
        self.out = self.race = False

    def try_out(self, order: np.ndarray[Any, Any]) -> None:
        analysis = self.analysis
        races = RaceObserver(analysis)
        stores: list[Operation] = []
        watched: list[BoundsWatcher] = []

        class Both:
            def access(self, event: AccessEvent) -> None:
                if event.operation not in stores:
                    stores.append(event.operation)
                    watched.append(BoundsWatcher([event.operation], analysis))
                watched[stores.index(event.operation)].access(event)
                races.access(event)

        done = evaluate(
            analysis.module, analysis.function, analysis.launch, Memory(analysis.launch),
            programs=order, observer=Both(),
        )  # fmt: skip
        assert done.complete, done.reason
        found = races.verdicts()
        for one, bounds in zip(stores, watched, strict=True):
            if one.location.frames[0].line == self.line:
                self.out |= one in bounds.violations
                self.race |= isinstance(found.get(one), Violated)


EVERY = [
    *((kernel, values) for kernel, _, values in RIGHT),
    *((kernel, ONE) for kernel in (blocks_too_wide, buckets_too_near)),
    (by_row, {"stride": 3}),
    *(
        (kernel, {})
        for kernel in (
            set_to_what_it_drew,
            raised,
            halves,
            last_takes_more,
            shrinks,
            adds_what_it_drew,
            masked_off,
            beside,
            among,
        )
    ),
    *((kernel, {}) for kernel in (turned_round, from_two)),
]


@pytest.mark.parametrize(("kernel", "values"), EVERY)
def test_nothing_is_proved_that_fails_in_some_order(kernel: Any, values: dict[str, Any]) -> None:
    random = np.random.default_rng(7)
    for places, start in ((8, 0), (15, 0), (KEPT, 0), (46, 3)):
        orders = Orders(kernel, places, values, start)
        for _ in range(6):
            orders.try_out(random.permutation(PROGRAMS))
        within, apart = proved(kernel, places, values, start)
        assert not (within and orders.out), (places, start)
        assert not (within and apart and orders.race), (places, start)

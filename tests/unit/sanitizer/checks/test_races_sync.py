"""Locks, counters of arrivals and flags: right ones order what they guard, wrong ones are found out."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import numpy as np
import pytest
import triton
import triton.language as tl

from tests.unit.sanitizer.checks.race_runs import (
    check,
    evaluated,
    findings,
    kind_of,
    launched,
    line,
    outcomes,
    zeros,
)


@triton.jit
def locked(
    sums, x, locks, N, GROUPS: tl.constexpr, LOCKS: tl.constexpr, RELEASE: tl.constexpr, SEM: tl.constexpr,
    KIND: tl.constexpr, B: tl.constexpr
):  # fmt: skip
    """The parameter gradient of a layer norm: rows of a group add up under the group's lock."""
    row = tl.program_id(0)
    i = tl.arange(0, B)
    value = tl.load(x + row * N + i, i < N, other=0.0)
    group = row % GROUPS
    lock = locks + row % LOCKS
    count = locks + LOCKS + row % LOCKS
    place = sums + group * N + i
    if KIND == 0:
        while tl.atomic_cas(lock, 0, 1, sem=SEM) == 1:
            pass
    elif KIND == 1:
        while tl.atomic_xchg(lock, 1, sem=SEM) != 0:
            pass
    else:
        taken = tl.atomic_cas(lock, 0, 1, sem=SEM)
        while taken != 0:
            taken = tl.atomic_cas(lock, 0, 1, sem=SEM)
    if tl.load(count) == 0:
        tl.atomic_xchg(count, 1)
    else:
        value += tl.load(place, i < N, other=0.0)
    tl.store(place, value, i < N)
    if RELEASE == 1:
        tl.atomic_xchg(lock, 0, sem=SEM)
    if RELEASE == 2:
        tl.store(lock, 0)
    if RELEASE == 3 and row > 3:
        tl.atomic_xchg(lock, 0, sem=SEM)


@triton.jit
def leaks_out(sums, x, lock, N, B: tl.constexpr):
    i = tl.arange(0, B)
    value = tl.load(x + tl.program_id(0) * N + i, i < N, other=0.0)
    while tl.atomic_cas(lock, 0, 1) == 1:
        pass
    value += tl.load(sums + i, i < N, other=0.0)
    tl.atomic_xchg(lock, 0)
    tl.store(sums + i, value, i < N)


@triton.jit
def last_arriver(
    part, o, count, S: tl.constexpr, C: tl.constexpr, SEM: tl.constexpr, LATE: tl.constexpr, B: tl.constexpr
):  # fmt: skip
    """Split k: whoever counts last adds the parts up."""
    tile, split = tl.program_id(0), tl.program_id(1)
    i = tl.arange(0, B)
    value = i.to(tl.float32) + split
    if not LATE:
        tl.store(part + (tile * S + split) * B + i, value)
    before = tl.atomic_add(count + tile, 1, sem=SEM)
    if LATE:
        tl.store(part + (tile * S + split) * B + i, value)
    if before == C - 1:
        total = tl.zeros((B,), tl.float32)
        for k in range(S):
            total += tl.load(part + (tile * S + k) * B + i)
        tl.store(o + tile * B + i, total)
        tl.store(count + tile, 0)


@triton.jit
def chain(
    x, o, flags, WAIT: tl.constexpr, BACK: tl.constexpr, SEM: tl.constexpr, BARRIER: tl.constexpr,
    B: tl.constexpr
):  # fmt: skip
    """Each program waits for the one before it."""
    pid = tl.program_id(0)
    i = tl.arange(0, B)
    if pid > 0:
        if WAIT:
            while tl.atomic_cas(flags + pid - BACK, 1, 1) != 1:
                pass
        tl.store(o + pid * B + i, tl.load(x + (pid - 1) * B + i))
    tl.store(x + pid * B + i, i.to(tl.float32) + pid)
    if BARRIER:
        tl.debug_barrier()
    tl.atomic_xchg(flags + pid, 1, sem=SEM)


@triton.jit
def one_flag(x, o, flag, VOLATILE: tl.constexpr, B: tl.constexpr):
    pid = tl.program_id(0)
    i = tl.arange(0, B)
    if pid == 0:
        tl.store(x + i, i.to(tl.float32))
        tl.atomic_xchg(flag, 1)
    else:
        seen = tl.load(flag, volatile=VOLATILE)
        while seen == 0:
            seen = tl.load(flag, volatile=VOLATILE)
        tl.store(o + pid * B + i, tl.load(x + i))


@triton.jit
def grid_barrier(x, o, count, N: tl.constexpr, B: tl.constexpr):
    pid = tl.program_id(0)
    i = tl.arange(0, B)
    tl.store(x + pid * B + i, i.to(tl.float32) + pid)
    tl.atomic_add(count, 1)
    while tl.atomic_add(count, 0) < N:
        pass
    after = (pid + 1) % tl.num_programs(0)
    tl.store(o + pid * B + i, tl.load(x + after * B + i))


@triton.jit
def rounds(x, o, word, FLAG: tl.constexpr, FIRST: tl.constexpr, N: tl.constexpr, B: tl.constexpr):
    """Program 0 waits for N arrivals, the others arrive three times."""
    pid = tl.program_id(0)
    i = tl.arange(0, B)
    if pid == 0:
        while tl.atomic_add(word, 0) < N:
            pass
        tl.store(o + i, tl.load(x + B + i))
    else:
        if FIRST:
            tl.store(x + pid * B + i, i.to(tl.float32))
        for k in range(3):
            if not FIRST:
                tl.store(x + pid * B + i, i.to(tl.float32) + k)
            if FLAG:
                tl.atomic_xchg(word, 1)
            else:
                tl.atomic_add(word, 1)


@triton.jit
def released_often(sums, lock, B: tl.constexpr):
    i = tl.arange(0, B)
    while tl.atomic_cas(lock, 0, 1) == 1:
        pass
    for _ in range(3):
        tl.store(sums + i, tl.load(sums + i) + 1)
        tl.atomic_xchg(lock, 0)


@triton.jit
def all_flags(x, o, flags, LATER: tl.constexpr, N: tl.constexpr, B: tl.constexpr):
    """Program 0 waits for each of the others, then reads what all of them wrote."""
    pid = tl.program_id(0)
    i = tl.arange(0, B)
    total = tl.zeros((B,), tl.float32)
    if pid == 0:
        for k in range(1, N):
            while tl.atomic_cas(flags + k, 1, 1) != 1:
                pass
            if not LATER and k > 1:
                total += tl.load(x + (k - 1) * B + i)
        if LATER:
            for k in range(1, N):
                total += tl.load(x + k * B + i)
        tl.store(o + i, total)
    else:
        tl.store(x + pid * B + i, i.to(tl.float32))
        tl.atomic_xchg(flags + pid, 1)


@triton.jit
def turns(x, turn, OFF: tl.constexpr, B: tl.constexpr):
    pid = tl.program_id(0) // OFF
    i = tl.arange(0, B)
    while tl.atomic_add(turn, 0) != pid:
        pass
    tl.store(x + i, tl.load(x + i) + 1)
    tl.atomic_xchg(turn, pid + 1)


@triton.jit
def slots(o, count, STEP: tl.constexpr, B: tl.constexpr):
    slot = tl.atomic_add(count, STEP)
    i = tl.arange(0, B)
    tl.store(o + slot + i, i + tl.program_id(0))


@triton.jit
def compact(x, o, count, LESS: tl.constexpr, B: tl.constexpr):
    i = tl.arange(0, B)
    value = tl.load(x + tl.program_id(0) * B + i)
    keep = (value > 0).to(tl.int32)
    start = tl.atomic_add(count, tl.sum(keep, 0) - LESS)
    tl.store(o + start + tl.cumsum(keep, 0) - 1, value, mask=value > 0)


@triton.jit
def odd_order(x, o, flag, B: tl.constexpr):
    """Something with atomics that is none of the known constructions."""
    pid = tl.program_id(0)
    i = tl.arange(0, B)
    if pid == 0:
        tl.store(x + i, i)
        tl.atomic_or(flag, 6)
    seen = tl.atomic_or(flag, 0)
    if seen & 2 != 0:
        tl.store(o + pid * B + i, tl.load(x + i))


F, W = "*fp32", "*i32"


def _locked(**more: Any) -> Any:
    values = {"GROUPS": 4, "LOCKS": 4, "RELEASE": 1, "SEM": "acq_rel", "KIND": 0, "B": 64, **more}
    return launched(
        locked, (32,), {"sums": F, "x": F, "locks": W, "N": "i32"},
        [zeros(200), np.arange(1600, dtype=np.float32), zeros(64, "int32")], sums=(4, 50), x=(32, 50),
        locks=(64,), N=50, **values,
    )  # fmt: skip


def _last_arriver(start: int | None = 0, **more: Any) -> Any:
    values = {"S": 4, "C": 4, "SEM": "acq_rel", "LATE": False, "B": 32, **more}
    counts = None if start is None else np.full(6, start, dtype=np.int32)
    return launched(
        last_arriver, (6, 4), {"part": F, "o": F, "count": W}, [zeros(24 * 32), zeros(6 * 32), counts],
        part=(24, 32), o=(6, 32), count=(6,), **values,
    )  # fmt: skip


def _chain(start: int = 0, **more: Any) -> Any:
    values = {"WAIT": True, "BACK": 1, "SEM": "acq_rel", "BARRIER": False, "B": 32, **more}
    return launched(
        chain,
        (6,),
        {"x": F, "o": F, "flags": W},
        [zeros(192), zeros(192), np.full(6, start, dtype=np.int32)],
        x=(6, 32),
        o=(6, 32),
        flags=(6,),
        **values,
    )


def _barrier(count: int) -> Any:
    return launched(
        grid_barrier, (6,), {"x": F, "o": F, "count": W}, [zeros(192), zeros(192), zeros(1, "int32")],
        x=(6, 32), o=(6, 32), count=(1,), N=count, B=32,
    )  # fmt: skip


def _rounds(programs: int, needed: int, flag: bool = False, first: bool = False) -> Any:
    return launched(
        rounds, (programs,), {"x": F, "o": F, "word": W}, [zeros(96), zeros(32), zeros(1, "int32")],
        x=(3, 32), o=(32,), word=(1,), FLAG=flag, FIRST=first, N=needed, B=32,
    )  # fmt: skip


def _released_often() -> Any:
    return launched(
        released_often, (3,), {"sums": F, "lock": W}, [zeros(32), zeros(1, "int32")], sums=(32,), lock=(1,),
        B=32,
    )  # fmt: skip


def _all_flags(later: bool) -> Any:
    return launched(
        all_flags, (4,), {"x": F, "o": F, "flags": W}, [zeros(128), zeros(32), zeros(4, "int32")],
        x=(4, 32), o=(32,), flags=(4,), LATER=later, N=4, B=32,
    )  # fmt: skip


def _one_flag(volatile: bool) -> Any:
    return launched(
        one_flag, (6,), {"x": F, "o": F, "flag": W}, [zeros(32), zeros(192), zeros(1, "int32")], x=(32,),
        o=(6, 32), flag=(1,), VOLATILE=volatile, B=32,
    )  # fmt: skip


def _turns(programs_per_turn: int) -> Any:
    return launched(
        turns, (6,), {"x": F, "turn": W}, [zeros(32), zeros(1, "int32")], x=(32,), turn=(1,),
        OFF=programs_per_turn, B=32,
    )  # fmt: skip


ORDERED: dict[str, Any] = {
    "lock by compare and swap": lambda: _locked(),
    "lock by exchange": lambda: _locked(KIND=1),
    "lock that is polled in the loop's body": lambda: _locked(KIND=2),
    "one lock for all groups": lambda: _locked(LOCKS=1),
    "last arriver": lambda: _last_arriver(),
    "last arriver, counted on from before": lambda: _last_arriver(start=5, C=9),
    "flags of a chain": lambda: _chain(),
    "barrier": lambda: _barrier(6),
    "turns": lambda: _turns(1),
    "all arrivals of all rounds": lambda: _rounds(3, 6),
}
DISORDERED: dict[str, tuple[Any, str]] = {
    "never released": (lambda: _locked(RELEASE=0), "is not released on every path"),
    "released on some paths": (lambda: _locked(RELEASE=3), "is not released on every path"),
    "released by a plain store": (lambda: _locked(RELEASE=2), "writes the lock"),
    "relaxed lock": (lambda: _locked(SEM="relaxed"), "relaxed order"),
    "other lock than the data's": (lambda: _locked(LOCKS=8), "different words"),
    "too few arrivals": (lambda: _last_arriver(C=3), "does not wait for all 4 arrivals"),
    "written after the arrival": (lambda: _last_arriver(LATE=True), "comes after the arrival"),
    "relaxed arrival": (lambda: _last_arriver(SEM="relaxed"), "which does not order"),
    "no wait": (lambda: _chain(WAIT=False), "at test_races_sync.py"),
    "waits for its own flag": (lambda: _chain(BACK=0), "different words"),
    "flag that is up already": (lambda: _chain(start=1), "up before the launch"),
    "relaxed flag": (lambda: _chain(SEM="relaxed"), "which does not order"),
    "barrier for one program less": (lambda: _barrier(5), "does not wait for all 6 arrivals"),
    "flag that is set in each round": (lambda: _rounds(2, 1, flag=True), "is set 3 times"),
    "arrivals of some rounds": (lambda: _rounds(3, 2), "does not wait for all 6 arrivals"),
    "plain polling": (lambda: _one_flag(False), ""),
}
UNSETTLED: dict[str, Any] = {
    "store before the rounds": lambda: _rounds(2, 1, flag=True, first=True),
    "lock that is released in a loop": lambda: _released_often(),
    "read behind the loop that waits": lambda: _all_flags(later=True),
    "read one round later": lambda: _all_flags(later=False),
    "flag that is polled by volatile loads": lambda: _one_flag(True),
}


@pytest.mark.parametrize("name", ORDERED)
def test_order_by_atomics_is_understood(name: str) -> None:
    settled = check(ORDERED[name]())
    assert outcomes(settled) == {"proved"}, findings(settled)


@pytest.mark.parametrize("name", DISORDERED)
def test_order_that_is_wrong_is_found(name: str) -> None:
    make, detail = DISORDERED[name]
    settled = check(make())
    assert "violated" in outcomes(settled)
    assert any(detail in f.message for f in findings(settled)), [f.message for f in findings(settled)]


@pytest.mark.parametrize("name", UNSETTLED)
def test_order_that_is_not_sure_stays_open(name: str) -> None:
    settled = check(UNSETTLED[name]())
    assert outcomes(settled) == {"proved", "unproven"}, findings(settled)


@pytest.mark.parametrize(
    "name", ["lock by compare and swap", "last arriver", "flags of a chain", "barrier", "turns"]
)
def test_an_older_triton_lets_other_threads_store_after_the_atomic(name: str) -> None:
    settled = check(replace(ORDERED[name](), triton="3.8.0"))
    assert outcomes(settled) == {"proved", "unproven"}, findings(settled)
    reasons = {getattr(one.verdict, "reason", "") for one in settled}
    assert any("no barrier is between test_races_sync.py" in reason for reason in reasons)


def test_a_barrier_before_the_atomic_orders_in_any_triton() -> None:
    assert outcomes(check(replace(_chain(BARRIER=True), triton="3.6.0"))) == {"proved"}
    assert "unproven" in outcomes(check(replace(_chain(), triton="")))


def test_too_many_arrivals_expected_let_nobody_through() -> None:
    assert outcomes(check(_last_arriver(C=5))) == {"proved"}


def test_an_access_behind_the_release_is_named() -> None:
    launch = launched(
        leaks_out, (8,), {"sums": F, "x": F, "lock": W, "N": "i32"},
        [zeros(50), np.arange(400, dtype=np.float32), zeros(1, "int32")], sums=(50,), x=(8, 50), lock=(1,),
        N=50, B=64,
    )  # fmt: skip
    settled = check(launch)
    lines = {f.location.frames[0].line for f in findings(settled)}
    assert line(leaks_out, "tl.store(sums") in lines
    assert any("only one of them holds the lock" in f.message for f in findings(settled))


def test_two_programs_with_one_turn() -> None:
    settled = check(_turns(2))
    assert "unproven" in outcomes(settled)


def test_contents_decide_what_a_counter_starts_with() -> None:
    settled = check(_last_arriver(start=None))
    reasons = {getattr(one.verdict, "reason", "") for one in settled}
    assert any("before the launch is not known" in reason for reason in reasons)
    proved = check(_last_arriver())
    assert any(getattr(one.verdict, "contents", False) for one in proved)


def test_numbers_drawn_from_a_counter_are_apart() -> None:
    for step, expected in ((32, "proved"), (40, "proved"), (31, "unproven")):
        launch = launched(slots, (6,), {"o": W, "count": W}, o=(400,), count=(1,), STEP=step, B=32)
        assert kind_of(check(launch)[-1].verdict) == expected


def test_what_is_not_understood_stays_open() -> None:
    launch = launched(
        odd_order, (4,), {"x": W, "o": W, "flag": W},
        [zeros(32, "int32"), zeros(128, "int32"), zeros(1, "int32")], x=(32,), o=(4, 32), flag=(1,), B=32,
    )  # fmt: skip
    settled = check(launch)
    assert "violated" not in outcomes(settled)
    reasons = {getattr(one.verdict, "reason", "") for one in settled}
    assert any("in a way that is not understood" in reason for reason in reasons)


# --- the same by evaluation ------------------------------------------------------------------------------


@pytest.mark.parametrize("name", ORDERED)
def test_evaluation_agrees_that_it_is_ordered(name: str) -> None:
    assert {kind_of(verdict) for verdict in evaluated(ORDERED[name]()).values()} == {"proved"}


@pytest.mark.parametrize(
    "name",
    [
        "relaxed lock",
        "other lock than the data's",
        "too few arrivals",
        "written after the arrival",
        "no wait",
    ],
)
def test_evaluation_agrees_that_it_is_not(name: str) -> None:
    verdicts = evaluated(DISORDERED[name][0]())
    assert "violated" in {kind_of(verdict) for verdict in verdicts.values()}


@pytest.mark.parametrize(("less", "expected"), [(0, "proved"), (1, "violated")])
def test_compaction_by_evaluation(less: int, expected: str) -> None:
    data = np.random.default_rng(0).integers(-5, 6, 192).astype(np.int32)
    launch = launched(
        compact, (6,), {"x": W, "o": W, "count": W}, [data, zeros(192, "int32"), zeros(1, "int32")],
        x=(6, 32), o=(6, 32), count=(1,), LESS=less, B=32,
    )  # fmt: skip
    assert kind_of(evaluated(launch)[line(compact, "tl.store")]) == expected

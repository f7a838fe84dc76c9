"""What atomics give back depends on the order of the programs: one order that went well proves nothing."""

from __future__ import annotations

from typing import Any

import numpy as np
import triton
import triton.language as tl

from kerncap.sanitizer.engine import sanitize
from kerncap.sanitizer.findings import Check, Proved, Unproven, Verdict
from tests.unit.sanitizer.checks.race_runs import launched, line, zeros


@triton.jit
def first_stores(count, o):
    """In order, program 0 comes first. Any of them may."""
    pid = tl.program_id(0)
    if tl.atomic_add(count, 1) == 0:
        tl.store(o + pid * 2, 1)


@triton.jit
def tickets_apart(count, o):
    """In order, program t draws ticket t: nobody is moved up by one."""
    pid = tl.program_id(0)
    ticket = tl.atomic_add(count, 1)
    tl.store(o + ticket + (ticket != pid).to(tl.int32), pid)


@triton.jit
def exchanged(count, o):
    pid = tl.program_id(0)
    before = tl.atomic_xchg(count, pid)
    tl.store(o + pid * 4 + pid - before, 1)


@triton.jit
def counts_alone(count, o):
    """A counter for each program: what it gives back is the same in any order."""
    pid = tl.program_id(0)
    ticket = tl.atomic_add(count + pid, 1)
    tl.store(o + ticket, 1)


@triton.jit
def adds_where_told(count, o):
    """What an atomic leaves behind decides nothing; where it goes comes from memory."""
    at = tl.load(o + tl.program_id(0))
    tl.atomic_add(count + at, 1)


def verdict(kernel: Any, text: str, check: Check, places: int = 8) -> Verdict:
    contents = [zeros(8, "int32"), np.zeros(places, dtype=np.int32)]
    signature = {"count": "*i32", "o": "*i32"}
    report = sanitize(launched(kernel, (8,), signature, contents, count=(8,), o=(places,)))
    at = line(kernel, text)
    (found,) = [
        one.verdict for one in report.settled if one.check == check and one.location.frames[0].line == at
    ]
    return found


def test_another_order_may_lead_elsewhere() -> None:
    for kernel, places in ((first_stores, 8), (tickets_apart, 8), (exchanged, 30)):
        found = verdict(kernel, "tl.store", "oob", places)
        assert isinstance(found, Unproven), kernel
        assert "gives back, which depends on the order of the programs" in found.reason


def test_another_order_may_let_two_programs_meet() -> None:
    found = verdict(tickets_apart, "tl.store", "race", places=9)
    assert isinstance(found, Unproven)
    assert "one order was evaluated" in found.reason


def test_where_no_two_programs_meet_there_is_one_order() -> None:
    assert verdict(counts_alone, "tl.store", "oob") == Proved("evaluated", contents=True)


def test_an_atomic_that_gives_nothing_back_decides_nothing() -> None:
    assert isinstance(verdict(adds_where_told, "tl.atomic_add", "oob"), Proved)

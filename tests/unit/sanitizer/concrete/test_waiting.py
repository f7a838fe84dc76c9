"""Locks, flags and counters: programs that wait for each other get on, or are found not to."""

from __future__ import annotations

import numpy as np
import pytest

from kerncap.sanitizer.concrete.run import Limits
from tests.unit.sanitizer.concrete.text import run_text

# Each program waits until the one after it has set its flag: the last one sets its own at once.
FLAGS = """
    %p = tt.get_program_id x : i32
    %one = arith.constant 1 : i32
    %zero = arith.constant 0 : i32
    %next = arith.addi %p, %one : i32
    %last = arith.cmpi eq, %next, %n : i32
    %mine = tt.addptr %flags, %p : !tt.ptr<i32>, i32
    %other = tt.addptr %flags, %next : !tt.ptr<i32>, i32
    scf.if %last {
    } else {
      scf.while : () -> () {
        %v = tt.load %other {isVolatile = true} : !tt.ptr<i32>
        %c = arith.cmpi eq, %v, %zero : i32
        scf.condition(%c)
      } do {
        scf.yield
      }
    }
    %at = tt.atomic_rmw add, acq_rel, gpu, %order, %one : (!tt.ptr<i32>, i32) -> i32
    %slot = tt.addptr %out, %at : !tt.ptr<i32>, i32
    tt.store %slot, %p : !tt.ptr<i32>
    tt.store %mine, %one : !tt.ptr<i32>
    tt.return
"""


@pytest.mark.parametrize("addresses_only", [False, True])
def test_each_waits_for_the_next(addresses_only: bool) -> None:
    arrays = {"flags": np.zeros(5, "i4"), "order": np.zeros(1, "i4"), "out": np.zeros(5, "i4"), "n": 5}
    outcome, after = run_text(FLAGS, arrays, (5,), addresses_only=addresses_only)
    assert outcome.complete, outcome.reason
    assert after["order"].tolist() == [5]
    if not addresses_only:
        assert after["out"].tolist() == [4, 3, 2, 1, 0]


def test_nobody_sets_the_last_flag() -> None:
    arrays = {"flags": np.zeros(5, "i4"), "order": np.zeros(1, "i4"), "out": np.zeros(5, "i4"), "n": 9}
    outcome, _ = run_text(FLAGS, arrays, (4,))
    assert not outcome.complete
    assert outcome.reason is not None
    assert outcome.reason.startswith("deadlock: 4 programs wait in scf.while")
    assert "(0, 0, 0)" in outcome.reason


LOCK = """
    %one = arith.constant 1 : i32
    %zero = arith.constant 0 : i32
    scf.while : () -> () {
      %v = tt.atomic_cas acq_rel, gpu, %lock, %zero, %one : (!tt.ptr<i32>, i32, i32) -> i32
      %c = arith.cmpi eq, %v, %one : i32
      scf.condition(%c)
    } do {
      scf.yield
    }
    %x = tt.load %total : !tt.ptr<i32>
    %y = arith.addi %x, %one : i32
    tt.store %total, %y : !tt.ptr<i32>
    %r = tt.atomic_rmw exch, acq_rel, gpu, %lock, %zero : (!tt.ptr<i32>, i32) -> i32
    tt.return
"""


def test_a_lock_is_taken_in_turn() -> None:
    outcome, after = run_text(LOCK, {"lock": np.zeros(1, "i4"), "total": np.zeros(1, "i4")}, (7,))
    assert outcome.complete, outcome.reason
    assert (after["lock"].tolist(), after["total"].tolist()) == ([0], [7])


def test_a_lock_that_is_never_given_back() -> None:
    held = "\n".join(line for line in LOCK.splitlines() if "exch" not in line)
    outcome, after = run_text(held, {"lock": np.zeros(1, "i4"), "total": np.zeros(1, "i4")}, (7,))
    assert outcome.reason is not None and outcome.reason.startswith("deadlock: 6 programs wait")
    assert after["total"].tolist() == [1]


def test_a_lock_that_was_taken_before_the_launch() -> None:
    outcome, _ = run_text(LOCK, {"lock": np.ones(1, "i4"), "total": np.zeros(1, "i4")}, (1,))
    assert outcome.reason is not None and outcome.reason.startswith("deadlock: a program waits")


COUNTED = """
    %one = arith.constant 1 : i32
    %zero = arith.constant 0 : i32
    %spins = scf.while (%s = %zero) : (i32) -> i32 {
      %v = tt.atomic_rmw or, acquire, gpu, %flag, %zero : (!tt.ptr<i32>, i32) -> i32
      %c = arith.cmpi eq, %v, %zero : i32
      %d = arith.cmpi slt, %s, %n : i32
      %e = arith.andi %c, %d : i1
      scf.condition(%e) %s : i32
    } do {
    ^bb0(%s: i32):
      %t = arith.addi %s, %one : i32
      scf.yield %t : i32
    }
    tt.store %out, %spins : !tt.ptr<i32>
    tt.return
"""


def test_a_wait_that_gives_up_is_no_deadlock() -> None:
    outcome, after = run_text(COUNTED, {"flag": np.zeros(1, "i4"), "out": np.zeros(1, "i4"), "n": 1000})
    assert outcome.complete, outcome.reason
    assert after["out"].tolist() == [1000]


ENDLESS = """
    %one = arith.constant 1 : i32
    %zero = arith.constant 0 : i32
    %r = scf.while (%s = %one) : (i32) -> i32 {
      %c = arith.cmpi ne, %s, %zero : i32
      scf.condition(%c) %s : i32
    } do {
    ^bb0(%s: i32):
      scf.yield %s : i32
    }
    tt.store %out, %r : !tt.ptr<i32>
    tt.return
"""


@pytest.mark.parametrize(
    ("limits", "said"),
    [
        (Limits(element_operations=10_000), "too large"),
        (Limits(seconds=0.05), "too large"),
        (Limits(ended=lambda: True), "the program ended meanwhile"),
    ],
    ids=["operations", "seconds", "ended"],
)
def test_an_endless_loop_ends_by_the_limits(limits: Limits, said: str) -> None:
    outcome, _ = run_text(ENDLESS, {"out": np.zeros(1, "i4")}, limits=limits)
    assert not outcome.complete
    assert outcome.reason is not None and outcome.reason.startswith(said)


def test_polls_wait_and_time_out() -> None:
    body = """
    %p = tt.get_program_id x : i32
    %one = arith.constant 1 : i32
    %zero = arith.constant 0 : i32
    %first = arith.cmpi eq, %p, %zero : i32
    scf.if %first {
      %ok = tt.atomic_poll acquire, gpu, %flag, %one : !tt.ptr<i32>, i32 -> i1
      tt.store %out, %one : !tt.ptr<i32>
    } else {
      tt.store %flag, %n : !tt.ptr<i32>
    }
    tt.return
    """
    arrays = {"flag": np.zeros(1, "i4"), "out": np.zeros(1, "i4")}
    outcome, after = run_text(body, {**arrays, "n": 1}, (2,))
    assert outcome.complete, outcome.reason
    assert after["out"].tolist() == [1]
    outcome, _ = run_text(body, {**arrays, "n": 2}, (2,))
    assert outcome.reason is not None and "tt.atomic_poll" in outcome.reason


def test_a_lane_sees_what_the_lanes_before_it_left() -> None:
    body = """
    %i = tt.make_range {end = 4 : i32, start = 0 : i32} : tensor<4xi32>
    %p = tt.get_program_id x : i32
    %four = arith.constant 4 : i32
    %base = arith.muli %p, %four : i32
    %b = tt.splat %base : i32 -> tensor<4xi32>
    %expected = arith.addi %i, %b : tensor<4xi32>
    %ones = arith.constant dense<1> : tensor<4xi32>
    %new = arith.addi %expected, %ones : tensor<4xi32>
    %c = tt.splat %cell : !tt.ptr<i32> -> tensor<4x!tt.ptr<i32>>
    %old = tt.atomic_cas acq_rel, gpu, %c, %expected, %new
      : (tensor<4x!tt.ptr<i32>>, tensor<4xi32>, tensor<4xi32>) -> tensor<4xi32>
    %o = tt.splat %out : !tt.ptr<i32> -> tensor<4x!tt.ptr<i32>>
    %q = tt.addptr %o, %expected : tensor<4x!tt.ptr<i32>>, tensor<4xi32>
    tt.store %q, %old : tensor<4x!tt.ptr<i32>>
    tt.return
    """
    outcome, after = run_text(body, {"cell": np.zeros(1, "i4"), "out": np.full(12, -1, "i4")}, (3,))
    assert outcome.complete, outcome.reason
    assert after["cell"].tolist() == [12]
    assert after["out"].tolist() == list(range(12))

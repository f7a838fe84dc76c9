"""What an observer is told, and what is tracked along with the values."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from kerncap.sanitizer.concrete.events import AccessEvent, StopEvaluation
from kerncap.sanitizer.concrete.run import Track
from tests.unit.sanitizer.concrete.cases import CASES
from tests.unit.sanitizer.concrete.launches import run
from tests.unit.sanitizer.concrete.text import run_text


class Recorder:
    """Keeps events; ``stop`` ends the evaluation at that many."""

    def __init__(self, stop: int | None = None) -> None:
        self.events: list[AccessEvent] = []
        self.stop = stop

    def access(self, event: AccessEvent) -> None:
        self.events.append(event)
        if len(self.events) == self.stop:
            raise StopEvaluation

    def of(self, kind: str) -> list[AccessEvent]:
        return [event for event in self.events if event.kind == kind]


def test_offsets_masks_and_programs() -> None:
    recorder = Recorder()
    outcome, _ = run("add", observer=recorder)
    assert outcome.complete
    first, second, store = recorder.events
    assert [event.argument for event in recorder.events] == [0, 1, 2]
    assert store.programs.tolist() == [0, 1, 2, 3, 4]
    assert store.offsets.shape == store.mask.shape == (5, 64)
    assert store.offsets[3, 5] == 4 * (3 * 64 + 5) and store.width_bytes == 4
    assert store.mask.sum() == 290 and not store.mask[4, 34:].any()
    assert [event.in_order for event in recorder.events] == [0, 1, 2]
    assert first.old is not None and second.old is not None and store.new is not None
    np.testing.assert_array_equal((first.old + second.old)[first.mask], store.new[first.mask])


def test_loops_are_told_by_name_value_and_trip() -> None:
    recorder = Recorder()
    run("own_trips", observer=recorder)
    inner = [event for event in recorder.of("load") if event.iterations]
    count = CASES["own_trips"].arguments["count_ptr"].data  # type: ignore[union-attr]
    for trip, event in enumerate(inner):
        ((name, values),) = event.iterations
        assert name == "t"
        assert values.tolist() == [program + 2 * trip for program in range(6)]
        assert event.trips[0].tolist() == [trip] * 6
        # Who is out of the loop already accesses nothing.
        assert event.mask[:, 0].tolist() == [program + 2 * trip < count[program] for program in range(6)]
    assert len(inner) == max((count[p] - p + 1) // 2 for p in range(6))


def test_early_returns_and_branches_mask_the_programs() -> None:
    recorder = Recorder()
    run("early_return", observer=recorder)
    told = {}
    for event in recorder.of("store"):
        for program in event.programs[event.mask]:
            told[int(program)] = int(event.offsets[program])
    assert told == {p: 4 * p for p in range(12) if p % 3 != 1}


def test_descriptors_touch_what_is_inside_their_shape() -> None:
    recorder = Recorder()
    run("descriptors", observer=recorder)
    touched = np.zeros(40 * 28, dtype=bool)
    for event in recorder.of("store"):
        touched[event.offsets[event.mask] // 4] = True
    assert touched.all()
    assert max(int(e.offsets[e.mask].max()) for e in recorder.events) == 4 * (40 * 28 - 1)


def test_the_observer_may_stop() -> None:
    recorder = Recorder(stop=2)
    outcome, after = run("add", observer=recorder)
    assert outcome.stopped and not outcome.complete
    assert len(recorder.events) == 2 and after == {}


def test_some_programs_only() -> None:
    recorder = Recorder()
    run("add", observer=recorder, programs=np.array([3, 1]))
    assert all(event.programs.tolist() == [3, 1] for event in recorder.events)
    assert recorder.events[0].offsets[:, 0].tolist() == [4 * 192, 4 * 64]


@pytest.mark.parametrize("name", [n for n in CASES if not n.startswith(("from_", "to_"))])
def test_addresses_only_tells_the_same_accesses(name: str) -> None:
    """Nothing that an address depends on is left out of the slice."""
    every, sliced = Recorder(), Recorder()
    run(name, observer=every)
    outcome, _ = run(name, observer=sliced, addresses_only=True)
    assert outcome.complete, outcome.reason
    assert len(every.events) == len(sliced.events)
    for one, two in zip(every.events, sliced.events, strict=True):
        assert one.operation is two.operation
        np.testing.assert_array_equal(one.mask, two.mask)
        np.testing.assert_array_equal(one.offsets[one.mask], two.offsets[two.mask])


def test_addresses_only_needs_no_contents_that_no_address_needs() -> None:
    outcome, _ = run("matmul", absent=frozenset(("a_ptr", "b_ptr", "c_ptr")), addresses_only=True)
    assert outcome.complete, outcome.reason
    outcome, _ = run("indirect", absent=frozenset(("x_ptr", "out_ptr")), addresses_only=True)
    assert outcome.complete, outcome.reason
    outcome, _ = run("indirect", absent=frozenset(("index_ptr",)), addresses_only=True)
    assert not outcome.complete
    assert outcome.reason is not None and "contents of index_ptr are not available" in outcome.reason


def test_contents_that_only_go_into_memory_make_it_unknown() -> None:
    outcome, _ = run("add", absent=frozenset(("x_ptr",)))
    assert outcome.complete
    assert [storage for storage, _ in outcome.unknown_contents] == [2]


# --- undefined ------------------------------------------------------------------------------------------

HEAD = """
    %i = tt.make_range {end = 8 : i32, start = 0 : i32} : tensor<8xi32>
    %ns = tt.splat %n : i32 -> tensor<8xi32>
    %m = arith.cmpi slt, %i, %ns : tensor<8xi32>
    %zero = arith.constant dense<0> : tensor<8xi32>
    %a = tt.splat %x : !tt.ptr<i32> -> tensor<8x!tt.ptr<i32>>
    %b = tt.addptr %a, %i : tensor<8x!tt.ptr<i32>>, tensor<8xi32>
    %l = tt.load %b, %m : tensor<8x!tt.ptr<i32>>
    %c = tt.splat %out : !tt.ptr<i32> -> tensor<8x!tt.ptr<i32>>
    %d = tt.addptr %c, %i : tensor<8x!tt.ptr<i32>>, tensor<8xi32>
"""
OUTSIDE = [False] * 5 + [True] * 3


def _stored(body: str, track: Track, **more: Any) -> AccessEvent:
    recorder = Recorder()
    arguments = {"x": np.arange(8, dtype="i4"), "out": np.zeros(8, "i4"), "n": 5, **more}
    outcome, _ = run_text(HEAD + body + "\n    tt.return\n", arguments, observer=recorder, track=track)
    assert outcome.complete, outcome.reason
    return recorder.events[-1]


def _flags(flags: Any) -> list[bool]:
    return [False] * 8 if flags is None else flags.reshape(-1).tolist()


STORE = "tt.store %d, {} : tensor<8x!tt.ptr<i32>>"
REDUCE = """%s = "tt.reduce"(%l) <{axis = 0 : i32}> ({
    ^bb0(%p: i32, %q: i32):
      %r = arith.addi %p, %q : i32
      tt.reduce.return %r : i32
    }) : (tensor<8xi32>) -> i32
    %v = tt.splat %s : i32 -> tensor<8xi32>
    """ + STORE.format("%v")
SCAN = """%v = "tt.scan"(%l) <{axis = 0 : i32, reverse = false}> ({
    ^bb0(%p: i32, %q: i32):
      %r = arith.addi %p, %q : i32
      tt.scan.return %r : i32
    }) : (tensor<8xi32>) -> tensor<8xi32>
    """ + STORE.format("%v")


@pytest.mark.parametrize(
    ("body", "wanted"),
    [
        ("%v = arith.addi %l, %i : tensor<8xi32>\n" + STORE.format("%v"), OUTSIDE),
        ("%v = arith.select %m, %l, %zero : tensor<8xi1>, tensor<8xi32>\n" + STORE.format("%v"), [False] * 8),
        ("%v = arith.muli %l, %zero : tensor<8xi32>\n" + STORE.format("%v"), [False] * 8),
        (REDUCE, [False] * 8),
        (SCAN, [False] * 8),
        (REDUCE.replace("addi", "maxsi"), [True] * 8),
        (SCAN.replace("addi", "maxsi"), OUTSIDE),
    ],
    ids=["elementwise", "select", "times a defined zero", "sum", "sums", "maximum", "maxima"],
)
def test_undefined_lanes_reach_what_depends_on_them(body: str, wanted: list[bool]) -> None:
    event = _stored(body, Track(undefined=True))
    assert _flags(event.undefined) == wanted
    assert not any(_flags(event.steered_by_undefined))


def test_an_undefined_mask_and_an_undefined_address_steer() -> None:
    track = Track(undefined=True)
    compared = "%w = arith.cmpi sgt, %l, %zero : tensor<8xi32>\n"
    masked = "tt.store %d, %i, {} : tensor<8x!tt.ptr<i32>>"
    assert _flags(_stored(compared + masked.format("%w"), track).steered_by_undefined) == OUTSIDE
    both = compared + "%u = arith.andi %w, %m : tensor<8xi1>\n"
    assert not any(_flags(_stored(both + masked.format("%u"), track).steered_by_undefined))
    moved = "%w = tt.addptr %c, %l : tensor<8x!tt.ptr<i32>>, tensor<8xi32>\n"
    event = _stored(moved + "tt.store %w, %i : tensor<8x!tt.ptr<i32>>", track)
    assert _flags(event.steered_by_undefined) == OUTSIDE


BRANCH = """
    %s = "tt.reduce"(%l) <{axis = 0 : i32}> ({
    ^bb0(%p: i32, %q: i32):
      %r = arith.maxsi %p, %q : i32
      tt.reduce.return %r : i32
    }) : (tensor<8xi32>) -> i32
    %g = arith.cmpi sgt, %s, %n : i32
"""


@pytest.mark.parametrize(
    "body",
    [
        """scf.if %g {
    } else {
      tt.store %d, %i : tensor<8x!tt.ptr<i32>>
    }""",
        """scf.for %t = %n to %s step %n : i32 {
    }
    %u = scf.if %g -> (i32) {
      scf.yield %n : i32
    } else {
      scf.yield %s : i32
    }
    %v = tt.addptr %out, %u : !tt.ptr<i32>, i32
    tt.store %v, %n : !tt.ptr<i32>""",
    ],
    ids=["store in a branch", "address from a branch"],
)
def test_a_branch_on_something_undefined_steers(body: str) -> None:
    event = _stored(BRANCH + body, Track(undefined=True))
    assert event.mask.any()
    assert event.steered_by_undefined is not None and event.steered_by_undefined.all()
    # With every lane loaded, nothing is undefined.
    event = _stored(BRANCH + body, Track(undefined=True), n=8)
    assert not any(_flags(event.steered_by_undefined))


# --- overflow -------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("operation", "scale", "wanted"),
    [
        ("muli", 2**29, [False] * 4 + [True] * 4),
        ("muli", 2, [False] * 8),
        ("addi", 2**31 - 3, [False] * 3 + [True] * 5),
        ("shli", 29, [False] * 4 + [True] * 4),
    ],
)
def test_wrapped_addresses(operation: str, scale: int, wanted: list[bool]) -> None:
    body = f"""
    %k = tt.splat %scale : i32 -> tensor<8xi32>
    %w = arith.{operation} %i, %k : tensor<8xi32>
    %e = arith.extsi %w : tensor<8xi32> to tensor<8xi64>
    %p = tt.addptr %c, %e : tensor<8x!tt.ptr<i32>>, tensor<8xi64>
    tt.store %p, %i : tensor<8x!tt.ptr<i32>>
    """
    event = _stored(body, Track(overflow=True), scale=scale)
    assert _flags(event.overflowed) == wanted


def test_what_wraps_beside_an_address_is_no_overflow() -> None:
    body = """
    %k = tt.splat %scale : i32 -> tensor<8xi32>
    %w = arith.muli %i, %k : tensor<8xi32>
    tt.store %d, %w : tensor<8x!tt.ptr<i32>>
    """
    event = _stored(body, Track(overflow=True), scale=2**30)
    assert not any(_flags(event.overflowed))


@pytest.mark.parametrize("operation", ["remsi", "andi", "shrui", "xori"])
def test_what_loses_its_upper_bits_on_purpose_is_no_overflow(operation: str) -> None:
    body = f"""
    %k = tt.splat %scale : i32 -> tensor<8xi32>
    %w = arith.muli %i, %k : tensor<8xi32>
    %z = arith.constant dense<31> : tensor<8xi32>
    %h = arith.{operation} %w, %z : tensor<8xi32>
    %p = tt.addptr %c, %h : tensor<8x!tt.ptr<i32>>, tensor<8xi32>
    tt.store %p, %i : tensor<8x!tt.ptr<i32>>
    """
    event = _stored(body, Track(overflow=True), scale=2**30)
    assert not any(_flags(event.overflowed))


def test_the_product_of_a_pointer_step_wraps_too() -> None:
    body = """
    %k = arith.constant dense<1152921504606846976> : tensor<8xi64>
    %e = arith.extsi %i : tensor<8xi32> to tensor<8xi64>
    %w = arith.muli %e, %k : tensor<8xi64>
    %p = tt.addptr %c, %w : tensor<8x!tt.ptr<i32>>, tensor<8xi64>
    tt.store %p, %i : tensor<8x!tt.ptr<i32>>
    """
    event = _stored(body, Track(overflow=True))
    assert _flags(event.overflowed) == [False, False] + [True] * 6  # 4 bytes times 2**60 i


def test_an_undefined_mask_is_told_apart_from_an_undefined_address() -> None:
    mask = """%s = tt.splat %n : i32 -> tensor<8xi32>
    %g = arith.cmpi slt, %l, %s : tensor<8xi32>
    tt.store %d, %i, %g : tensor<8x!tt.ptr<i32>>"""
    event = _stored(mask, Track(undefined=True))
    assert _flags(event.mask_undefined) == OUTSIDE
    moved = "%w = tt.addptr %c, %l : tensor<8x!tt.ptr<i32>>, tensor<8xi32>\n"
    event = _stored(moved + "tt.store %w, %i : tensor<8x!tt.ptr<i32>>", Track(undefined=True))
    assert event.mask_undefined is None


def test_a_mistake_in_the_evaluation_is_a_reason_and_no_exception() -> None:
    class Broken:
        def access(self, event: AccessEvent) -> None:
            raise KeyError(event.kind)

    outcome, _ = run("add", observer=Broken())
    assert not outcome.complete
    assert outcome.reason == "the evaluation failed: KeyError: 'load'"

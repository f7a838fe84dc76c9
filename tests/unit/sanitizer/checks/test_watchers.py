from __future__ import annotations

from types import SimpleNamespace
from typing import Any, cast

import numpy as np
import pytest

from kerncap.sanitizer.analysis import Analysis
from kerncap.sanitizer.checks.events import shadow
from kerncap.sanitizer.checks.events.watchers import FOREIGN, AlignmentWatcher, OverflowWatcher, UninitWatcher
from kerncap.sanitizer.findings import NOT_KNOWN
from kerncap.sanitizer.launch import Launch
from kerncap.sanitizer.ttir.ir import Function, Operation
from tests.unit.sanitizer.checks.memory_launches import BASE, event_of, launch_of

LOAD = Operation("tt.load", order=1)
STORE = Operation("tt.store", order=2)
ATOMIC = Operation("tt.atomic_rmw", order=3)


def analysis_of(launch: Launch) -> Analysis:
    return cast(
        Any,
        SimpleNamespace(
            launch=launch, function=Function("kernel", (), (), (), None), walked=SimpleNamespace(accesses=())
        ),
    )


def uninit_watcher(written: Any, elements: int = 16) -> UninitWatcher:
    launch = launch_of([elements], written=[written])
    return UninitWatcher([LOAD, STORE, ATOMIC], analysis_of(launch))


def mask_of(*ranges: tuple[int, int], size: int = 64) -> np.ndarray[Any, np.dtype[np.bool_]]:
    written = np.ones(size, np.bool_)
    for low, high in ranges:
        written[low:high] = False
    return written


def rows(programs: int, lanes: int) -> np.ndarray[Any, np.dtype[np.int64]]:
    """Element i of the tensor for lane i % lanes of program i // lanes, as byte offsets."""
    return 4 * np.arange(programs * lanes, dtype=np.int64).reshape(programs, lanes)


def test_a_load_of_fresh_bytes_names_program_and_lane() -> None:
    watcher = uninit_watcher(mask_of((40, 44)))
    watcher.access(event_of(LOAD, "load", rows(4, 4), iterations=(("k", np.array([7, 8, 9, 10])),)))
    witness = watcher.violations[LOAD].witness
    assert (witness.program, witness.lane, witness.offset_bytes) == (2, (2,), 40)
    assert witness.iterations == (("k", 9),)


def test_one_fresh_byte_of_an_element_is_enough() -> None:
    watcher = uninit_watcher(mask_of((43, 44)))
    watcher.access(event_of(LOAD, "load", rows(4, 4)))
    assert watcher.violations[LOAD].witness.offset_bytes == 40


def test_masked_lanes_read_nothing() -> None:
    watcher = uninit_watcher(mask_of((40, 44)))
    watcher.access(event_of(LOAD, "load", rows(4, 4), mask=rows(4, 4) != 40))
    assert not watcher.violations and not watcher.doubts


def test_a_program_may_read_what_it_stored() -> None:
    watcher = uninit_watcher(mask_of((0, 64)))
    watcher.access(event_of(STORE, "store", rows(4, 4)))
    watcher.access(event_of(LOAD, "load", rows(4, 4)))
    assert not watcher.violations and not watcher.doubts


def test_a_partial_store_leaves_the_rest_of_the_element_fresh() -> None:
    watcher = uninit_watcher(mask_of((0, 64)))
    watcher.access(event_of(STORE, "store", rows(4, 4), width=2))
    watcher.access(event_of(LOAD, "load", rows(4, 4)))
    assert watcher.violations[LOAD].witness.program == 0


def test_what_another_program_stored_is_neither_safe_nor_a_finding() -> None:
    watcher = uninit_watcher(mask_of((0, 64)))
    watcher.access(event_of(STORE, "store", rows(4, 4)))
    watcher.access(event_of(LOAD, "load", rows(4, 4)[::-1]))
    assert not watcher.violations
    assert watcher.doubts[LOAD] == FOREIGN


def test_a_load_before_the_store_is_a_finding() -> None:
    watcher = uninit_watcher(mask_of((0, 64)))
    watcher.access(event_of(LOAD, "load", rows(4, 4)))
    watcher.access(event_of(STORE, "store", rows(4, 4)))
    assert watcher.violations[LOAD].witness.offset_bytes == 0


def test_without_freshness_only_ones_own_stores_are_safe() -> None:
    watcher = uninit_watcher(None)
    watcher.access(event_of(STORE, "store", rows(2, 4)))
    watcher.access(event_of(LOAD, "load", rows(2, 4)))
    assert not watcher.violations and not watcher.doubts
    watcher.access(event_of(LOAD, "load", rows(4, 4)))
    assert not watcher.violations
    assert watcher.doubts[LOAD] == NOT_KNOWN


def test_a_storage_too_large_for_a_shadow_is_never_safe(monkeypatch: pytest.MonkeyPatch) -> None:
    def refuse(*_: object) -> None:
        raise MemoryError

    watcher = uninit_watcher(mask_of((0, 64)))
    event = event_of(LOAD, "load", rows(2, 4))
    with monkeypatch.context() as patched:
        patched.setattr(shadow, "zeros", refuse)
        watcher.access(event)
    assert not watcher.violations
    assert watcher.doubts[LOAD] == NOT_KNOWN


def test_an_atomic_reads_fresh_memory_and_then_has_written_it() -> None:
    watcher = uninit_watcher(mask_of((0, 64)))
    watcher.access(event_of(ATOMIC, "atomic", rows(2, 4)))
    watcher.access(event_of(LOAD, "load", rows(2, 4)))
    assert set(watcher.violations) == {ATOMIC}
    assert "combines with" in watcher.violations[ATOMIC].text


def test_reads_outside_of_the_storage_are_no_concern_here() -> None:
    watcher = uninit_watcher(mask_of((40, 44)))
    watcher.access(event_of(LOAD, "load", [[-4, 64, 1 << 40]]))
    assert not watcher.violations


def test_elements_of_several_arguments_go_to_their_storages() -> None:
    launch = launch_of([4, 4], written=[mask_of(size=16), mask_of((12, 16), size=16)])
    watcher = UninitWatcher([LOAD], analysis_of(launch))
    watcher.access(event_of(LOAD, "load", [[12, 12]], argument=np.array([[0, 1]])))
    assert watcher.violations[LOAD].witness.lane == (1,)
    assert watcher.violations[LOAD].witness.argument == 1


def test_an_absolute_address_is_found_in_its_storage() -> None:
    watcher = uninit_watcher(mask_of((40, 44)))
    watcher.access(event_of(LOAD, "load", [[BASE + 36, BASE + 40]], argument=-1))
    assert watcher.violations[LOAD].witness.lane == (1,)
    assert watcher.violations[LOAD].witness.argument is None


@pytest.mark.parametrize("kind, operation", [("store", STORE), ("atomic", ATOMIC)])
def test_an_undefined_value_that_is_stored(kind: str, operation: Operation) -> None:
    watcher = uninit_watcher(mask_of())
    undefined = rows(2, 4) == 12
    watcher.access(event_of(operation, kind, rows(2, 4), undefined=undefined, mask=~undefined))
    assert not watcher.violations
    watcher.access(event_of(operation, kind, rows(2, 4), undefined=undefined))
    assert watcher.violations[operation].witness.lane == (3,)


def test_an_undefined_address_is_a_finding_of_a_load() -> None:
    watcher = uninit_watcher(mask_of())
    watcher.access(event_of(LOAD, "load", rows(2, 4), steered_by_undefined=rows(2, 4) == 20))
    assert watcher.violations[LOAD].witness.program == 1


def test_overflow_counts_only_where_memory_is_accessed() -> None:
    watcher = OverflowWatcher([LOAD])
    overflowed = rows(2, 2) == 8
    watcher.access(event_of(LOAD, "load", rows(2, 2), overflowed=overflowed, mask=~overflowed))
    assert not watcher.violations
    watcher.access(event_of(LOAD, "load", rows(2, 2), overflowed=overflowed))
    assert watcher.violations[LOAD].witness.program == 1


def test_alignment_counts_the_tensors_own_address() -> None:
    watcher = AlignmentWatcher([LOAD], analysis_of(launch_of([4], shift=2)))
    watcher.access(event_of(LOAD, "load", [[2, 6, 10]]))
    assert not watcher.violations
    watcher.access(event_of(LOAD, "load", [[2, 4]]))
    assert watcher.violations[LOAD].witness.lane == (1,)


def test_single_bytes_are_always_aligned() -> None:
    watcher = AlignmentWatcher([LOAD], analysis_of(launch_of([4], shift=1)))
    watcher.access(event_of(LOAD, "load", [[0, 1, 2]], width=1))
    assert not watcher.violations


def test_the_first_witness_stays() -> None:
    watcher = OverflowWatcher([LOAD])
    yes = np.ones((1, 1), np.bool_)
    watcher.access(event_of(LOAD, "load", [[4]], overflowed=yes, programs=[3]))
    watcher.access(event_of(LOAD, "load", [[8]], overflowed=yes, programs=[5]))
    assert watcher.violations[LOAD].witness.program == 3


def test_scalar_accesses_have_an_empty_lane() -> None:
    watcher = OverflowWatcher([LOAD])
    watcher.access(event_of(LOAD, "load", [4, 8], overflowed=np.array([False, True])))
    assert watcher.violations[LOAD].witness.lane == ()
    assert watcher.violations[LOAD].witness.program == 1

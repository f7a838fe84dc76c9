from __future__ import annotations

from typing import Any

import numpy as np
from hypothesis import given, settings
from hypothesis import strategies as st

from kerncap.sanitizer.checks.bounds.bounds_watcher import UNKNOWN_ORIGIN, BoundsWatcher
from kerncap.sanitizer.concrete.memory import ABSOLUTE, address_in
from kerncap.sanitizer.ttir.ir import Operation
from tests.unit.sanitizer.checks.hand_made import Scene
from tests.unit.sanitizer.checks.memory_launches import event_of

LOAD = Operation("tt.load")


def watch(scene: Scene, offsets: Any, **more: Any) -> BoundsWatcher:
    watcher = BoundsWatcher([LOAD], scene.analysis())
    watcher.access(event_of(LOAD, "load", offsets, **more))
    return watcher


def test_each_bound_has_its_own_end() -> None:
    # storage bytes [0, 80), allocation [0, 128), view [16, 64)
    for bounds, inside, outside in (
        ("view", [0, 44], {-4: -4, 48: 0, 45: 0}),
        ("storage", [-16, 60], {-17: -1, 64: 0, 61: 0, 68: 4}),
        ("allocation", [-16, 108], {-20: -4, 112: 0}),
    ):
        scene = Scene(bounds=bounds)  # type: ignore[arg-type]
        scene.tensor("x", (12,), storage_offset=16, storage_bytes=80, allocation_bytes=128)
        assert not watch(scene, [inside]).violations
        for offset, beyond in outside.items():
            watcher = watch(scene, [[0, offset]])
            seen = watcher.violations[LOAD]
            assert (seen.witness.lane, seen.beyond_bytes) == ((1,), beyond), (bounds, offset)


def test_an_element_outside_without_overflow_is_the_better_witness() -> None:
    scene = Scene()
    scene.tensor("x", (4,))
    watcher = BoundsWatcher([LOAD], scene.analysis())
    wrapped = np.array([[False, True]])
    watcher.access(event_of(LOAD, "load", [[0, -400]], overflowed=wrapped))
    assert watcher.only_by_overflow == {LOAD}
    assert watcher.violations[LOAD].beyond_bytes == -400
    watcher.access(event_of(LOAD, "load", [[0, -800]], overflowed=wrapped))
    watcher.access(event_of(LOAD, "load", [[0, 0]]))
    assert watcher.violations[LOAD].beyond_bytes == -400 and watcher.only_by_overflow
    watcher.access(event_of(LOAD, "load", [[16, -800]], overflowed=wrapped))
    assert watcher.violations[LOAD].beyond_bytes == 0
    assert not watcher.only_by_overflow


def test_masked_elements_do_not_count() -> None:
    scene = Scene()
    scene.tensor("x", (4,))
    assert not watch(scene, [[0, 16]], mask=[[True, False]]).violations


def test_the_message_says_how_far_and_of_what() -> None:
    scene = Scene()
    scene.tensor("x", (4,))
    assert watch(scene, [[24]]).violations[LOAD].text == "8 bytes past the end of x (float32[4], 16 bytes)"
    assert "4 bytes before the start of x" in watch(scene, [[-4]]).violations[LOAD].text
    assert "its last 2 bytes are past the end of x" in watch(scene, [[14]]).violations[LOAD].text


def test_pointers_without_a_tensor() -> None:
    scene = Scene()
    scene.tensor("x", (4,))
    inside = scene.storages[0].address
    scene.pointer("null", 0)
    scene.pointer("p", inside + 8)
    scene.pointer("lost", 0x1000_0000)
    assert "null is null" in watch(scene, [[8]], argument=1).violations[LOAD].text
    assert not watch(scene, [[4]], argument=2).violations
    assert watch(scene, [[8]], argument=2).violations[LOAD].beyond_bytes == 0
    lost = watch(scene, [[8]], argument=3)
    assert not lost.violations and "of unknown extent" in lost.doubts[LOAD]


def test_addresses_from_memory() -> None:
    scene = Scene()
    scene.tensor("x", (4,))
    inside = scene.storages[0].address
    assert watch(scene, [[inside]], argument=ABSOLUTE).doubts[LOAD] == UNKNOWN_ORIGIN
    assert "null" in watch(scene, [[inside, 16]], argument=ABSOLUTE).violations[LOAD].text


def test_addresses_that_were_made_for_a_storage() -> None:
    scene = Scene()
    scene.tensor("x", (4,))
    scene.tensor("y", (4,))
    x, y = (storage.address for storage in scene.storages)
    known = watch(scene, [[x, x + 12]], argument=address_in(0))
    assert not known.violations and not known.doubts
    seen = watch(scene, [[x, x + 13]], argument=address_in(0)).violations[LOAD]
    assert "its last 1 byte is past the end of x (16 bytes at" in seen.text and seen.witness.argument is None
    assert "the start of y" in watch(scene, [[x]], argument=address_in(1)).violations[LOAD].text
    both = np.array([[address_in(0), address_in(1)]])
    assert not watch(scene, [[x + 12, y]], argument=both).violations
    assert watch(scene, [[y, y]], argument=both).violations[LOAD].witness.lane == (0,)


def test_several_arguments_in_one_event() -> None:
    scene = Scene()
    scene.tensor("x", (4,))
    scene.tensor("y", (8,))
    which = np.array([[0, 1, 0]])
    assert not watch(scene, [[12, 28, 0]], argument=which).violations
    seen = watch(scene, [[12, 28, 16]], argument=which).violations[LOAD]
    assert (seen.witness.argument, seen.witness.lane) == (0, (2,))


@settings(max_examples=40, deadline=None)
@given(st.lists(st.tuples(st.integers(1, 4), st.integers(-9, 9)), min_size=1, max_size=3))
def test_a_view_is_the_bytes_of_its_elements(axes: list[tuple[int, int]]) -> None:
    shape, strides = tuple(n for n, _ in axes), tuple(s for _, s in axes)
    starts = np.zeros((), np.int64)
    for count, stride in axes:
        starts = np.add.outer(starts, np.arange(count) * stride * 2)
    elements = set(starts.reshape(-1).tolist())
    scene = Scene(bounds="view")
    scene.tensor("x", shape, strides, "float16", storage_offset=200, storage_bytes=600)
    analysis = scene.analysis()
    for offset in range(-90, 90, 2):
        watcher = BoundsWatcher([LOAD], analysis)
        watcher.access(event_of(LOAD, "load", [offset], width=2))
        # With overlapping strides the footprint says that it cannot tell.
        if not watcher.doubts:
            assert (not watcher.violations) == (offset in elements), offset


def test_a_watcher_asks_only_about_what_is_wanted() -> None:
    scene = Scene()
    scene.tensor("x", (4,))
    watcher = BoundsWatcher([], scene.analysis())
    watcher.access(event_of(LOAD, "load", [[400]]))
    assert not watcher.violations


def test_empty_tiles_are_inside() -> None:
    scene = Scene()
    scene.tensor("x", (4,))
    assert not watch(scene, np.zeros((2, 0), np.int64)).violations

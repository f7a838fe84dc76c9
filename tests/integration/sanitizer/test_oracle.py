"""The oracle against truths worked out by hand: exact places, order between programs, undefined lanes."""

from __future__ import annotations

from functools import cache

from tests.integration.sanitizer import oracle_targets
from tests.integration.sanitizer.oracle.client import Answer, ask
from tests.integration.sanitizer.suite.cases import CASES, plain_function


@cache
def answers() -> dict[str, Answer]:
    names = [one.name for one in CASES.values() if one.module == oracle_targets.__name__]
    return ask([oracle_targets.__name__], names)


def line_of(name: str, text: str) -> int:
    """The line of a target's source that holds ``text``."""
    import inspect

    lines, first = inspect.getsourcelines(plain_function(CASES[name].kernel))
    return next(number for number, line in enumerate(lines, first) if text in line)


def test_every_element_out_of_bounds_with_its_program_lane_and_offset() -> None:
    answer = answers()["ten_of_sixteen"]
    at = line_of("ten_of_sixteen", "tl.load")
    assert answer.violations == {
        ("oob", at, "x_ptr"): {((1, 0, 0), (lane,), 4 * (8 + lane)) for lane in range(2, 8)}
    }


def test_an_element_that_is_half_outside_is_outside() -> None:
    answer = answers()["last_half_word"]
    at = line_of("last_half_word", "tl.load")
    assert answer.violations == {("oob", at, "x_ptr"): {((0, 0, 0), (3,), 12)}}


def test_the_argument_is_the_one_that_the_pointer_came_from() -> None:
    """However far it went: the address may be another tensor's."""
    answer = answers()["reaches_for_the_other_tensor"]
    assert {key[2] for key in answer.found} == {"x_ptr"}
    assert answer.found == {("oob", line_of("reaches_for_the_other_tensor", "tl.load(x_ptr"), "x_ptr")}


def test_out_of_bounds_of_the_view_and_of_the_storage() -> None:
    at = line_of("columns[view]", "tl.load")
    assert answers()["columns[view]"].violations == {
        ("oob", at, "x_ptr"): {((row, 0, 0), (3,), 4 * (8 * row + 3)) for row in range(4)}
    }
    assert answers()["columns[storage]"].found == set()


def test_what_is_outside_is_neither_read_nor_written() -> None:
    """The second program's store past the end must not reach the tensor that lies there."""
    answer = answers()["ten_of_sixteen"]
    assert answer.failure is None
    assert answer.events == 4


def test_programs_that_store_to_one_place_race_unless_they_store_the_same() -> None:
    different = answers()["all_store[different]"]
    at = line_of("all_store[different]", "tl.store")
    site = (at, "store", "out_ptr")
    assert different.races == {(site, site)}
    same = answers()["all_store[same]"]
    assert same.races == set()
    assert same.identical == {(site, site)}
    assert same.found == set()


def test_an_atomic_counter_alone_orders_nothing() -> None:
    answer = answers()["counter_then_store"]
    at = line_of("counter_then_store", "tl.store")
    assert answer.found == {("race", at, "out_ptr")}


def test_a_lock_orders_what_it_encloses() -> None:
    assert answers()["locked_update"].found == set()
    assert answers()["unlocked_update"].found == {
        ("race", line_of("unlocked_update", "tl.load"), "out_ptr"),
        ("race", line_of("unlocked_update", "tl.store"), "out_ptr"),
    }


def test_a_relaxed_release_orders_nothing() -> None:
    answer = answers()["relaxed_unlock"]
    assert {key[0] for key in answer.found} == {"race"}


def test_reads_of_fresh_memory_and_what_a_program_wrote_itself() -> None:
    answer = answers()["reads_fresh"]
    at = line_of("reads_fresh", "before =")
    assert answer.found == {("uninit", at, "acc_ptr")}
    assert {offset for _, _, offset in answer.violations["uninit", at, "acc_ptr"]} == {16, 20, 24, 28}


def test_an_undefined_lane_counts_where_it_is_stored() -> None:
    stored = answers()["sums_undefined"]
    assert stored.found == {("uninit", line_of("sums_undefined", "tl.store"), "out_ptr")}
    assert answers()["replaces_undefined"].found == set()


def test_an_undefined_lane_counts_where_it_steers_an_address() -> None:
    answer = answers()["steers_by_undefined"]
    assert ("uninit", line_of("steers_by_undefined", "tl.load(x_ptr + index"), "x_ptr") in answer.found


def test_an_integer_that_wraps_on_its_way_to_an_address() -> None:
    answer = answers()["wraps"]
    at = line_of("wraps", "tl.load")
    assert answer.violations == {("overflow", at, "x_ptr"): {((1, 0, 0), (0,), 0), ((2, 0, 0), (0,), 0)}}
    assert answers()["wraps_in_a_hash"].found == set()


def test_promises() -> None:
    assert answers()["promises"].found == {
        ("promise", line_of("promises", "broken = tl.multiple_of"), None),
        ("promise", line_of("promises", "tl.assume(pid < 2)"), None),
    }


def test_lanes_of_one_atomic_meet() -> None:
    """Ten increments of one counter give ten different slots."""
    assert answers()["atomic_slots"].found == set()

"""Delta debugging finds exactly what is needed, whatever that is, and keeps what it found when time is up."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from kerncap.api.minimize import minimize
from kerncap.api.minimize.delta_debug import LINE, PAGE, Masks, Piece, Search
from kerncap.errors import UsageError
from kerncap.replay.worker.common import bitmap

SIZES = [70_000, 64, 5_000, 0]


def bits_of(size: int, places: set[int]) -> bitmap.Bits:
    flags = np.zeros(size, dtype=np.uint8)
    flags[sorted(places)] = 1
    return bitmap.of_flags(flags)


class Oracle:
    """A launch that needs some bytes: others may be anything."""

    def __init__(self, needed: dict[int, set[int]], tries: int = 10**9) -> None:
        self.needed = {region: bits_of(SIZES[region], places) for region, places in needed.items()}
        self.left = tries

    def holds(self, free: Masks) -> bool:
        self.left -= 1
        if self.left < 0:
            raise TimeoutError
        return not any((bits & free[region]).any() for region, bits in self.needed.items() if region in free)


def search(oracle: Oracle, free: Masks | None = None, fixed: Masks | None = None) -> Search:
    found = Search(SIZES, free or {}, fixed or {}, oracle.holds)
    try:
        found.run()
    except TimeoutError:
        pass
    return found


def lines(places: set[int]) -> set[int]:
    return {at for place in places for at in range(place // LINE * LINE, place // LINE * LINE + LINE)}


@given(
    st.sets(st.integers(0, SIZES[0] - 1), max_size=6), st.sets(st.integers(0, 63), max_size=2),
    st.sets(st.integers(0, SIZES[2] - 1), max_size=3),
)  # fmt: skip
def test_only_the_lines_that_are_needed_stay(one: set[int], two: set[int], three: set[int]) -> None:
    found = search(Oracle({0: one, 1: two, 2: three}))
    for region, places in enumerate((one, two, three)):
        size = SIZES[region]
        free = found.free.get(region, bitmap.empty(size))
        expected = bits_of(size, set(range(size)) - {at for at in lines(places) if at < size})
        assert free == expected


def test_it_asks_about_whole_regions_first() -> None:
    oracle = Oracle({})
    found = search(oracle)
    assert found.tries == 1 and all(
        bitmap.count(found.free[region]) == size for region, size in enumerate(SIZES) if size
    )


def test_few_tries_for_few_places() -> None:
    found = search(Oracle({0: {33_333}}))
    assert found.tries < 40


def test_fixed_bytes_are_never_asked_about_and_free_ones_are_known() -> None:
    fixed = {0: bitmap.span(SIZES[0], 0, 1000)}
    free = {2: bitmap.span(SIZES[2], 0, 4000)}
    found = search(Oracle({0: {5}}), free, fixed)  # what is needed there is fixed: nobody may free it
    assert not (found.free[0] & fixed[0]).any()
    assert bitmap.count(found.free[0]) == SIZES[0] - 1000 and bitmap.count(found.free[2]) == SIZES[2]


@pytest.mark.parametrize("tries", range(0, 30, 3))
def test_what_was_found_when_time_is_up_holds(tries: int) -> None:
    oracle = Oracle({0: {7, 40_000}, 2: {4_999}}, tries)
    found = search(oracle)
    oracle.left = 1
    assert not found.free or oracle.holds(found.free)


def test_halves_meet_at_multiples() -> None:
    assert Piece(0, 0, 100).halves(PAGE) is None
    assert Piece(0, 0, PAGE + 1).halves(PAGE) == (Piece(0, 0, PAGE), Piece(0, PAGE, PAGE + 1))
    first, second = Piece(0, 100, 70_000).halves(PAGE) or (None, None)
    assert first is not None and second is not None and first.stop == second.start
    assert first.stop % PAGE == 0 and (first.start, second.stop) == (100, 70_000)


def test_a_command_that_is_no_command(tmp_path: Path) -> None:
    with pytest.raises(UsageError, match="--keep-failing: 'x: No closing quotation"):
        minimize(tmp_path, tmp_path, keep_failing="'x")


def test_a_folder_that_cannot_be_made(tmp_path: Path) -> None:
    (tmp_path / "file").touch()
    with pytest.raises(UsageError, match="file/out: can't be written: Not a directory"):
        minimize(tmp_path, tmp_path / "file" / "out")

"""Units and names for bytes."""

from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from kerncap.format.schema import View
from kerncap.replay.memory_names import _element
from kerncap.replay.tolerance import view_tolerance
from kerncap.replay.worker.common.address_layout import gaps, grouped, supersets
from kerncap.replay.write_set_units import extent


@given(st.lists(st.tuples(st.integers(0, 400), st.integers(0, 90)), max_size=6), st.sampled_from([4, 16, 64]))
def test_spans_cover_regions_and_gaps_are_the_rest(places: list[tuple[int, int]], alignment: int) -> None:
    regions = [{"base": base, "size": size} for base, size in places]
    spans = supersets(regions, alignment)
    inside = {at for r in regions for at in range(r["base"], r["base"] + r["size"])}
    covered = {at for span in spans for at in range(span.start, span.stop)}
    free = [at for gap in gaps(regions, spans) for at in range(gap.start, gap.stop)]
    assert inside <= covered
    assert all(span.start % alignment == 0 == span.stop % alignment for span in spans)
    assert len(free) == len(set(free)) and set(free) == covered - inside
    chosen = range(0, len(regions), 2)
    for span, numbers in grouped(regions, chosen, alignment):
        assert numbers == [
            i for i in chosen if regions[i]["size"] and span.start <= regions[i]["base"] < span.stop
        ]
    assert [span for span, _ in grouped(regions, range(len(regions)), alignment)] == spans


def test_elements_are_named_by_their_strides() -> None:
    view = View(region=0, offset=8, dtype="float32", itemsize=4, shape=(3, 5), strides=(1, 3))
    assert extent(view) == (8, 8 + 15 * 4)
    assert _element(view, 8 + 4 * (2 + 3 * 4) + 1) == (2, 4)
    sparse = View(region=0, offset=0, dtype="int64", itemsize=8, shape=(4,), strides=(2,))
    assert _element(sparse, 16) == (1,) and _element(sparse, 8) is None


def test_integers_have_no_tolerance_but_measured_noise() -> None:
    assert view_tolerance("int32", rtol=1.0, atol=5.0) == (0.0, 0.0)
    assert view_tolerance("int32", noise=1.0) == (0.0, 2.0)
    assert view_tolerance("float32", atol=0.5) == (1.3e-6, 0.5)

"""`kerncap diff` of memory: elements by view, bytes by region, pointers by what they point to."""

from __future__ import annotations

import struct
from pathlib import Path

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from msgspec.structs import replace

from kerncap.answer import Answer
from kerncap.api.diff import diff_reproducers, element_differences, memory_diff
from kerncap.api.diff.diff_result import ReproducerDiff
from kerncap.format import schema
from kerncap.report.diff_text import render
from kerncap.report.documents.diff import StateDiff
from tests.unit.diff.tensor_reproducers import make, same, view

BASES = (0x7F0000000000, 0x7F8000000000)


def state_of(found: ReproducerDiff, state: str = "pre", name: str = "x") -> StateDiff:
    [one] = [one for one in found.views if one.name == name]
    return next(each for each in one.states if each.state == state)


def test_the_same_memory_at_other_addresses_is_equal(tmp_path: Path) -> None:
    x = np.arange(600, dtype=np.float32).reshape(20, 30)
    paths = [make(tmp_path / str(base), [same(x)], views=[view("x", x)], bases=[base]) for base in BASES]
    found = diff_reproducers(*paths)
    assert found.equal, found.differing
    assert render(found).endswith("Result: EQUAL\n")


def test_one_element_is_found_measured_and_placed(tmp_path: Path) -> None:
    x = np.ones((100, 200), dtype=np.float32)
    y = x.copy()
    y[40, 150] = np.float32(1.25)
    y[41, 150] = np.nan
    a = make(tmp_path / "a", [(x.tobytes(), x.tobytes())], views=[view("x", x)])
    b = make(tmp_path / "b", [(x.tobytes(), y.tobytes())], views=[view("x", x)])
    found = diff_reproducers(a, b)
    assert found.differing == ["memory after"]
    assert state_of(found, "pre").same
    state = state_of(found, "post")
    assert (state.elements, state.different, state.box, state.axes) == (
        20_000,
        2,
        ((40, 42), (150, 151)),
        (2, 1),
    )
    assert state.first is not None and (state.first.index, state.first.a, state.first.b) == (
        (40, 150),
        "1.0",
        "1.25",
    )
    # 0.25 is 2**21 units in the last place of 1 in float32.
    assert state.errors["abs_max"] == 0.25 and state.errors["ulp_max"] == 2**21
    assert (state.errors["nan_a"], state.errors["nan_b"]) == (0, 1)
    absolute, relative, ulps = state.histograms
    assert [(b.least, b.below, b.count) for b in absolute.bins] == [(pytest.approx(0.1), 1.0, 1)]
    assert [(b.least, b.below, b.count) for b in ulps.bins] == [(2**21, 2**22, 1)]
    assert absolute.special == relative.special == ulps.special == 1
    heat = state.heat
    assert heat is not None and (heat.row_step, heat.column_step) == (7, 4)
    hits = [(r, c) for r, row in enumerate(heat.different) for c, n in enumerate(row) if n]
    assert hits == [(40 // 7, 150 // 4)] and heat.special[40 // 7][150 // 4] == 1
    assert sum(map(sum, heat.elements)) == x.size
    text = render(found)
    assert "x (float32[100, 200]) after: 2 of 20,000 differ, first at [40, 150]: 1.0 -> 1.25" in text
    assert "Result: DIFFERENT (memory after)" in text


@settings(max_examples=25, deadline=None)
@given(
    shape=st.lists(st.integers(1, 5), min_size=0, max_size=3).map(tuple),
    order=st.randoms(use_true_random=False),
    flip=st.booleans(),
    dtype=st.sampled_from(["int8", "uint16", "int32", "float32", "float64", "int64"]),
    data=st.data(),
)
def test_any_layout_agrees_with_numpy(
    tmp_path_factory: pytest.TempPathFactory, shape: tuple[int, ...], order, flip: bool, dtype: str, data
) -> None:
    """Transposed, reversed and sliced views: counts, the first index and the box are numpy's own."""
    size = int(np.prod(shape, dtype=int))
    axes = list(range(len(shape)))
    order.shuffle(axes)
    stored = np.arange(size, dtype=dtype).reshape([shape[axis] for axis in axes])
    changed = stored.copy().reshape(-1)
    for at in data.draw(st.lists(st.integers(0, size - 1), max_size=4, unique=True)):
        changed[at] += 1
    changed = changed.reshape(stored.shape)
    back = np.argsort(axes)
    x, y = (one.transpose(back) if len(shape) else one for one in (stored, changed))
    offset = 0
    if flip and len(shape):
        x, y = x[::-1], y[::-1]
        offset = -min(0, x.strides[0]) * (shape[0] - 1)
    folder = tmp_path_factory.mktemp("layout")
    window = view("x", x, offset=offset)
    a = make(folder / "a", [same(stored)], views=[window])
    b = make(folder / "b", [same(changed)], views=[window])
    found = diff_reproducers(a, b)
    state = state_of(found)
    wrong = np.argwhere(x != y)
    assert state.different == len(wrong)
    assert found.equal == (len(wrong) == 0)
    if len(wrong):
        assert state.first is not None and state.first.index == tuple(wrong[0])
        assert state.box == tuple((int(axis.min()), int(axis.max()) + 1) for axis in wrong.T)


def test_large_integers_are_subtracted_as_integers(tmp_path: Path) -> None:
    x = np.array([2**62, -(2**62)], dtype=np.int64)
    paths = [make(tmp_path / n, [same(one)], views=[view("x", x)]) for n, one in (("a", x), ("b", x + 1))]
    state = state_of(diff_reproducers(*paths))
    assert state.different == 2
    assert [(one.least, one.count) for one in state.histograms[0].bins] == [(1.0, 2)]


def test_errors_of_a_part_where_very_many_differ(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(element_differences, "_MOST_MEASURED", 10)
    x = np.arange(100, dtype=np.float32)
    paths = [make(tmp_path / n, [same(one)], views=[view("x", x)]) for n, one in (("a", x), ("b", x + 1))]
    found = diff_reproducers(*paths)
    state = state_of(found)
    assert (state.different, state.measured) == (100, 10)
    assert sum(one.count for one in state.histograms[0].bins) == 10
    assert "errors are measured on 10 of them" in render(found)


def test_other_types_are_compared_by_value(tmp_path: Path) -> None:
    x = np.array([0.5, 1.5, np.nan], dtype=np.float32)
    y = np.array([0.5, 1.75, np.nan], dtype=np.float16)
    paths = [make(tmp_path / n, [same(one)], views=[view("x", one)]) for n, one in (("a", x), ("b", y))]
    found = diff_reproducers(*paths)
    assert [(c.what, c.a, c.b) for c in found.arguments if "dtype" in c.what] == [
        ("x: dtype", "float32", "float16")
    ]
    state = state_of(found)
    assert state.different == 1 and state.first is not None and state.first.index == (1,)


def test_another_shape_is_said_and_not_guessed_at(tmp_path: Path) -> None:
    x, y = np.zeros((4, 5), np.int32), np.zeros((5, 4), np.int32)
    paths = [make(tmp_path / n, [same(one)], views=[view("x", one)]) for n, one in (("a", x), ("b", y))]
    [one] = diff_reproducers(*paths).views
    assert not one.same and one.problem.startswith("other shapes")


def test_what_a_launch_only_writes_may_differ_before_it(tmp_path: Path) -> None:
    rng = np.random.default_rng(1)
    x, out = rng.random(300).astype(np.float32), np.zeros(300, np.float32)
    junk = [rng.random(300).astype(np.float32) for _ in range(2)]
    views = [view("x", x), view("out", out, region=1)]

    def sides(idle: tuple[int, ...] | None) -> list[Path]:
        name = "plain" if idle is None else "measured"
        return [
            make(tmp_path / f"{name}{n}", [same(x), (one.tobytes(), out.tobytes())], views=views, idle=idle)
            for n, one in enumerate(junk)
        ]

    found = diff_reproducers(*sides((1,)))
    assert found.equal and state_of(found, name="out").ignored == 300
    unknown = diff_reproducers(*sides(None))
    assert unknown.differing == ["memory before"] and "kerncap verify" in unknown.notes[0]


# --- memory that only pointers reach ------------------------------------------------------------------


def chain(folder: Path, bases: tuple[int, int, int], last: int, target: int = 0) -> Path:
    """A table of two pointers, a node that points back into it, another with a number."""
    table = struct.pack("<QQ", bases[1], bases[2] + 8 * target)
    node = struct.pack("<QQ", bases[0] + 8, 7)
    other = struct.pack("<QQ", last, 0)
    x = np.frombuffer(table, dtype=np.int64)
    regions = [(one, one) for one in (table, node, other)]
    return make(folder, regions, views=[view("table", x)], bases=bases)


FIRST, SECOND = (
    (0x7F0000000000, 0x7F0000100000, 0x7F0000200000),
    (0x7E0000300000, 0x7E0000000000, 0x7E0000100000),
)


def test_pointers_to_corresponding_memory_are_equal(tmp_path: Path) -> None:
    found = diff_reproducers(chain(tmp_path / "a", FIRST, 5), chain(tmp_path / "b", SECOND, 5))
    assert found.equal, render(found)
    assert found.counts["pointers_alike"] == 3
    assert {one.how for one in found.regions[1:]} == {"pointed to from the same place"}


def test_a_pointer_to_another_place_differs(tmp_path: Path) -> None:
    found = diff_reproducers(chain(tmp_path / "a", FIRST, 5), chain(tmp_path / "b", SECOND, 5, target=1))
    assert state_of(found, name="table").first is not None


def test_bytes_behind_pointers_differ(tmp_path: Path) -> None:
    found = diff_reproducers(chain(tmp_path / "a", FIRST, 5), chain(tmp_path / "b", SECOND, 6))
    [region] = [one for one in found.regions if not one.same]
    assert region.regions == (2, 2)
    first = region.states[0].first
    assert first is not None and (first.index, first.a, first.b) == ((0,), "5", "6")


def test_variables_pair_by_name(tmp_path: Path) -> None:
    paths = []
    for number, order in enumerate((("gain", "bias"), ("bias", "gain"))):
        data = {"gain": b"\1" * 16, "bias": b"\2" * 16}
        path = tmp_path / str(number)
        regions = tuple(
            schema.Region(base=BASES[number] + (i << 20), size=16, kind="global", name=name)
            for i, name in enumerate(order)
        )
        states = [(data[name], data[name]) for name in order]
        paths.append(_with_regions(path, states, regions))
    assert diff_reproducers(*paths).equal


def _with_regions(
    folder: Path, states: list[tuple[bytes, bytes]], regions: tuple[schema.Region, ...]
) -> Path:
    from kerncap.format import ReproducerWriter
    from tests.unit.format import small

    with ReproducerWriter(folder, "k") as writer:
        for region, (pre, _) in enumerate(states):
            writer.add_region_pre(region, len(pre), memoryview(pre))
        memory = writer.finish_memory()
        manifest = small.manifest(memory, [len(pre) for pre, _ in states])
        return writer.seal(replace(manifest, regions=regions, version=schema.Version(major=1, minor=3)))


# --- hostile sizes -------------------------------------------------------------------------------------


def huge(folder: Path, views: tuple[schema.View, ...]) -> Path:
    """A tebibyte of zeros but for its first bytes, in a file of some hundred bytes."""
    from kerncap.format import ReproducerWriter
    from tests.unit.format import small

    size = 1 << 40
    with ReproducerWriter(folder, "k") as writer:
        writer._sizes[0] = size
        writer._add("pre", 0, 0, lambda _: folder.name.encode().ljust(schema.CHUNK_BYTES, b"\1"))
        memory = writer.finish_memory()
        return writer.seal(replace(small.manifest(memory, [size]), views=views))


@pytest.mark.timeout(200)  # well below a second each; reading a tebibyte takes an hour
@pytest.mark.parametrize("case", ["long", "wide", "overlapping", "still", "scattered"])
def test_a_tebibyte_costs_nothing(tmp_path: Path, case: str) -> None:
    shapes = {
        "long": ((1 << 37,), (1,)), "wide": ((1 << 20, 1 << 17), (1 << 17, 1)),
        "overlapping": ((1 << 19,) * 3, (1,) * 3), "still": ((1 << 40, 1 << 19), (0, 0)),
        "scattered": ((1 << 20, 1 << 17), (1, 1 << 20)),
    }  # fmt: skip
    shape, strides = shapes[case]
    views = (
        schema.View(region=0, offset=0, dtype="int64", itemsize=8, shape=shape, strides=strides, name="x"),
    )
    found = diff_reproducers(huge(tmp_path / "a", views), huge(tmp_path / "b", views), most_read=64 << 20)
    assert found.answer is Answer.UNDECIDED if case == "overlapping" else not found.equal


def test_what_is_not_read_is_said(tmp_path: Path) -> None:
    x = np.zeros(1 << 20, np.float32)
    paths = [make(tmp_path / n, [same(x + i)], views=[view("x", x)]) for i, n in enumerate("ab")]
    found = diff_reproducers(*paths, most_read=1 << 20)
    assert not state_of(found).complete
    assert any("--max-read" in note for note in found.notes)
    assert found.answer is Answer.UNDECIDED and not found.equal and not found.differing
    assert "Result: UNDECIDED (not all memory was read; a larger --max-read" in render(found)
    assert found.as_dict()["result"] == "undecided"


def test_of_very_many_regions_the_first_are_looked_into(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(memory_diff, "MOST_LISTED", 3)
    sides = [
        [(bytes([i, which]) * 8,) * 2 if i else (b"same" * 4,) * 2 for i in range(7)] for which in (1, 2)
    ]
    found = diff_reproducers(*(make(tmp_path / str(n), states) for n, states in enumerate(sides)))
    assert [len(one.states) for one in found.regions] == [1, 1, 1, 1, 0, 0, 0]
    assert [one.same for one in found.regions] == [True] + 6 * [False]
    assert all(one.problem.startswith("not compared") for one in found.regions[4:])

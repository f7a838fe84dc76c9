"""Heat maps: which elements are read, what their cells say, whatever the dtype and the strides."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt
import pytest
from hypothesis import given
from hypothesis import strategies as st

from kerncap.format import Reproducer, schema
from kerncap.report.html import heat_sample as sample
from kerncap.report.html.heat import ABOVE, CHANGED, EMPTY, HIGH, INFINITE, LOW, NAN, NOT_FINITE, heat_map
from kerncap.report.html.heat_cells import MAX_CELLS_HIGH, MAX_CELLS_WIDE, arrange
from kerncap.report.html.view_elements import values
from tests.integration.report.reproducers import Made, Tensor, ramp, write


def of(tmp_path: Path, tensor: Tensor) -> dict[str, Any]:
    with Reproducer.open(write(tmp_path, Made([tensor]))) as reproducer:
        found = heat_map(reproducer, reproducer.manifest.views[0])
    assert found is not None
    return found


def decoded(state: dict[str, Any]) -> npt.NDArray[np.float64]:
    codes = np.array(state["cells"], dtype=np.float64)
    found: npt.NDArray[np.float64] = state["low"] + (codes - LOW) / (HIGH - LOW) * (
        state["high"] - state["low"]
    )
    return found


def view(shape: tuple[int, ...], strides: tuple[int, ...]) -> schema.View:
    return schema.View(region=0, offset=0, dtype="float32", itemsize=4, shape=shape, strides=strides)


def test_cells_are_means_of_equal_blocks(tmp_path: Path) -> None:
    values_ = ramp(200, 90)  # 2 x 1 elements a cell
    found = of(tmp_path, Tensor("x", values_))
    assert (found["high"], found["wide"]) == (100, 90)
    expected = values_.reshape(100, 2, 90).mean(axis=1, dtype=np.float64)
    np.testing.assert_allclose(decoded(found["pre"]).reshape(100, 90), expected, atol=199_089 / 65_000)
    assert found["pre"]["min"] == 0 and found["pre"]["max"] == 199_089
    assert found["pre"]["zeros"] == 1 and found["changed"] == 0 and found["post"] is None


def test_what_the_launch_changed(tmp_path: Path) -> None:
    before = np.zeros((8, 8), np.float32)
    after = before.copy()
    after[2, 3], after[7, 7] = 1.5, -1.5
    found = of(tmp_path, Tensor("x", before, after))
    assert found["changed"] == 2 and found["first_changed"] == [2, 3]
    assert np.flatnonzero(found["difference"]).tolist() == [2 * 8 + 3, 63]
    assert (found["post"]["min"], found["post"]["max"], found["post"]["mean"]) == (-1.5, 1.5, 0.0)


def test_special_values_are_counted_and_marked(tmp_path: Path) -> None:
    found = of(tmp_path, Tensor("x", np.array([[np.nan, np.inf, 1.0], [-np.inf, 2.0, 3.0]], np.float32)))
    state = found["pre"]
    assert (state["nan"], state["infinite"]) == (1, 2)
    assert state["flags"] == [NAN, INFINITE, 0, INFINITE, 0, 0]
    assert [code == NOT_FINITE for code in state["cells"]] == [True, True, False, True, False, False]
    assert (state["min"], state["max"], state["mean"]) == (1.0, 3.0, 2.0)
    assert CHANGED not in state["flags"]


def test_one_outlier_does_not_hide_the_rest(tmp_path: Path) -> None:
    values_ = np.linspace(0, 1, 4096, dtype=np.float32).reshape(64, 64)
    values_[0, 0] = 1e30
    state = of(tmp_path, Tensor("x", values_))["pre"]
    assert state["high"] < 1.01 and state["max"] == pytest.approx(1e30)
    assert state["cells"][0] == ABOVE
    assert len(set(state["cells"])) > 3000


def test_a_wrapped_row_ends_in_empty_cells(tmp_path: Path) -> None:
    found = of(tmp_path, Tensor("x", np.arange(1000, dtype=np.int32)))
    assert found["wrapped"] and found["rows"] * found["columns"] >= 1000
    cells = np.array(found["pre"]["cells"])
    assert (cells == EMPTY).sum() == found["high"] * found["wide"] - 1000
    assert not (cells[:1000] == EMPTY).any()


def test_strided_and_reversed_views(tmp_path: Path) -> None:
    memory = np.arange(24, dtype=np.int64)
    found = of(tmp_path, Tensor("x", memory, shape=(4, 3), strides=(1, 4)))
    np.testing.assert_allclose(decoded(found["pre"]).reshape(4, 3), memory[:12].reshape(3, 4).T, atol=1e-3)


def test_large_views_are_read_in_part_and_evenly(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """The three ways of reading agree, where each can read all that the picture needs."""
    values_ = ramp(256, 300)
    tensor = Tensor("x", values_, values_ * 2)
    whole = of(tmp_path, tensor)
    monkeypatch.setattr(sample, "_WHOLE_BYTES", 0)
    assert of(tmp_path, tensor) == whole
    monkeypatch.setattr(sample, "_ROW_BYTES", 0)
    single = of(tmp_path, tensor)
    assert single["sampled"] == 128 * 100
    for state in ("pre", "post"):
        np.testing.assert_allclose(decoded(single[state]), decoded(whole[state]), atol=2 * 1000 + 400)


@given(st.lists(st.integers(0, 3000), max_size=5).map(tuple), st.integers(1, 4096), st.integers(1, 4096))
def test_every_cell_has_an_element(shape: tuple[int, ...], most_rows: int, most_columns: int) -> None:
    strides = tuple(int(np.prod(shape[place + 1 :])) for place in range(len(shape)))
    found = arrange(view(shape, strides))
    if 0 in shape:
        assert found is None
        return
    assert found is not None
    assert 1 <= found.high <= MAX_CELLS_HIGH and 1 <= found.wide <= MAX_CELLS_WIDE
    assert found.elements <= found.rows * found.columns < found.elements + found.columns
    if found.rows > 10**7:
        return
    rows, columns = found.chosen(most_rows, most_columns)
    for chosen, edges in ((rows, found.row_edges), (columns, found.column_edges)):
        assert (np.diff(chosen) > 0).all()
        assert (np.histogram(chosen, edges)[0] > 0).all()
    assert len(columns) <= max(most_columns, found.wide)


def test_values_of_dtypes_that_numpy_lacks() -> None:
    def of_bits(bits: list[int], width: str, dtype: str) -> list[float]:
        raw = np.array(bits, dtype=width)
        return values(raw.view(np.uint8).reshape(len(bits), -1), dtype, raw.itemsize).tolist()  # type: ignore[no-any-return]

    assert of_bits([0x3F80, 0xC2F7, 0x0001], "<u2", "bfloat16") == [1.0, -123.5, 2.0**-133]
    assert of_bits([0x7E, 0x01, 0x80], "<u1", "float8_e4m3fn") == [448.0, 2.0**-9, -0.0]
    assert of_bits([0x7B, 0x7C], "<u1", "float8_e5m2") == [57344.0, np.inf]
    assert of_bits([2, 0], "<u1", "bool") == [1.0, 0.0]
    assert of_bits([255], "<u1", "int8") == [-1.0]
    assert of_bits([7], "<u4", "a stranger's") == [7.0]
    assert of_bits([258], "<u2", "float32") == [258.0]  # of another size than its name says

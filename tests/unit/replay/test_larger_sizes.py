"""Sizes above the captured one, where a number that the kernel was compiled with may hide a case."""

from __future__ import annotations

from pathlib import Path

import msgspec
import numpy as np
import pytest

from kerncap.answer import Answer
from kerncap.api.verify import VerifyOptions, VerifyResult, verify
from kerncap.api.verify.derived_launch import Layout, NotDerivable, derive
from kerncap.api.verify.larger_sizes import larger
from kerncap.format import Reproducer
from kerncap.format.schema import GridSource, IntValue, Manifest, TensorValue

from .build import ADD, Launch, add
from .resident import candidate

pytest.importorskip("triton")
pytest.importorskip("torch")

GRID = GridSource(
    source="lambda meta: (triton.cdiv(n, meta['BLOCK']),)",
    bindings={"n": IntValue(value="100")},
    unresolved=("triton",),
)
SUM = "tl.load(x_ptr + i, mask=mask) + tl.load(y_ptr + i, mask=mask)"
ROWS = """
@triton.jit
def rows(x_ptr, w_ptr, y_ptr, count, columns, x_stride, y_stride, BLOCK: tl.constexpr):
    i = tl.arange(0, BLOCK)
    mask = i < columns
    w = tl.load(w_ptr + i, mask=mask)
    x = tl.load(x_ptr + tl.program_id(0) * x_stride + i, mask=mask)
    tl.store(y_ptr + tl.program_id(0) * y_stride + i, x * w, mask=mask)
"""


def judged(folder: Path, of_places: str, grid: GridSource | None = GRID) -> VerifyResult:
    """A candidate that gives something else where ``of_places`` is false."""
    captured = add(100, 128)
    captured.grid_source = grid
    text = ADD.replace(SUM, f"tl.where({of_places}, {SUM}, 0.0)")
    return verify(captured.seal(folder), VerifyOptions(candidate=candidate(folder, text)))


def rows(x_stride: int = 6) -> Launch:
    """Rows of four numbers, those of x ``x_stride`` apart."""
    x = np.arange(3 * x_stride, dtype=np.float32)
    made = Launch(ROWS, "rows", grid=(3, 1, 1), grid_source=GridSource(
        source="lambda meta: (count,)", bindings={"count": IntValue(value="3")},
    ))  # fmt: skip
    view = made.view("x_ptr", made.region(x), "float32", (3, 4), (x_stride, 1))
    made.argument("x_ptr", TensorValue(view=view))
    w = np.full(4, 2, np.float32)
    y = 2 * x.reshape(3, x_stride)[:, :4]
    made.tensor("w_ptr", w).tensor("y_ptr", np.zeros((3, 4), np.float32), y)
    for name, value in (("count", 3), ("columns", 4), ("x_stride", x_stride), ("y_stride", 4)):
        made.argument(name, value)
    return made.constexpr("BLOCK", 4)


def manifest_of(folder: Path, launch: Launch) -> Manifest:
    with Reproducer.open(launch.seal(folder)) as reproducer:
        return reproducer.manifest


def test_what_only_the_first_tile_does_is_undecided(tmp_path: Path) -> None:
    result = judged(tmp_path, "i < BLOCK")
    assert result.verdict.answer is Answer.UNDECIDED
    assert "i < BLOCK was true for every element that was accessed, and on n = 257: differs" in (
        result.verdict.line
    )
    assert result.verdict.line.endswith("a capture of that size would decide it)")


def test_what_each_tile_does_passes(tmp_path: Path) -> None:
    result = judged(tmp_path, "tl.arange(0, BLOCK) < BLOCK")
    assert result.passed
    assert "as the captured kernel on n = 257" in result.stages[1].shown


def test_what_can_not_be_tried_is_said(tmp_path: Path) -> None:
    result = judged(tmp_path, "i < BLOCK", grid=None)
    [said] = [one for one in result.stages[1].not_shown if one.startswith("larger sizes")]
    assert "it may matter that line" in said and said.endswith("(n = 257: its grid is not known)")


def test_tensors_of_that_size_grow_and_strides_follow(tmp_path: Path) -> None:
    with Reproducer.open(rows().seal(tmp_path)) as captured:
        layout = larger(captured.manifest, 4, 9, ["columns"])
        assert layout == Layout(
            shapes={0: (3, 9), 1: (9,), 2: (3, 9)}, strides={0: (9, 1), 1: (1,), 2: (9, 1)},
            arguments={"columns": 9, "x_stride": 9, "y_stride": 9}, grid=(3, 1, 1),
        )  # fmt: skip
        with Reproducer.open(derive(captured, tmp_path, layout)) as derived:
            view = derived.manifest.views[0]
            data = derived.read("pre", view.region, view.offset, 27 * 4)
            found = np.frombuffer(data, np.float32).reshape(3, 9)
            assert found.tolist() == [
                [start + i % 4 for i in range(9)] for start in (0, 6, 12)
            ]  # each row repeated
        more = larger(captured.manifest, 3, 7, ["count"])
        assert more.shapes == {0: (7, 4), 2: (7, 4)} and more.strides == {0: (6, 1), 2: (4, 1)}
        assert more.grid == (7, 1, 1)


@pytest.mark.parametrize(
    ("launch", "why"),
    [
        (lambda: rows().constexpr("w_stride", 4), "it is compiled for w_stride = 4"),
        (lambda: rows().tensor("z_ptr", np.zeros((5, 6), np.float32)),
         "x_stride may be of a tensor that stays"),
        (lambda: rows().tensor("z_ptr", np.zeros((3, 5, 4), np.float32)),
         "its stride 20 of z_ptr is not an argument, or is that of several tensors"),
    ],
)  # fmt: skip
def test_what_can_not_grow_is_named(tmp_path: Path, launch: object, why: str) -> None:
    assert callable(launch)
    with pytest.raises(NotDerivable, match=why):
        larger(manifest_of(tmp_path, launch()), 4, 9, ["columns"])


def test_a_grid_that_is_only_known_as_numbers(tmp_path: Path) -> None:
    manifest = manifest_of(tmp_path, rows())
    manifest = msgspec.structs.replace(
        manifest, launch=msgspec.structs.replace(manifest.launch, grid_source=None)
    )
    with pytest.raises(NotDerivable, match="its grid is not known"):
        larger(manifest, 4, 9, ["columns"])

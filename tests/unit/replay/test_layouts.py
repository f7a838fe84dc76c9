"""Gluon's layouts are made of their text, and nothing else is."""

from __future__ import annotations

import pytest

from kerncap.replay.worker.triton_launch import gluon_layouts

pytest.importorskip("triton.experimental.gluon")


def test_a_layout_comes_back_as_it_was() -> None:
    import triton.experimental.gluon.language as gl

    rows = gl.BlockedLayout([1, 4], [8, 4], [4, 1], [1, 0])
    wgmma = gl.NVMMADistributedLayout([3, 0], [4, 1], [16, 128, 16])
    for layout in (rows, gl.SliceLayout(0, rows), gl.NVMMASharedLayout(128, 16, 2), gl.AutoLayout(),
                   gl.DotOperandLayout(0, wgmma, 2)):  # fmt: skip
        again = gluon_layouts.rebuilt(repr(layout))
        assert type(again) is type(layout) and again == layout


@pytest.mark.parametrize(
    "text",
    ["open(file='x')", "dtype(name='int8')", "BlockedLayout(size_per_thread=open('x'))", "os.getcwd()",
     "BlockedLayout(", "AutoLayout().__class__", "BlockedLayout(**{})"],
)  # fmt: skip
def test_nothing_else_is_called(text: str) -> None:
    with pytest.raises((TypeError, ValueError)):
        gluon_layouts.rebuilt(text)

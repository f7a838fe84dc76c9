"""Generated accesses against the truth: every program, iteration and lane, every byte."""

from __future__ import annotations

import itertools
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from kerncap.sanitizer.checks import bounds, overflow
from kerncap.sanitizer.diagnose.confirm import Confirmation
from kerncap.sanitizer.findings import Proved, Violated
from kerncap.sanitizer.launch import TensorArgument
from kerncap.sanitizer.symbolic.expr import TRUE, Expr, Variable, const, evaluate, var, wrap
from tests.unit.sanitizer.checks.hand_made import Scene, access, lane, loop

Draw = Callable[[Any], Any]


@pytest.fixture(autouse=True)
def _believed(monkeypatch: pytest.MonkeyPatch) -> None:
    for module in (bounds, overflow):
        monkeypatch.setattr(module, "confirm", lambda *_: Confirmation(True, "expressions"))


def term(draw: Draw, variables: list[Variable]) -> Expr:
    """A small index, as kernels make them of their variables."""
    e: Expr = const(draw(st.integers(-2, 2)))
    for variable in draw(st.lists(st.sampled_from(variables), min_size=1, max_size=3)):
        e = e + var(variable) * draw(st.sampled_from([1, 1, 2, 3, 4, 8]))
    kind = draw(st.sampled_from(["plain", "plain", "mod", "div", "wrap"]))
    if kind == "mod":
        return e % draw(st.integers(1, 9))
    if kind == "div":
        return e // draw(st.integers(1, 4))
    return wrap(e, 5) if kind == "wrap" else e


def truth(scene: Scene, tensor: TensorArgument, e: Expr, mask: Expr, width: int, mode: str) -> bool:
    """Whether some byte of some performed access is outside."""
    variables = sorted(e.variables | mask.variables, key=lambda v: v.name)
    shape = [v.points for v in variables]
    grids = np.meshgrid(*(np.arange(v.low, v.high + 1) for v in variables), indexing="ij")
    point = dict(zip(variables, grids, strict=True))
    offsets, allowed = (np.broadcast_to(a, shape) for a in evaluate([e, mask], point))
    touched = {int(o) + b for o in np.unique(offsets[allowed]) for b in range(width)}
    storage = scene.storages[tensor.storage]
    if mode == "storage":
        start = storage.address - tensor.address
        return bool(touched - set(range(start, start + storage.size_bytes)))
    inside = {
        tensor.itemsize * sum(i * s for i, s in zip(index, tensor.strides, strict=True)) + byte
        for index in itertools.product(*map(range, tensor.shape))
        for byte in range(tensor.itemsize)
    }
    return bool(touched - inside)


@given(st.data())
@settings(max_examples=150, deadline=None, derandomize=True)
def test_verdicts_are_the_truth(data: Any) -> None:
    draw = data.draw
    mode = draw(st.sampled_from(["view", "storage"]))
    scene = Scene((draw(st.integers(1, 4)), draw(st.integers(1, 3)), 1), bounds=mode)
    rank = draw(st.integers(1, 2))
    shape = tuple(draw(st.integers(0 if rank == 1 else 1, 9)) for _ in range(rank))
    strides = tuple(draw(st.integers(-3, 12)) for _ in range(rank))
    width = draw(st.sampled_from([1, 2, 4]))
    dtype = {1: "int8", 2: "float16", 4: "float32"}[width]
    ahead = sum(-s * (n - 1) for n, s in zip(shape, strides, strict=True) if s < 0 < n) * width
    x = scene.tensor("x", shape, strides, dtype, storage_offset=ahead)
    k, i, j = loop(draw(st.integers(1, 4))), lane(draw(st.sampled_from([2, 4])), 0), lane(4, 1)
    variables = [*scene.programs[:2], k.counter, i, j]
    offset = term(draw, variables) * width
    mask = TRUE
    for _ in range(draw(st.integers(0, 2))):
        mask = mask & (term(draw, variables) < draw(st.integers(-1, 12)))
    one = access(x, offset, lanes=[i, j], mask=mask, width=width, loops=(k,))
    tensor = scene.arguments[x]
    assert isinstance(tensor, TensorArgument)
    wrong = truth(scene, tensor, offset, mask, width, mode)
    verdict = bounds.check(scene.analysis(one), one)
    if isinstance(verdict, Violated | Proved):
        assert isinstance(verdict, Violated) == wrong
    else:
        assert "overlap" in verdict.reason

"""Kernels that are written as TTIR: for what Triton's front end never makes, or folds away."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numpy as np

from kerncap.sanitizer.concrete.run import Memory, Outcome, evaluate
from kerncap.sanitizer.ttir import read_module
from tests.unit.sanitizer.concrete.launches import Array, bytes_after, launch_of

TYPES = {"f2": "f16", "f4": "f32", "f8": "f64", "i1": "i8", "i2": "i16", "i4": "i32", "i8": "i64"}


def run_text(
    body: str,
    arguments: Mapping[str, Any],
    grid: tuple[int, ...] = (1,),
    absent: frozenset[str] = frozenset(),
    **options: Any,
) -> tuple[Outcome, dict[str, Array]]:
    """Runs ``body`` as a kernel with these arguments; the outcome and all arrays after it."""
    parameters = []
    for name, value in arguments.items():
        if isinstance(value, np.ndarray):
            kind = f"!tt.ptr<{TYPES[f'{value.dtype.kind}{value.dtype.itemsize}']}>"
        else:
            kind = "f32" if isinstance(value, float) else "i32"
        parameters.append(f"%{name}: {kind}")
    text = "module {\n  tt.func public @kernel(" + ", ".join(parameters) + ") {\n" + body + "\n  }\n}\n"
    module = read_module(text)
    launch = launch_of(text, grid, arguments, absent)
    memory = Memory(launch)
    outcome = evaluate(module, module.kernel, launch, memory, **options)
    after = {name: value.copy() for name, value in arguments.items() if isinstance(value, np.ndarray)}
    for storage, data in bytes_after(memory).items():
        before = after[launch.storages[storage].name]
        after[launch.storages[storage].name] = data.view(before.dtype).reshape(before.shape)
    return outcome, after


def binary(operation: str, x: Array, y: Array, result: str | None = None) -> Array:
    """One operation on two arrays; ``result``: its type, that of the operands by default."""
    n = len(x)
    kind = TYPES[f"{x.dtype.kind}{x.dtype.itemsize}"]
    tile = f"tensor<{n}x{kind}>"
    out = np.zeros(n, dtype=x.dtype)
    store = "%r"
    extra = ""
    if result == "i1":
        extra = f"%e = arith.extui %r : tensor<{n}xi1> to tensor<{n}xi8>"
        store, out = "%e", np.zeros(n, dtype=np.int8)
    target = TYPES[f"i{out.dtype.itemsize}"] if out.dtype.kind == "i" else kind
    body = f"""
    %i = tt.make_range {{end = {n} : i32, start = 0 : i32}} : tensor<{n}xi32>
    %a = tt.splat %x : !tt.ptr<{kind}> -> tensor<{n}x!tt.ptr<{kind}>>
    %b = tt.addptr %a, %i : tensor<{n}x!tt.ptr<{kind}>>, tensor<{n}xi32>
    %l = tt.load %b : tensor<{n}x!tt.ptr<{kind}>>
    %c = tt.splat %y : !tt.ptr<{kind}> -> tensor<{n}x!tt.ptr<{kind}>>
    %d = tt.addptr %c, %i : tensor<{n}x!tt.ptr<{kind}>>, tensor<{n}xi32>
    %m = tt.load %d : tensor<{n}x!tt.ptr<{kind}>>
    %r = {operation} %l, %m : {tile}
    {extra}
    %f = tt.splat %out : !tt.ptr<{target}> -> tensor<{n}x!tt.ptr<{target}>>
    %g = tt.addptr %f, %i : tensor<{n}x!tt.ptr<{target}>>, tensor<{n}xi32>
    tt.store %g, {store} : tensor<{n}x!tt.ptr<{target}>>
    tt.return
    """
    outcome, after = run_text(body, {"x": x, "y": y, "out": out})
    assert outcome.complete, outcome.reason
    return after["out"]

"""One launch under the oracle: needs a process in which Triton interprets (`TRITON_INTERPRET=1`)."""

from __future__ import annotations

import inspect
import math
from collections.abc import Collection, Mapping
from typing import Any

import numpy as np
import triton.language as tl
from triton.runtime import interpreter as interp
from triton.runtime.jit import mangle_type
from triton.tools.tensor_descriptor import TensorDescriptor

from kerncap.replay.worker.torch_backend import interpreter_builtins
from tests.integration.sanitizer.oracle import hooks, promises
from tests.integration.sanitizer.oracle.memory import Memory
from tests.integration.sanitizer.oracle.record import Recorder
from tests.integration.sanitizer.oracle.verdicts import Verdict, judge

_installed = False


def brute_force(
    kernel: Any,
    grid: Any,
    arguments: Mapping[str, Any],
    fresh: Collection[str] = (),
    bounds: str = "storage",
    huge: Mapping[str, tuple[int, ...]] | None = None,
) -> Verdict:
    """Run every program and lane. ``fresh`` names the tensors that nobody wrote before the launch,
    ``huge`` those that stand for larger ones, with their shapes.

    The tensors themselves stay as they are. Of an autotuned kernel the first configuration runs.
    """
    global _installed
    if not _installed:
        interpreter_builtins.install()
        hooks.install()
        promises.install()
        _installed = True
    run = _interpret(kernel, grid, arguments, fresh, huge or {}, poison=0)
    other = _interpret(kernel, grid, arguments, fresh, huge or {}, poison=1) if run.poisoned else None
    return judge(run, other, bounds)


def _unwrap(kernel: Any, arguments: Mapping[str, Any]) -> tuple[Any, dict[str, Any]]:
    """The interpreted function below `autotune` and `heuristics`, and the arguments that they add."""
    values = dict(arguments)
    while not isinstance(kernel, interp.InterpretedFunction):
        if hasattr(kernel, "configs"):
            values.update(kernel.configs[0].kwargs)
        elif hasattr(kernel, "values"):
            values.update({name: rule(values) for name, rule in kernel.values.items()})
        kernel = kernel.fn
    return kernel, values


def _interpret(
    kernel: Any,
    grid: Any,
    arguments: Mapping[str, Any],
    fresh: Collection[str],
    huge: Mapping[str, tuple[int, ...]],
    poison: int,
) -> Recorder:
    function, values = _unwrap(kernel, arguments)
    shape = tuple(grid(values) if callable(grid) else grid)
    shape = (*shape, *(1,) * (3 - len(shape)))
    body = function.rewrite()
    annotations = inspect.get_annotations(function.fn)
    constexprs = {name for name, kind in annotations.items() if kind in (tl.constexpr, "tl.constexpr")}
    known = inspect.signature(function.fn).parameters
    values = {name: value for name, value in values.items() if name in known}
    memory = Memory()
    run = Recorder(memory, poison, programs=shape[0] * shape[1] * shape[2])
    hooks.use(run)
    scope = interp._patch_lang(function.fn)
    promises.patch(scope)
    try:
        bound = inspect.getcallargs(function.fn, **values)
        converted = {
            name: value
            if name in constexprs
            else _converted(memory, name, value, name in fresh, huge.get(name))
            for name, value in bound.items()
        }
        interp.interpreter_builder.set_grid_dim(*shape)
        with np.errstate(all="ignore"):
            for z in range(shape[2]):
                for y in range(shape[1]):
                    for x in range(shape[0]):
                        interp.interpreter_builder.set_grid_idx(x, y, z)
                        run.start((x, y, z))
                        body(**converted)
                        promises.settle(run)
    finally:
        scope.restore()
        hooks.use(None)
    return run


def _converted(
    memory: Memory, name: str, value: Any, fresh: bool, shape: tuple[int, ...] | None = None
) -> Any:
    if isinstance(value, TensorDescriptor):
        strides: list[Any] = [interp._implicit_cvt(stride) for stride in value.strides]
        strides[-1] = tl.constexpr(1)
        return interp.interpreter_semantic.make_tensor_descriptor(
            base=_converted(memory, name, value.base, fresh),
            shape=[interp._implicit_cvt(extent) for extent in value.shape],
            strides=strides,
            block_shape=[tl.constexpr(extent) for extent in value.block_shape],
            padding_option=value.padding,
        )
    if hasattr(value, "untyped_storage"):
        kind = tl.str_to_ty(mangle_type(value), None)
        size = None if shape is None else math.prod(shape) * value.element_size()
        address = memory.add(name, value, fresh, size)
        return tl.tensor(interp.TensorHandle(np.array([address], np.uint64), kind), kind)
    if isinstance(value, tuple):
        return interp._tuple_create(
            value, [_converted(memory, f"{name}.{at}", one, fresh) for at, one in enumerate(value)]
        )
    if isinstance(value, float):
        kind = tl.float32
        return tl.tensor(interp.TensorHandle(np.array([value], np.float32), kind), kind)
    return interp._implicit_cvt(value)

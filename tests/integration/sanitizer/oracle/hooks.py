"""Triton's interpreter with its memory operations replaced by those of `memory` and `record`.

Written for the builder of Triton 3.9's interpreter; what an older one lacks is left alone.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Callable
from typing import Any

import numpy as np
import triton.language as tl
from triton.runtime import interpreter as interp

from tests.integration.sanitizer.oracle.record import Recorder, where

_recorder: Recorder | None = None
_Handle = interp.TensorHandle
_Builder = interp.InterpreterBuilder


def use(recorder: Recorder | None) -> None:
    """All interpreted kernels report to ``recorder`` from now on."""
    global _recorder
    _recorder = recorder


def recorder() -> Recorder:
    assert _recorder is not None
    return _recorder


# --- memory ----------------------------------------------------------------------------------------


def _poison(dtype: Any, np_dtype: np.dtype[Any]) -> Any:
    """Two values far apart, so that a minimum, a maximum or a sum shows that one of them was in it."""
    second = bool(recorder().poison)
    if np_dtype == np.bool_:
        return second
    if np_dtype.kind == "f":
        return np_dtype.type(-5000.0 if second else 3000.0)
    if dtype in (tl.bfloat16,):
        return np.uint16(0xC59C if second else 0x453B)
    if dtype.is_floating():
        return np.uint8(0xF0 if second else 0x68)
    bits = np_dtype.itemsize * 8
    if np_dtype.kind == "u":
        return np_dtype.type((1 << bits) // 3 if second else (1 << bits) - 7)
    return np_dtype.type(-(1 << (bits - 2)) - 5 if second else (1 << (bits - 2)) + 3)


def _masked_load(
    _self: Any,
    ptrs: Any,
    mask: Any,
    other: Any,
    cache_policy: Any,
    is_volatile: Any,
    synchronising: str | None = None,
) -> Any:
    dtype = ptrs.get_element_ty()
    np_dtype = interp._get_np_dtype(dtype)
    run = recorder()
    at, flat = run.access(
        "load",
        ptrs.data,
        mask.data,
        np_dtype.itemsize,
        overflowed=ptrs.attr.get("wrapped"),
        synchronising=synchronising,
    )
    values = run.memory.load(at, flat, np_dtype)
    if not flat.all():
        if other is None and _other_given:
            filler = np.zeros(flat.shape, np_dtype)
        elif other is None:
            run.poisoned = True
            filler = np.full(flat.shape, _poison(dtype, np_dtype), np_dtype)
        else:
            filler = np.broadcast_to(other.data, ptrs.data.shape).ravel().astype(np_dtype)
        values = np.where(flat, values, filler)
    return _Handle(values.reshape(ptrs.data.shape), dtype)


_other_given = False


def _noting_other(original: Callable[..., Any]) -> Callable[..., Any]:
    """The interpreter takes a scalar ``other`` of zero for none: its truth value is that of the number."""

    def load(self: Any, ptr: Any, mask: Any, other: Any, *rest: Any) -> Any:
        global _other_given
        _other_given = other is not None
        return original(self, ptr, mask, other, *rest)

    return load


def _load(self: Any, ptr: Any, cache: Any, volatile: Any) -> Any:
    mask = _Handle(np.ones_like(ptr.data, dtype=bool), tl.int1)
    return _masked_load(self, ptr, mask, None, cache, volatile)


def _masked_store(
    _self: Any, ptrs: Any, value: Any, mask: Any, cache_policy: Any, synchronising: str | None = None
) -> None:
    np_dtype = interp._get_np_dtype(ptrs.get_element_ty())
    values = np.ascontiguousarray(np.broadcast_to(value.data, ptrs.data.shape)).astype(np_dtype)
    run = recorder()
    at, flat = run.access(
        "store", ptrs.data, mask.data, np_dtype.itemsize, values, ptrs.attr.get("wrapped"), synchronising
    )
    run.memory.save(at, flat, values.ravel())


def _store(self: Any, ptr: Any, value: Any, cache: Any) -> None:
    _masked_store(self, ptr, value, _Handle(np.ones_like(ptr.data, dtype=bool), tl.int1), cache)


_SEMANTICS = {
    interp._ir.MEM_SEMANTIC.ACQUIRE: "acquire",
    interp._ir.MEM_SEMANTIC.RELEASE: "release",
    interp._ir.MEM_SEMANTIC.RELAXED: "relaxed",
    interp._ir.MEM_SEMANTIC.ACQUIRE_RELEASE: "acq_rel",
}

_OPERATIONS: dict[Any, Callable[[Any, Any], Any]] = {
    interp._ir.ATOMIC_OP.ADD: np.add,
    interp._ir.ATOMIC_OP.FADD: np.add,
    interp._ir.ATOMIC_OP.MIN: np.minimum,
    interp._ir.ATOMIC_OP.MAX: np.maximum,
    interp._ir.ATOMIC_OP.AND: np.bitwise_and,
    interp._ir.ATOMIC_OP.OR: np.bitwise_or,
    interp._ir.ATOMIC_OP.XOR: np.bitwise_xor,
    interp._ir.ATOMIC_OP.XCHG: lambda _, b: b,
}
_UNSIGNED = {interp._ir.ATOMIC_OP.UMIN: np.minimum, interp._ir.ATOMIC_OP.UMAX: np.maximum}


def _first(a: Any, _: Any) -> Any:
    return a


def _turns(addresses: Any, mask: Any) -> list[Any]:
    """Masks of lanes that may go at once: all of them, or one after the other where some meet."""
    live = np.flatnonzero(mask)
    if np.unique(addresses[live]).size == live.size:
        return [mask]
    turns = []
    for element in live:
        only = np.zeros(mask.shape, np.bool_)
        only[element] = True
        turns.append(only)
    return turns


def _atomic_rmw(_self: Any, operation: Any, ptr: Any, value: Any, mask: Any, sem: Any, _scope: Any) -> Any:
    np_dtype = value.data.dtype
    run = recorder()
    at, flat = run.access(
        "atomic", ptr.data, mask.data, np_dtype.itemsize, None, ptr.attr.get("wrapped"), _SEMANTICS[sem]
    )
    operands = np.ascontiguousarray(np.broadcast_to(value.data, ptr.data.shape)).ravel()
    before = np.zeros(flat.shape, np_dtype)
    unsigned = operation in _UNSIGNED
    combine = _UNSIGNED[operation] if unsigned else _OPERATIONS[operation]
    view = np.dtype(f"u{np_dtype.itemsize}") if unsigned else np_dtype
    if operation == interp._ir.ATOMIC_OP.FADD and value.dtype.scalar == tl.bfloat16:
        combine = _first  # its sum is of no interest to any verdict
    for lanes in _turns(ptr.data.ravel(), flat):
        old = run.memory.load(at, lanes, np_dtype)
        before[lanes] = old[lanes]
        new = combine(old.view(view), operands.view(view)).astype(view, copy=False)
        run.memory.save(at, lanes, np.ascontiguousarray(new).view(np_dtype))
    return _Handle(before.reshape(ptr.data.shape), value.dtype.scalar)


def _atomic_cas(_self: Any, ptr: Any, compare: Any, value: Any, sem: Any, _scope: Any) -> Any:
    np_dtype = compare.data.dtype
    run = recorder()
    everywhere = np.ones(ptr.data.shape, np.bool_)
    at, flat = run.access(
        "atomic", ptr.data, everywhere, np_dtype.itemsize, None, ptr.attr.get("wrapped"), _SEMANTICS[sem]
    )
    wanted = np.broadcast_to(compare.data, ptr.data.shape).ravel()
    new = np.broadcast_to(value.data, ptr.data.shape).ravel().astype(np_dtype)
    before = np.zeros(flat.shape, np_dtype)
    for element in range(flat.size):
        only = np.zeros(flat.shape, np.bool_)
        only[element] = True
        before[element] = run.memory.load(at, only, np_dtype)[element]
        if before[element] == wanted[element]:
            run.memory.save(at, only, new)
    return _Handle(before.reshape(ptr.data.shape), compare.dtype.scalar)


def _atomic_load(self: Any, ptr: Any, mask: Any, sem: Any, _scope: Any) -> Any:
    return _masked_load(self, ptr, mask, None, None, True, _SEMANTICS[sem])


def _atomic_store(self: Any, ptr: Any, value: Any, mask: Any, sem: Any, _scope: Any) -> Any:
    return _masked_store(self, ptr, value, mask, None, _SEMANTICS[sem])


# --- descriptors -----------------------------------------------------------------------------------


def _validate(self: Any) -> None:
    """The contract of a descriptor; a broken one is noted, and the kernel goes on."""
    run = recorder()
    base = np.asarray(self.base.data, np.uint64)
    region = int(run.memory.locate(base.ravel(), 1).region[0])
    argument = run.memory.regions[region].name if region >= 0 else None
    itemsize = self.base.dtype.element_ty.primitive_bitwidth // 8
    kept = int(base.item()) % 16 == 0
    kept &= all(int(stride.data.item()) * itemsize % 16 == 0 for stride in self.strides[:-1])
    kept &= int(self.strides[-1].data.item()) == 1
    if not kept:
        run.breaks("descriptor", *where(), argument)


def _pointers(self: Any, offsets: list[Any]) -> tuple[Any, Any]:
    itemsize = np.int64(self.base.dtype.element_ty.primitive_bitwidth // 8)
    pointers = np.broadcast_to(self.base.data, self.block_shape).astype(np.int64)
    mask = np.ones(self.block_shape, np.bool_)
    for axis, extent in enumerate(self.block_shape):
        along = [1] * len(self.block_shape)
        along[axis] = extent
        index = (offsets[axis].data.astype(np.int64) + np.arange(extent)).reshape(along)
        pointers = pointers + itemsize * index * self.strides[axis].data.astype(np.int64)
        mask = mask & (index >= 0) & (index < self.shape[axis].data)
    return _Handle(pointers.astype(np.uint64), self.base.dtype.scalar), _Handle(mask, tl.int1)


# --- wrap-around of integers, on its way to an address --------------------------------------------

_SHAPED = ("broadcast", "expand_dims", "splat", "unsplat", "reshape", "trans")
_PASSED = ("addptr", "int_cast", "bitcast", "int_to_ptr", "ptr_to_int", "sdiv", "udiv", "minsi", "maxsi")
_CHECKED: dict[str, Callable[[Any, Any], Any]] = {"add": np.add, "sub": np.subtract, "mul": np.multiply}


def _wrapped_of(handles: Any, shape: tuple[int, ...]) -> Any:
    marks = [one.attr["wrapped"] for one in handles if isinstance(one, _Handle) and "wrapped" in one.attr]
    if not marks:
        return None
    result = np.zeros(shape, np.bool_)
    for mark in marks:
        result = result | mark
    return result


def _mark(handle: Any, wrapped: Any) -> Any:
    if wrapped is not None and wrapped.any():
        handle.attr["wrapped"] = wrapped
    return handle


def _tracked_arithmetic(name: str, original: Callable[..., Any]) -> Callable[..., Any]:
    exact = _CHECKED.get(name)

    def tracked(self: Any, *arguments: Any) -> Any:
        result = original(self, *arguments)
        wrapped = _wrapped_of(arguments, result.data.shape)
        if exact is not None and result.data.dtype.kind == "i" and result.data.dtype.itemsize < 8:
            a, b = (one.data.astype(np.int64) for one in arguments[:2])
            here = exact(a, b) != result.data
            wrapped = here if wrapped is None else wrapped | here
        if name == "int_cast" and result.data.dtype.itemsize < arguments[0].data.dtype.itemsize:
            here = arguments[0].data.astype(np.int64) != result.data.astype(np.int64)
            wrapped = here if wrapped is None else wrapped | here
        return _mark(result, wrapped)

    return tracked


def _tracked_select(original: Callable[..., Any]) -> Callable[..., Any]:
    def tracked(self: Any, condition: Any, left: Any, right: Any) -> Any:
        result = original(self, condition, left, right)
        marks = [one.attr.get("wrapped", False) for one in (left, right)]
        if any(mark is not False for mark in marks):
            _mark(result, np.where(condition.data, *marks))
        return result

    return tracked


def _tracked_shape(original: Callable[..., Any], position: int) -> Callable[..., Any]:
    def tracked(self: Any, *arguments: Any) -> Any:
        result = original(self, *arguments)
        source = arguments[position]
        if isinstance(source, _Handle) and "wrapped" in source.attr:
            marks = list(arguments)
            marks[position] = _Handle(source.attr["wrapped"], tl.int1)
            shape = marks[0] if position == 1 else None
            if shape is not None:  # splat(type, value)
                result.attr["wrapped"] = np.broadcast_to(
                    source.attr["wrapped"].ravel()[:1], result.data.shape
                )
            else:
                _mark(result, original(self, *marks).data)
        return result

    return tracked


def install() -> None:
    """Replace the interpreter's memory operations, once per process."""
    for name, replacement in {
        "create_load": _load,
        "create_store": _store,
        "create_masked_load": _masked_load,
        "create_masked_store": _masked_store,
        "create_atomic_rmw": _atomic_rmw,
        "create_atomic_cas": _atomic_cas,
        "create_atomic_load": _atomic_load,
        "create_atomic_store": _atomic_store,
    }.items():
        setattr(_Builder, name, replacement)
    for name in (*_CHECKED, *_PASSED):
        setattr(_Builder, f"create_{name}", _tracked_arithmetic(name, getattr(_Builder, f"create_{name}")))
    _Builder.create_select = _tracked_select(_Builder.create_select)
    for name in _SHAPED:
        position = 1 if name == "splat" else 0
        original = getattr(_Builder, f"create_{name}", None)
        if original is not None:
            setattr(_Builder, f"create_{name}", _tracked_shape(original, position))
    semantic = type(interp.interpreter_semantic)
    semantic.load = _noting_other(semantic.load)
    interp.TensorDescHandle.validate = _validate
    interp.TensorDescHandle.materialize_pointers = _pointers
    # Overflow is looked for above; the interpreter's own assertions about it only cost time.
    interp.interpreter_builder.options = dataclasses.replace(
        interp.interpreter_builder.options, sanitize_overflow=False
    )

"""Casts between integers and floats of all widths, as numpy functions (see `ops_arith`)."""

from __future__ import annotations

from typing import Any

import numpy as np

from kerncap.sanitizer.concrete import formats
from kerncap.sanitizer.concrete.ops_arith import ELEMENTWISE, Compute, Make, unsigned
from kerncap.sanitizer.concrete.values import (
    Array,
    Unsupported,
    element_of,
    from_bits,
    numpy_type,
    to_bits,
    width_bytes,
)
from kerncap.sanitizer.ttir.ir import FloatType, IntType, Operation, PointerType, Type


def _kinds(operation: Operation) -> tuple[Type, Type]:
    source, target = element_of(operation.operands[0].type), element_of(operation.results[0].type)
    numpy_type(source), numpy_type(target)
    return source, target


def _extend_signed(operation: Operation) -> Compute:
    source, target = _kinds(operation)
    kind = numpy_type(target)
    if numpy_type(source) == np.bool_:
        return lambda x: np.negative(x.astype(kind))
    return lambda x: x.astype(kind)


def _extend_unsigned(operation: Operation) -> Compute:
    _, target = _kinds(operation)
    kind = numpy_type(target)
    return lambda x: unsigned(x).astype(kind)


def _truncate(operation: Operation) -> Compute:
    _, target = _kinds(operation)
    kind = numpy_type(target)
    if kind == np.bool_:
        return lambda x: (x & x.dtype.type(1)) != 0
    return lambda x: x.astype(kind)


def _index_cast(operation: Operation) -> Compute:
    source, target = _kinds(operation)
    wider = width_bytes(target) > width_bytes(source)
    return _extend_signed(operation) if wider else _truncate(operation)


def _float_to_float(operation: Operation) -> Compute:
    source, target = _kinds(operation)
    if not isinstance(target, FloatType) or not isinstance(source, FloatType):
        raise Unsupported(f"{operation.name} to {target}")
    rounding: formats.Rounding = "rtz" if operation.attributes.get("rounding") in ("rtz", 0) else "rtne"
    if "rounding" not in operation.attributes or target.width > source.width:
        rounding = "rtne"
    name = target.name
    return lambda x: formats.rounded(x, name, rounding)


def _integer_to_float(is_signed: bool) -> Make:
    def make(operation: Operation) -> Compute:
        source, target = _kinds(operation)
        assert isinstance(target, FloatType)
        name, boolean = target.name, numpy_type(source) == np.bool_

        def convert(x: Array) -> Array:
            if boolean:
                x = np.negative(x.astype(np.int8)) if is_signed else x.astype(np.int8)
            elif not is_signed:
                x = unsigned(x)
            if name in formats.NATIVE:
                return x.astype(formats.NATIVE[name])
            return formats.rounded(x.astype(np.float32), name)

        return convert

    return make


def _float_to_integer(is_signed: bool) -> Make:
    """Towards zero; out of range saturates and NaN gives 0, as the GPUs' conversions do.

    To 8 bits they go through 16, which saturate, and drop the upper half.
    """

    def make(operation: Operation) -> Compute:
        _, target = _kinds(operation)
        kind = numpy_type(target)
        if kind == np.bool_:
            return lambda x: (np.trunc(x) != 0) & ~np.isnan(x)
        store = np.dtype(f"{'i' if is_signed else 'u'}{max(2, kind.itemsize)}")
        limits = np.iinfo(store)
        below, above = float(limits.min), float(limits.max) + (1.0 if kind.itemsize < 8 else 0.0)
        narrowed = np.dtype(f"{store.kind}{kind.itemsize}")

        def convert(x: Array) -> Array:
            wide = np.trunc(x.astype(np.float64))
            high, low = wide >= above, wide < below
            odd = high | low | np.isnan(wide)
            if not odd.any():
                return wide.astype(store).astype(narrowed, copy=False).view(kind)
            result: Array = np.where(odd, 0.0, wide).astype(store)
            result = np.where(high, store.type(limits.max), result)
            result = np.where(low, store.type(limits.min), result)
            return result.astype(narrowed, copy=False).view(kind)

        return convert

    return make


def _bitcast(operation: Operation) -> Compute:
    source, target = _kinds(operation)
    if isinstance(source, PointerType) or isinstance(target, PointerType):
        raise Unsupported("a bit cast between pointers and numbers")
    if source == target:
        return lambda x: x
    if width_bytes(source) != width_bytes(target) or 1 in (_bits(source), _bits(target)):
        raise Unsupported(f"a bit cast from {source} to {target}")
    return lambda x: from_bits(to_bits(x, source), target)


def _bits(kind: Type) -> int:
    return kind.width if isinstance(kind, IntType | FloatType) else 64


_CASTS: dict[str, Any] = {
    "arith.extsi": _extend_signed,
    "arith.extui": _extend_unsigned,
    "arith.trunci": _truncate,
    "arith.index_cast": _index_cast,
    "arith.extf": _float_to_float,
    "arith.truncf": _float_to_float,
    "arith.convertf": _float_to_float,
    "tt.fp_to_fp": _float_to_float,
    "arith.sitofp": _integer_to_float(True),
    "arith.uitofp": _integer_to_float(False),
    "arith.fptosi": _float_to_integer(True),
    "arith.fptoui": _float_to_integer(False),
    "arith.bitcast": _bitcast,
    "tt.bitcast": _bitcast,
}
ELEMENTWISE.update(_CASTS)

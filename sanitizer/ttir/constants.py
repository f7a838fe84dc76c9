"""Numbers as TTIR writes them: decimals, bits in hexadecimal, ``dense<…>`` in its three forms."""

from __future__ import annotations

import math
import re
import struct
from typing import Any

from kerncap.sanitizer.ttir.ir import Dense, FloatType, IntType, TensorType, Type
from kerncap.sanitizer.ttir.tokens import MAX_LITERAL

# name: (exponent bits, mantissa bits, bias, how the top of the range is used)
# "ieee": infinities and NaNs; "fn": finite, NaN is all ones; "fnuz": the only NaN is minus zero;
# "finite": no NaN at all. Source: APFloat's semantics, as MLIR's builtin types name them.
_LAYOUTS = {
    "f16": (5, 10, 15, "ieee"), "bf16": (8, 7, 127, "ieee"), "f32": (8, 23, 127, "ieee"),
    "f64": (11, 52, 1023, "ieee"),
    "f8E5M2": (5, 2, 15, "ieee"), "f8E4M3": (4, 3, 7, "ieee"), "f8E3M4": (3, 4, 3, "ieee"),
    "f8E4M3FN": (4, 3, 7, "fn"), "f8E4M3FNUZ": (4, 3, 8, "fnuz"), "f8E5M2FNUZ": (5, 2, 16, "fnuz"),
    "f8E4M3B11FNUZ": (4, 3, 11, "fnuz"),
    "f6E2M3FN": (2, 3, 1, "finite"), "f6E3M2FN": (3, 2, 3, "finite"), "f4E2M1FN": (2, 1, 1, "finite"),
}  # fmt: skip

_ELEMENT = re.compile(r"-?0x[0-9A-Fa-f]+|-?\d+(?:\.\d*)?(?:[eE][+\-]?\d+)?|true|false|[\[\]]|,|\S")
_MAX_DIGITS = 400  # more than a double or any integer of a kernel has


class ConstantError(ValueError):
    """A number that does not fit its type, or too many of them."""


def float_from_bits(bits: int, type_: FloatType) -> float:
    """The value that a bit pattern stands for."""
    if type_.name == "f64":
        return float(struct.unpack("<d", struct.pack("<Q", bits & (1 << 64) - 1))[0])
    if type_.name == "f8E8M0FNU":
        bits &= 0xFF
        return math.nan if bits == 0xFF else math.ldexp(1.0, bits - 127)
    layout = _LAYOUTS.get("f32" if type_.name == "tf32" else type_.name)
    if layout is None:
        raise ConstantError(f"bits of type {type_.name} are not understood")
    exponent_bits, mantissa_bits, bias, top = layout
    sign = -1.0 if bits >> (exponent_bits + mantissa_bits) & 1 else 1.0
    exponent = bits >> mantissa_bits & (1 << exponent_bits) - 1
    mantissa = bits & (1 << mantissa_bits) - 1
    highest = (1 << exponent_bits) - 1
    if top == "ieee" and exponent == highest:
        return math.nan if mantissa else sign * math.inf
    if top == "fn" and exponent == highest and mantissa == (1 << mantissa_bits) - 1:
        return math.nan
    if top == "fnuz" and sign < 0 and exponent == 0 and mantissa == 0:
        return math.nan
    if exponent == 0:
        return sign * math.ldexp(mantissa, 1 - bias - mantissa_bits)
    return sign * math.ldexp(mantissa + (1 << mantissa_bits), exponent - bias - mantissa_bits)


def number(token: str, type_: Type | None) -> Any:
    """A literal of a scalar type: int, float or bool. Integers are signed, i1 is a bool.

    Raises ConstantError where the token is not a number of that type.
    """
    if token == "true" or token == "false":
        return token == "true"
    if len(token) > _MAX_DIGITS:
        raise ConstantError(f"a number of {len(token)} digits")
    try:
        if isinstance(type_, FloatType):
            if "0x" in token:
                return float_from_bits(int(token, 16), type_)
            return float(token)
        if "0x" in token:
            value = int(token, 16)
        elif "." in token or "e" in token or "E" in token:
            return float(token)
        else:
            value = int(token)
    except ValueError as error:
        raise ConstantError(f"{token!r} is not a number") from error
    return _signed(value, type_)


def _signed(value: int, type_: Type | None) -> int | bool:
    if not isinstance(type_, IntType):
        return value
    if type_.width == 1:
        return bool(value & 1)
    if not -(1 << type_.width - 1) <= value < 1 << type_.width:
        raise ConstantError(f"{value} does not fit i{type_.width}")
    return value - (1 << type_.width) if value >= 1 << (type_.width - 1) else value


def dense(token: str, type_: Type) -> Dense:
    """``dense<…>`` with its type behind it; raises ConstantError."""
    body = token[len("dense<") : -1].strip()
    element = type_.element if isinstance(type_, TensorType) else type_
    count = 1
    if isinstance(type_, TensorType):
        for size in type_.shape:
            count *= size
    if not body:
        if count:
            raise ConstantError("dense<> has no elements, but its type has")
        return Dense((), type_)
    if body.startswith('"'):
        return Dense(_blob(body, element, count), type_)
    if body[0] != "[":
        return Dense((number(body, element),), type_)
    values = _nested(body, element, count)
    if len(values) != count:
        raise ConstantError(f"dense<…> has {len(values)} elements, but its type has {count}")
    return Dense(values, type_)


def _nested(body: str, element: Type, count: int) -> tuple[Any, ...]:
    values: list[Any] = []
    depth = 0
    for match in _ELEMENT.finditer(body):
        token = match.group()
        if token == "[":
            depth += 1
        elif token == "]":
            depth -= 1
            if depth < 0:
                break
        elif token != ",":
            values.append(number(token, element))
            if len(values) > count or count > MAX_LITERAL:
                raise ConstantError(
                    f"dense<…> has more elements than the {min(count, MAX_LITERAL)} that are expected"
                )
    if depth:
        raise ConstantError("brackets of dense<…> do not match")
    return tuple(values)


def _blob(body: str, element: Type, count: int) -> tuple[Any, ...]:
    """Raw little-endian elements in hexadecimal, or one element for a splat; i1 is one byte each."""
    text = body.strip('"')
    if not text.startswith("0x"):
        raise ConstantError("a dense string that is not hexadecimal")
    try:
        raw = bytes.fromhex(text[2:])
    except ValueError as error:
        raise ConstantError("a dense string with an odd number of digits") from error
    if not isinstance(element, (IntType, FloatType)):
        raise ConstantError("a dense string of elements that are not numbers")
    size = max(1, (element.width + 7) // 8)
    if len(raw) not in (size, size * count):
        raise ConstantError(f"dense<…> has {len(raw)} bytes, but its type has {count} elements of {size}")
    values: list[Any] = []
    for start in range(0, len(raw), size):
        bits = int.from_bytes(raw[start : start + size], "little")
        values.append(
            float_from_bits(bits, element) if isinstance(element, FloatType) else _signed(bits, element)
        )
    return tuple(values)

"""What an operation's text says: its buffers, numbers, flags."""

from __future__ import annotations

from kerncap.sanitizer.shared.views import memory_type
from kerncap.sanitizer.ttir.ir import IntType, Operation, Value


def memories_of(operation: Operation) -> list[Value]:
    return [one for one in operation.operands if memory_type(one.type) is not None]


def numbers_of(operation: Operation) -> list[int]:
    """Integers that the custom assembly has between operands: offsets, counts."""
    words = operation.attributes.get("words", ())
    return [int(word) for word in words if str(word).lstrip("-").isdecimal()]


def flags_of(operation: Operation) -> list[Value]:
    return [one for one in operation.operands if one.type == IntType(1)]


def has(operation: Operation, flag: str) -> bool:
    """A flag without a value is there; false and 0 are not."""
    value = operation.attributes.get(flag, False)
    return value is None or bool(value)


def short(operation: Operation) -> str:
    return operation.name.partition(".")[2]

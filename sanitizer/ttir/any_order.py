"""Operations whose elements the compiler may put in any order."""

from __future__ import annotations

from kerncap.sanitizer.ttir.ir import Operation, TensorType, walk


def is_in_any_order(operation: Operation) -> bool:
    """Whether the compiler may choose the order of its elements, and something depends on that order."""
    chosen = operation.name == "tt.cat" or "allow_reorder" in operation.attributes.get("words", ())
    return chosen and not all(
        user.name == "tt.reduce" and len(user.operands) == 1 and _rank(user) == 1 for user in users(operation)
    )


def _rank(reduction: Operation) -> int:
    kind = reduction.operands[0].type
    return len(kind.shape) if isinstance(kind, TensorType) else 0


def users(operation: Operation) -> list[Operation]:
    """Of an operation with one result."""
    [result] = operation.results
    assert operation.parent is not None
    region = operation.parent.parent
    while region is not None and isinstance(region.parent, Operation) and region.parent.parent is not None:
        region = region.parent.parent.parent
    assert region is not None
    return [
        one
        for one in walk(region)
        if result in one.operands or any(result in given for _, given in one.successors)
    ]

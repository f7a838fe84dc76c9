"""Spin loops and releases in the TTIR: who waits for what value, who sets it.

Only shapes are recognised here. `races.ordering` decides what they order, and whether they do it right.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

from kerncap.sanitizer.ttir.ir import Block, Dense, Operation, Value

_FLIPPED = {
    "slt": "sgt",
    "sgt": "slt",
    "sle": "sge",
    "sge": "sle",
    "ult": "ugt",
    "ugt": "ult",
    "ule": "uge",
    "uge": "ule",
}


@dataclass(frozen=True)
class Poll:
    """One atomic (or volatile load) that a wait goes by."""

    operation: Operation
    pointer: Value


@dataclass(frozen=True)
class Wait:
    """``while poll() <predicate> bound: …``: it is left once the comparison fails."""

    loop: Operation
    polls: tuple[Poll, ...]
    predicate: str  # of going on: "eq", "ne", "slt", …
    bound: Value


def spin_loops(operations: Iterator[Operation]) -> Iterator[tuple[Operation, Wait | None]]:
    """Each loop (and operation) that polls memory; None where what it waits for is not understood."""
    for operation in operations:
        if operation.name == "tt.atomic_poll":  # waits by itself until the word holds what it expects
            poll = Poll(operation, operation.operands[0])
            yield operation, Wait(operation, (poll,), "ne", operation.operands[1])
        if operation.name != "scf.while" or not any(_polls_in(operation)):
            continue
        yield operation, _wait_of(operation)


def _polls_in(loop: Operation) -> Iterator[Operation]:
    for region in loop.regions:
        for block in region.blocks:
            for operation in block.operations:
                if is_synchronisation(operation):
                    yield operation


_ATOMICS = ("tt.atomic_rmw", "tt.atomic_cas", "tt.atomic_load", "tt.atomic_store", "tt.atomic_poll")


def is_synchronisation(operation: Operation) -> bool:
    """An atomic, or a volatile load."""
    if operation.name in _ATOMICS:
        return True
    return operation.name == "tt.load" and bool(operation.attributes.get("isVolatile"))


def _wait_of(loop: Operation) -> Wait | None:
    before = loop.regions[0].entry
    last = before.operations[-1]
    if last.name != "scf.condition":
        return None
    compare = last.operands[0].owner
    if not isinstance(compare, Operation) or compare.name != "arith.cmpi":
        return None
    predicate = str(compare.attributes["predicate"])
    left, right = compare.operands
    for polled, bound, oriented in (
        (left, right, predicate),
        (right, left, _FLIPPED.get(predicate, predicate)),
    ):
        polls = _polls_behind(polled, loop)
        if polls:
            return Wait(loop, polls, oriented, bound)
    return None


def _polls_behind(value: Value, loop: Operation) -> tuple[Poll, ...]:
    """The polls whose result the value is: in the loop's condition, or before the loop and in its body."""
    owner = value.owner
    if isinstance(owner, Operation):
        return (Poll(owner, pointer_of(owner)),) if is_synchronisation(owner) else ()
    if not isinstance(owner, Block) or owner is not loop.regions[0].entry:
        return ()
    after = loop.regions[1].entry.operations[-1]
    if value.index >= len(loop.operands) or value.index >= len(after.operands):
        return ()
    found: list[Poll] = []
    for source in (loop.operands[value.index], after.operands[value.index]):
        if not isinstance(source.owner, Operation) or not is_synchronisation(source.owner):
            return ()
        found.append(Poll(source.owner, pointer_of(source.owner)))
    return tuple(found)


def pointer_of(operation: Operation) -> Value:
    if operation.name in _ATOMICS:
        return operation.operands[0]
    pointer = operation.segment("ptr")
    assert pointer is not None
    return pointer


def constant_of(value: Value | None) -> int | None:
    """The integer that a value is by its text."""
    owner = value.owner if value is not None else None
    if isinstance(owner, Operation) and owner.name in (
        "tt.splat",
        "arith.extsi",
        "arith.extui",
        "arith.trunci",
    ):
        return constant_of(owner.operands[0])
    if not isinstance(owner, Operation) or owner.name != "arith.constant":
        return None
    number = owner.attributes.get("value")
    if isinstance(number, Dense):
        number = number.values[0] if len(set(number.values)) == 1 else None
    return int(number) if isinstance(number, int | bool) else None


def cas_values(operation: Operation) -> tuple[int | None, int | None]:
    """``(expected, new)`` of a compare-and-swap, where constant."""
    return constant_of(operation.operands[1]), constant_of(operation.operands[2])


def rmw_value(operation: Operation) -> int | None:
    if "operand_segments" in operation.attributes:
        return constant_of(operation.segment("value"))
    return constant_of(operation.operands[1]) if operation.name == "tt.atomic_store" else None


def is_everywhere(operation: Operation) -> bool:
    """Not masked, or by a constant true."""
    if "operand_segments" not in operation.attributes:
        return operation.name in ("tt.atomic_cas", "tt.atomic_poll") or len(operation.operands) <= 2
    mask = operation.segment("mask")
    return mask is None or constant_of(mask) == 1


def semantics_of(operation: Operation) -> str:
    return str(operation.attributes.get("sem", "acq_rel"))


def leaves_program(operation: Operation) -> bool:
    """Whether its order is seen by other programs: scope "cta" is not."""
    return str(operation.attributes.get("scope", "gpu")) != "cta"

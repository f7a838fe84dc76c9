"""Which of a launch's memory only goes into its results, and with which numbers that is compared.

What no address, mask, condition, trip count or divisor depends on can hold any values without harm.
"""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence
from dataclasses import dataclass

from kerncap.sanitizer.concrete.dataflow import (
    ANYWHERE,
    ATOMICS,
    HARMLESS,
    LOADS,
    MEMORY,
    STORES,
    Dataflow,
    is_descriptor,
    pointer_operand,
    points,
)
from kerncap.sanitizer.concrete.needed_operations import steering
from kerncap.sanitizer.launch import Launch, ScalarArgument
from kerncap.sanitizer.ttir import read_module
from kerncap.sanitizer.ttir.ir import Dense, Operation, Value

_COMPARISONS = frozenset(
    f"arith.{name}"
    for name in (
        *("cmpi", "cmpf", "maxsi", "minsi", "maxui", "minui"),
        *("maximumf", "minimumf", "maxnumf", "minnumf"),
    )
) | {"tt.clampf"}
_SAME_NUMBER = frozenset((
    *("tt.splat", "tt.broadcast", "tt.expand_dims", "tt.reshape", "arith.extsi", "arith.extui"),
    *("arith.sitofp", "arith.uitofp", "arith.extf", "arith.truncf", "arith.trunci"),
))  # fmt: skip
_REDUCES = frozenset(("tt.descriptor_reduce",))  # a store that is an atomic for each element
_MEMORY_READS = LOADS | ATOMICS
_MOST_NUMBERS = 16


@dataclass(frozen=True)
class Steers:
    """``storages``: those that steer; None if not known. ``numbers``: what others are compared with.

    ``waits``: whether a condition of a ``while`` may rest on memory. ``free``: integers that are passed and
    steer nothing, by name. ``added``, ``stored``: storages changed by atomics, and by plain stores, at places
    that memory decides; ANYWHERE among them if it may be any.
    """

    storages: frozenset[int] | None
    numbers: tuple[float, ...]
    waits: bool
    free: frozenset[str]
    added: frozenset[int] = frozenset()
    stored: frozenset[int] = frozenset()


def steers(launch: Launch) -> Steers:
    """Reads the launch's TTIR; raises FormatError for one that can't be read."""
    module = read_module(launch.ttir)
    flow = Dataflow(module, module.kernel, launch)
    found = steering(flow)
    roots = [
        flow.roots(pointer_operand(one))
        for one in found.evaluated
        if one.name in LOADS or one.name in ATOMICS
    ]
    storages: frozenset[int] | None = frozenset().union(*roots)
    if ANYWHERE in frozenset().union(*roots) or any(map(_unknown, flow.operations)):
        storages = None
    numbers = (
        number
        for one in flow.operations
        if one.name in _COMPARISONS and one not in found.evaluated
        for value in one.operands
        for number in numbers_of(flow, launch, value)
    )
    distinct = tuple(dict.fromkeys(number for number in numbers if math.isfinite(number)))
    free = frozenset(
        argument.name
        for value, argument in zip(flow.kernel.arguments, launch.arguments, strict=True)
        if isinstance(argument, ScalarArgument) and type(argument.value) is int and value not in found.wanted
    )
    waits = any(one.name == "scf.while" for one in flow.operations)
    added, stored = (_scattered(flow, names) for names in (ATOMICS | _REDUCES, STORES - _REDUCES))
    return Steers(storages, distinct[:_MOST_NUMBERS], waits, free, added, stored)


def _scattered(flow: Dataflow, names: frozenset[str]) -> frozenset[int]:
    """The storages that operations of these names reach at places that depend on what was loaded."""
    found: frozenset[int] = frozenset()
    for one in flow.operations:
        if one.name in names:
            # A descriptor's coordinates are operands of their own; the stored tile comes last.
            places = one.operands[:-1] if is_descriptor(one.name) else [pointer_operand(one)]
            if is_from_memory(flow, places):
                found |= flow.roots(pointer_operand(one))
    return found


def is_from_memory(flow: Dataflow, values: Sequence[Value]) -> bool:
    return any(isinstance(one, Operation) and one.name in _MEMORY_READS for one in _leaves(flow, values))


def is_of_launch(flow: Dataflow, values: Sequence[Value]) -> bool:
    """Whether it is one number for the whole launch, made of what is passed and of the grid."""
    leaves = list(_leaves(flow, values))
    names = [one.name if isinstance(one, Operation) else "" for one in leaves]
    passed = [
        one in flow.kernel.arguments or name == "tt.get_num_programs"
        for one, name in zip(leaves, names, strict=True)
    ]
    return any(passed) and len(leaves) == sum(passed) + names.count("arith.constant")


def is_constant(flow: Dataflow, value: Value) -> bool:
    """Whether the source alone says what it is."""
    leaves = list(_leaves(flow, [value]))
    return all(isinstance(one, Operation) and one.name == "arith.constant" for one in leaves)


def _leaves(flow: Dataflow, values: Sequence[Value]) -> Iterator[Operation | Value]:
    """What decides the values: reads of memory, operations without operands, the kernel's arguments."""
    seen, queue = set(values), list(values)
    while queue:
        value = queue.pop()
        before = flow.forwarded(value)
        owner = value.owner
        if before is None:
            if not isinstance(owner, Operation):
                yield value
            elif owner.name in _MEMORY_READS or not owner.operands:
                yield owner
            else:
                before = list(owner.operands)
        for one in (*(before or ()), *flow.steering(value)):
            if one not in seen:
                seen.add(one)
                queue.append(one)


def _unknown(operation: Operation) -> bool:
    """Whether it may read memory in a way that is not known."""
    known = (
        operation.name in MEMORY or operation.name in HARMLESS or operation.name.startswith(("scf.", "cf."))
    )
    return not known and any(points(value.type) for value in operation.operands)


def numbers_of(flow: Dataflow, launch: Launch, value: Value) -> Iterator[float]:
    """The constants and the launch's own numbers that a value may be."""
    seen, queue = {value}, [value]
    while queue:
        value = queue.pop()
        before = flow.forwarded(value)
        owner = value.owner
        if before is None and isinstance(owner, Operation):
            if owner.name == "arith.constant":
                held = owner.attributes["value"]
                yield from map(float, held.values[:_MOST_NUMBERS] if isinstance(held, Dense) else (held,))
            before = list(owner.operands) if owner.name in _SAME_NUMBER else []
        elif before is None and value in flow.kernel.arguments:
            argument = launch.arguments[flow.kernel.arguments.index(value)]
            if isinstance(argument, ScalarArgument):
                yield float(argument.value)
        for one in before or []:
            if one not in seen:
                seen.add(one)
                queue.append(one)

"""Atomics that read, modify and write, and waits for a value: steps of the operations."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np

from kerncap.sanitizer.concrete import formats
from kerncap.sanitizer.concrete.atomics import combiner, in_order, summed
from kerncap.sanitizer.concrete.machine import Flow, Machine, Progress, Step
from kerncap.sanitizer.concrete.ops_memory import Access, as_value, forget, gathered, locator, tell
from kerncap.sanitizer.concrete.plan import FLOWS, STEPS, Plan
from kerncap.sanitizer.concrete.values import (
    Array,
    Incomplete,
    Ints,
    Tile,
    Unknown,
    Value,
    either,
    from_bits,
    numpy_type,
    shape_of,
    to_bits,
    where,
    width_bytes,
)
from kerncap.sanitizer.ttir.ir import FloatType, IntType, Operation, Type

_POLLS_BEFORE_TIMEOUT = 2


def _modify(
    m: Machine,
    operation: Operation,
    access: Access,
    element: Type,
    operands: list[Tile],
    operate: Callable[..., Array],
    adds_integers: bool,
) -> None:
    """``operate(old, *operands)`` gives the new values. Tells the observer, then writes."""
    memory, width = m.shared.memory, width_bytes(element)
    whole = (m.count, *access.shape)
    offsets: Ints = np.broadcast_to(access.addresses.offsets, whole).reshape(-1)
    lanes = None if access.lanes is None else np.broadcast_to(access.lanes, whole).reshape(-1)
    argument = access.addresses.argument
    if not isinstance(argument, int):
        argument = np.broadcast_to(argument, whole).reshape(-1)
    chosen = np.arange(len(offsets)) if lanes is None else np.flatnonzero(lanes)
    here, at = argument if isinstance(argument, int) else argument[chosen], offsets[chosen]
    arrays = [np.broadcast_to(tile.data, whole).reshape(-1)[chosen] for tile in operands]
    # A zero that a load left out may be added to what others made.
    sums = operation.attributes.get("rmw_op") in ("add", "fadd", "or")
    undefined = either(*(tile.counted if sums else tile.undefined for tile in operands))

    found = memory.gather(here, at, None, width)
    if found.unknown is not None:
        tell(m, operation, "atomic", access, width, undefined=undefined, new=operands[-1].data)
        forget(m, access, width, found.unknown)
        for result in operation.results:
            m.env[result] = Unknown(found.unknown)
        return
    start = from_bits(found.bits, element)
    places = memory.absolute(here, at)
    if adds_integers:
        old, final = summed(places, start, arrays[0])
    else:
        ufunc = operate if isinstance(operate, np.ufunc) else None
        old, final = in_order(
            places, start, lambda x, lanes: operate(x, *(a[lanes] for a in arrays)), ufunc, arrays[0]
        )
    result_data = np.zeros(len(offsets), dtype=numpy_type(element))
    result_data[chosen] = old
    tell(
        m, operation, "atomic", access, width, undefined=undefined, old=result_data.reshape(whole),
        new=operands[-1].data,
    )  # fmt: skip
    if (results := m.shared.results) is not None:
        result_data = np.full(len(offsets), results.missing(operation), dtype=numpy_type(element))
        result_data[chosen] = results.given(operation, places, old, arrays[-1])
    result_data = result_data.reshape(whole)
    bits = to_bits(final, element)
    changed = bits != found.bits
    if changed.any():
        memory.scatter(here if isinstance(here, int) else here[changed], at[changed], None, bits[changed])
    for result in operation.results:
        flag = access.steered
        if lanes is not None and access.mask is not None and not access.mask.data.all():
            flag = either(flag, ~access.mask.data)  # as of a load without `other`
        m.env[result] = as_value(m, result_data, element, flag)


def _unwanted(m: Machine, operation: Operation, access: Access, width: int, values: list[Value]) -> None:
    """An atomic whose operands are not known: its address is reported, its effect is not known."""
    tell(m, operation, "atomic", access, width)
    reason = next((v.reason for v in values if isinstance(v, Unknown)), f"{where(operation)} of no number")
    forget(m, access, width, reason)
    for result in operation.results:
        m.env[result] = Unknown(reason)


def _rounding(element: Type, operate: Callable[..., Array]) -> Callable[..., Array]:
    if isinstance(element, FloatType) and element.name not in formats.NATIVE:
        return lambda *xs: from_bits(to_bits(operate(*xs), element), element)
    return operate


def _atomic(plan: Plan, operation: Operation) -> Step:
    cas = operation.name == "tt.atomic_cas"
    operands = operation.operands[1:3] if cas else operation.operands[1:2]
    shape = shape_of(operands[0].type)
    locate, element = locator(operation, shape)
    width = width_bytes(element)
    numpy_type(element)
    evaluated = plan.evaluated(operation)
    kind = "cas" if cas else str(operation.attributes["rmw_op"])
    adds = kind == "add" and isinstance(element, IntType)

    def exchange(old: Array, expected: Array, new: Array) -> Array:
        return np.where(to_bits(old, element) == to_bits(expected, element), new, old)

    operate: Callable[..., Array] = exchange
    if not cas:
        operate = _rounding(element, combiner(kind, isinstance(element, FloatType)))

    def step(m: Machine) -> None:
        addresses, mask = locate(m)
        access = Access(m, addresses, mask, shape)
        if not evaluated:
            tell(m, operation, "atomic", access, width)
            return
        values = [m.env[operand] for operand in operands]
        tiles = [value for value in values if isinstance(value, Tile)]
        if len(tiles) != len(values):
            _unwanted(m, operation, access, width, values)
            return
        _modify(m, operation, access, element, tiles, operate, adds)

    return step


def _descriptor_reduce(plan: Plan, operation: Operation) -> Step:
    name = operation.operands[-1]
    shape = shape_of(name.type)
    locate, element = locator(operation, shape)
    evaluated = plan.evaluated(operation)
    kind = str(operation.attributes.get("kind"))
    operate = _rounding(element, combiner(kind, isinstance(element, FloatType)))
    adds = kind == "add" and isinstance(element, IntType)

    def step(m: Machine) -> None:
        addresses, mask = locate(m)
        access = Access(m, addresses, mask, shape)
        if not evaluated:
            tell(m, operation, "atomic", access, width_bytes(element))
            return
        value = m.env[name]
        if isinstance(value, Tile):
            _modify(m, operation, access, element, [value], operate, adds)
        else:
            _unwanted(m, operation, access, width_bytes(element), [value])

    return step


STEPS["tt.atomic_rmw"] = _atomic
STEPS["tt.atomic_cas"] = _atomic
STEPS["tt.descriptor_reduce"] = _descriptor_reduce


def _poll(plan: Plan, operation: Operation) -> Flow:
    """Waits until every element is as expected; a timeout passes when nobody else gets on."""
    expected, result = operation.operands[1], operation.results[0]
    shape = shape_of(result.type)
    locate, element = locator(operation, shape)
    timed = len(operation.operands) > 2

    def flow(m: Machine) -> Progress:
        polls = 0
        while True:
            addresses, mask = locate(m)
            access = Access(m, addresses, mask, shape)
            data, unknown = gathered(m, access, element)
            if polls == 0:
                tell(m, operation, "atomic", access, width_bytes(element), old=None if unknown else data)
            if unknown is not None:
                raise Incomplete(f"what {where(operation)} waits for is not known: {unknown}")
            wanted = m.known(expected, f"what {where(operation)} waits for")
            matched = data == wanted.data
            polls += 1
            if matched.all() or timed and polls >= _POLLS_BEFORE_TIMEOUT:
                m.env[result] = Tile(matched)
                return
            m.waiting = operation
            yield timed

    return flow


FLOWS["tt.atomic_poll"] = _poll

"""Steps of pointer arithmetic, and of what makes numbers of pointers and pointers of numbers."""

from __future__ import annotations

import numpy as np

from kerncap.sanitizer.concrete.dataflow import LOADS
from kerncap.sanitizer.concrete.events import Ints
from kerncap.sanitizer.concrete.machine import Machine, Step
from kerncap.sanitizer.concrete.ops_arith import added_too_far, far
from kerncap.sanitizer.concrete.ops_basic import SAME_ELEMENTS, elementwise, not_tiles
from kerncap.sanitizer.concrete.plan import STEPS, Plan
from kerncap.sanitizer.concrete.values import (
    ABSOLUTE,
    Pointers,
    Tile,
    either,
    element_of,
    numpy_type,
    width_bytes,
)
from kerncap.sanitizer.launch import DescriptorArgument, Launch, ScalarArgument, TensorArgument
from kerncap.sanitizer.pointer_origins import pointer_origins
from kerncap.sanitizer.ttir.ir import Function, Operation, PointerType
from kerncap.sanitizer.ttir.ir import Value as Name


def _add_pointer(plan: Plan, operation: Operation) -> Step:
    pointer, offset = operation.operands
    result = operation.results[0]
    kind = element_of(pointer.type)
    assert isinstance(kind, PointerType)
    width = np.array(width_bytes(kind.pointee), dtype=np.int64)
    watched = plan.watches_overflow(operation)

    def step(m: Machine) -> None:
        p, by = m.env[pointer], m.env[offset]
        if not (isinstance(p, Pointers) and isinstance(by, Tile)):
            m.env[result] = not_tiles(operation, [p, by])
            return
        wide = by.data.astype(np.int64)
        step_bytes = wide * width
        data = p.data + step_bytes
        overflow = either(p.overflow, by.overflow)
        if watched:
            overflow = either(overflow, far(wide, width), added_too_far(data, p.data, step_bytes))
        m.env[result] = Pointers(data, p.argument, either(p.undefined, by.undefined), overflow)

    return step


def _pointer_to_integer(plan: Plan, operation: Operation) -> Step:
    pointer, result = operation.operands[0], operation.results[0]
    native = numpy_type(element_of(result.type))

    def step(m: Machine) -> None:
        p = m.env[pointer]
        if not isinstance(p, Pointers):
            m.env[result] = not_tiles(operation, [p])
            return
        address = m.shared.memory.absolute(p.argument, p.data)
        m.env[result] = Tile(address.astype(native), p.undefined, p.overflow)

    return step


def _integer_to_pointer(plan: Plan, operation: Operation) -> Step:
    source, result = operation.operands[0], operation.results[0]
    origins = pointer_origins(plan.module, plan.function).get(source, frozenset())
    candidates = sorted(index for index in origins if index is not None)
    is_given = not candidates and _is_given(source, plan.function)

    def step(m: Machine) -> None:
        x = m.env[source]
        if not isinstance(x, Tile):
            m.env[result] = not_tiles(operation, [x])
            return
        addresses = x.data.astype(np.int64)
        if is_given:
            m.env[result] = Pointers(addresses, m.shared.memory.owner_of(addresses), x.undefined, x.overflow)
            return
        argument, offsets = _arguments_behind(plan.launch, addresses, candidates, None in origins)
        m.env[result] = Pointers(offsets, argument, x.undefined, x.overflow)

    return step


def _is_given(address: Name, function: Function) -> bool:
    """Whether an integer is as memory or the launch gives it: what it points into, it was made for."""
    owner = address.owner
    while isinstance(owner, Operation) and owner.name in SAME_ELEMENTS:
        address = owner.operands[0]
        owner = address.owner
    return address in function.arguments or (isinstance(owner, Operation) and owner.name in LOADS)


def _arguments_behind(
    launch: Launch, addresses: Ints, candidates: list[int], elsewhere: bool
) -> tuple[int | Ints, Ints]:
    """Whose pointers the numbers were made of (`tl.where` chooses by numbers), and offsets from them.

    Of several arguments the one in whose memory the address lies, else the one that begins nearest.
    """
    bases = {index: base_of(launch, index) for index in candidates}
    if not candidates or (elsewhere and len(candidates) == 1):
        return ABSOLUTE, addresses
    if len(candidates) == 1:
        return candidates[0], addresses - bases[candidates[0]]
    best = np.full(addresses.shape, candidates[0], np.int64)
    distance = np.full(addresses.shape, np.iinfo(np.int64).max)
    for index in candidates:
        start, size = memory_of(launch, index)
        inside = (addresses >= start) & (addresses < start + size)
        away = np.where(inside, 0, np.abs(addresses - bases[index]))
        closer = away < distance
        best, distance = np.where(closer, index, best), np.where(closer, away, distance)
    if elsewhere and bool((distance != 0).any()):
        return ABSOLUTE, addresses
    table = np.zeros(max(candidates) + 1, np.int64)
    for index, base in bases.items():
        table[index] = base
    return best, addresses - table[best]


def base_of(launch: Launch, index: int) -> int:
    """The address of an argument's element [0, …, 0]."""
    argument = launch.arguments[index]
    if isinstance(argument, DescriptorArgument):
        return argument.tensor.address
    return 0 if isinstance(argument, ScalarArgument) else argument.address


def memory_of(launch: Launch, index: int) -> tuple[int, int]:
    """Address and bytes of an argument's storage; nothing if none is known."""
    argument = launch.arguments[index]
    tensor = argument.tensor if isinstance(argument, DescriptorArgument) else argument
    if not isinstance(tensor, TensorArgument):
        return 0, 0
    storage = launch.storages[tensor.storage]
    return storage.address, storage.size_bytes


def _bitcast(plan: Plan, operation: Operation) -> Step:
    source, result = operation.operands[0], operation.results[0]
    before = isinstance(element_of(source.type), PointerType)
    after = isinstance(element_of(result.type), PointerType)
    if before != after:
        return _pointer_to_integer(plan, operation) if before else _integer_to_pointer(plan, operation)
    if not before:
        return elementwise(plan, operation)

    def step(m: Machine) -> None:
        m.env[result] = m.env[source]

    return step


STEPS["tt.addptr"] = _add_pointer
STEPS["tt.ptr_to_int"] = _pointer_to_integer
STEPS["tt.int_to_ptr"] = _integer_to_pointer
STEPS["tt.bitcast"] = _bitcast

"""Loads, stores and atomics: reported to the observer, then carried out in the evaluation's memory."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, Literal

import numpy as np

from kerncap.sanitizer.concrete.blocks import Addresses, block_addresses, descriptor_addresses, row_addresses
from kerncap.sanitizer.concrete.dataflow import LOADS, STORES
from kerncap.sanitizer.concrete.events import AccessEvent
from kerncap.sanitizer.concrete.machine import Machine, Step
from kerncap.sanitizer.concrete.plan import STEPS, Plan
from kerncap.sanitizer.concrete.values import (
    ABSOLUTE,
    Array,
    BlockPointer,
    Bools,
    Descriptor,
    Incomplete,
    Pointers,
    Tile,
    Unknown,
    Value,
    either,
    element_of,
    from_bits,
    lift,
    numpy_type,
    shape_of,
    to_bits,
    where,
    width_bytes,
)
from kerncap.sanitizer.ttir.ir import Operation, PointerType, Type
from kerncap.sanitizer.ttir.ir import Value as Name

Kind = Literal["load", "store", "atomic"]
_ALL = np.ones((), dtype=np.bool_)


class Access:
    """One memory operation as it is executed: where it goes and which of its lanes are enabled."""

    __slots__ = ("addresses", "lanes", "mask", "steered", "shape")

    def __init__(self, m: Machine, addresses: Addresses, mask: Tile | None, shape: tuple[int, ...]) -> None:
        self.addresses = addresses
        self.mask = mask
        self.shape = shape
        enabled = either(None) if mask is None else mask.data
        if addresses.inside is not None:
            enabled = addresses.inside if enabled is None else enabled & addresses.inside
        lanes = m.lanes(enabled, len(shape))
        self.lanes: Bools | None = None if lanes is None or lanes.all() else lanes  # None: all of them
        unsure = None if mask is None else mask.counted
        astray = addresses.undefined
        if astray is not None and mask is not None:  # no lane that is masked off goes to its address
            astray = astray & (mask.data if unsure is None else mask.data | unsure)
        self.steered = either(astray, unsure)
        if m.unsure is not None:
            self.steered = either(self.steered, lift(m.unsure, len(shape)))

    def mask_undefined(self, m: Machine) -> Bools | None:
        """Where what the mask says is a guess, of the programs that are here."""
        unsure = None if self.mask is None else self.mask.counted
        return None if unsure is None else m.lanes(unsure, len(self.shape))

    def spread(self, *others: Array | None) -> tuple[int, ...]:
        """The shape that addresses, mask and other tiles broadcast to."""
        arrays = [self.addresses.offsets, self.lanes, *others]
        return np.broadcast_shapes(*(array.shape for array in arrays if array is not None))


def _known(value: Value, what: str) -> Tile:
    if isinstance(value, Tile):
        return value
    if isinstance(value, Unknown):
        raise Incomplete(f"{what} depends on an unknown value: {value.reason}")
    raise Incomplete(f"{what} is not a number")


def _descriptor(value: Value, operation: Operation) -> Descriptor:
    if isinstance(value, Descriptor):
        return value
    reason = f": {value.reason}" if isinstance(value, Unknown) else ""
    raise Incomplete(f"the descriptor of {where(operation)} is not known{reason}")


Locate = Callable[[Machine], tuple[Addresses, "Tile | None"]]


def locator(operation: Operation, shape: tuple[int, ...]) -> tuple[Locate, Type]:
    """What finds the lanes of one memory operation, and the type of an element in memory."""
    pointer = operation.operands[0]
    segments = operation.attributes.get("operand_segments", {})
    mask = operation.segment("mask") if "mask" in segments else None
    if not segments and operation.name == "tt.atomic_load" and len(operation.operands) > 1:
        mask = operation.operands[1]
    if not segments and operation.name == "tt.atomic_store" and len(operation.operands) > 2:
        mask = operation.operands[2]
    name = operation.name
    if "descriptor_" in name:
        return _descriptor_locator(operation, shape)
    kind = element_of(pointer.type)
    assert isinstance(kind, PointerType)
    boundary = tuple(int(axis) for axis in operation.attributes.get("boundaryCheck") or ())
    mask_name = f"the mask of {where(operation)}"
    address_name = f"the address of {where(operation)}"

    def locate(m: Machine) -> tuple[Addresses, Tile | None]:
        value = m.env[pointer]
        enabled = None if mask is None else _known(m.env[mask], mask_name)
        if isinstance(value, BlockPointer):
            return block_addresses(value, boundary), enabled
        p = _known(value, address_name)
        argument = p.argument if isinstance(p, Pointers) else ABSOLUTE
        return Addresses(argument, p.data, None, p.undefined, p.overflow), enabled

    pointee = kind.pointee
    return locate, element_of(pointee)


def _descriptor_locator(operation: Operation, shape: tuple[int, ...]) -> tuple[Locate, Type]:
    descriptor = operation.operands[0]
    loads = operation.name in LOADS
    indices = operation.operands[1:] if loads else operation.operands[1:-1]
    tile = operation.results[0] if loads else operation.operands[-1]
    rows = "gather" in operation.name or "scatter" in operation.name
    what = f"an index of {where(operation)}"

    def locate(m: Machine) -> tuple[Addresses, Tile | None]:
        d = _descriptor(m.env[descriptor], operation)
        at = [_known(m.env[index], what) for index in indices]
        if rows:
            return row_addresses(d, at[0], at[1], shape[-1]), None
        return descriptor_addresses(d, at, shape), None

    return locate, element_of(tile.type)


# --- what is reported ------------------------------------------------------------------------------------


def tell(
    m: Machine,
    operation: Operation,
    kind: Kind,
    access: Access,
    width: int,
    *,
    undefined: Bools | None = None,
    old: Array | None = None,
    new: Array | None = None,
    unknown: str | None = None,
) -> AccessEvent | None:
    observer = m.shared.observer
    if observer is None:
        return None
    whole = (m.count, *access.shape)

    def spread(array: Any) -> Any:
        if array is None or array.shape == whole:
            return array
        return np.broadcast_to(array, whole)

    addresses = access.addresses
    lanes = access.lanes
    argument = addresses.argument
    event = AccessEvent(
        operation=operation,
        kind=kind,
        programs=m.programs,
        argument=argument if isinstance(argument, int) else spread(argument),
        offsets=spread(addresses.offsets),
        mask=spread(_ALL if lanes is None else lanes),
        width_bytes=width,
        iterations=tuple((loop.name, m.per_program(loop.induction)) for loop in m.loops),
        trips=tuple(np.full(m.count, loop.trip, dtype=np.int64) for loop in m.loops),
        undefined=spread(undefined),
        steered_by_undefined=spread(access.steered),
        mask_undefined=spread(access.mask_undefined(m)),
        overflowed=spread(addresses.overflow),
        old=spread(old),
        new=spread(new),
        unknown=unknown,
        in_order=m.shared.events,
    )
    m.shared.events += 1
    observer.access(event)
    return event


# --- loads -------------------------------------------------------------------------------------------


def _padding(m: Machine, operation: Operation, element: Type) -> Array:
    """What a lane outside of a descriptor's or a block pointer's shape gives."""
    native = numpy_type(element)
    value = m.env[operation.operands[0]]
    padding = operation.attributes.get("padding")
    if isinstance(value, Descriptor):
        padding = value.padding
    if padding in ("nan", 2) and native.kind == "f":
        return np.array(np.nan, dtype=native)
    return np.array(0, dtype=native)


def gathered(m: Machine, access: Access, element: Type) -> tuple[Array, str | None]:
    """Values at the access's lanes; where none is read, anything."""
    width = width_bytes(element)
    offsets, lanes, argument = access.addresses.offsets, access.lanes, access.addresses.argument
    if lanes is not None and lanes.shape != offsets.shape:
        whole = np.broadcast_shapes(offsets.shape, lanes.shape)
        offsets, lanes = np.broadcast_to(offsets, whole), np.broadcast_to(lanes, whole)
    found = m.shared.memory.gather(argument, offsets, lanes, width)
    return from_bits(found.bits, element), found.unknown


def as_value(
    m: Machine, data: Array, element: Type, undefined: Bools | None, zero: Bools | None = None
) -> Tile:
    if isinstance(element, PointerType):  # that a null pointer is followed is no habit to rely on
        return Pointers(data, m.shared.memory.owner_of(data), undefined)
    return Tile(data, undefined, zero=zero)


def _load(plan: Plan, operation: Operation) -> Step:
    result = operation.results[0]
    shape = shape_of(result.type)
    locate, element = locator(operation, shape)
    width = width_bytes(element)
    numpy_type(element)
    segments = operation.attributes.get("operand_segments", {})
    other = operation.segment("other") if "other" in segments else None
    evaluated = plan.evaluated(operation)
    track = plan.track.undefined and plan.track.left_out
    atomic = operation.name == "tt.atomic_load"
    kind: Kind = "atomic" if atomic else "load"

    def step(m: Machine) -> None:
        addresses, mask = locate(m)
        access = Access(m, addresses, mask, shape)
        if not evaluated:
            tell(m, operation, kind, access, width)
            return
        data, unknown = gathered(m, access, element)
        event = tell(m, operation, kind, access, width, old=None if unknown else data)
        if unknown is not None:
            m.env[result] = Unknown(unknown)
            return
        undefined, zero = access.steered, None
        if m.shared.reads is not None and event is not None:
            undefined = either(undefined, m.shared.reads.undefined(event))
        if access.lanes is None:  # no lane is left out
            m.env[result] = as_value(m, data, element, undefined)
            return
        if mask is not None and other is None:
            data = np.where(mask.data, data, data.dtype.type(0))
            if track and not mask.data.all():
                zero = ~mask.data if undefined is None else ~mask.data & ~undefined
                undefined = either(undefined, ~mask.data)
        if addresses.inside is not None:
            data = np.where(addresses.inside, data, _padding(m, operation, element))
        if mask is not None and other is not None:
            instead = m.env[other]
            if isinstance(instead, Unknown):
                # Only where a lane is masked off does it matter.
                if not mask.data.all():
                    m.env[result] = instead
                    return
            else:
                filler = _known(instead, f"the other of {where(operation)}")
                fill, flag = filler.data, filler.undefined
                if isinstance(filler, Pointers):
                    fill = m.shared.memory.absolute(filler.argument, filler.data)
                data = np.where(mask.data, data, fill)
                if filler.zero is not None:
                    zero = filler.zero & ~mask.data
                    zero = zero if undefined is None else zero & ~undefined
                if flag is not None:
                    undefined = either(undefined, flag & ~mask.data)
        m.env[result] = as_value(m, data, element, undefined, zero)

    return step


for _name in (*LOADS, "tt.atomic_load"):
    STEPS[_name] = _load


# --- stores ------------------------------------------------------------------------------------------


def stored_operand(operation: Operation) -> Name:
    segments = operation.attributes.get("operand_segments", {})
    if "value" in segments:
        found: Name = operation.operands[segments["value"]]
        return found
    return operation.operands[1] if operation.name == "tt.atomic_store" else operation.operands[-1]


def _bits(m: Machine, tile: Tile, element: Type) -> Array:
    if isinstance(tile, Pointers):
        return m.shared.memory.absolute(tile.argument, tile.data).view(np.uint64)
    return to_bits(tile.data, element)


def _put(m: Machine, access: Access, bits: Array) -> None:
    """Writes a tile's elements; of two lanes at one place the later stays."""
    memory = m.shared.memory
    whole = access.spread(bits)
    offsets = np.broadcast_to(access.addresses.offsets, whole)
    lanes = None if access.lanes is None else np.broadcast_to(access.lanes, whole)
    argument = access.addresses.argument
    if not isinstance(argument, int):
        argument = np.broadcast_to(argument, whole)
    bits = np.broadcast_to(bits, whole)
    if m.shared.cooperative:
        # A store of what is there already wakes nobody up.
        before = memory.gather(argument, offsets, lanes, bits.itemsize)
        changes = before.bits != bits
        if before.unknown is None and not (changes if lanes is None else changes & lanes).any():
            return
    memory.scatter(argument, offsets, lanes, bits)


def _store(plan: Plan, operation: Operation) -> Step:
    name = stored_operand(operation)
    shape = shape_of(name.type)
    locate, element = locator(operation, shape)
    width = width_bytes(element)
    if not isinstance(element, PointerType):
        numpy_type(element)
    evaluated = plan.evaluated(operation)
    kind: Kind = "atomic" if operation.name == "tt.atomic_store" else "store"

    def step(m: Machine) -> None:
        addresses, mask = locate(m)
        access = Access(m, addresses, mask, shape)
        value = m.env.get(name) if evaluated else None
        if isinstance(value, Tile):
            tell(m, operation, kind, access, width, undefined=value.counted, new=value.data)
            _put(m, access, _bits(m, value, element))
            return
        if not evaluated:
            tell(m, operation, kind, access, width)
            return
        reason = value.reason if isinstance(value, Unknown) else f"{where(operation)} stores no number"
        tell(m, operation, kind, access, width, unknown=reason)
        forget(m, access, width, reason)

    return step


def forget(m: Machine, access: Access, width: int, reason: str) -> None:
    whole = access.spread()
    argument = access.addresses.argument
    m.shared.memory.forget(
        argument if isinstance(argument, int) else np.broadcast_to(argument, whole),
        np.broadcast_to(access.addresses.offsets, whole),
        None if access.lanes is None else np.broadcast_to(access.lanes, whole),
        width,
        reason,
    )


for _name in (*STORES - {"tt.descriptor_reduce"}, "tt.atomic_store"):
    STEPS[_name] = _store

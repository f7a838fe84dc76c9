"""The elements of an access event: which storage each leads into, and one of them as a witness."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
import numpy.typing as npt

from kerncap.sanitizer.checks.events.freshness import argument_storage
from kerncap.sanitizer.concrete.events import AccessEvent, Bools, Ints
from kerncap.sanitizer.concrete.values import element_of, to_bits
from kerncap.sanitizer.diagnose.place import base_address
from kerncap.sanitizer.launch import Launch
from kerncap.sanitizer.ttir.ir import PointerType, TensorType


@dataclass(frozen=True)
class Witness:
    """One element of one event."""

    program: int  # linear id
    lane: tuple[int, ...]
    iterations: tuple[tuple[str, int], ...]  # source name and value, outermost first
    trips: tuple[int, ...]
    argument: int | None
    offset_bytes: int  # from the argument, or an absolute address without one


def first_witness(event: AccessEvent, bad: Bools) -> Witness | None:
    """The first element that is bad, by program and then by lane; None if none is."""
    flat = int(np.argmax(bad))
    if bad.size == 0 or not bad.reshape(-1)[flat]:
        return None
    position = tuple(int(one) for one in np.unravel_index(flat, bad.shape))
    row = position[0]
    index = event.argument if isinstance(event.argument, int) else int(event.argument[position])
    return Witness(
        int(event.programs[row]),
        position[1:],
        tuple((name, int(_of_program(values, row))) for name, values in event.iterations),
        tuple(int(_of_program(values, row)) for values in event.trips),
        None if index < 0 else index,
        int(event.offsets[position]),
    )


def _of_program(values: Ints, row: int) -> int:
    """Values per program; one value alone is the same for all."""
    flat = np.asarray(values).reshape(-1)
    return int(flat[row] if flat.size > 1 else flat[0])


def by_argument(event: AccessEvent) -> Iterator[tuple[int, Bools]]:
    """The argument indices that active elements come from (-1: none), and which elements those are."""
    if isinstance(event.argument, int):
        yield event.argument, event.mask
        return
    for index in np.unique(event.argument[event.mask]).tolist():
        yield index, event.mask & (event.argument == index)


def addresses_of(launch: Launch, event: AccessEvent) -> Ints:
    """Where the elements start, of the event's shape; of those that are left out it may be any number."""
    bases = np.zeros(event.offsets.shape, dtype=np.int64)
    for index, selected in by_argument(event):
        bases[selected] = base_address(launch, None if index < 0 else index)
    found: Ints = event.offsets + bases
    return found


def stored_bits(event: AccessEvent) -> npt.NDArray[Any] | str:
    """What a store stores, by bits: unsigned integers of the element's width. Why it is not known."""
    if event.new is None:
        return event.unknown or "what it stores was not evaluated"
    operation = event.operation
    pointer = operation.operands[0].type
    kind = pointer.element if isinstance(pointer, TensorType) else pointer
    element = element_of(kind.pointee if isinstance(kind, PointerType) else operation.operands[-1].type)
    if isinstance(element, PointerType):
        return "it stores addresses"
    bits = to_bits(np.broadcast_to(event.new, event.mask.shape), element)
    return bits if bits.itemsize == event.width_bytes else f"it stores {element}"


def by_storage(launch: Launch, event: AccessEvent) -> Iterator[tuple[int, Ints, Bools]]:
    """Storages that active elements may lead into: the index, offsets from its address, which elements.

    An element whose pointer comes from a tensor belongs to that tensor's storage, wherever it points; one
    that comes from a bare address to the storage that holds its first byte.
    """
    for index, selected in by_argument(event):
        own = argument_storage(launch, None if index < 0 else index)
        if own is not None:
            storage, start = own
            yield storage, event.offsets + start, selected
            continue
        addresses = event.offsets + base_address(launch, None if index < 0 else index)
        for number, one in enumerate(launch.storages):
            offsets = addresses - one.address
            inside = selected & (offsets >= 0) & (offsets < one.size_bytes)
            if inside.any():
                yield number, offsets, inside


def in_own_storage(launch: Launch, event: AccessEvent) -> AccessEvent:
    """The event without elements that leave the storage of the tensor that their pointer comes from."""
    mask = event.mask
    for index, selected in by_argument(event):
        own = argument_storage(launch, None if index < 0 else index)
        if own is None or event.offsets.size == 0:
            continue
        storage, start = own
        last = launch.storages[storage].size_bytes - event.width_bytes - start
        if int(event.offsets.min()) < -start or int(event.offsets.max()) > last:
            mask = mask & ~(selected & ((event.offsets < -start) | (event.offsets > last)))
    return event if mask is event.mask else replace(event, mask=mask)

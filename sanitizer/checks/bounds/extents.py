"""What an access may touch: the bytes behind each of the places that its pointer may lead to.

The limits of a tensor are relative to its argument's address, so that the addresses of a launch do not
show in the questions. A pointer that came from memory or from an integer gets those of the storage
that its base points into.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from functools import lru_cache

from kerncap.sanitizer.analysis import Analysis
from kerncap.sanitizer.diagnose.finding_sentence import count_bytes, describe_tensor
from kerncap.sanitizer.diagnose.place import base_address, tensor_of
from kerncap.sanitizer.footprint import Footprint, footprint
from kerncap.sanitizer.launch import Launch, Storage, TensorArgument
from kerncap.sanitizer.symbolic.expr import TRUE, Buffer, Expr, const, land, linear
from kerncap.sanitizer.walk.access import Target

# The first page is never mapped: an address in it is a null pointer and an offset.
NULL_PAGE = 4096


@dataclass(frozen=True)
class Extent:
    """Bytes [low, high), in the unit of the target's offset, where the pointer comes from (``when``)."""

    low: int
    high: int
    name: str  # of the argument (of the storage, if there is no argument)
    what: str  # "scores_ptr (float32[1000], 4,000 bytes)"
    when: Expr = TRUE
    view: Footprint | None = None  # only the view's own bytes inside [low, high)


@dataclass(frozen=True)
class Nowhere:
    """Pointers that lead to no memory that is known; an access through one is a violation, or unproven."""

    when: Expr
    what: str
    certain: bool  # null: there is nothing


Region = Extent | Nowhere


def distance_of(offset: int, width: int, low: int, high: int) -> tuple[int, str]:
    """Bytes between an access and the [low, high) that it leaves (negative: before it); the same in words."""
    if offset < low:
        return offset - low, f"{count_bytes(low - offset)} before the start of"
    if offset < high:
        outside = offset + width - high
        return 0, f"its last {count_bytes(outside)} {'is' if outside == 1 else 'are'} past the end of"
    beyond = offset - high
    return beyond, f"{count_bytes(beyond)} past the end of" if beyond else "just past the end of"


def regions_of(analysis: Analysis, target: Target, width_bytes: int) -> list[Region]:
    """What the target may lead to; together they cover every case in which it leads out of bounds."""
    launch, mode = analysis.launch, analysis.options.bounds
    tensor = tensor_of(launch, target.argument)
    if tensor is not None:
        return [_of_tensor(launch, tensor, mode)]
    if target.argument is None:
        base = _base_of(target.offset_bytes)
        if base is None:
            outside = _outside_of_all(launch, target.offset_bytes, width_bytes, mode)
            return [
                Nowhere(outside, "an address of unknown origin may leave the memory that is known", False)
            ]
        return list(_of_address(launch, base, 0, mode, None, _values(analysis, base)))
    name = launch.arguments[target.argument].name
    address = base_address(launch, target.argument)
    return list(_of_address(launch, const(address), address, mode, name, (address, address)))


def _values(analysis: Analysis, base: Expr) -> tuple[int, int]:
    """Between which addresses a base pointer lies: of a launch's many storages few are worth a question."""
    low, high = base.low, base.high
    memory = analysis.solver.memory
    if isinstance(base.payload, Buffer) and memory is not None:
        low, high = memory.bounds(base.payload, (base.args[0].low, base.args[0].high)) or (low, high)
    return (0 if low is None else low), ((1 << 64) if high is None else high)


def _of_tensor(launch: Launch, tensor: TensorArgument, mode: str) -> Extent:
    view = _footprint(tensor.shape, tensor.strides, tensor.itemsize)
    if mode == "view":
        what = f"{tensor.name} ({describe_tensor(tensor)}, {_covered(view)})"
        return Extent(view.first, view.end, tensor.name, f"the view {what}", view=view)
    storage = launch.storages[tensor.storage]
    low, high = _range(storage, mode)
    low, high = low - tensor.address, high - tensor.address
    if (low, high) == (view.first, view.end):
        what = f"{tensor.name} ({describe_tensor(tensor)}, {high - low:,} bytes)"
    else:
        what = f"the {mode} of {tensor.name} ({describe_tensor(tensor)}; {high - low:,} bytes)"
    return Extent(low, high, tensor.name, what)


_footprint = lru_cache(maxsize=1024)(footprint)


def _covered(view: Footprint) -> str:
    return f"{view.size:,} bytes" + (" with gaps" if view.has_gaps else "")


def _outside_of_all(launch: Launch, address: Expr, width_bytes: int, mode: str) -> Expr:
    ranges = [_range(storage, mode) for storage in launch.storages if storage.size_bytes]
    return land(*((address < low) | (address > high - width_bytes) for low, high in sorted(ranges)))


def _of_address(
    launch: Launch, base: Expr, origin: int, mode: str, name: str | None, values: tuple[int, int]
) -> Iterator[Region]:
    """Regions by the value of a base pointer, all ``values`` of it; offsets count from ``origin``."""
    subject = name or "a pointer from memory"
    null = base < NULL_PAGE
    yield Nowhere((base >= 0) & null, f"{subject} is null", certain=True)
    elsewhere = base >= NULL_PAGE
    for storage in sorted(launch.storages, key=lambda one: one.address):
        low, high = _range(storage, mode)
        if storage.size_bytes == 0 or high <= values[0] or low > values[1]:
            continue
        inside = (base >= low) & (base < high)
        elsewhere = elsewhere & ~inside
        yield of_storage(storage, mode, origin, inside)
    yield Nowhere(elsewhere | (base < 0), f"{subject} leads to memory of unknown extent", certain=False)


def of_storage(storage: Storage, mode: str, origin: int = 0, when: Expr = TRUE) -> Extent:
    """What a pointer into a storage gives access to."""
    low, high = _range(storage, mode)
    what = f"{storage.name or 'known memory'} ({high - low:,} bytes at {low:#x})"
    return Extent(low - origin, high - origin, storage.name or hex(low), what, when=when)


def _range(storage: Storage, mode: str) -> tuple[int, int]:
    if mode == "allocation":
        return storage.allocation_address, storage.allocation_address + storage.allocation_bytes
    return storage.address, storage.address + storage.size_bytes


def _base_of(address: Expr) -> Expr | None:
    """The pointer in a sum of a pointer and an offset.

    A 64-bit value from memory that counts once; or the constant, where an integer argument became a
    pointer. None if neither is there.
    """
    form = linear(address)
    if form is None:
        return None
    pointers = [
        atom
        for atom, coefficient in form.terms
        if coefficient == 1 and isinstance(atom.payload, Buffer) and atom.payload.bits == 64
    ]
    if len(pointers) == 1:
        return pointers[0]
    if address.reads or address.unknown_reasons:
        return None
    return const(form.constant)

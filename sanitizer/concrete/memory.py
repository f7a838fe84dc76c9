"""The launch's memory during an evaluation: read from its contents, written to in private copies."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
import numpy.typing as npt

from kerncap.sanitizer.launch import (
    DescriptorArgument,
    Launch,
    PointerArgument,
    ScalarArgument,
    TensorArgument,
)
from kerncap.sanitizer.paged_bytes import PagedBytes, runs_of, zeros

Array = npt.NDArray[Any]
Bytes = npt.NDArray[np.uint8]
Ints = npt.NDArray[np.int64]
Bools = npt.NDArray[np.bool_]

ABSOLUTE = -1  # in place of an argument's index: the offset is an address
NOWHERE = -1
_NOT_KNOWN = "what is at an address in no memory that is known"
_FIRST_STORAGE = -2  # and below, one for each storage: an address that was made for it


@dataclass(frozen=True)
class Gathered:
    """``bits``: unsigned integers, one per offset; zero if nothing was read.

    ``unknown`` says why some of them are not what the memory holds; None: all of them are.
    """

    bits: Array
    unknown: str | None = None


class _Bytes:
    """One storage's bytes: its own copy from the first write on, of the pages that are touched."""

    def __init__(self, name: str, size_bytes: int, before: PagedBytes | None) -> None:
        self.name = name
        self.size_bytes = size_bytes
        self.before = None if before is None or before.size < size_bytes else before
        self.unknown_reason = f"contents of {name} are not available" if self.before is None else ""
        self._now = self.before  # None: zeros that nobody knows
        self._stored: Bools | None = None  # per page of the copy: whether it was written to
        # Per byte: what is known if nothing was before, else what no longer is; None: all of it, nothing.
        self._known: Bools | None = None
        self._forgotten: Bools | None = None
        self._views: dict[int, Array] = {}

    @property
    def has_contents(self) -> bool:
        return self._now is not None

    @property
    def written(self) -> bool:
        return self._stored is not None

    def has(self, start: int, end: int) -> bool:
        """Whether all bytes of [start, end) are here, and all of the storage's are known."""
        sure = self._now is not None and self._known is None and self._forgotten is None
        return sure and self._now is not None and self._now.has(start, end)

    @property
    def is_settled(self) -> bool:
        """Whether all bytes are here, and all are known."""
        return (
            self._now is not None and self._now.complete and self._known is None and self._forgotten is None
        )

    def need(self, offsets: Ints, width: int) -> None:
        """Before elements at these offsets are read from `view` or `bytes`; they lie inside."""
        if self._now is not None:
            self._now.need(offsets, width)

    @property
    def bytes(self) -> Bytes:
        assert self._now is not None
        return self._now.data

    def view(self, width: int) -> Array:
        """The bytes as unsigned integers of a width, from the first byte on."""
        found = self._views.get(width)
        if found is None:
            whole = self.bytes
            found = whole[: len(whole) // width * width].view(np.dtype(f"u{width}"))
            self._views[width] = found
        return found

    def writable(self, offsets: Ints, width: int) -> Bytes:
        """To be written to at these offsets."""
        if self._stored is None:
            if self.before is None:
                self._known = zeros(self.size_bytes).view(np.bool_)
                self._now = PagedBytes.of(zeros(self.size_bytes + 8))
            else:
                self._now = self.before.copied()
            self._views = {}
            self._stored = np.zeros(-(-self.size_bytes // self._page), dtype=np.bool_)
        assert self._now is not None
        if offsets.size:
            pages = self._now.pages_of(offsets, width)
            self._now.need_pages(pages)
            self._stored[pages] = True
        return self.bytes

    @property
    def _page(self) -> int:
        assert self._now is not None
        return self._now.page

    def learn(self, start: Ints, width: int) -> None:
        """Bytes are known from here on: those of the elements at ``start``."""
        for byte in range(width):
            if self._known is not None:
                self._known[start + byte] = True
            elif self._forgotten is not None:
                self._forgotten[start + byte] = False

    def forget(self, reason: str, start: Ints | None = None, width: int = 0) -> None:
        """Bytes are no longer known: those of the elements at ``start``, or all."""
        self.unknown_reason = self.unknown_reason or reason
        if start is None:
            self._known, self._forgotten = zeros(self.size_bytes).view(np.bool_), None
            return
        if self._known is None and self._forgotten is None:
            self._forgotten = zeros(self.size_bytes).view(np.bool_)
        for byte in range(width):
            if self._known is not None:
                self._known[start + byte] = False
            elif self._forgotten is not None:
                self._forgotten[start + byte] = True

    def knows(self, start: Ints, width: int) -> bool:
        """Whether all bytes of the elements at ``start`` are known."""
        for byte in range(width):
            if self._known is not None and not self._known[start + byte].all():
                return False
            if self._forgotten is not None and self._forgotten[start + byte].any():
                return False
        return True

    @property
    def knows_all(self) -> bool:
        if self._known is not None:
            return bool(self._known.all())
        return self._forgotten is None or not self._forgotten.any()

    def changed(self) -> list[tuple[int, Bytes | None, Bytes]]:
        """Runs of pages that were written to: the offset, the bytes before and after."""
        if self._stored is None:
            return []
        return [
            (start, None if self.before is None else self.before.data[start:end], self.bytes[start:end])
            for start, end in runs_of(np.flatnonzero(self._stored), self._page, self.size_bytes)
        ]


class Memory:
    """Private copies of what is touched of a launch's storages, made on the first write.

    A place is an argument's index and a byte offset from that argument's address; with ABSOLUTE or what
    `address_in` gives in place of the index, the offset is an address. An element that is not wholly
    inside the storage reads as zero, and a store to it is dropped. ``version`` grows whenever a byte
    changes.
    """

    def __init__(self, launch: Launch, before: Memory | None = None) -> None:
        """``before``: of a launch that ran before on the same storages, which is continued."""
        self._launch = launch
        self._storages: dict[int, _Bytes] = {} if before is None else before._storages
        self.version = 0
        self.stored_nowhere = False  # whether a store went to an address in no storage
        order = np.argsort([s.address for s in launch.storages], kind="stable")
        self._order = order
        self._starts = np.array([launch.storages[i].address for i in order], dtype=np.int64)
        self._sizes = np.array([launch.storages[i].size_bytes for i in order], dtype=np.int64)
        self._places = [self._place(argument) for argument in launch.arguments]

    @staticmethod
    def _place(argument: object) -> tuple[int, int]:
        """The storage and the address of an argument."""
        if isinstance(argument, TensorArgument):
            return argument.storage, argument.address
        if isinstance(argument, DescriptorArgument):
            return argument.tensor.storage, argument.tensor.address
        if isinstance(argument, PointerArgument):
            return NOWHERE, argument.address
        if isinstance(argument, ScalarArgument):
            # An address that was passed as an integer.
            return NOWHERE, int(argument.value) if isinstance(argument.value, int) else 0
        raise TypeError(f"an argument of an unknown kind: {argument!r}")

    def storage(self, index: int) -> _Bytes:
        found = self._storages.get(index)
        if found is None:
            described = self._launch.storages[index]
            contents = self._launch.contents.read(index)
            name = described.name or f"storage {index}"
            found = self._storages[index] = _Bytes(name, described.size_bytes, contents)
        return found

    def address_of(self, argument: int) -> int:
        return 0 if argument < 0 else self._places[argument][1]

    def storage_of(self, argument: int) -> int:
        """The storage that an argument points into, or NOWHERE."""
        return storage_behind(argument) if argument < 0 else self._places[argument][0]

    def absolute(self, argument: int | Ints, offsets: Ints) -> Ints:
        if isinstance(argument, int):
            found: Ints = offsets + np.int64(_signed(self.address_of(argument)))
            return found
        addresses = [_signed(address) for _, address in self._places] + [0]  # the last: ABSOLUTE is -1
        return offsets + np.array(addresses, dtype=np.int64)[np.maximum(argument, ABSOLUTE)]

    # --- places in storages --------------------------------------------------------------------------

    def locate(self, argument: int | Ints, offsets: Ints) -> tuple[int | Ints, Ints]:
        """Storage and byte offset in it of each place; NOWHERE where an address is in no storage."""
        if isinstance(argument, int):
            storage = self.storage_of(argument)
            if storage != NOWHERE:
                start = self._launch.storages[storage].address
                return storage, offsets + np.int64(self.address_of(argument) - start)
            return self._resolve(self.absolute(argument, offsets))
        argument, offsets = np.broadcast_arrays(argument, offsets)
        storages = np.full(offsets.shape, NOWHERE, dtype=np.int64)
        inside = np.zeros(offsets.shape, dtype=np.int64)
        for one in np.unique(argument):
            here = argument == one
            storages[here], inside[here] = self.locate(int(one), offsets[here])
        return storages, inside

    def owner_of(self, addresses: Ints) -> int | Ints:
        """In place of an argument's index: for each address the storage that it points into."""
        storages, _ = self._resolve(addresses)
        if isinstance(storages, int):
            return address_in(storages)
        return np.where(storages == NOWHERE, ABSOLUTE, _FIRST_STORAGE - storages)

    def _resolve(self, addresses: Ints) -> tuple[int | Ints, Ints]:
        if not len(self._starts):
            return NOWHERE, addresses
        at = np.searchsorted(self._starts, addresses, side="right") - 1
        at = np.maximum(at, 0)
        inside = addresses - self._starts[at]
        found = (inside >= 0) & (inside < self._sizes[at])
        storages = np.where(found, self._order[at], NOWHERE)
        if storages.size and (storages == storages.flat[0]).all():
            return int(storages.flat[0]), inside
        return storages, inside

    # --- reading -------------------------------------------------------------------------------------

    def gather(self, argument: int | Ints, offsets: Ints, mask: Bools | None, width: int) -> Gathered:
        """Elements of ``width`` bytes at places, where the mask (of the same shape, or None) holds."""
        storage, inside = self.locate(argument, offsets)
        if isinstance(storage, int):
            return self._gather(storage, inside, mask, width)
        bits = np.zeros(offsets.shape, dtype=np.dtype(f"u{width}"))
        unknown = None
        for one in np.unique(storage):
            here = storage == one if mask is None else (storage == one) & mask
            part = self._gather(int(one), inside, here, width)
            bits = np.where(here, part.bits, bits)
            unknown = unknown or part.unknown
        return Gathered(bits, unknown)

    def _gather(self, storage: int, offsets: Ints, mask: Bools | None, width: int) -> Gathered:
        kind = np.dtype(f"u{width}")
        if storage == NOWHERE:
            read = bool(offsets.size) and (mask is None or bool(mask.any()))
            return Gathered(np.zeros(offsets.shape, dtype=kind), _NOT_KNOWN if read else None)
        held = self.storage(storage)
        last = held.size_bytes - width
        # An aligned element is found by its index in a view; an index out of range is clipped.
        aligned = width == 1 or not (offsets & (width - 1)).any()
        low, high = (int(offsets.min()), int(offsets.max())) if offsets.size else (0, 0)
        if low >= 0 and high <= last:
            valid = mask
        else:
            valid = (offsets >= 0) & (offsets <= last)
            if mask is not None:
                valid &= mask
        if not held.has_contents:
            if valid is None or valid.any():
                return Gathered(np.zeros(offsets.shape, dtype=kind), held.unknown_reason)
            return Gathered(np.zeros(offsets.shape, dtype=kind))
        if last < 0:
            return Gathered(np.zeros(offsets.shape, dtype=kind))
        reached = offsets
        inside = valid is mask and offsets.size > 0
        if not held.is_settled and not (inside and held.has(low, high + width)):
            reached = offsets if valid is None else offsets[valid]
            held.need(reached, width)
        if aligned:
            bits = held.view(width).take(_index(offsets, width), mode="clip")
        else:
            start = np.clip(offsets, 0, last)
            parts = held.bytes[start[..., None] + np.arange(width)]
            bits = np.ascontiguousarray(parts).view(kind)[..., 0]
        if valid is not None and valid is not mask:
            bits = np.where(valid, bits, kind.type(0))
        return Gathered(bits, None if held.knows(reached, width) else held.unknown_reason)

    # --- writing -------------------------------------------------------------------------------------

    def scatter(self, argument: int | Ints, offsets: Ints, mask: Bools | None, bits: Array) -> None:
        """Writes elements (unsigned integers); of two to one place the later one, in array order, stays.

        All arrays have one shape.
        """
        storage, inside = self.locate(argument, offsets)
        if isinstance(storage, int):
            self._scatter(storage, inside, mask, bits)
            return
        for one in np.unique(storage):
            here = storage == one if mask is None else (storage == one) & mask
            self._scatter(int(one), inside, here, bits)

    def _scatter(self, storage: int, offsets: Ints, mask: Bools | None, bits: Array) -> None:
        if storage == NOWHERE:
            self.stored_nowhere |= bool(offsets.size) and (mask is None or bool(mask.any()))
            return
        start, chosen = self._valid(storage, offsets, mask, bits.itemsize)
        values = bits.reshape(-1) if chosen is None else bits[chosen]
        if not start.size:
            return
        held = self.storage(storage)
        width = bits.itemsize
        whole = held.writable(start, width)
        self.version += 1
        if width == 1 or not (start & (width - 1)).any():
            held.view(width)[_index(start, width)] = values
        else:
            parts = np.ascontiguousarray(values).view(np.uint8).reshape(-1, width)
            # Element by element if they overlap in part: the later one stays.
            for byte in range(width):
                whole[start + byte] = parts[:, byte]
        held.learn(start, width)

    def _valid(
        self, storage: int, offsets: Ints, mask: Bools | None, width: int
    ) -> tuple[Ints, Bools | None]:
        """The offsets of the elements that are inside and enabled; which those are (None: all)."""
        last = self._launch.storages[storage].size_bytes - width
        if not offsets.size:
            return offsets.reshape(-1), None
        if int(offsets.min()) >= 0 and int(offsets.max()) <= last:
            valid = mask
        else:
            valid = (offsets >= 0) & (offsets <= last)
            if mask is not None:
                valid &= mask
        return (offsets.reshape(-1), None) if valid is None else (offsets[valid], valid)

    def forget(
        self, argument: int | Ints, offsets: Ints, mask: Bools | None, width: int, reason: str
    ) -> None:
        """A value that nobody knows was stored there."""
        storage, inside = self.locate(argument, offsets)
        for one in [storage] if isinstance(storage, int) else np.unique(storage):
            if one == NOWHERE:
                self.stored_nowhere = True
                continue
            here = mask
            if not isinstance(storage, int):
                here = storage == one if mask is None else (storage == one) & mask
            start, _ = self._valid(int(one), inside, here, width)
            held = self.storage(int(one))
            held.writable(start, width)
            held.forget(reason, start, width)
            self.version += 1

    def forget_storage(self, storage: int, reason: str) -> None:
        """Nothing is known of a storage from here on (NOWHERE: of any of them)."""
        for one in range(len(self._launch.storages)) if storage == NOWHERE else [storage]:
            held = self.storage(one)
            held.writable(np.zeros(0, dtype=np.int64), 1)
            held.forget(reason)
        self.version += 1

    # --- what came of it -----------------------------------------------------------------------------

    def changed(self) -> dict[int, list[tuple[int, Bytes | None, Bytes]]]:
        """By the storage's index, runs that were written to: the offset, the bytes before and after.

        Before: None where the contents are not available.
        """
        return {index: held.changed() for index, held in sorted(self._storages.items()) if held.written}

    def unknown(self) -> dict[int, str]:
        """Storages with bytes that the evaluation wrote and does not know, with the reason."""
        return {
            index: held.unknown_reason
            for index, held in sorted(self._storages.items())
            if held.written and not held.knows_all
        }


def address_in(storage: int) -> int:
    """In place of an argument's index: the offset is an address, and the storage it was made for is known."""
    return ABSOLUTE if storage == NOWHERE else _FIRST_STORAGE - storage


def storage_behind(argument: int) -> int:
    """The storage of `address_in`; NOWHERE for ABSOLUTE and for an argument's own index."""
    return _FIRST_STORAGE - argument if argument <= _FIRST_STORAGE else NOWHERE


def _index(offsets: Ints, width: int) -> Ints:
    """In a view of elements of this width, which is a power of two."""
    return offsets >> (width.bit_length() - 1) if width > 1 else offsets


def _signed(address: int) -> int:
    """An address as int64 holds it."""
    return address - (1 << 64) if address >= 1 << 63 else address

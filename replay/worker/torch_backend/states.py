"""The states that a run is restored from and compared with: pre, post, and snapshots of replays."""

from __future__ import annotations

import ctypes
import mmap
import os
from bisect import bisect_right
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
import torch

from ..common import bitmap
from ..common.bitmap import Bits
from ..common.byte_ranges import Range, clipped, common, data_of, minus, union
from ..common.poison import GAP_SEED, pattern
from ..common.private_map import private_state
from ..job import Job, JobRegion
from .compare_views import Idle, never

_PROT_NONE = 0
CHUNK = 16 * 1024 * 1024  # bytes of scratch per step on the device, times a small factor
_ON_HOST = 1024 * 1024  # where a step should stay in the processor's cache
_EQUAL = 8 * CHUNK  # where a step needs a byte of scratch for each, and its own cost is the launch


def chunks(size: int, start: int = 0, most: int = CHUNK) -> Iterator[tuple[int, int]]:
    """(offset, length) of pieces of at most ``most`` bytes."""
    for offset in range(start, size, most):
        yield offset, min(most, size - offset)


def map_state(folder: Path, region: JobRegion, name: str) -> Any:
    """A staged state as a uint8 tensor on the host; pages are read as they are touched."""
    if not region["size"]:
        return torch.empty(0, dtype=torch.uint8)
    return torch.frombuffer(private_state(folder, region, name), dtype=torch.uint8)


def _data_of(folder: Path, names: list[str]) -> list[Range]:
    """The parts of staged files, one after the other, that are not holes."""
    found, before = [], 0
    for name in names:
        with (folder / name).open("rb") as file:
            size = os.fstat(file.fileno()).st_size
            found += [(before + start, before + stop) for start, stop in data_of(file.fileno(), 0, size)]
        before += size
    return found


def _zeros(size: int) -> Any:
    """Zeros on the host, of which what nobody writes to is backed by nothing."""
    if not size:
        return torch.empty(0, dtype=torch.uint8)
    return torch.frombuffer(mmap.mmap(-1, size), dtype=torch.uint8)


def _kept(tensor: Any) -> Any:
    """A copy on the host in pages of its own, which `States.hide` can take away."""
    if not tensor.numel():
        return tensor.cpu()
    copy = torch.frombuffer(mmap.mmap(-1, tensor.numel()), dtype=torch.uint8)
    copy.copy_(tensor)
    return copy


class States:
    """Named states of all regions; ``pre`` and ``post`` come from the job's files.

    Of a ``hostile`` job all but ``pre`` stays on the host, and is compared there: a candidate on the device
    finds no result in the device's memory, and `hide` takes the pages away that some devices reach all the
    same (those that share the host's page tables).
    """

    def __init__(self, memory: Any, job: Job, folder: Path) -> None:
        self.memory = memory
        self.hostile = job["hostile"] and memory.kind == "cuda"
        self.sizes = [region["size"] for region in job["regions"]]
        self._states: dict[str, list[Any]] = {}
        self._sparse = memory.kind == "host"
        self._step = _ON_HOST if self._sparse else CHUNK
        self._data: dict[str, list[list[Range]]] = {}  # of the states on a sparse host: what may be not zero
        if self._sparse:
            pre_data = [_data_of(folder, r["pre"]) for r in job["regions"]]
            self._data["pre"] = pre_data
            self._data["post"] = [
                union(minus(pre_data[i], [(a, b) for a, b in r["changed"]]), _data_of(folder, r["post"]))
                for i, r in enumerate(job["regions"])
            ]
        pre = [map_state(folder, r, "pre") for r in job["regions"]]
        if memory.room_for(2 * sum(self.sizes)):
            pre = [memory.to_device(tensor) for tensor in pre]
        self._states["pre"] = pre
        self._states["post"] = [
            map_state(folder, r, "post") if r["post"] else pre[i] for i, r in enumerate(job["regions"])
        ]

    def now(self, region: int, offset: int, size: int) -> Any:
        """Bytes of memory as it is, where they are compared."""
        tensor = self.memory.tensor(region, offset, size)
        return tensor.cpu() if self.hostile else tensor

    def in_memory(self, region: int, start: int, stop: int) -> Any:
        """Bytes of memory as it is, on the host."""
        return self.now(region, start, stop - start).cpu().numpy()

    def chunk(self, name: str, region: int, offset: int, size: int) -> Any:
        """Bytes of a state, where they are compared."""
        return self._placed(self._states[name][region][offset : offset + size])

    def whole(self, name: str, region: int) -> Any:
        return self._placed(self._states[name][region])

    def _placed(self, tensor: Any) -> Any:
        return tensor.cpu() if self.hostile else self.memory.to_device(tensor)

    def _data_here(self, region: int, *states: str) -> list[Range]:
        """Where memory or one of the states may be other than zero."""
        if not self._sparse:
            return [(0, self.sizes[region])]
        return union(self.memory.touched(region), *(self._data[name][region] for name in states))

    def idle(self, region: int, *states: str) -> Idle:
        """Whether a tensor that lies in a region is zeros, and so are its bytes in some states.

        It may say no of zeros: it says yes of what nobody has written to.
        """
        data, size = self._data_here(region, *states), self.sizes[region]
        base = self.memory.regions[region]["base"]
        stops = [stop for _, stop in data]

        def is_idle(tensor: Any) -> bool:
            start = tensor.data_ptr() - base
            strides = zip(tensor.shape, tensor.stride(), strict=True)
            last = sum((length - 1) * stride for length, stride in strides)
            stop = start + (last + 1) * tensor.element_size()
            if start < 0 or stop > size:
                return False  # a copy
            at = bisect_right(stops, start)
            return at == len(data) or data[at][0] >= stop

        return is_idle if self._sparse else never

    def untouched(self, region: int) -> Bits | None:
        """What no launch has accessed since a state was restored, as far as that is known."""
        size = self.sizes[region]
        if not self._sparse:
            return None
        return bitmap.of_ranges(size, minus([(0, size)], self.memory.touched(region)))

    def hide(self, hidden: bool) -> None:
        """Take the pages of all results away, or give them back."""
        libc = ctypes.CDLL(None, use_errno=True)
        rights = _PROT_NONE if hidden else mmap.PROT_READ | mmap.PROT_WRITE
        for name, tensors in self._states.items():
            for tensor, pre in zip(tensors, self._states["pre"], strict=True):
                if name == "pre" or tensor is pre or tensor.is_cuda or not tensor.numel():
                    continue
                pages = -(-tensor.numel() // mmap.PAGESIZE) * mmap.PAGESIZE
                if libc.mprotect(ctypes.c_void_p(tensor.data_ptr()), ctypes.c_size_t(pages), rights):
                    raise OSError(ctypes.get_errno(), "mprotect")

    def restore(self, name: str = "pre", only: list[int] | None = None) -> None:
        """Put a state into memory, and fresh poison between the regions."""
        for region in range(len(self.sizes)) if only is None else only:
            self._copy(name, region, 0, self.sizes[region])
        if only is None:
            for address, gap in self.memory.gap_tensors():
                for offset, size in chunks(gap.numel()):
                    piece = gap[offset : offset + size]
                    piece.copy_(pattern(torch, GAP_SEED, address, offset, size, piece.device))
            for _, zeros in self.memory.zero_tensors():
                zeros.zero_()

    def restore_ranges(self, name: str, ranges: list[list[int]]) -> None:
        """Put bytes of a state into memory: of each (region, start, stop)."""
        for region, start, stop in ranges:
            self._copy(name, region, start, stop)

    def _copy(self, name: str, region: int, start: int, stop: int) -> None:
        """Put [start, stop) of a state into memory; what is on the device needs no scratch, and no steps."""
        most = max(1, stop - start) if self._states[name][region].is_cuda else CHUNK
        for low, high in self._given(name, region, start, stop):
            for offset, size in chunks(high, low, most):
                state = self._states[name][region][offset : offset + size]
                state = state if self.hostile else self.memory.to_device(state)
                self.memory.tensor(region, offset, size).copy_(state)

    def _given(self, name: str, region: int, start: int, stop: int) -> list[Range]:
        """What of [start, stop) a state has to be copied to; the rest of it is zero after this."""
        if not self._sparse:
            return [(start, stop)]
        data = clipped(self._data[name][region], start, stop)
        for low, high in minus(clipped(self.memory.touched(region), start, stop), data):
            self.memory.forget(region, low, high)
        return data

    def snapshot(self, name: str) -> None:
        """Keep the present contents of memory under ``name``."""
        here = self.memory.room_for(2 * sum(self.sizes))
        copies = []
        for region, size in enumerate(self.sizes):
            if self._sparse:
                copies.append(self._sparse_copy(name, region))
                continue
            tensor = self.memory.tensor(region, 0, size)
            if self.hostile:
                copies.append(_kept(tensor))
            else:
                copies.append(tensor.clone() if here else tensor.cpu())
        self._states[name] = copies

    def _sparse_copy(self, name: str, region: int) -> Any:
        data = self.memory.touched(region)
        self._data.setdefault(name, [[] for _ in self.sizes])[region] = data
        copy = _zeros(self.sizes[region])
        for start, stop in data:
            copy[start:stop].copy_(self.memory.tensor(region, start, stop - start))
        return copy

    def amend(self, name: str, region: int, start: int, data: Any) -> None:
        """Other bytes of a snapshot, from ``start`` of a region on."""
        stop = start + len(data)
        self._states[name][region][start:stop].copy_(torch.from_numpy(data))
        if self._sparse:
            self._data[name][region] = union(self._data[name][region], [(start, stop)])

    def drop(self, name: str) -> None:
        self._states.pop(name, None)
        self._data.pop(name, None)

    # --- byte by byte ------------------------------------------------------------------------------

    def fill(self, region: int, start: int, stop: int, seed: int, mask: Bits | None) -> None:
        """Poison [start, stop) of a region, or of that only the bytes of ``mask``."""
        for offset, size, chosen in self._masked(region, start, stop, mask):
            target = self.memory.tensor(region, offset, size)
            poison = pattern(torch, seed, region, offset, size, target.device)
            if chosen is not None:
                poison = torch.where(self.memory.to_device(torch.from_numpy(chosen)), poison, target)
            target.copy_(poison)

    def _masked(
        self, region: int, start: int, stop: int, mask: Bits | None
    ) -> Iterator[tuple[int, int, Any | None]]:
        """(offset, size, flags) of the pieces with bytes of ``mask``; no flags if it has all of a piece.

        On the host no page of any other.
        """
        for offset, size in self._pieces([(start, stop)], mask):
            chosen = None if mask is None else mask.flags(offset, offset + size)
            if chosen is None or chosen.all():
                yield offset, size, None
            elif self._sparse:
                skew = self.memory.regions[region]["base"] % mmap.PAGESIZE
                first = (offset + skew) // mmap.PAGESIZE * mmap.PAGESIZE - skew
                for page in range(first, offset + size, mmap.PAGESIZE):
                    low, high = max(offset, page), min(offset + size, page + mmap.PAGESIZE)
                    if (here := chosen[low - offset : high - offset]).any():
                        yield low, high - low, here
            else:
                yield offset, size, chosen

    def _pieces(self, ranges: list[Range], mask: Bits | None) -> Iterator[tuple[int, int]]:
        """(offset, size) of the pieces of ranges of which a mask may have bytes."""
        if mask is not None and self._sparse:
            ranges = common(ranges, mask.pages())
        for start, stop in ranges:
            for offset, size in chunks(stop, start, self._step):
                if mask is None or mask.packed(offset // 8 * 8, offset + size).any():
                    yield offset, size

    def put(self, name: str, region: int, mask: Bits) -> None:
        """The bytes of ``mask`` as a state has them."""
        for offset, size in self._pieces(self._data_here(region, name), mask):
            chosen = torch.from_numpy(mask.flags(offset, offset + size))
            chosen = chosen if self.hostile else self.memory.to_device(chosen)
            state, now = self.chunk(name, region, offset, size), self.now(region, offset, size)
            self.memory.tensor(region, offset, size).copy_(torch.where(chosen, state, now))

    def differing(self, name: str) -> list[int]:
        """The regions that differ from a state anywhere."""
        return [
            region
            for region in range(len(self.sizes))
            if any(
                not torch.equal(self.now(region, offset, length), self.chunk(name, region, offset, length))
                for low, high in self._data_here(region, name)
                for offset, length in chunks(
                    high, low, _EQUAL if self._states[name][region].is_cuda else self._step
                )
            )
        ]

    def diff(self, region: int, against: str, seed: int, mask: Bits | None = None) -> Bits | None:
        """The bytes that differ from a state, or poison; None if none do.

        Outside of ``mask`` it may say anything.
        """
        found = bitmap.of_parts(self.sizes[region], self._different(region, against, seed, mask))
        return found if found.any() else None

    def _different(
        self, region: int, against: str, seed: int, mask: Bits | None
    ) -> Iterator[tuple[int, Any]]:
        size = self.sizes[region]
        everywhere = [(0, size)] if against == "poison" else self._data_here(region, against)
        for offset, length in self._pieces(clipped(everywhere, 0, size, 8), mask):
            now = self.now(region, offset, length)
            if against == "poison":
                other = pattern(torch, seed, region, offset, length, now.device)
            else:
                other = self.chunk(against, region, offset, length)
            if not torch.equal(now, other):
                yield offset, np.packbits((now != other).cpu().numpy(), bitorder="little")

    def gap_writes(self) -> list[tuple[int, int, int]]:
        """(first address, last address, bytes) that were written in each gap between regions."""
        found = []
        for address, zeros in self.memory.zero_tensors():
            at = zeros.nonzero()
            if len(at):
                found.append((address + int(at[0]), address + int(at[-1]), len(at)))
        for address, gap in self.memory.gap_tensors():
            hits: list[tuple[int, int, int]] = []
            for offset, size in chunks(gap.numel()):
                piece = gap[offset : offset + size]
                at = (piece != pattern(torch, GAP_SEED, address, offset, size, piece.device)).nonzero()
                if len(at):
                    hits.append((address + offset + int(at[0]), address + offset + int(at[-1]), len(at)))
            if hits:
                found.append((hits[0][0], hits[-1][1], sum(n for _, _, n in hits)))
        return found

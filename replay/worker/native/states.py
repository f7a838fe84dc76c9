"""The states that a native run is restored from and compared with: pre, post, and snapshots of replays.

States lie on the device if it has room, so that a restore is a copy within it; else on the host.
"""

from __future__ import annotations

from collections.abc import Iterator
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np

from ..common import bitmap
from ..common.address_layout import Span, gaps
from ..common.bitmap import Bits
from ..common.host_bytes import Bytes
from ..common.poison import GAP_SEED
from ..common.private_map import private_state
from ..cuda.device import Device
from ..job import Job, JobRegion
from .bulk import Bulk, pieces
from .moved_pointers import Moves

_PHASE = 256  # a copy of a region has its alignment: eight bytes at once can be compared
_MOST_GAP_COPIES = 256 * 1024 * 1024


def map_state(folder: Path, region: JobRegion, name: str) -> Bytes:
    """A staged state as an array; pages are read as they are touched, and changes stay private."""
    if not region["size"]:
        return np.empty(0, dtype=np.uint8)
    return np.frombuffer(private_state(folder, region, name), dtype=np.uint8)


class _State:
    """All regions' bytes: on the device (an address each), on the host, or both.

    ``changed`` are the ranges in which a region is other than in the pre-state; one that has none has no
    copy on the device, but the pre-state's. None: the state has nothing of another.
    """

    def __init__(self, host: list[Bytes] | None, changed: list[list[list[int]]] | None = None) -> None:
        self.host = host
        self.changed = changed
        self.buffer = 0
        self.addresses: list[int] = []


class States:
    """Named states of all regions; ``pre`` and ``post`` come from the job's files."""

    def __init__(self, memory: Any, device: Device, bulk: Bulk, job: Job, folder: Path, moves: Moves) -> None:
        self.memory = memory
        self.device = device
        self.bulk = bulk
        self.sizes = [int(region["size"]) for region in job["regions"]]
        self.gaps = gaps(memory.regions, memory.mapped)
        self._zeros: list[Span] = memory.zero_blocks
        self._gap_copies: dict[int, int] = {}
        pre = [map_state(folder, r, "pre") for r in job["regions"]]
        post = [map_state(folder, r, "post") if r["post"] else pre[i] for i, r in enumerate(job["regions"])]
        moves.apply(job["regions"], [pre, [post[i] for i, r in enumerate(job["regions"]) if r["post"]]])
        self._states = {"pre": _State(pre), "post": _State(post, [r["changed"] for r in job["regions"]])}
        self._copy_gaps()

    def base(self, region: int) -> int:
        return int(self.memory.regions[region]["base"])

    # --- where a state is --------------------------------------------------------------------------

    def resident(self, name: str) -> list[int] | None:
        """The address of each region's copy on the device; None if there is no room for it."""
        state = self._states[name]
        if not state.buffer:
            if not self._make_room(state):
                return None
            self._upload(state)
        return state.addresses

    def _upload(self, state: _State) -> None:
        assert state.host is not None
        for region, data in enumerate(state.host):
            ranges, address = [[0, len(data)]], state.addresses[region]
            if state.changed is not None:
                ranges = state.changed[region]
                if ranges and ranges != [[0, len(data)]]:
                    self.device.copy(address, self._states["pre"].addresses[region], len(data))
            for start, stop in ranges:
                self.device.upload(address + start, data[start:stop])

    def source(self, name: str, region: int, offset: int, size: int) -> int:
        """An address of at most CHUNK bytes of a state, good until the next call."""
        copies = self.resident(name)
        if copies is not None:
            return copies[region] + offset
        host = self._states[name].host
        assert host is not None
        self.device.upload(self.bulk.spare(), host[region][offset : offset + size])
        return self.bulk.spare()

    def read(self, name: str | None, region: int, start: int, stop: int) -> Bytes:
        """Bytes [start, stop) of a region in a state, or in memory as it is, on the host."""
        if name is None:
            return self.device.download(self.base(region) + start, stop - start)
        state = self._states[name]
        if state.host is not None:
            return state.host[region][start:stop]
        return self.device.download(state.addresses[region] + start, stop - start)

    def in_memory(self, region: int, start: int, stop: int) -> Bytes:
        """Bytes of memory as it is, on the host."""
        return self.read(None, region, start, stop)

    def _make_room(self, state: _State) -> bool:
        shared = None if state.changed is None else self.resident("pre")
        if state.changed is not None and shared is None:
            return False
        total, offsets = 0, []
        for region, size in enumerate(self.sizes):
            start = -(-total // _PHASE) * _PHASE + self.base(region) % _PHASE
            offsets.append(start)
            if state.changed is None or state.changed[region]:
                total = start + size
        if not self.device.room_for(total):
            return False
        state.buffer = self.device.allocate(total + _PHASE)
        aligned = -(-state.buffer // _PHASE) * _PHASE
        state.addresses = [aligned + offset for offset in offsets]
        if state.changed is not None and shared is not None:
            for region, ranges in enumerate(state.changed):
                state.addresses[region] = state.addresses[region] if ranges else shared[region]
        return True

    # --- whole states ------------------------------------------------------------------------------

    def restore(self, name: str = "pre", only: list[int] | None = None) -> None:
        """Put a state into memory, and fresh poison between the regions."""
        copies = self.resident(name)
        for region in range(len(self.sizes)) if only is None else only:
            if copies is not None:
                self.device.copy(self.base(region), copies[region], self.sizes[region])
            else:
                host = self._states[name].host
                assert host is not None
                self.device.upload(self.base(region), host[region])
        if only is None:
            for gap in self.gaps:
                if gap.start in self._gap_copies:
                    self.device.copy(gap.start, self._gap_copies[gap.start], gap.size)
                else:
                    self.bulk.poison(gap.start, GAP_SEED, gap.start, 0, gap.size)
            for zeros in self._zeros:
                self.device.zero(zeros.start, zeros.size)

    def reload(self) -> None:
        """Take the captured states from their files again: a run under poison may have written anywhere."""
        for name in ("pre", "post"):
            state = self._states[name]
            if state.buffer and state.host is not None:
                self._upload(state)
        for gap in self.gaps:
            if gap.start in self._gap_copies:
                self.bulk.poison(self._gap_copies[gap.start], GAP_SEED, gap.start, 0, gap.size)

    def snapshot(self, name: str) -> None:
        """Keep the present contents of memory under ``name``."""
        state = self._states.get(name)
        if state is None or state.changed is not None:
            state = self._states[name] = _State(None)
        if state.buffer or self._make_room(state):
            state.host = None
            for region, size in enumerate(self.sizes):
                self.device.copy(state.addresses[region], self.base(region), size)
        else:
            state.host = [self.read(None, region, 0, size) for region, size in enumerate(self.sizes)]

    def amend(self, name: str, region: int, start: int, data: Bytes) -> None:
        """Other bytes of a snapshot, from ``start`` of a region on."""
        state = self._states[name]
        if state.host is not None:
            state.host[region][start : start + len(data)] = data
        if state.buffer:
            self.device.upload(state.addresses[region] + start, data)

    def drop(self, name: str) -> None:
        state = self._states.pop(name, None)
        if state is not None and state.buffer:
            self.device.finish()  # what is queued may still read it
            self.device.free(state.buffer)

    # --- byte by byte ------------------------------------------------------------------------------

    def fill(self, region: int, start: int, stop: int, seed: int, mask: Bits | None) -> None:
        """Poison [start, stop) of a region, or of that only the bytes of ``mask``."""
        base = self.base(region)
        if mask is None:
            self.bulk.poison(base + start, seed, region, start, stop - start)
            return
        for offset, size, bits in self._masked(region, mask, start, stop):
            scratch = self.bulk.scratch()
            self.bulk.poison(scratch, seed, region, offset, size)
            self.bulk.merge(base + offset, scratch, size, bits)

    def put(self, name: str, region: int, mask: Bits) -> None:
        """The bytes of ``mask`` as a state has them."""
        for offset, size, bits in self._masked(region, mask, 0, self.sizes[region]):
            source = self.source(name, region, offset, size)
            self.bulk.merge(self.base(region) + offset, source, size, bits)

    def _masked(
        self, region: int, mask: Bits, start: int, stop: int
    ) -> Iterator[tuple[int, int, Bytes]]:  # fmt: skip
        if (start, stop) != (0, mask.size):
            mask = mask & bitmap.span(mask.size, start, stop)
        for offset, size in pieces(self.sizes[region]):
            bits = mask.packed(offset, offset + size)
            if bits.any():
                yield offset, size, bits

    def differing(self, name: str) -> list[int]:
        """The regions that differ from a state anywhere."""
        regions = [region for region, size in enumerate(self.sizes) if size]

        def compared(region: int) -> Iterator[tuple[int, int, int]]:
            for offset, size in pieces(self.sizes[region]):
                yield self.base(region) + offset, self.source(name, region, offset, size), size

        return [regions[i] for i in self.bulk.unequal([partial(compared, region) for region in regions])]

    def untouched(self, region: int) -> Bits | None:
        """Not known of a device."""
        return None

    def diff(self, region: int, against: str, seed: int, mask: Bits | None = None) -> Bits | None:
        """The bytes that differ from a state or poison; None if none do."""
        bits = bitmap.of_parts(self.sizes[region], self._different(region, against, seed))
        return bits if bits.any() else None

    def _different(self, region: int, against: str, seed: int) -> Iterator[tuple[int, Bytes]]:
        for offset, length in pieces(self.sizes[region]):
            if against == "poison":
                other = self.bulk.scratch()
                self.bulk.poison(other, seed, region, offset, length)
            else:
                other = self.source(against, region, offset, length)
            yield offset, self.bulk.difference(self.base(region) + offset, other, length)

    # --- between the regions -----------------------------------------------------------------------

    def gap_writes(self) -> list[tuple[int, int, int]]:
        """(first address, last address, bytes) that were written in each gap between regions."""
        found = []
        watched = [*self._zeros, *self.gaps]
        for number in self.bulk.unequal([partial(self._expected, gap) for gap in watched]):
            gap = watched[number]
            hits = []
            for now, expected, size in self._expected(gap):
                bits = np.unpackbits(self.bulk.difference(now, expected, size), bitorder="little")
                hits.append(np.flatnonzero(bits[:size]) + now)
            at = np.concatenate(hits)
            found.append((int(at[0]), int(at[-1]), len(at)))
        return found

    def _expected(self, gap: Span) -> Iterator[tuple[int, int, int]]:
        """(address, where what must be there is, size) of the pieces of a gap."""
        for offset, size in pieces(gap.size):
            if gap.start in self._gap_copies:
                expected = self._gap_copies[gap.start] + offset
            elif gap in self._zeros:
                expected = self.bulk.scratch()
                self.device.zero(expected, size)
            else:
                expected = self.bulk.scratch()
                self.bulk.poison(expected, GAP_SEED, gap.start, offset, size)
            yield gap.start + offset, expected, size

    def _copy_gaps(self) -> None:
        """Where poison comes from the host, it comes from there once."""
        total = sum(gap.size for gap in self.gaps)
        if self.bulk.on_device or total > _MOST_GAP_COPIES or not self.device.room_for(total):
            return
        for gap in self.gaps:
            self._gap_copies[gap.start] = self.device.allocate(gap.size)
            self.bulk.poison(self._gap_copies[gap.start], GAP_SEED, gap.start, 0, gap.size)

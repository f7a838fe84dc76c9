"""Whole ranges of bytes: poison, comparison and masked copies, on the device if it takes our kernels.

Where it does not, the bytes come to the host and numpy does the same.
"""

from __future__ import annotations

import contextlib
import ctypes
from collections.abc import Callable, Iterator, Sequence
from typing import Any

import numpy as np

from ..common.host_bytes import Bytes, host_bytes
from ..common.poison import constants, words
from ..cuda import driver as cu
from ..cuda.device import Device
from ..cuda.memory_kernels import TEXT, THREADS

CHUNK = 64 * 1024 * 1024  # bytes of a range that are worked on at once; a multiple of 64
MAX_COUNTERS = 1024
_LONGEST_HOLD_NS = 20_000_000


class Bulk:
    """Operations on [address, address + size); ``on_device`` says where they are carried out."""

    def __init__(self, device: Device) -> None:
        self.device = device
        self._functions = _load(device) if device.takes_ptx else {}
        self._scratch = self._bitmap = self._spare = 0
        self.counters = device.allocate(8 * MAX_COUNTERS)
        if self._functions and not self._works():
            self._functions = {}
        self._holds = 0
        # The number of the last hold that may end.
        self._released = device.host_memory(8) if self._functions else 0

    @property
    def on_device(self) -> bool:
        return bool(self._functions)

    # --- operations --------------------------------------------------------------------------------

    def poison(self, address: int, seed: int, region: int, offset: int, size: int) -> None:
        """The poison of ``region`` from ``offset`` on to ``address``."""
        if not size:
            return
        if self.on_device:
            key, invert = constants(seed, region)
            self._run("pattern", offset % 8 + size, address, offset, size, key, invert)
            return
        for at in range(0, size, CHUNK):
            length = min(CHUNK, size - at)
            self.device.upload(address + at, words(np, seed, region, offset + at, length))

    def unequal(self, compared: Sequence[Callable[[], Iterator[tuple[int, int, int]]]]) -> list[int]:
        """The numbers of those of whose pairs of ranges (two addresses, a size) any is not equal.

        A pair is good until the next one is asked for: what it takes is queued by then.
        """
        if not self.on_device:
            return [
                number
                for number, pairs in enumerate(compared)
                if any(
                    (self.device.download(a, n) != self.device.download(b, n)).any() for a, b, n in pairs()
                )
            ]
        found: list[int] = []
        for start in range(0, len(compared), MAX_COUNTERS):
            batch = compared[start : start + MAX_COUNTERS]
            self.clear(len(batch))
            for counter, pairs in enumerate(batch):
                for a, b, size in pairs():
                    self.count(a, b, size, counter)
            found += [start + i for i, n in enumerate(self.counts(len(batch))) if n]
        return found

    def difference(self, a: int, b: int, size: int) -> Bytes:
        """Packed bitmap of the bytes that differ; of at most CHUNK bytes."""
        if not self.on_device:
            unequal = self.device.download(a, size) != self.device.download(b, size)
            return np.packbits(unequal, bitorder="little")
        self.clear(1)
        bitmap = self._buffer("_bitmap", CHUNK // 8)
        self._run("compare", size, a, b, size, bitmap, self.counters)
        if not self.counts(1)[0]:
            return np.zeros((size + 7) // 8, dtype=np.uint8)
        return self.device.download(bitmap, (size + 7) // 8)

    def merge(self, target: int, source: int, size: int, mask: Bytes) -> None:
        """The bytes of a packed ``mask`` from ``source`` to ``target``; at most CHUNK bytes."""
        if self.on_device:
            bitmap = self._buffer("_bitmap", CHUNK // 8)
            self.device.upload(bitmap, np.ascontiguousarray(mask[: (size + 7) // 8]))
            self._run("merge", size, target, source, size, bitmap)
            return
        chosen = np.unpackbits(mask, bitorder="little")[:size].astype(bool)
        now = self.device.download(target, size)
        now[chosen] = self.device.download(source, size)[chosen]
        self.device.upload(target, now)

    def scratch(self) -> int:
        """CHUNK bytes for one step of an operation."""
        return self._buffer("_scratch", CHUNK)

    def spare(self) -> int:
        """Other CHUNK bytes: what a state is uploaded to."""
        return self._buffer("_spare", CHUNK)

    # --- counting, queued --------------------------------------------------------------------------

    def clear(self, number: int) -> None:
        self.device.zero(self.counters, 8 * number)

    def count(self, a: int, b: int, size: int, counter: int) -> None:
        """Queue: add the number of differing bytes to a counter (on the device only)."""
        self._run("compare", size, a, b, size, 0, self.counters + 8 * counter)

    def keep_first(self, target: int, source: int, size: int, run: int) -> None:
        """Queue: copy if the counter of ``run`` is the first that is not 0 (on the device only)."""
        self._run("keep", size, target, source, size, self.counters, run)

    def counts(self, number: int) -> list[int]:
        return [int(n) for n in self.device.download(self.counters, 8 * number).view(np.uint64)]

    @contextlib.contextmanager
    def held(self) -> Iterator[None]:
        """The device is kept busy, if it can be, while the host queues what then runs without gaps."""
        if not self.on_device:
            yield
            return
        self._holds += 1
        self._launch("hold", 1, 1, self._released, self._holds, _LONGEST_HOLD_NS)
        try:
            yield
        finally:
            host_bytes(self._released, 8).view(np.uint64)[0] = self._holds

    # --- our kernels -------------------------------------------------------------------------------

    def _works(self) -> bool:
        """Whether the kernels do what numpy does: comparisons rest on them."""
        size = 61
        buffer = self.device.allocate(2 * 64)
        try:
            self.poison(buffer, 1, 2, 3, size)
            expected = words(np, 1, 2, 3, size)
            if (self.device.download(buffer, size) != expected).any():
                return False
            expected[[0, 17, 60]] ^= 0x80
            self.device.upload(buffer + 64, expected)
            found = self.difference(buffer, buffer + 64, size)
            at = np.flatnonzero(np.unpackbits(found, bitorder="little"))
            pairs = [lambda: iter([(buffer, buffer, size)]), lambda: iter([(buffer, buffer + 64, size)])]
            return list(at) == [0, 17, 60] and self.unequal(pairs) == [1]
        except cu.CudaError:
            return False
        finally:
            self.device.free(buffer)

    def _run(self, name: str, size: int, *arguments: int) -> None:
        if size:
            self._launch(name, -(-size // (8 * THREADS)), THREADS, *arguments)

    def _launch(self, name: str, blocks: int, threads: int, *arguments: int) -> None:
        shape = blocks, 1, 1, threads, 1, 1, 0
        passed = arguments, (ctypes.c_uint64,) * len(arguments)
        self.device.driver.call(
            "cuLaunchKernel", self._functions[name], *shape, self.device.stream, passed, 0
        )

    def _buffer(self, name: str, size: int) -> int:
        address = int(getattr(self, name))
        if not address:
            address = self.device.allocate(size)
            setattr(self, name, address)
        return address


def pieces(size: int) -> list[tuple[int, int]]:
    """(offset, length) of pieces of at most CHUNK bytes."""
    return [(offset, min(CHUNK, size - offset)) for offset in range(0, size, CHUNK)]


def _load(device: Device) -> dict[str, Any]:
    """Our kernels by name; none if the driver does not take them."""
    driver = device.driver
    try:
        module = driver.call("cuModuleLoadData", TEXT.encode() + b"\0")
        return {
            name: driver.call("cuModuleGetFunction", module, f"kerncap_{name}".encode())
            for name in ("pattern", "compare", "merge", "keep", "hold")
        }
    except cu.CudaError:
        return {}

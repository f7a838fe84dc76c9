"""The measurement itself: bandwidth of memory and cache, throughput of each unit, the cost of a launch."""

from __future__ import annotations

import ctypes
import statistics
import sys
import time
from collections.abc import Callable
from functools import partial
from typing import Any

from .. import typed_json
from ..common.failures import Fault, Refused
from ..cuda import driver as cu
from ..cuda.device import Device
from ..native.cuda_repeat import Events, Graph
from ..protocol import Failure
from . import benchmark_kernels

_MEMORY_BYTES = 2 << 30  # of both buffers together: a stream of it takes half a millisecond and more
_LEAST_MEMORY_BYTES = 64 << 20
_BLOCK = 256
_MEMORY_BLOCKS = 8  # per multiprocessor
_L2_BLOCKS = 2
_L2_SHARE = 4  # the cache's part that is read again and again
_L2_ROUNDS = 48
_RUNS = 7
_TARGET_MS = 3.0  # of one timed run: long enough for the clocks to be those of a long run
_FIRST_ROUNDS = 64
_EMPTY_LAUNCHES = 200
_DRAM = ("dram_read_bytes_per_s", "dram_write_bytes_per_s", "dram_copy_bytes_per_s")
_ATTRIBUTES = {
    "sm_count": "MULTIPROCESSOR_COUNT", "clock_khz": "CLOCK_RATE", "memory_clock_khz": "MEMORY_CLOCK_RATE",
    "memory_bus_bits": "GLOBAL_MEMORY_BUS_WIDTH", "l2_bytes": "L2_CACHE_SIZE",
}  # fmt: skip
_PARAMETERS = (ctypes.c_uint64, ctypes.c_uint64, ctypes.c_uint64, ctypes.c_uint32)


class _Loaded:
    """A kernel on the device, launched with the four parameters that all of them have."""

    def __init__(self, device: Device, kernel: benchmark_kernels.Kernel) -> None:
        self._device, self._driver = device, device.driver
        self._module = self._driver.call("cuModuleLoadData", kernel.text.encode() + b"\0")
        self._function = self._driver.call("cuModuleGetFunction", self._module, b"measure")

    def run(self, blocks: int, buffer: int, other: int, words: int = 0, rounds: int = 1) -> None:
        passed = (buffer, other, words, rounds), _PARAMETERS
        shape = blocks, 1, 1, _BLOCK, 1, 1, 0
        self._driver.call("cuLaunchKernel", self._function, *shape, self._device.stream, passed, 0)

    def close(self) -> None:
        self._driver.status("cuModuleUnload", self._module)


class Measurement:
    """Ceilings of one device. What can't be measured is left out, with its reason in ``missing``."""

    def __init__(self, driver: cu.Driver, ordinal: int) -> None:
        self.device = Device(driver, ordinal)
        self.facts = {name: driver.attribute(theirs, ordinal) for name, theirs in _ATTRIBUTES.items()}
        major, minor = (
            driver.attribute(f"COMPUTE_CAPABILITY_{each}", ordinal) for each in ("MAJOR", "MINOR")
        )
        self.capability = 10 * major + minor
        self.ceilings: dict[str, float] = {}
        self.how: dict[str, str] = {}
        self.missing: dict[str, str] = {}
        self._lost = ""
        self._events = Events(device=self.device, pairs=1)
        self._small = self.device.allocate(4096)

    def run(self) -> dict[str, Any]:
        begin = time.perf_counter()
        self._try("launch_us", self._launches)
        try:
            self._memory()
        except (
            cu.CudaError,
            Refused,
            Fault,
        ) as error:  # the buffers themselves: what is missing has a reason
            self.missing.update({name: str(error) for name in _DRAM if name not in self.ceilings})
        self._try("l2_bytes_per_s", self._l2)
        for kind in ("fp32", "fp64", "fp16", "bf16", "special"):
            self._try(f"{kind}_per_s", partial(self._compute, benchmark_kernels.vector(kind)))
        for kind in benchmark_kernels.MMA_KINDS:
            self._tensor(kind)
        return {
            "version": 1,
            "device": self.device.name,
            "arch": self.device.arch,
            "driver": self.device.driver_version,
            **self.facts,
            "ceilings": self.ceilings,
            "how": self.how,
            "missing": self.missing,
            "seconds": round(time.perf_counter() - begin, 3),
        }

    def _try(self, name: str, measure: Callable[[], float]) -> float | None:
        """What was measured, kept under ``name``; None, with the reason kept, if it can't be."""
        if self._lost:
            self.missing[name] = self._lost
            return None
        try:
            found = measure()
        except (cu.CudaError, Refused) as error:
            self.missing[name] = str(error)
        except Fault as error:  # a context that saw one is of no use any more
            self.missing[name] = self._lost = str(error)
        else:
            self.ceilings[name] = max(found, self.ceilings.get(name, 0.0))
            return found
        return None

    # --- time ----------------------------------------------------------------------------------------

    def _ms(self, run: Callable[[], None], runs: int = _RUNS) -> float:
        """The fastest of some timed runs, after one that is not timed: a ceiling is what can be reached."""
        run()
        pair, times = self._events.pairs[0], []
        for _ in range(runs):
            self._events.record(pair[0])
            run()
            self._events.record(pair[1])
            self.device.finish(30.0)
            times.append(self._events.elapsed_ms(pair))
        return min(times)

    def _launches(self) -> float:
        """Microseconds from one empty kernel to the next in a graph: no launch in a row can be shorter.

        Keeps, too, what events around one alone measure.
        """
        kernel = _Loaded(self.device, benchmark_kernels.empty())
        kernel.run(1, self._small, self._small)
        self.device.finish(30.0)
        pair, alone = self._events.pairs[0], []
        for _ in range(_RUNS * 3):
            self.device.zero(self._small, 4096)  # holds the device while the launch is queued
            self._events.record(pair[0])
            kernel.run(1, self._small, self._small)
            self._events.record(pair[1])
            self.device.finish(30.0)
            alone.append(self._events.elapsed_ms(pair) * 1e3)
        self.ceilings["event_us"] = statistics.median(alone)
        in_a_row = self._in_a_row(lambda: kernel.run(1, self._small, self._small))
        kernel.close()
        return in_a_row

    def _in_a_row(self, launch: Callable[[], None]) -> float:
        """Microseconds of each of many launches in a graph."""
        graph = Graph(self.device, launch, _EMPTY_LAUNCHES)
        taken = self._ms(graph.queue)
        graph.close()
        return taken * 1e3 / _EMPTY_LAUNCHES

    # --- memory --------------------------------------------------------------------------------------

    def _memory(self) -> None:
        blocks = self.facts["sm_count"] * _MEMORY_BLOCKS
        unit = 4 * 16 * blocks * _BLOCK  # one turn of all threads
        size = 2 * unit * max(1, _MEMORY_BYTES // (2 * unit))
        while size > _LEAST_MEMORY_BYTES and not self.device.room_for(size):
            size = 2 * unit * (size // (4 * unit))
        least = max(_LEAST_MEMORY_BYTES, 4 * self.facts["l2_bytes"])
        if size < least:
            self.missing.update(
                dict.fromkeys(_DRAM, f"less than {least >> 20} MiB of device memory are free")
            )
            return
        buffer = self.device.allocate(size)
        try:
            self.device.zero(buffer, size)
            for name, loads, stores in zip(_DRAM, (True, False, True), (False, True, True), strict=True):
                moved = size // 2 if loads and stores else size
                self._try(name, partial(self._stream, loads, stores, blocks, buffer, moved))
        finally:
            self.device.finish(30.0)
            self.device.free(buffer)

    def _stream(self, loads: bool, stores: bool, blocks: int, buffer: int, size: int) -> float:
        """Bytes per second; what is copied goes from one half of the buffer to the other.

        By threads that go on and by threads that move their words once: which is faster differs between
        devices, and between reading and copying.
        """
        kernel = benchmark_kernels.memory(loads, stores)
        loaded = _Loaded(self.device, kernel)
        target = buffer + size if loads and stores else buffer if stores else self._small
        words = size // 16
        taken = min(
            self._ms(partial(loaded.run, grid, buffer, target, words))
            for grid in (blocks, words // (4 * _BLOCK))
        )
        loaded.close()
        return words * kernel.per_round / (taken * 1e-3)

    def _l2(self) -> float:
        """Bytes per second that all multiprocessors read from the level-2 cache, past their own caches."""
        blocks = self.facts["sm_count"] * _L2_BLOCKS
        unit = 4 * 16 * blocks * _BLOCK
        size = unit * max(1, self.facts["l2_bytes"] // _L2_SHARE // unit)
        kernel = benchmark_kernels.memory(True, False)
        buffer = self.device.allocate(size)
        try:
            self.device.zero(buffer, size)
            loaded = _Loaded(self.device, kernel)
            taken = self._ms(lambda: loaded.run(blocks, buffer, self._small, size // 16, _L2_ROUNDS))
            loaded.close()
        finally:
            self.device.finish(30.0)
            self.device.free(buffer)
        return size // 16 * kernel.per_round * _L2_ROUNDS / (taken * 1e-3)

    # --- units ---------------------------------------------------------------------------------------

    def _compute(self, kernel: benchmark_kernels.Kernel, blocks: int = 8) -> float:
        """Operations per second of all multiprocessors."""
        loaded = _Loaded(self.device, kernel)
        grid = self.facts["sm_count"] * blocks
        rounds = _FIRST_ROUNDS
        for _ in range(4):  # until one run is long enough, which the next guess should be
            taken = self._ms(partial(loaded.run, grid, self._small, self._small, 0, rounds), 1)
            if taken > _TARGET_MS / 2:
                break
            rounds = min(1 << 24, max(rounds * 2, int(rounds * _TARGET_MS / max(taken, 1e-3))))
        taken = self._ms(lambda: loaded.run(grid, self._small, self._small, 0, rounds))
        loaded.close()
        return grid * (_BLOCK // 32) * kernel.per_round * rounds / (taken * 1e-3)

    def _tensor(self, kind: str) -> None:
        """The tensor cores' rate by the best instruction that the device has for them."""
        name = f"tensor_{kind}_per_s"
        tried = (
            [("wgmma", benchmark_kernels.wgmma, 1)]
            if kind in benchmark_kernels.WGMMA_KINDS and self.capability == 90
            else []
        )
        if self.capability >= benchmark_kernels.mma(kind).least:
            tried.append(("mma.sync", benchmark_kernels.mma, 4))
        for how, make, blocks in tried:
            best = self.ceilings.get(name, 0.0)
            rate = self._try(name, partial(self._compute, make(kind), blocks))
            if rate is not None and rate > best:
                self.how[name] = how
        if not tried:
            self.missing[name] = f"{self.device.arch} has no instruction for it that is known here"


def main(ordinal: int) -> None:
    """Print what was measured, as a file of ceilings has it, or a `protocol.Failure`."""
    try:
        driver = cu.Driver()
        driver.use(ordinal)
        found: dict[str, Any] | Failure = Measurement(driver, ordinal).run()
    except (cu.CudaError, Refused, Fault) as error:
        found = Failure("refused", str(error))
    sys.stdout.buffer.write(typed_json.line(found))

"""One AMD GPU as the native worker uses it: a queue of its own, buffers, copies, waiting with a deadline.

Everything is done when a call returns, but for a dispatch: what comes after one waits for it.
"""

from __future__ import annotations

import ctypes
import time
from typing import Any

import numpy as np

from ..common.failures import Fault, Refused, TimedOut
from ..cuda.device import Bytes, host_bytes
from . import hsa
from .placement import Placement

_STAGING_BYTES = 8 * 1024 * 1024
_QUEUE_PACKETS = 64
_NO_LIMIT = 0xFFFF_FFFF
_SPIN_S = 1e-3  # asked again at once for so long, then with the thread asleep
_SLICE_S = 5e-3  # between two looks at the clock and at what ROCr has reported
_CACHE_LEVELS = 4
_ROOM_TO_SPARE = 1.25


class Device:
    """The GPU that the regions are placed on."""

    takes_ptx = False

    def __init__(self, memory: Placement) -> None:
        self.runtime = runtime = memory.runtime
        self.ordinal = memory.ordinal
        self.agent = memory.agent
        self._memory = memory
        [self._cpu, *_] = runtime.agents(hsa.DEVICE_TYPE_CPU)
        self._host_pool = self._kernarg_pool()
        self._allocated: dict[int, int] = {}
        ticks = runtime.system(hsa.SYSTEM_TIMESTAMP_FREQUENCY)
        self._ticks_per_s = ticks or 100_000_000
        self._wait = runtime.function("hsa_signal_wait_scacquire", ctypes.c_int64)
        self._store = runtime.function("hsa_signal_store_screlease", None)
        self._copied = self._signal()
        self.done = self._signal()
        self._queue = self._make_queue()
        self._pending = False
        self._staging = self.host_memory(_STAGING_BYTES)
        self._staging_data = host_bytes(self._staging, _STAGING_BYTES)

    # --- facts -------------------------------------------------------------------------------------

    @property
    def name(self) -> str:
        """The product's name, or where ROCr knows none that of the architecture."""
        product = self.runtime.text("hsa_agent_get_info", self.agent, hsa.AGENT_PRODUCT_NAME).strip()
        return product or self.arch

    @property
    def arch(self) -> str:
        """``gfx90a``"""
        return self.runtime.text("hsa_agent_get_info", self.agent, hsa.AGENT_NAME).strip()

    @property
    def driver_version(self) -> str:
        return self.runtime.version

    @property
    def cache_bytes(self) -> int:
        """The largest of the GPU's caches."""
        levels = (ctypes.c_uint32 * _CACHE_LEVELS)()
        self.runtime.call(
            "hsa_agent_get_info", ctypes.c_uint64(self.agent), ctypes.c_int(hsa.AGENT_CACHE_SIZE), levels
        )
        return max(levels)

    def number(self, which: int) -> int:
        """A numeric attribute of the agent."""
        return self.runtime.number("hsa_agent_get_info", self.agent, which)

    def group_limit(self) -> int:
        """Bytes of LDS that a workgroup can have; 0 where ROCr does not say."""
        for pool in self.runtime.pools(self.agent):
            if (
                self.runtime.number("hsa_amd_memory_pool_get_info", pool, hsa.POOL_SEGMENT)
                == hsa.SEGMENT_GROUP
            ):
                return self.runtime.number(
                    "hsa_amd_memory_pool_get_info", pool, hsa.POOL_SIZE, ctypes.c_size_t
                )
        return 0

    def room_for(self, size: int) -> bool:
        """Whether ``size`` more bytes fit with some to spare."""
        free = ctypes.c_uint64()
        status = self.runtime.status(
            "hsa_agent_get_info", ctypes.c_uint64(self.agent), ctypes.c_int(hsa.AGENT_MEMORY_AVAIL),
            ctypes.byref(free),
        )  # fmt: skip
        if status:  # a ROCr that does not count: by what there is and what is known to be taken
            total = self.runtime.number(
                "hsa_amd_memory_pool_get_info", self._memory.device_pool, hsa.POOL_SIZE, ctypes.c_size_t
            )
            taken = sum(self._allocated.values()) + sum(span.size for span in self._memory.mapped)
            free.value = max(0, total - taken)
        return size * _ROOM_TO_SPARE < free.value

    # --- memory ------------------------------------------------------------------------------------

    def allocate(self, size: int) -> int:
        address = self._pool_allocate(self._memory.device_pool, max(1, size))
        self._allocated[address] = size
        return address

    def host_memory(self, size: int) -> int:
        """Memory of the host that the GPU sees at the same address; for good."""
        address = self._pool_allocate(self._host_pool, size)
        agents = (ctypes.c_uint64 * 1)(self.agent)
        self.runtime.call(
            "hsa_amd_agents_allow_access", ctypes.c_uint32(1), agents, None, ctypes.c_void_p(address)
        )
        return address

    def free(self, address: int) -> None:
        self._settle()
        self._allocated.pop(address, None)
        self.runtime.call("hsa_amd_memory_pool_free", ctypes.c_void_p(address))

    def copy(self, target: int, source: int, size: int) -> None:
        """Copy between two addresses that the device sees."""
        if not size:
            return
        self._settle()
        on_host = self._memory.is_on_host
        if on_host(target) and on_host(source):
            ctypes.memmove(target, source, size)
            return
        self._copy(target, self._owner(target), source, self._owner(source), size)

    def upload(self, target: int, data: Bytes) -> None:
        """Copy host bytes, by way of memory that both see: the host may not reach the device's own."""
        self._settle()
        for start in range(0, len(data), _STAGING_BYTES):
            part = data[start : start + _STAGING_BYTES]
            if self._memory.is_on_host(target):
                host_bytes(target + start, len(part))[:] = part
                continue
            self._staging_data[: len(part)] = part
            self._copy(target + start, self.agent, self._staging, self._cpu, len(part))

    def download(self, source: int, size: int) -> Bytes:
        """Bytes that the device sees, once what was dispatched before is done."""
        self._settle()
        out = np.empty(size, dtype=np.uint8)
        for start in range(0, size, _STAGING_BYTES):
            length = min(_STAGING_BYTES, size - start)
            if self._memory.is_on_host(source):
                out[start : start + length] = host_bytes(source + start, length)
                continue
            self._copy(self._staging, self._cpu, source + start, self.agent, length)
            out[start : start + length] = self._staging_data[:length]
        return out

    def zero(self, address: int, size: int) -> None:
        for start in range(0, size, _STAGING_BYTES):
            self.upload(address + start, np.zeros(min(_STAGING_BYTES, size - start), dtype=np.uint8))

    def _owner(self, address: int) -> int:
        return self._cpu if self._memory.is_on_host(address) else self.agent

    def _copy(self, target: int, target_agent: int, source: int, source_agent: int, size: int) -> None:
        self._store(ctypes.c_uint64(self._copied), ctypes.c_int64(1))
        self.runtime.call(
            "hsa_amd_memory_async_copy", ctypes.c_void_p(target), ctypes.c_uint64(target_agent),
            ctypes.c_void_p(source), ctypes.c_uint64(source_agent), ctypes.c_size_t(size),
            ctypes.c_uint32(0), None, ctypes.c_uint64(self._copied),
        )  # fmt: skip
        if self._wait_for(self._copied, None, "a copy") < 0:
            raise Fault(f"a copy of {size:,} bytes failed on the device")

    def _pool_allocate(self, pool: int, size: int) -> int:
        address = ctypes.c_void_p()
        self.runtime.call(
            "hsa_amd_memory_pool_allocate", ctypes.c_uint64(pool), ctypes.c_size_t(size), ctypes.c_uint32(0),
            ctypes.byref(address),
        )  # fmt: skip
        return int(address.value or 0)

    def _kernarg_pool(self) -> int:
        for pool in self.runtime.pools(self._cpu):
            info = "hsa_amd_memory_pool_get_info"
            if self.runtime.number(info, pool, hsa.POOL_SEGMENT) != hsa.SEGMENT_GLOBAL:
                continue
            if self.runtime.number(info, pool, hsa.POOL_GLOBAL_FLAGS) & hsa.POOL_FLAG_KERNARG:
                return pool
        raise Refused("ROCm shows no memory for kernel arguments here")

    # --- the queue ---------------------------------------------------------------------------------

    @property
    def queue_address(self) -> int:
        return ctypes.addressof(self._queue.contents)

    def dispatch(self, packet: hsa.DispatchPacket) -> None:
        """Put a dispatch on the queue; `finish` waits for it."""
        self._settle()
        self._store(ctypes.c_uint64(self.done), ctypes.c_int64(1))
        queue = self._queue.contents
        index = self.runtime.function("hsa_queue_add_write_index_screlease", ctypes.c_uint64)(
            self._queue, ctypes.c_uint64(1)
        )
        size = ctypes.sizeof(packet)
        slot = queue.base_address + (index & (queue.size - 1)) * size
        # The header makes the packet valid: it comes last, together with the setup in one word.
        head = ctypes.sizeof(ctypes.c_uint32)
        ctypes.memmove(slot + head, ctypes.addressof(packet) + head, size - head)
        ctypes.c_uint32.from_address(slot).value = packet.header | packet.setup << 16
        self._store(ctypes.c_uint64(queue.doorbell_signal), ctypes.c_int64(index))
        self._pending = True

    def elapsed_ms(self) -> float:
        """How long the last dispatch took, by the device's clock."""
        found = hsa.DispatchTime()
        self.runtime.call(
            "hsa_amd_profiling_get_dispatch_time", ctypes.c_uint64(self.agent), ctypes.c_uint64(self.done),
            ctypes.byref(found),
        )  # fmt: skip
        return float(found.end - found.start) / self._ticks_per_s * 1e3

    def _make_queue(self) -> Any:
        queue = ctypes.POINTER(hsa.Queue)()
        try:
            self.runtime.call(
                "hsa_queue_create", ctypes.c_uint64(self.agent), ctypes.c_uint32(_QUEUE_PACKETS),
                ctypes.c_uint32(hsa.QUEUE_TYPE_MULTI), self.runtime.queue_callback(), None,
                ctypes.c_uint32(_NO_LIMIT), ctypes.c_uint32(_NO_LIMIT), ctypes.byref(queue),
            )  # fmt: skip
        except hsa.HsaError as error:
            raise Refused(f"AMD GPU {self.ordinal} gives this process no queue: {error}") from error
        self.runtime.call("hsa_amd_profiling_set_profiler_enabled", queue, ctypes.c_int(1))
        return queue

    def _signal(self) -> int:
        signal = ctypes.c_uint64()
        self.runtime.call(
            "hsa_signal_create", ctypes.c_int64(1), ctypes.c_uint32(0), None, ctypes.byref(signal)
        )
        return int(signal.value)

    # --- waiting -----------------------------------------------------------------------------------

    def finish(self, limit_s: float | None = None) -> None:
        """Wait for what was dispatched.

        Raises TimedOut past ``limit_s``, Fault with ROCr's word for what went wrong.
        """
        if self._pending:
            value = self._wait_for(self.done, limit_s, "the kernel")
            self._pending = False
            if value < 0:
                raise Fault(f"the kernel: its completion signal says {value}")
        elif self.runtime.lost:
            raise Fault(f"the kernel: {self.runtime.lost}")

    def _settle(self) -> None:
        if self._pending:
            self.finish()

    def _wait_for(self, signal: int, limit_s: float | None, what: str) -> int:
        begin = time.monotonic()
        while True:
            waited = time.monotonic() - begin
            active = waited < _SPIN_S
            ticks = int((_SPIN_S if active else _SLICE_S) * self._ticks_per_s)
            state = hsa.WAIT_STATE_ACTIVE if active else hsa.WAIT_STATE_BLOCKED
            value = int(self._wait(
                ctypes.c_uint64(signal), ctypes.c_int(hsa.SIGNAL_CONDITION_LT), ctypes.c_int64(1),
                ctypes.c_uint64(ticks), ctypes.c_int(state),
            ))  # fmt: skip
            if self.runtime.lost:
                raise Fault(f"{what}: {self.runtime.lost}")
            if value < 1:
                return value
            if limit_s is not None and waited > limit_s:
                raise TimedOut(f"the kernel did not end within {limit_s:g} s")

    def close(self) -> None:
        """Give back what this process has of the GPU, before ROCr ends."""
        self.runtime.status("hsa_queue_destroy", self._queue)
        for signal in (self._copied, self.done):
            self.runtime.status("hsa_signal_destroy", ctypes.c_uint64(signal))
        for address in self._allocated:
            self.runtime.status("hsa_amd_memory_pool_free", ctypes.c_void_p(address))

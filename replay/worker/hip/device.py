"""One AMD GPU as the native worker uses it: its own queue, buffers, copies, waiting with a deadline.

Everything is done when a call returns, but for a dispatch: what comes after one waits for it.
"""

from __future__ import annotations

import time
from collections.abc import Callable
from typing import Any

import numpy as np

from ..common.failures import Fault, Refused, TimedOut
from ..common.host_bytes import Bytes, host_bytes
from . import hsa
from .placement import Placement

_STAGING_BYTES = 8 * 1024 * 1024
_QUEUE_PACKETS = 64
_SPIN_S = 1e-3  # asked again at once for so long, then with the thread asleep
_SLICE_S = 5e-3  # between two looks at the clock and at what ROCr has reported
_SERVED_S = 2e-4  # between two looks at what a kernel asks of its host
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
        self._wait = runtime.function("hsa_signal_wait_scacquire")
        self._store = runtime.function("hsa_signal_store_screlease")
        self._copied = runtime.signal()
        self.done = runtime.signal()
        self._queue = self._make_queue()
        self._pending = False
        self.serve: Callable[[], None] | None = None  # answers a kernel that waits for its host
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
        return max(
            self.runtime.numbers("hsa_agent_get_info", self.agent, hsa.AGENT_CACHE_SIZE, _CACHE_LEVELS)
        )

    def number(self, which: int) -> int:
        """A numeric attribute of the agent."""
        return self.runtime.number("hsa_agent_get_info", self.agent, which)

    def group_limit(self) -> int:
        """Bytes of LDS that a workgroup can have; 0 if ROCr does not say."""
        for pool in self.runtime.pools(self.agent):
            if (
                self.runtime.number("hsa_amd_memory_pool_get_info", pool, hsa.POOL_SEGMENT)
                == hsa.SEGMENT_GROUP
            ):
                return self.runtime.number("hsa_amd_memory_pool_get_info", pool, hsa.POOL_SIZE, 8)
        return 0

    def room_for(self, size: int) -> bool:
        """Whether ``size`` more bytes fit with some to spare."""
        try:
            free = self.runtime.number("hsa_agent_get_info", self.agent, hsa.AGENT_MEMORY_AVAIL, 8)
        except hsa.HsaError:  # a ROCr that does not count: by what there is and what is known to be taken
            pool = self._memory.device_pool
            total = self.runtime.number("hsa_amd_memory_pool_get_info", pool, hsa.POOL_SIZE, 8)
            taken = sum(self._allocated.values()) + sum(span.size for span in self._memory.mapped)
            free = max(0, total - taken)
        return size * _ROOM_TO_SPARE < free

    # --- memory ------------------------------------------------------------------------------------

    def allocate(self, size: int) -> int:
        address = self.runtime.allocate(self._memory.device_pool, max(1, size))
        self._allocated[address] = size
        return address

    def host_memory(self, size: int) -> int:
        """Memory of the host that the GPU sees at the same address; for good."""
        address = self.runtime.allocate(self._host_pool, size)
        self.runtime.allow_access(self.agent, address)
        return address

    def free(self, address: int) -> None:
        self._settle()
        self.release(address)

    def release(self, address: int) -> None:
        """Give back what no kernel uses, also while one runs."""
        self._allocated.pop(address, None)
        self.runtime.call("hsa_amd_memory_pool_free", address)

    def copy(self, target: int, source: int, size: int) -> None:
        """Copy between two addresses that the device sees."""
        if not size:
            return
        self._settle()
        on_host = self._memory.is_on_host
        if on_host(target) and on_host(source):
            host_bytes(target, size)[:] = host_bytes(source, size)
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
        self._store(self._copied, 1)
        self.runtime.call(
            "hsa_amd_memory_async_copy", target, target_agent, source, source_agent, size, 0, None,
            self._copied,
        )  # fmt: skip
        if self._wait_for(self._copied, None, "a copy") < 0:
            raise Fault(f"a copy of {size:,} bytes failed on the device")

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
        return hsa.address_of(self._queue)

    def dispatch(self, packet: hsa.DispatchPacket) -> None:
        """Put a dispatch on the queue; `finish` waits for it."""
        self._settle()
        self._store(self.done, 1)
        self.runtime.submit(self._queue, packet)
        self._pending = True

    def elapsed_ms(self) -> float:
        """How long the last dispatch took, by the device's clock."""
        return self.runtime.dispatch_ticks(self.agent, self.done) / self._ticks_per_s * 1e3

    def _make_queue(self) -> Any:
        try:
            return self.runtime.queue(self.agent, _QUEUE_PACKETS)
        except hsa.HsaError as error:
            raise Refused(f"AMD GPU {self.ordinal} gives this process no queue: {error}") from error

    # --- waiting -----------------------------------------------------------------------------------

    def finish(self, limit_s: float | None = None) -> None:
        """Wait for what was dispatched.

        Raises TimedOut past ``limit_s``, Fault with ROCr's word for what went wrong.
        """
        if self._pending:
            value = self._wait_for(self.done, limit_s, "the kernel")
            self._pending, self.serve = False, None
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
            served = self.serve if signal == self.done else None
            slice_s = _SERVED_S if served else _SPIN_S if active else _SLICE_S
            ticks = int(slice_s * self._ticks_per_s)
            state = hsa.WAIT_STATE_ACTIVE if active else hsa.WAIT_STATE_BLOCKED
            value = int(self._wait(signal, hsa.SIGNAL_CONDITION_LT, 1, ticks, state))
            if self.runtime.lost:
                raise Fault(f"{what}: {self.runtime.lost}")
            if value < 1:
                return value
            if served:
                served()
            if limit_s is not None and waited > limit_s:
                raise TimedOut(f"the kernel did not end within {limit_s:g} s")

    def close(self) -> None:
        """Give back what this process has of the GPU, before ROCr ends."""
        self.runtime.status("hsa_queue_destroy", self._queue)
        for signal in (self._copied, self.done):
            self.runtime.status("hsa_signal_destroy", signal)
        for address in self._allocated:
            self.runtime.status("hsa_amd_memory_pool_free", address)

"""One device as the native worker uses it: its own stream, buffers, copies, waiting with a deadline."""

from __future__ import annotations

import time
from collections import deque
from concurrent.futures import Future, ThreadPoolExecutor

import numpy as np

from ..common.failures import Fault, TimedOut
from ..common.host_bytes import Bytes, host_bytes
from . import driver as cu

_STAGING_BYTES = 8 * 1024 * 1024
_LARGE_BYTES = 8 * _STAGING_BYTES
_COPIERS = 8  # threads: one fills pinned memory at a fraction of the bus's speed
_SPIN_S = 2e-3  # asked again at once for so long, then with pauses
_PAUSE_S = 0.2e-3


class _Staging:
    """A pinned buffer and the event after which it is free again."""

    def __init__(self, driver: cu.Driver) -> None:
        self.address = int(driver.call("cuMemHostAlloc", _STAGING_BYTES, 0))
        self.event = driver.call("cuEventCreate", driver.api.CUevent_flags.CU_EVENT_DISABLE_TIMING)
        self.data = host_bytes(self.address, _STAGING_BYTES)


class Device:
    """The device that the regions are placed on; everything is queued on ``stream``."""

    takes_ptx = True  # so our own kernels may run on it

    def __init__(self, driver: cu.Driver, ordinal: int) -> None:
        self.driver = driver
        self.ordinal = ordinal
        self.stream = driver.call("cuStreamCreate", driver.api.CUstream_flags.CU_STREAM_NON_BLOCKING)
        self._staging = [_Staging(driver), _Staging(driver)]
        self._copiers: ThreadPoolExecutor | None = None

    # --- facts -------------------------------------------------------------------------------------

    @property
    def name(self) -> str:
        return self.driver.device_name(self.ordinal)

    @property
    def arch(self) -> str:
        """``sm_90``"""
        major = self.driver.attribute("COMPUTE_CAPABILITY_MAJOR", self.ordinal)
        return f"sm_{major}{self.driver.attribute('COMPUTE_CAPABILITY_MINOR', self.ordinal)}"

    @property
    def driver_version(self) -> str:
        """``13.0``"""
        return self.driver.version

    @property
    def at_once(self) -> int:
        """The multiprocessors that several processes' kernels have at once, by MPS; 0: they take turns.

        Without MPS each process has a context of its own, and the device changes between them in the middle
        of a kernel, also of one that waits.
        """
        try:
            is_mps = self.driver.attribute("MPS_ENABLED", self.ordinal)
        except (cu.CudaError, AttributeError):  # a driver or cuda.bindings that does not know it
            return 0
        return self.driver.attribute("MULTIPROCESSOR_COUNT", self.ordinal) if is_mps else 0

    @property
    def l2_bytes(self) -> int:
        return self.driver.attribute("L2_CACHE_SIZE", self.ordinal)

    def room_for(self, size: int) -> bool:
        """Whether ``size`` more bytes fit with some to spare."""
        free, _total = self.driver.call("cuMemGetInfo")
        return bool(size * 1.25 < free)

    # --- memory ------------------------------------------------------------------------------------

    def allocate(self, size: int) -> int:
        return int(self.driver.call("cuMemAlloc", max(1, size)))

    def host_memory(self, size: int) -> int:
        """Zeros in the host's memory that the device sees at the same address."""
        address = int(self.driver.call("cuMemHostAlloc", size, 0))
        host_bytes(address, size)[:] = 0
        return address

    def free(self, address: int) -> None:
        self.driver.call("cuMemFree", address)

    def copy(self, target: int, source: int, size: int) -> None:
        """Queue a copy between two addresses that the device sees."""
        if size:
            self._checked("cuMemcpyAsync", target, source, size, self.stream)

    def upload(self, target: int, data: Bytes) -> None:
        """Queue a copy of host bytes; they may change as soon as this returns."""
        if len(data) >= _LARGE_BYTES:
            self._upload_large(target, data)
            return
        for number, start in enumerate(range(0, len(data), _STAGING_BYTES)):
            buffer = self._staging[number % 2]
            part = data[start : start + _STAGING_BYTES]
            self._wait_event(buffer)
            buffer.data[: len(part)] = part
            self._checked("cuMemcpyAsync", target + start, buffer.address, len(part), self.stream)
            self.driver.call("cuEventRecord", buffer.event, self.stream)

    def _upload_large(self, target: int, data: Bytes) -> None:
        """As `upload`; several threads fill the buffers, which may have to be read first."""
        if self._copiers is None:
            self._copiers = ThreadPoolExecutor(_COPIERS, "kerncap-copies")
            self._staging += [_Staging(self.driver) for _ in range(_COPIERS - len(self._staging))]
        filling: deque[tuple[int, int, _Staging, Future[None]]] = deque()
        for number, start in enumerate(range(0, len(data), _STAGING_BYTES)):
            if len(filling) == _COPIERS:
                self._send(*filling.popleft())
            buffer, part = self._staging[number % _COPIERS], data[start : start + _STAGING_BYTES]
            self._wait_event(buffer)
            # numpy lets other threads run while it copies.
            future = self._copiers.submit(np.copyto, buffer.data[: len(part)], part)
            filling.append((target + start, len(part), buffer, future))
        while filling:
            self._send(*filling.popleft())

    def _send(self, target: int, size: int, buffer: _Staging, filled: Future[None]) -> None:
        filled.result()
        self._checked("cuMemcpyAsync", target, buffer.address, size, self.stream)
        self.driver.call("cuEventRecord", buffer.event, self.stream)

    def download(self, source: int, size: int) -> Bytes:
        """Bytes that the device sees, once all that was queued before is done."""
        out = np.empty(size, dtype=np.uint8)
        pending: tuple[int, _Staging] | None = None
        for number, start in enumerate(range(0, size, _STAGING_BYTES)):
            buffer = self._staging[number % 2]
            length = min(_STAGING_BYTES, size - start)
            self._wait_event(buffer)
            self._checked("cuMemcpyAsync", buffer.address, source + start, length, self.stream)
            self.driver.call("cuEventRecord", buffer.event, self.stream)
            if pending is not None:
                self._take(out, *pending)
            pending = start, buffer
        if pending is not None:
            self._take(out, *pending)
        return out

    def zero(self, address: int, size: int) -> None:
        self.driver.call("cuMemsetD8Async", address, 0, size, self.stream)

    def _take(self, out: Bytes, start: int, buffer: _Staging) -> None:
        self._wait_event(buffer)
        part = out[start : start + _STAGING_BYTES]
        part[:] = buffer.data[: len(part)]

    def _wait_event(self, buffer: _Staging) -> None:
        self._checked("cuEventSynchronize", buffer.event)

    # --- waiting -----------------------------------------------------------------------------------

    def finish(self, limit_s: float | None = None) -> None:
        """Wait for all that was queued.

        Raises TimedOut past ``limit_s``, Fault with the driver's word for what went wrong.
        """
        if limit_s is None:
            self._checked("cuStreamSynchronize", self.stream)
            return
        not_ready, begin = self.driver.api.CUresult.CUDA_ERROR_NOT_READY, time.monotonic()
        while True:
            status = self.driver.status("cuStreamQuery", self.stream)
            if not status:
                return
            if status != not_ready:
                raise Fault(f"the kernel: {self.driver.error_name(status)}")
            waited = time.monotonic() - begin
            if waited > limit_s:
                raise TimedOut(f"the kernel did not end within {limit_s:g} s")
            if waited > _SPIN_S:
                time.sleep(_PAUSE_S)

    def ends_within(self, seconds: float) -> bool:
        """Whether all that was queued is done in that time. Raises Fault as `finish` does."""
        try:
            self.finish(seconds)
        except TimedOut:
            return False
        return True

    def _checked(self, name: str, *arguments: object) -> None:
        """An asynchronous error comes out of whatever is called next."""
        if status := self.driver.status(name, *arguments):
            raise Fault(f"{name}: {self.driver.error_name(status)}")

"""One device as the native worker uses it: a stream of its own, buffers, copies, waiting with a deadline."""

from __future__ import annotations

import ctypes
import time
from typing import Any

import numpy as np
import numpy.typing as npt

from ..common.failures import Fault, TimedOut
from . import driver as cu

Bytes = npt.NDArray[np.uint8]

_STAGING_BYTES = 8 * 1024 * 1024
_SPIN_S = 2e-3  # asked again at once for so long, then with pauses
_PAUSE_S = 0.2e-3


class _Staging:
    """A pinned buffer and the event after which it is free again."""

    def __init__(self, driver: cu.Driver) -> None:
        address, self.event = ctypes.c_void_p(), ctypes.c_void_p()
        driver.call(
            "cuMemHostAlloc", ctypes.byref(address), ctypes.c_size_t(_STAGING_BYTES), ctypes.c_uint(0)
        )
        driver.call("cuEventCreate", ctypes.byref(self.event), ctypes.c_uint(2))  # without timing
        assert address.value is not None
        self.address = address.value
        self.data = host_bytes(self.address, _STAGING_BYTES)


def host_bytes(address: int, size: int) -> Bytes:
    """Host memory as an array, not copied."""
    return np.ctypeslib.as_array((ctypes.c_ubyte * size).from_address(address))


class Device:
    """The device that the regions are placed on; everything is queued on ``stream``."""

    takes_ptx = True  # so our own kernels may run on it

    def __init__(self, driver: cu.Driver, ordinal: int) -> None:
        self.driver = driver
        self.ordinal = ordinal
        self.stream = ctypes.c_void_p()
        driver.call("cuStreamCreate", ctypes.byref(self.stream), ctypes.c_uint(cu.STREAM_NON_BLOCKING))
        self._copy = driver.function("cuMemcpyAsync")
        self._staging = [_Staging(driver), _Staging(driver)]

    # --- facts -------------------------------------------------------------------------------------

    @property
    def name(self) -> str:
        text = ctypes.create_string_buffer(256)
        self.driver.call("cuDeviceGetName", text, ctypes.c_int(256), ctypes.c_int(self.ordinal))
        return text.value.decode(errors="replace")

    @property
    def arch(self) -> str:
        """``sm_90``"""
        major = self.driver.attribute(cu.DEVICE_COMPUTE_CAPABILITY_MAJOR, self.ordinal)
        return f"sm_{major}{self.driver.attribute(cu.DEVICE_COMPUTE_CAPABILITY_MINOR, self.ordinal)}"

    @property
    def driver_version(self) -> str:
        """``13.0``"""
        version = ctypes.c_int()
        self.driver.call("cuDriverGetVersion", ctypes.byref(version))
        return f"{version.value // 1000}.{version.value % 1000 // 10}"

    @property
    def l2_bytes(self) -> int:
        return self.driver.attribute(cu.DEVICE_L2_CACHE_SIZE, self.ordinal)

    def room_for(self, size: int) -> bool:
        """Whether ``size`` more bytes fit with some to spare."""
        free, total = ctypes.c_size_t(), ctypes.c_size_t()
        self.driver.call("cuMemGetInfo_v2", ctypes.byref(free), ctypes.byref(total))
        return size * 1.25 < free.value

    # --- memory ------------------------------------------------------------------------------------

    def allocate(self, size: int) -> int:
        address = ctypes.c_uint64()
        self.driver.call("cuMemAlloc_v2", ctypes.byref(address), ctypes.c_size_t(max(1, size)))
        return int(address.value)

    def free(self, address: int) -> None:
        self.driver.call("cuMemFree_v2", ctypes.c_uint64(address))

    def copy(self, target: int, source: int, size: int) -> None:
        """Queue a copy between two addresses that the device sees."""
        if size:
            self._checked("cuMemcpyAsync", self._raw_copy(target, source, size))

    def upload(self, target: int, data: Bytes) -> None:
        """Queue a copy of host bytes; they may change as soon as this returns."""
        for number, start in enumerate(range(0, len(data), _STAGING_BYTES)):
            buffer = self._staging[number % 2]
            part = data[start : start + _STAGING_BYTES]
            self._wait_event(buffer)
            buffer.data[: len(part)] = part
            self._checked("cuMemcpyAsync", self._raw_copy(target + start, buffer.address, len(part)))
            self.driver.call("cuEventRecord", buffer.event, self.stream)

    def download(self, source: int, size: int) -> Bytes:
        """Bytes that the device sees, once all that was queued before is done."""
        out = np.empty(size, dtype=np.uint8)
        pending: tuple[int, _Staging] | None = None
        for number, start in enumerate(range(0, size, _STAGING_BYTES)):
            buffer = self._staging[number % 2]
            length = min(_STAGING_BYTES, size - start)
            self._wait_event(buffer)
            self._checked("cuMemcpyAsync", self._raw_copy(buffer.address, source + start, length))
            self.driver.call("cuEventRecord", buffer.event, self.stream)
            if pending is not None:
                self._take(out, *pending)
            pending = start, buffer
        if pending is not None:
            self._take(out, *pending)
        return out

    def zero(self, address: int, size: int) -> None:
        self.driver.call(
            "cuMemsetD8Async", ctypes.c_uint64(address), ctypes.c_ubyte(0), ctypes.c_size_t(size), self.stream
        )

    def _take(self, out: Bytes, start: int, buffer: _Staging) -> None:
        self._wait_event(buffer)
        part = out[start : start + _STAGING_BYTES]
        part[:] = buffer.data[: len(part)]

    def _wait_event(self, buffer: _Staging) -> None:
        self._checked("cuEventSynchronize", self.driver.status("cuEventSynchronize", buffer.event))

    def _raw_copy(self, target: int, source: int, size: int) -> int:
        return int(
            self._copy(ctypes.c_uint64(target), ctypes.c_uint64(source), ctypes.c_size_t(size), self.stream)
        )

    # --- waiting -----------------------------------------------------------------------------------

    def finish(self, limit_s: float | None = None) -> None:
        """Wait for all that was queued.

        Raises TimedOut past ``limit_s``, Fault with the driver's word for what went wrong.
        """
        if limit_s is None:
            self._checked("cuStreamSynchronize", self.driver.status("cuStreamSynchronize", self.stream))
            return
        query, begin = self.driver.function("cuStreamQuery"), time.monotonic()
        while True:
            status = int(query(self.stream))
            if status != cu.ERROR_NOT_READY:
                self._checked("the kernel", status)
                return
            waited = time.monotonic() - begin
            if waited > limit_s:
                raise TimedOut(f"the kernel did not end within {limit_s:g} s")
            if waited > _SPIN_S:
                time.sleep(_PAUSE_S)

    def _checked(self, call: str, status: int) -> None:
        """An asynchronous error comes out of whatever is called next."""
        if status:
            raise Fault(f"{call}: {self.driver.error_name(status)}")

    def pointer(self, address: int) -> Any:
        return ctypes.c_uint64(address)

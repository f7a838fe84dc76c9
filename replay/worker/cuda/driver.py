"""The few calls of the CUDA driver that replay needs, through ctypes.

No binding package: whatever Python runs the captured program has torch and Triton, and the driver's C ABI
is the same for all of them. Symbols are named with the version whose signature is meant.
Source: cuda.h; layouts and constants are compared with the header by a test.
"""

from __future__ import annotations

import ctypes

from ..common.checked_library import CallFailed, CheckedLibrary

ATTRIBUTE_COOPERATIVE = 2
ATTRIBUTE_CLUSTER_DIMENSION = 4
ATTRIBUTE_CLUSTER_SCHEDULING = 5
ATTRIBUTE_PROGRAMMATIC_STREAM_SERIALIZATION = 6
ATTRIBUTE_MEM_SYNC_DOMAIN_MAP = 9
ATTRIBUTE_MEM_SYNC_DOMAIN = 10
ATTRIBUTE_PREFERRED_CLUSTER_DIMENSION = 11
ATTRIBUTE_PREFERRED_SHARED_MEMORY_CARVEOUT = 14
CLUSTER_SCHEDULING_SPREAD = 1
FUNC_MAX_THREADS_PER_BLOCK = 0
FUNC_SHARED_SIZE_BYTES = 1
FUNC_LOCAL_SIZE_BYTES = 3
FUNC_NUM_REGS = 4
FUNC_MAX_DYNAMIC_SHARED_SIZE_BYTES = 8
FUNC_NON_PORTABLE_CLUSTER_SIZE_ALLOWED = 14
FUNC_CACHE_PREFER_SHARED = 1
DEVICE_MULTIPROCESSOR_COUNT = 16
DEVICE_L2_CACHE_SIZE = 38
DEVICE_MAX_THREADS_PER_MULTIPROCESSOR = 39
DEVICE_COMPUTE_CAPABILITY_MAJOR = 75
DEVICE_COMPUTE_CAPABILITY_MINOR = 76
DEVICE_MAX_SHARED_MEMORY_PER_BLOCK_OPTIN = 97
MEM_ALLOCATION_TYPE_PINNED = 1
MEM_LOCATION_TYPE_DEVICE = 1
MEM_ACCESS_READWRITE = 3
MEM_HOST_REGISTER_PORTABLE = 1
MEM_HOST_REGISTER_DEVICE_MAP = 2
STREAM_NON_BLOCKING = 1
STREAM_CAPTURE_MODE_THREAD_LOCAL = 1
JIT_ERROR_LOG_BUFFER = 5
JIT_ERROR_LOG_BUFFER_SIZE_BYTES = 6
LAUNCH_PARAM_END = 0
LAUNCH_PARAM_BUFFER_POINTER = 1
LAUNCH_PARAM_BUFFER_SIZE = 2

SUCCESS = 0
ERROR_OUT_OF_MEMORY = 2
ERROR_NO_DEVICE = 100
ERROR_NOT_READY = 600


class MemLocation(ctypes.Structure):
    _fields_ = (("type", ctypes.c_int), ("id", ctypes.c_int))


class MemAllocationProp(ctypes.Structure):
    _fields_ = (
        ("type", ctypes.c_int),
        ("requested_handle_types", ctypes.c_int),
        ("location", MemLocation),
        ("win32_handle_meta_data", ctypes.c_void_p),
        ("flags", ctypes.c_ubyte * 8),
    )


class MemAccessDesc(ctypes.Structure):
    _fields_ = (("location", MemLocation), ("flags", ctypes.c_int))


class LaunchAttribute(ctypes.Structure):
    _fields_ = (("id", ctypes.c_int), ("pad", ctypes.c_char * 4), ("value", ctypes.c_uint * 16))


class LaunchConfig(ctypes.Structure):
    _fields_ = (
        ("grid", ctypes.c_uint * 3),
        ("block", ctypes.c_uint * 3),
        ("shared_bytes", ctypes.c_uint),
        ("stream", ctypes.c_void_p),
        ("attributes", ctypes.POINTER(LaunchAttribute)),
        ("attribute_count", ctypes.c_uint),
    )


class CudaError(CallFailed):
    """A driver call that failed."""


class Driver(CheckedLibrary):
    """libcuda, with every status checked."""

    file = "libcuda.so.1"
    title = "CUDA driver"
    failed = CudaError

    def error_name(self, status: int) -> str:
        """``CUDA_ERROR_ILLEGAL_ADDRESS``, or the number of one that the driver has no name for."""
        text = ctypes.c_char_p()
        if self.status("cuGetErrorName", ctypes.c_int(status), ctypes.byref(text)) or text.value is None:
            return f"error {status}"
        return text.value.decode()

    def attribute(self, which: int, device: int) -> int:
        """An attribute of a device."""
        value = ctypes.c_int()
        self.call("cuDeviceGetAttribute", ctypes.byref(value), ctypes.c_int(which), ctypes.c_int(device))
        return value.value

"""The few calls of ROCr (libhsa-runtime64.so.1) that replay needs, through ctypes.

No binding package and no HIP: what the shim saw was ROCr's, and its C ABI is the same for every Python.
Source: hsa.h and hsa_ext_amd.h; layouts and constants are compared with the headers by a test.
"""

from __future__ import annotations

import ctypes
import os
import sys
import threading
from collections.abc import Callable
from typing import Any

from ..common.checked_library import CallFailed, CheckedLibrary

_LOST_S = 5.0  # for a worker to say that its device was lost

SUCCESS = 0
ERROR_INVALID_ALLOCATION = 0x1003  # more than the device has at all
ERROR_OUT_OF_RESOURCES = 0x1008
SYSTEM_VERSION_MAJOR = 0
SYSTEM_VERSION_MINOR = 1
SYSTEM_TIMESTAMP_FREQUENCY = 3
SYSTEM_BUILD_VERSION = 0x200
SYSTEM_VIRTUAL_MEM_API_SUPPORTED = 0x205
AGENT_NAME = 0
AGENT_WAVEFRONT_SIZE = 6
AGENT_WORKGROUP_MAX_SIZE = 8
AGENT_DEVICE = 17
AGENT_CACHE_SIZE = 18
AGENT_PRODUCT_NAME = 0xA009
AGENT_MEMORY_AVAIL = 0xA015
DEVICE_TYPE_CPU = 0
DEVICE_TYPE_GPU = 1
POOL_SEGMENT = 0
POOL_GLOBAL_FLAGS = 1
POOL_SIZE = 2
POOL_ALLOC_GRANULE = 6
SEGMENT_GLOBAL = 0
SEGMENT_GROUP = 3
POOL_FLAG_KERNARG = 1
POOL_FLAG_COARSE_GRAINED = 4
ACCESS_PERMISSION_RW = 3
MEMORY_TYPE_NONE = 0
PROFILE_FULL = 1
FLOAT_ROUNDING_DEFAULT = 0
SYMBOL_KIND_VARIABLE = 0
SYMBOL_KIND_KERNEL = 1
SYMBOL_TYPE = 0
SYMBOL_NAME_LENGTH = 1
SYMBOL_NAME = 2
SYMBOL_VARIABLE_SIZE = 9
SYMBOL_KERNARG_SIZE = 11
SYMBOL_GROUP_SIZE = 13
SYMBOL_PRIVATE_SIZE = 14
SYMBOL_DYNAMIC_CALLSTACK = 15
SYMBOL_VARIABLE_ADDRESS = 21
SYMBOL_KERNEL_OBJECT = 22
QUEUE_TYPE_MULTI = 0
SIGNAL_CONDITION_LT = 2
WAIT_STATE_BLOCKED = 0
WAIT_STATE_ACTIVE = 1
PACKET_TYPE_KERNEL_DISPATCH = 2
PACKET_HEADER_BARRIER = 8
PACKET_HEADER_ACQUIRE_SCOPE = 9
PACKET_HEADER_RELEASE_SCOPE = 11
FENCE_SCOPE_SYSTEM = 2
EVENT_MEMORY_FAULT = 0
MEMORY_FAULT_PAGE_NOT_PRESENT = 1
MEMORY_FAULT_READ_ONLY = 2
MEMORY_FAULT_HANG = 1 << 31


class DispatchPacket(ctypes.Structure):
    _fields_ = (
        ("header", ctypes.c_uint16),
        ("setup", ctypes.c_uint16),
        ("workgroup", ctypes.c_uint16 * 3),
        ("reserved0", ctypes.c_uint16),
        ("work_items", ctypes.c_uint32 * 3),
        ("private_bytes", ctypes.c_uint32),
        ("group_bytes", ctypes.c_uint32),
        ("kernel_object", ctypes.c_uint64),
        ("kernarg_address", ctypes.c_uint64),
        ("reserved2", ctypes.c_uint64),
        ("completion_signal", ctypes.c_uint64),
    )


class Queue(ctypes.Structure):
    _fields_ = (
        ("type", ctypes.c_uint32),
        ("features", ctypes.c_uint32),
        ("base_address", ctypes.c_uint64),
        ("doorbell_signal", ctypes.c_uint64),
        ("size", ctypes.c_uint32),
        ("reserved1", ctypes.c_uint32),
        ("id", ctypes.c_uint64),
    )


class AccessDesc(ctypes.Structure):
    _fields_ = (("permissions", ctypes.c_int), ("agent", ctypes.c_uint64))


class DispatchTime(ctypes.Structure):
    _fields_ = (("start", ctypes.c_uint64), ("end", ctypes.c_uint64))


class MemoryFault(ctypes.Structure):
    _fields_ = (
        ("agent", ctypes.c_uint64),
        ("virtual_address", ctypes.c_uint64),
        ("fault_reason_mask", ctypes.c_uint32),
    )


class Event(ctypes.Structure):
    """Of the union that follows the type, the part that a memory fault has."""

    _fields_ = (("event_type", ctypes.c_int), ("memory_fault", MemoryFault))


_EVENT_CALLBACK = ctypes.CFUNCTYPE(ctypes.c_int, ctypes.POINTER(Event), ctypes.c_void_p)
_QUEUE_CALLBACK = ctypes.CFUNCTYPE(None, ctypes.c_int, ctypes.c_void_p, ctypes.c_void_p)
_EACH_CALLBACK = ctypes.CFUNCTYPE(ctypes.c_int, ctypes.c_uint64, ctypes.c_void_p)
_EACH_SYMBOL_CALLBACK = ctypes.CFUNCTYPE(
    ctypes.c_int, ctypes.c_uint64, ctypes.c_uint64, ctypes.c_uint64, ctypes.c_void_p
)


class HsaError(CallFailed):
    """A call that failed."""


class Runtime(CheckedLibrary):
    """ROCr, with every status checked. Loading it maps memory; `start` is hsa_init."""

    file = "libhsa-runtime64.so.1"
    title = "ROCm runtime"
    failed = HsaError

    def __init__(self) -> None:
        super().__init__()
        self._keep: list[Any] = []  # callbacks live as long as ROCr may call them
        self._lost = ""

    def start(self) -> None:
        """hsa_init; from here on a fault of the GPU is noted and does not abort the process."""
        self.call("hsa_init")
        handler = _EVENT_CALLBACK(self._on_event)
        self._keep.append(handler)
        self.call("hsa_amd_register_system_event_handler", handler, ctypes.c_void_p())

    def error_name(self, status: int) -> str:
        """``HSA_STATUS_ERROR_MEMORY_FAULT: …`` in ROCr's words, or the number of what it has no words for."""
        text = ctypes.c_char_p()
        if self.status("hsa_status_string", ctypes.c_int(status), ctypes.byref(text)) or text.value is None:
            return f"error {status:#x}"
        return text.value.decode(errors="replace").partition(". ")[0].strip().rstrip(".")

    # --- what there is -----------------------------------------------------------------------------

    def agents(self, kind: int) -> list[int]:
        """The agents of one type, in ROCr's order."""
        return [
            agent
            for agent in self._each("hsa_iterate_agents")
            if self.number("hsa_agent_get_info", agent, AGENT_DEVICE) == kind
        ]

    def pools(self, agent: int) -> list[int]:
        """The memory pools of an agent."""
        return self._each("hsa_amd_agent_iterate_memory_pools", ctypes.c_uint64(agent))

    def symbols(self, executable: int, agent: int) -> list[int]:
        """Kernels and variables that an executable has on an agent."""
        found: list[int] = []

        def each(_executable: int, _agent: int, symbol: int, _data: Any) -> int:
            found.append(symbol)
            return SUCCESS

        self.call(
            "hsa_executable_iterate_agent_symbols", ctypes.c_uint64(executable), ctypes.c_uint64(agent),
            _EACH_SYMBOL_CALLBACK(each), ctypes.c_void_p(),
        )  # fmt: skip
        return found

    def number(self, call: str, handle: int, which: int, kind: Any = ctypes.c_uint32) -> int:
        """A numeric attribute of a handle."""
        value = kind()
        self.call(call, ctypes.c_uint64(handle), ctypes.c_int(which), ctypes.byref(value))
        return int(value.value)

    def text(self, call: str, handle: int, which: int, size: int = 64) -> str:
        """An attribute that is text of at most ``size`` bytes."""
        value = ctypes.create_string_buffer(size + 1)
        self.call(call, ctypes.c_uint64(handle), ctypes.c_int(which), value)
        return value.value.decode(errors="replace")

    def system(self, which: int, kind: Any = ctypes.c_uint64) -> int:
        """A numeric attribute of the system."""
        value = kind()
        self.call("hsa_system_get_info", ctypes.c_int(which), ctypes.byref(value))
        return int(value.value)

    @property
    def version(self) -> str:
        """``1.15.0``: what its build calls itself; of one without a number, the version of its interface."""
        text = ctypes.c_char_p()
        status = self.status("hsa_system_get_info", ctypes.c_int(SYSTEM_BUILD_VERSION), ctypes.byref(text))
        if not status and text.value:
            number = text.value.decode(errors="replace").strip(' "').partition("-")[0]
            if number[:1].isdigit():
                return number
        major = self.system(SYSTEM_VERSION_MAJOR, ctypes.c_uint16)
        return f"of HSA {major}.{self.system(SYSTEM_VERSION_MINOR, ctypes.c_uint16)}"

    def _each(self, call: str, *arguments: Any) -> list[int]:
        found: list[int] = []

        def each(handle: int, _data: Any) -> int:
            found.append(handle)
            return SUCCESS

        self.call(call, *arguments, _EACH_CALLBACK(each), ctypes.c_void_p())
        return found

    # --- what went wrong ---------------------------------------------------------------------------

    @property
    def lost(self) -> str:
        """What ended all work on the device, as far as ROCr has told; nothing if it goes on."""
        return self._lost

    def queue_callback(self) -> Callable[..., None]:
        """A callback for the errors of a queue: the first that comes is kept, unless a fault explains it."""

        def on_error(status: int, _queue: Any, _data: Any) -> None:
            if status:
                self._lose(self._lost or self.error_name(status))

        handler = _QUEUE_CALLBACK(on_error)
        self._keep.append(handler)
        return handler

    def _on_event(self, event: Any, _data: Any) -> int:
        """Called by a thread of ROCr's; SUCCESS keeps it from ending the process."""
        kind = event.contents.event_type
        if kind == EVENT_MEMORY_FAULT:
            fault = event.contents.memory_fault
            where, why = fault.virtual_address, _reason(fault.fault_reason_mask)
            self._lose(f"GPU memory fault at {where:#x}: {why}")
        else:
            self._lose(self._lost or f"the GPU raised a hardware exception (event {kind})")
        return SUCCESS

    def _lose(self, why: str) -> None:
        """Note why nothing runs any more, and end the process soon if nobody looks at it.

        A call of ROCr's that waits for the device by itself (a copy while code is loaded) waits for ever.
        """
        if not self._lost:
            end = threading.Timer(_LOST_S, _end, [why])
            end.daemon = True
            end.start()
        self._lost = why


def _end(why: str) -> None:
    print(f"the device was lost: {why}", file=sys.stderr, flush=True)
    os._exit(1)


def _reason(mask: int) -> str:
    if mask & MEMORY_FAULT_HANG:
        return "the GPU was reset after a hang"
    if mask & MEMORY_FAULT_PAGE_NOT_PRESENT:
        return "nothing is mapped there"
    if mask & MEMORY_FAULT_READ_ONLY:
        return "a write to memory that is read-only"
    return f"reasons {mask:#x}"

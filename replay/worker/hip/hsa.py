"""The few calls of ROCr (libhsa-runtime64.so.1) that replay needs, through ctypes: here and nowhere else.

No binding package and no HIP: what the shim saw was ROCr's, its C ABI is the same for every Python, and
hip-python has none of it. Source: hsa.h and hsa_ext_amd.h; a test compares layouts and constants with these.
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
AGENT_COMPUTE_UNITS = 0xA002
AGENT_PRODUCT_NAME = 0xA009
AGENT_WAVES_PER_CU = 0xA00A
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


_U32, _U64, _I64, _INT = ctypes.c_uint32, ctypes.c_uint64, ctypes.c_int64, ctypes.c_int
_SIZE, _ADDRESS, _QUEUE = ctypes.c_size_t, ctypes.c_void_p, ctypes.POINTER(Queue)
_OUT = ctypes.c_void_p  # of what the call writes
_ATTRIBUTE = (_U64, _INT, _OUT)  # of a handle
# What each call takes; every other one is given ctypes values.
_TAKES: dict[str, tuple[Any, ...]] = {
    "hsa_agent_get_info": _ATTRIBUTE,
    "hsa_amd_memory_pool_get_info": _ATTRIBUTE,
    "hsa_executable_symbol_get_info": _ATTRIBUTE,
    "hsa_system_get_info": (_INT, _OUT),
    "hsa_amd_memory_pool_allocate": (_U64, _SIZE, _U32, _OUT),
    "hsa_amd_memory_pool_free": (_ADDRESS,),
    "hsa_amd_agents_allow_access": (_U32, _OUT, _ADDRESS, _ADDRESS),
    "hsa_amd_memory_lock": (_ADDRESS, _SIZE, _OUT, _INT, _OUT),
    "hsa_amd_memory_unlock": (_ADDRESS,),
    "hsa_amd_memory_async_copy": (_ADDRESS, _U64, _ADDRESS, _U64, _SIZE, _U32, _ADDRESS, _U64),
    "hsa_amd_vmem_address_reserve": (_OUT, _SIZE, _U64, _U64),
    "hsa_amd_vmem_address_free": (_ADDRESS, _SIZE),
    "hsa_amd_vmem_handle_create": (_U64, _SIZE, _INT, _U64, _OUT),
    "hsa_amd_vmem_handle_release": (_U64,),
    "hsa_amd_vmem_map": (_ADDRESS, _SIZE, _SIZE, _U64, _U64),
    "hsa_amd_vmem_unmap": (_ADDRESS, _SIZE),
    "hsa_amd_vmem_set_access": (_ADDRESS, _SIZE, _OUT, _SIZE),
    "hsa_code_object_reader_create_from_memory": (ctypes.c_char_p, _SIZE, _OUT),
    "hsa_code_object_reader_destroy": (_U64,),
    "hsa_executable_create_alt": (_INT, _INT, _ADDRESS, _OUT),
    "hsa_executable_load_agent_code_object": (_U64, _U64, _U64, _ADDRESS, _ADDRESS),
    "hsa_executable_freeze": (_U64, _ADDRESS),
    "hsa_executable_destroy": (_U64,),
    "hsa_signal_create": (_I64, _U32, _ADDRESS, _OUT),
    "hsa_signal_destroy": (_U64,),
    "hsa_signal_store_screlease": (_U64, _I64),
    "hsa_signal_wait_scacquire": (_U64, _INT, _I64, _U64, _INT),
    "hsa_queue_create": (_U64, _U32, _U32, _QUEUE_CALLBACK, _ADDRESS, _U32, _U32, _OUT),
    "hsa_queue_destroy": (_QUEUE,),
    "hsa_queue_add_write_index_screlease": (_QUEUE, _U64),
    "hsa_amd_profiling_set_profiler_enabled": (_QUEUE, _INT),
    "hsa_amd_profiling_get_dispatch_time": (_U64, _U64, _OUT),
}
_GIVES: dict[str, Any] = {  # other than a status
    "hsa_signal_store_screlease": None,
    "hsa_signal_wait_scacquire": _I64,
    "hsa_queue_add_write_index_screlease": _U64,
}
_NUMBERS = {1: ctypes.c_uint8, 2: ctypes.c_uint16, 4: _U32, 8: _U64}  # by their bytes
_NO_LIMIT = 0xFFFF_FFFF


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

    def function(self, name: str, result: Any = ctypes.c_int) -> Any:
        """The call itself, with the types of `_TAKES` and `_GIVES`."""
        found = super().function(name, _GIVES.get(name, result))
        if found.argtypes is None and name in _TAKES:
            found.argtypes = _TAKES[name]
        return found

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

    def number(self, call: str, handle: int, which: int, size: int = 4) -> int:
        """A numeric attribute of a handle, of ``size`` bytes."""
        value = _NUMBERS[size]()
        self.call(call, handle, which, ctypes.byref(value))
        return int(value.value)

    def numbers(self, call: str, handle: int, which: int, count: int) -> list[int]:
        """An attribute that is ``count`` numbers of 4 bytes."""
        values = (_U32 * count)()
        self.call(call, handle, which, values)
        return list(values)

    def text(self, call: str, handle: int, which: int, size: int = 64) -> str:
        """An attribute that is text of at most ``size`` bytes."""
        value = ctypes.create_string_buffer(size + 1)
        self.call(call, handle, which, value)
        return value.value.decode(errors="replace")

    def system(self, which: int, size: int = 8) -> int:
        """A numeric attribute of the system, of ``size`` bytes."""
        value = _NUMBERS[size]()
        self.call("hsa_system_get_info", which, ctypes.byref(value))
        return int(value.value)

    @property
    def version(self) -> str:
        """``1.15.0``: what its build calls itself; of one without a number, the version of its interface."""
        text = ctypes.c_char_p()
        status = self.status("hsa_system_get_info", SYSTEM_BUILD_VERSION, ctypes.byref(text))
        if not status and text.value:
            number = text.value.decode(errors="replace").strip(' "').partition("-")[0]
            if number[:1].isdigit():
                return number
        major = self.system(SYSTEM_VERSION_MAJOR, 2)
        return f"of HSA {major}.{self.system(SYSTEM_VERSION_MINOR, 2)}"

    def _each(self, call: str, *arguments: Any) -> list[int]:
        found: list[int] = []

        def each(handle: int, _data: Any) -> int:
            found.append(handle)
            return SUCCESS

        self.call(call, *arguments, _EACH_CALLBACK(each), ctypes.c_void_p())
        return found

    # --- what calls make -----------------------------------------------------------------------------

    def allocate(self, pool: int, size: int) -> int:
        """The address of memory of a pool."""
        address = _U64()
        self.call("hsa_amd_memory_pool_allocate", pool, size, 0, ctypes.byref(address))
        return int(address.value)

    def allow_access(self, agent: int, address: int) -> None:
        self.call("hsa_amd_agents_allow_access", 1, (_U64 * 1)(agent), None, address)

    def lock(self, agent: int, address: int, size: int) -> int:
        """Let an agent see memory of the host; the address at which it does."""
        seen = _U64()
        self.call("hsa_amd_memory_lock", address, size, (_U64 * 1)(agent), 1, ctypes.byref(seen))
        return int(seen.value)

    def reserve(self, size: int, hint: int) -> int:
        """An address range that nothing is mapped in; where, ROCr decides."""
        address = _U64()
        self.call("hsa_amd_vmem_address_reserve", ctypes.byref(address), size, hint, 0)
        return int(address.value)

    def vmem(self, pool: int, size: int) -> int:
        """A handle of memory that can be mapped."""
        handle = _U64()
        self.call("hsa_amd_vmem_handle_create", pool, size, MEMORY_TYPE_NONE, 0, ctypes.byref(handle))
        return int(handle.value)

    def map(self, address: int, size: int, handle: int) -> None:
        """Map memory into a reserved range."""
        self.call("hsa_amd_vmem_map", address, size, 0, handle, 0)

    def let_access(self, agent: int, address: int, size: int) -> None:
        """Let an agent read and write what is mapped in a range."""
        access = (AccessDesc * 1)(AccessDesc(ACCESS_PERMISSION_RW, agent))
        self.call("hsa_amd_vmem_set_access", address, size, access, 1)

    def reader(self, code: bytes) -> int:
        """A reader of a code object, whose bytes have to live as long."""
        found = _U64()
        self.call("hsa_code_object_reader_create_from_memory", code, len(code), ctypes.byref(found))
        return int(found.value)

    def executable(self) -> int:
        found = _U64()
        self.call(
            "hsa_executable_create_alt", PROFILE_FULL, FLOAT_ROUNDING_DEFAULT, None, ctypes.byref(found)
        )
        return int(found.value)

    def signal(self) -> int:
        """A signal whose value is 1."""
        found = _U64()
        self.call("hsa_signal_create", 1, 0, None, ctypes.byref(found))
        return int(found.value)

    def queue(self, agent: int, packets: int) -> Any:
        """A queue of an agent, which notes when each dispatch begins and ends."""
        found = _QUEUE()
        self.call(
            "hsa_queue_create", agent, packets, QUEUE_TYPE_MULTI, self._queue_callback(), None, _NO_LIMIT,
            _NO_LIMIT, ctypes.byref(found),
        )  # fmt: skip
        self.call("hsa_amd_profiling_set_profiler_enabled", found, 1)
        return found

    def submit(self, queue: Any, packet: DispatchPacket) -> None:
        """Put a packet on a queue, and ring its doorbell."""
        its = queue.contents
        index = self.function("hsa_queue_add_write_index_screlease")(queue, 1)
        size = ctypes.sizeof(packet)
        slot = its.base_address + (index & (its.size - 1)) * size
        # The header makes the packet valid: it comes last, together with the setup in one word.
        head = ctypes.sizeof(_U32)
        ctypes.memmove(slot + head, ctypes.addressof(packet) + head, size - head)
        _U32.from_address(slot).value = packet.header | packet.setup << 16
        self.function("hsa_signal_store_screlease")(its.doorbell_signal, index)

    def dispatch_ticks(self, agent: int, signal: int) -> int:
        """How long the dispatch of a completion signal took."""
        found = DispatchTime()
        self.call("hsa_amd_profiling_get_dispatch_time", agent, signal, ctypes.byref(found))
        return int(found.end - found.start)

    # --- what went wrong ---------------------------------------------------------------------------

    @property
    def lost(self) -> str:
        """What ended all work on the device, as far as ROCr has told; nothing if it goes on."""
        return self._lost

    def _queue_callback(self) -> Callable[..., None]:
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


def address_of(queue: Any) -> int:
    """Where a queue's own structure is."""
    return ctypes.addressof(queue.contents)


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

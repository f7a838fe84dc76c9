"""The exceptions of an AMD GPU by number. Source: kfd_dbg_trap_exception_code of linux/kfd_ioctl.h."""

from __future__ import annotations

from collections.abc import Iterator

from kerncap.capture.core_dump.exceptions import ExceptionKind

MEMORY_VIOLATION = 5
OF_A_GPU = 33
_PACKETS = range(16, 31)


def of(code: int) -> ExceptionKind:
    """Of the number in a dump; a later driver's is named by that."""
    name, text = _KINDS.get(code, ("UNKNOWN", f"exception {code}, which this version doesn't know"))
    return ExceptionKind(code, name, text)


def of_packets(mask: int) -> Iterator[int]:
    """The exceptions in a queue's mask that no wave has: of packets that were refused."""
    yield from (code for code in _PACKETS if mask >> code - 1 & 1)


_KINDS = {
    1: ("WAVE_ABORT", "an assert() of the kernel failed, or __builtin_trap()"),
    2: ("WAVE_TRAP", "the kernel stopped itself: a trap, or a breakpoint"),
    3: ("WAVE_MATH_ERROR", "an arithmetic exception that the kernel had enabled"),
    4: ("WAVE_ILLEGAL_INSTRUCTION", "an instruction that isn't valid"),
    5: ("WAVE_MEMORY_VIOLATION", "an access to an address that isn't mapped, or may not be accessed so"),
    6: ("WAVE_APERTURE_VIOLATION", "an access outside of LDS or scratch"),
    16: ("PACKET_DISPATCH_DIM_INVALID", "a launch with an empty grid or workgroup"),
    17: ("PACKET_DISPATCH_GROUP_SEGMENT_SIZE_INVALID", "a launch with more LDS than a workgroup can have"),
    18: ("PACKET_DISPATCH_CODE_INVALID", "a launch of no kernel"),
    20: ("PACKET_UNSUPPORTED", "a packet that the GPU doesn't know"),
    21: ("PACKET_DISPATCH_WORK_GROUP_SIZE_INVALID", "a launch with a workgroup that is too large"),
    22: ("PACKET_DISPATCH_REGISTER_INVALID", "a launch of a kernel with more registers than there are"),
    23: ("PACKET_VENDOR_UNSUPPORTED", "a packet of AMD's own that the GPU doesn't know"),
    30: ("PREEMPTION_ERROR", "the queue could not be taken off the GPU"),
    33: ("DEVICE_MEMORY_VIOLATION", "an access to an address that isn't mapped; the wave isn't known"),
}  # fmt: skip

"""The exceptions of a GPU by number. Source: CUDBGException_t in cudadebugger.h, and CUDA-GDB's manual."""

from __future__ import annotations

from dataclasses import dataclass

UNKNOWN = 0xFFFFFFFF
TRAP = -1  # no number of the driver's: a warp that stopped at an instruction for it


@dataclass(frozen=True)
class ExceptionKind:
    """An exception as the driver numbers it; 0 for a trap."""

    code: int
    name: str
    text: str


def of(code: int) -> ExceptionKind:
    """Of the number in a dump; a later driver's is named by that."""
    name, text = _KINDS.get(code, ("UNKNOWN", f"exception {code}, which this version doesn't know"))
    return ExceptionKind(code, name, text)


_KINDS = {
    TRAP: ("TRAP", "the kernel stopped itself: __trap(), or a breakpoint"),
    UNKNOWN: ("UNKNOWN", "an exception that the driver has no name for"),
    1: ("LANE_ILLEGAL_ADDRESS", "a thread accessed an address that isn't mapped"),
    2: ("LANE_USER_STACK_OVERFLOW", "a thread used more stack than it has (cudaLimitStackSize)"),
    3: ("DEVICE_HARDWARE_STACK_OVERFLOW", "the hardware's stack overflowed"),
    4: (
        "WARP_ILLEGAL_INSTRUCTION",
        "an instruction that isn't valid, or an access to shared memory that is out of range",
    ),
    5: ("WARP_OUT_OF_RANGE_ADDRESS", "an access outside of shared or local memory, or of all addresses"),
    6: ("WARP_MISALIGNED_ADDRESS", "an address that isn't a multiple of the access's size"),
    7: ("WARP_INVALID_ADDRESS_SPACE", "an instruction accessed a kind of memory that it can't"),
    8: ("WARP_INVALID_PC", "a jump to an address without code"),
    9: ("WARP_HARDWARE_STACK_OVERFLOW", "the hardware's stack overflowed, or the kernel's"),
    10: ("DEVICE_ILLEGAL_ADDRESS", "an access to an address that isn't mapped; the thread isn't known"),
    11: ("LANE_MISALIGNED_ADDRESS", "an address that isn't a multiple of the access's size"),
    12: ("WARP_ASSERT", "an assert() of the kernel failed"),
    13: ("LANE_SYSCALL_ERROR", "a call of the device's runtime failed, such as free() of a wrong pointer"),
    14: ("WARP_ILLEGAL_ADDRESS", "an access to an address that isn't mapped, or may not be accessed so"),
    15: ("LANE_NONMIGRATABLE_ATOMSYS", "an atomic for the whole system on memory that can't migrate"),
    16: ("LANE_INVALID_ATOMSYS", "an atomic for the whole system on memory that takes none"),
    17: ("CLUSTER_OUT_OF_RANGE_ADDRESS", "an access outside of the shared memory of the cluster's blocks"),
    18: ("CLUSTER_BLOCK_NOT_PRESENT", "an access to the shared memory of a block that has ended"),
    19: ("WARP_STACK_CANARY", "a function overwrote its stack's guard"),
    20: ("WARP_TMEM_ACCESS_CHECK", "an access to tensor memory that isn't allocated"),
    21: ("WARP_TMEM_LEAK", "a block ended with tensor memory that it had allocated"),
    22: ("WARP_CALL_REQUIRES_NEWER_DRIVER", "a call that needs a newer driver"),
    23: ("WARP_MISALIGNED_PC", "a jump into the middle of an instruction"),
    24: ("WARP_PC_OVERFLOW", "code ran on beyond the last address"),
    25: ("WARP_MISALIGNED_REG", "registers that don't begin at a multiple of their number"),
    26: ("WARP_ILLEGAL_INSTR_ENCODING", "bytes that aren't an instruction"),
    27: ("WARP_ILLEGAL_INSTR_PARAM", "an instruction with an operand that it can't have"),
    28: ("WARP_OUT_OF_RANGE_REGISTER", "a register that the kernel doesn't have"),
    29: ("WARP_INVALID_CONST_ADDR_LDC", "a load outside of a constant bank"),
    30: ("WARP_MMU_FAULT", "an access to an address that isn't mapped"),
    31: ("WARP_ARRIVE", "more arrivals at an mbarrier than it expects, or one that is locked"),
    32: ("CLUSTER_POISON", "a memory error that can't be corrected, in another block's shared memory"),
    33: ("WARP_API_STACK_ERROR", "the stack's limit was exceeded (cudaLimitStackSize)"),
    34: ("WARP_BLOCK_NOT_PRESENT", "a barrier or an access of a block that has ended"),
    35: ("WARP_USER_STACK_OVERFLOW", "the stack's limit was exceeded (cudaLimitStackSize)"),
    36: ("TMA_SYSCALL", "a copy of the tensor memory accelerator failed"),
}

"""``from-core``: a core dump of a GPU, or a log of the crash."""

from __future__ import annotations

from typing import Annotated

from kerncap.capture.core_dump.access import Space
from kerncap.capture.core_dump.crash_log import Assertion
from kerncap.capture.core_dump.dump import Device, Driver, Memory
from kerncap.capture.core_dump.exceptions import ExceptionKind
from kerncap.format.document_types import Count, Document, Extents, Line, Part, Path, says

Index = Annotated[tuple[int, int, int], says("Index in x, y, z.")]
Kernel = Annotated[int | None, says("Index in kernels; null if the dump doesn't say.")]
CodeAddress = Annotated[int, says("Address of the code when the dump was written.")]
Words = Annotated[tuple[int, ...], says("Values as unsigned numbers of 32 bits, from register 0 on.")]


class CodeAt(Part, frozen=True, kw_only=True):
    """A place in the code. Offsets are bytes from the beginning of the function's and its kernel's code."""

    function: Annotated[
        str | None,
        says(
            "Mangled name; a function that was not inlined, or the kernel. Null if only --exe has it; the "
            "offset is then from the beginning of the code object."
        ),
    ]
    offset: int
    kernel: Annotated[str | None, says("Mangled name; null if it isn't known.")]
    kernel_offset: Annotated[int | None, says("Null if the function's code is outside of its kernel's.")]
    file: Annotated[str | None, says("As the compiler was given it; null without -lineinfo, or -g of HIP.")]
    line: Line | None
    instruction: Annotated[str | None, says("Of the disassembler, with --sass.")]


class CoreParameter(Part, frozen=True, kw_only=True):
    """A parameter of a kernel, in order."""

    offset: Annotated[int, says("Bytes from the first parameter.")]
    bytes: Annotated[str, says("The bytes as hexadecimal digits.")]


class CoreKernel(Part, frozen=True, kw_only=True):
    """A grid that was running."""

    name: Annotated[str | None, says("Null if no image in the dump has it.")]
    mangled: str | None
    device: int
    grid: Annotated[Extents | None, says("In blocks; null if it isn't known which launch it is.")]
    block: Extents | None
    cluster: Extents | None
    registers: Annotated[int, says("Registers of a thread; on AMD GPUs vector and accumulation registers.")]
    from_device: Annotated[bool, says("True if a kernel launched it.")]
    resident_threads: Annotated[Count, says("Threads that were on an SM and had not ended.")]
    parameters: Annotated[list[CoreParameter] | None, says("Null if they are not in the dump.")]


class CoreAccess(Part, frozen=True, kw_only=True):
    """The address of a thread's load, store or atomic, by its registers."""

    space: Space
    address: Annotated[int, says("Address in that memory.")]
    in_dump: Annotated[
        bool | None, says("Whether the dump has memory there; null if it has none of the kind.")
    ]


class CoreThread(Part, frozen=True, kw_only=True):
    """A thread with the exception."""

    block: Annotated[Index | None, says("Null if the dump doesn't say, as thread.")]
    thread: Index | None
    access: Annotated[CoreAccess | None, says("Null if the instruction or its registers don't say it.")]


class WaveRegisters(Part, frozen=True, kw_only=True):
    """Registers of an AMD GPU's wave that have names."""

    exec: Annotated[int, says("A bit for each lane that is active.")]
    vcc: int
    m0: int
    mode: int
    status: int
    trapsts: Annotated[int, says("The exceptions.")]


class CoreThreadState(Part, frozen=True, kw_only=True):
    """Where a thread is and what it holds."""

    sm: Annotated[int | None, says("Null on AMD GPUs.")]
    warp: Annotated[int | None, says("On AMD GPUs the number of the wave in its block, or null.")]
    lane: int
    pc: CodeAddress
    backtrace: Annotated[list[CodeAt], says("Calls of the functions that it is in, innermost first.")]
    registers: Annotated[Words, says("On AMD GPUs v0, v1, …")]
    accumulators: Annotated[Words, says("a0, a1, … of AMD GPUs.")]
    uniform_registers: Annotated[Words, says("On AMD GPUs s0, s1, …")]
    predicates: Words
    special: Annotated[
        WaveRegisters | None, says("Registers of its wave that have names; null on NVIDIA GPUs.")
    ]


class CoreFault(Part, frozen=True, kw_only=True):
    """Threads with one exception at one instruction. One of a warp is that of all its active threads."""

    exception: ExceptionKind
    device: int
    kernel: Kernel
    blocks: Annotated[Count | None, says("Number of their blocks; null if the dump doesn't say.")]
    thread_count: Count
    pc: CodeAddress | None
    place: CodeAt | None
    threads: Annotated[
        list[CoreThread],
        says("Up to 64 of them; first those whose address is not in the dump, or furthest from the others'."),
    ]
    first_thread: Annotated[CoreThreadState | None, says("The first of threads; null if all have ended.")]


class CoreElsewhere(Part, frozen=True, kw_only=True):
    """Threads without an exception at one instruction."""

    kernel: Kernel
    pc: CodeAddress
    place: CodeAt | None
    thread_count: Count


class NamedDump(Part, frozen=True, kw_only=True):
    """A core dump that a log names."""

    path: Path
    problem: Annotated[
        str | None, says("Why it was not read; null for the one that was, and for later ones.")
    ]


class CoreLog(Part, frozen=True, kw_only=True):
    """What a log says of the crash."""

    path: Path
    error: Annotated[str | None, says("The error as the program printed it.")]
    line: Annotated[int | None, says("Line of the log that has it.")]
    exception: Annotated[str | None, says("The exception as CUDA's driver printed it.")]
    kernels: Annotated[
        list[str], says("Kernels that it blames: symbols, or names as the program wrote them.")
    ]
    assertions: list[Assertion]
    dumps: Annotated[list[NamedDump], says("The last one first.")]


class FromCoreDocument(Document, frozen=True, kw_only=True):
    """What a core dump of a GPU says. Nothing in it was executed."""

    path: Annotated[str, says("The dump; the log, if no dump that it names could be read.")]
    driver: Annotated[
        Driver | None, says("Null for a driver before 565, for an AMD GPU's, and without a dump.")
    ]
    devices: tuple[Device, ...]
    kernels: list[CoreKernel]
    faults: list[CoreFault]
    elsewhere: Annotated[list[CoreElsewhere], says("Most threads first.")]
    memory: list[Memory]
    command: Annotated[str, says("Command that captures the launch in the next run of the program, CMD.")]
    notes: Annotated[list[str], says("Notes, one line each.")]
    log: Annotated[CoreLog | None, says("Null if a dump was given.")]

"""What a program printed before it died of a fault on the GPU: core dumps that it names, kernels, assertions.

Of CUDA's driver (CUDA_COREDUMP_SHOW_PROGRESS), PyTorch with and without TORCH_USE_CUDA_DSA, Triton, JAX, and
ROCm's runtime. A line may begin with anything, such as vLLM's process or torchrun's rank.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import Annotated, BinaryIO

from kerncap.format.document_types import Count, Line, says
from kerncap.log import one_line
from kerncap.regular_file import open_regular

MAX_BYTES = 1 << 30
MAX_LINE = 1 << 14
MAX_FOUND = 64  # of each: dumps, kernels, assertions
_PROBE = 1 << 12

# Texts of cudaGetErrorString and hipGetErrorString for what a kernel did; later calls report them as well.
_FAULTS = (
    "an illegal memory access was encountered", "device-side assert triggered",
    "unspecified launch failure", "misaligned address", "an illegal instruction was encountered",
    "an illegal instruction was executed", "invalid program counter",
    "operation not supported on global/shared address space", "hardware stack error",
    "the launch timed out and was terminated",
)  # fmt: skip
_FAULT = re.compile("|".join(map(re.escape, _FAULTS)))
_OTHER = re.compile(r"(?:CUDA|HIP) error: (.{1,200})")
_AMD_FAULT = re.compile(
    r"Memory access fault by GPU .{1,300}|"
    r"\bHSA_STATUS_ERROR_(?:MEMORY_APERTURE_VIOLATION|MEMORY_FAULT|ILLEGAL_INSTRUCTION|EXCEPTION)\b.{0,200}"
)
_EXCEPTION = re.compile(r"coredump: Detected an exception of type (?:CUDBG_EXCEPTION_)?([A-Z_]{1,80})")
_CUDA_DUMP = re.compile(r"coredump: Writing ELF file to (.+)")
_AMD_DUMP = re.compile(r"GPU core dump created: (.+)|Generating GPU core dump to: (.+)")
_FRAME = re.compile(r"coredump: +#(\d{1,4})\s+0x[0-9a-f]+\s+(\S+)")
_NAME = re.compile(r"Kernel Name: (\S+)|Name of kernel launched that led to failure = (\S+)")
_PLACE = re.compile(r":(\d{1,9}): ")
_AT = re.compile(r"block: \[(\d+),(\d+),(\d+)\], thread: \[(\d+),(\d+),(\d+)\] Assertion `(.*)` failed")
_ON_AMD = re.compile(r"Device-side assertion `(.*)' failed")
_COLOURS = re.compile(r"\x1b\[[0-9;]{0,20}m")
_Index = tuple[int, int, int]


@dataclass(frozen=True)
class Assertion:
    """An assertion of a kernel that failed."""

    file: str
    line: Line
    function: Annotated[str, says("Function that has it: the kernel, or one that it calls.")]
    text: str
    block: Annotated[_Index | None, says("Block of the first thread; null on AMD GPUs.")]
    thread: Annotated[_Index | None, says("Index of the first thread in its block.")]
    count: Annotated[Count, says("Threads that reported it.")] = 1


@dataclass
class CrashLog:
    """``error``: text of the fault, or of another error if there is no fault (``is_fault``)."""

    error: str | None = None
    line: int = 0
    is_fault: bool = False
    is_amd: bool = False
    exception: str | None = None  # as the driver calls it
    kernels: list[str] = field(default_factory=list)  # symbols, or names as the program wrote them
    assertions: list[Assertion] = field(default_factory=list)
    dumps: list[str] = field(default_factory=list)


def read_log(path: Path) -> CrashLog | None:
    """None for what isn't text. Raises UsageError for a file that can't be read."""
    with open_regular(path) as file:
        begin = file.read(_PROBE)
        if b"\0" in begin or not begin:
            return None
        file.seek(0)
        return _Reading().read(_lines(file))


def _lines(file: BinaryIO) -> Iterator[str]:
    """Lines of at most MAX_LINE bytes; what goes on after that is left out."""
    left, is_rest = MAX_BYTES, False
    while left > 0 and (data := file.readline(min(MAX_LINE, left))):
        left -= len(data)
        if not is_rest:
            yield _COLOURS.sub("", data.decode("utf-8", "replace")).rstrip()
        is_rest = not data.endswith(b"\n")


class _Reading:
    def __init__(self) -> None:
        self._log = CrashLog()
        self._is_named = False  # the fault, by its text
        self._trace: str | None = None  # outermost frame so far of the driver's stack trace

    def read(self, lines: Iterable[str]) -> CrashLog:
        for number, line in enumerate(lines, 1):
            self._error(line, number)
            self._driver(line)
            self._assertion(line)
            if found := _NAME.search(line):
                self._add(self._log.kernels, found[1] or found[2])
        self._end_trace()
        return self._log

    def _error(self, line: str, number: int) -> None:
        if self._is_named:
            return
        log = self._log
        fault, other = _FAULT.search(line) or _AMD_FAULT.search(line), _OTHER.search(line)
        if fault is not None:
            self._is_named = log.is_fault = True
            log.error, log.line = one_line(fault[0]), number
            log.is_amd |= fault.re is _AMD_FAULT or "HIP error" in line
        elif other is not None and log.error is None:
            log.error, log.line = one_line(other[1]), number

    def _driver(self, line: str) -> None:
        log = self._log
        if "ore dump" not in line and "coredump: " not in line:
            return
        if frame := _FRAME.search(line):
            if frame[1] == "0":
                self._end_trace()
            self._trace = frame[2]
        elif exception := _EXCEPTION.search(line):
            log.exception, log.is_fault = exception[1], True
        elif dump := _CUDA_DUMP.search(line):
            self._add(log.dumps, dump[1])
        elif dump := _AMD_DUMP.search(line):
            log.is_amd = True
            self._add(log.dumps, dump[1] or dump[2])

    def _end_trace(self) -> None:
        """The outermost function of a trace is the kernel."""
        if self._trace is not None:
            self._add(self._log.kernels, self._trace)
            self._trace = None

    def _assertion(self, line: str) -> None:
        if "ssertion `" not in line:
            return
        head, tail = line, None
        if found := _AT.search(line):
            head, tail = line[: found.start()], found
        elif found := _ON_AMD.search(line):
            head = line[: found.start()]
        place = _PLACE.search(head)
        if found is None or place is None or not head[: place.start()].strip():
            return
        numbers = tuple(int(each[-9:]) for each in tail.groups()[:6]) if tail else None
        one = Assertion(
            head[: place.start()].split()[-1], int(place[1]), head[place.end() :].rstrip(": "),
            found[found.re.groups],
            None if numbers is None else (numbers[0], numbers[1], numbers[2]),
            None if numbers is None else (numbers[3], numbers[4], numbers[5]),
        )  # fmt: skip
        log = self._log
        log.is_fault, log.is_amd = True, log.is_amd or tail is None
        for at, known in enumerate(log.assertions):
            if (known.file, known.line, known.function, known.text) == (
                one.file, one.line, one.function, one.text,
            ):  # fmt: skip
                log.assertions[at] = Assertion(
                    known.file, known.line, known.function, known.text, known.block, known.thread,
                    known.count + 1,
                )  # fmt: skip
                return
        if len(log.assertions) < MAX_FOUND:
            log.assertions.append(one)

    def _add(self, to: list[str], text: str) -> None:
        """The last ones, each once."""
        if text in to:
            to.remove(text)
        to.append(text)
        del to[:-MAX_FOUND]

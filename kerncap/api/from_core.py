"""`from-core`: what a core dump of a GPU, or a log of the crash, says of the kernel that faulted.

Nothing in either is executed.
"""

from __future__ import annotations

import dataclasses
import glob
import os
import re
import shlex
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from msgspec import to_builtins
from msgspec.structs import replace

from kerncap import scratch
from kerncap.api import from_core_amd
from kerncap.capture.core_dump import access, exceptions
from kerncap.capture.core_dump.amd import dump as amd_dump
from kerncap.capture.core_dump.code import Code, Place
from kerncap.capture.core_dump.crash_log import CrashLog, read_log
from kerncap.capture.core_dump.dump import Dump, Grid, open_dump
from kerncap.capture.core_dump.faults import Fault, Stopped, Thread, find
from kerncap.capture.kernel_spellings import base_name
from kerncap.errors import FormatError, UsageError
from kerncap.log import one_line
from kerncap.regular_file import open_regular
from kerncap.replay.candidates import disassemble
from kerncap.report.documents import from_core as documents

MAX_FAULTS = 64
MAX_THREADS = 64  # of a fault that are listed
MAX_ELSEWHERE = 64  # places of threads without an exception
MAX_PATTERN_NAMES = 8
_WRITES_ONE = (
    "to have a core dump written: CUDA_ENABLE_COREDUMP_ON_EXCEPTION=1 CUDA_COREDUMP_SHOW_PROGRESS=1 "
    "CUDA_COREDUMP_FILE=core_%h_%p.nvcudmp CMD"
)
_WRITES_ONE_AMD = (
    "to have core dumps written, gpucore.PID of the GPU and the process's own: ulimit -c unlimited; "
    "HSA_ENABLE_DEBUG=1 CMD"
)
_ONLY_NVIDIA = "no instruction is shown: --sass is for NVIDIA GPUs"
_ASYNCHRONOUS = (
    "the Python lines of such an error are those of a later call, not of the launch that faulted, unless "
    "CUDA_LAUNCH_BLOCKING=1 was set"
)
_SPECIFIERS = re.compile("%[hpt]")  # of CUDA_COREDUMP_FILE: host, process, time
_AFTER = (
    "the memory in the dump is as the fault left it, which is not what the launch began with: no reproducer "
    "can be made of it"
)


def from_core(
    path: Path | str,
    program: Path | None = None,
    *,
    host_core: Path | None = None,
    sass: bool = False,
    within: Sequence[Path] = (),
) -> dict[str, Any]:
    """The document of ``kerncap from-core``: driver, devices, kernels, faults, elsewhere, memory, command,
    notes, log.

    ``path``: a dump, the CUDA_COREDUMP_FILE that names it (the newest is taken), or a log of the crash, which
    leads to the dump that it names. ``program``: an executable or library whose kernels have the lines that
    the dump's images lack. ``host_core``: the core dump of the process, for one of an AMD GPU; None: look
    next to it. ``sass``: give the images to a disassembler. ``within``: folders that a dump which a log names
    must be in; empty: any. Raises UsageError for a file that can't be read, FormatError for one
    that is no whole core dump.
    """
    if program is not None:
        open_regular(program).close()  # what isn't a file is a mistake, and one without the kernel a note
    path = _inside(_newest(Path(path)), within)
    log = _log(path)
    if log is None:
        return _plain(_of_dump(path, program, host_core, sass, within), None)
    dumps = []
    document = None
    for name in reversed(log.dumps):  # a program that was started again has another dump each time
        problem = None
        if document is None:
            try:
                document = _of_dump(_named(name, path, within), program, host_core, sass, within)
            except (FormatError, UsageError) as error:
                problem = str(error)
        dumps.append(documents.NamedDump(path=name, problem=problem))
    said = documents.CoreLog(
        path=str(path), error=log.error, line=log.line if log.error else None,
        exception=log.exception, kernels=log.kernels, assertions=log.assertions, dumps=dumps,
    )  # fmt: skip
    return _plain(document or _without_dump(path, log), said)


def _plain(document: documents.FromCoreDocument, log: documents.CoreLog | None) -> dict[str, Any]:
    found: dict[str, Any] = to_builtins(replace(document, log=log))
    if amd_dump.is_amd(Path(document.path)):
        # Keys keep their order, and of an AMD GPU the notes always stood before the command.
        for key in ("command", "log"):
            found[key] = found.pop(key)
    return found


def _of_dump(
    path: Path, program: Path | None, host_core: Path | None, sass: bool, within: Sequence[Path]
) -> documents.FromCoreDocument:
    if amd_dump.is_amd(path):
        hosts = [each for each in amd_dump.next_to(path) if _is_inside(each, within)]
        if host_core is not None:
            hosts = [host_core]
        with amd_dump.open_dump(path, hosts, host_core is not None) as (found, notes):
            document = from_core_amd.Reading(found, notes, program).document(path, _command)
        return replace(document, notes=[_AFTER, *document.notes, *([_ONLY_NVIDIA] if sass else [])])
    with open_dump(path) as dump:
        return _Reading(dump, program, sass).document(path)


def _newest(path: Path) -> Path:
    """The newest file that a CUDA_COREDUMP_FILE with %h, %p or %t means; any other path as it is."""
    if not _SPECIFIERS.search(path.name) or os.path.lexists(path):
        return path
    pattern = "*".join(glob.escape(piece) for piece in _SPECIFIERS.split(path.name))
    found = [each for each in path.parent.glob(pattern) if each.is_file()]
    if not found:
        raise UsageError(f"{path}: no core dump has such a name; check CUDA_COREDUMP_FILE")
    return max(found, key=lambda each: each.stat().st_mtime_ns)


def _log(path: Path) -> CrashLog | None:
    """What a log of a crash says; None if the file is not a log."""
    log = read_log(path)
    if log is None or not (log.is_fault or log.error or log.dumps):
        return None
    if not log.is_fault and not log.dumps:
        raise UsageError(
            f"{path}: line {log.line}: {log.error!r} is not the fault of a kernel, so there is no core "
            "dump of it; give the log of a fault, such as an illegal memory access"
        )
    return log


def _named(name: str, log: Path, within: Sequence[Path]) -> Path:
    """Where the dump is that a log names: there, or next to the log. Raises UsageError."""
    for each in dict.fromkeys((Path(name), log.parent / name, log.parent / Path(name).name)):
        if "\0" not in name and os.path.lexists(each):
            return _inside(each, within)
    raise UsageError("not here; copy it next to the log")


def _is_inside(path: Path, within: Sequence[Path]) -> bool:
    """Whether it is in one of the folders, if there are any, after links are followed."""
    real = Path(os.path.realpath(path))
    return not within or any(real.is_relative_to(folder) for folder in within)


def _inside(path: Path, within: Sequence[Path]) -> Path:
    """``path``, if it is in one of the folders. Raises UsageError."""
    if not _is_inside(path, within):
        raise UsageError(f"{path}: outside the folders that may be used; copy it into one of them")
    return path


def _without_dump(path: Path, log: CrashLog) -> documents.FromCoreDocument:
    notes = [_WRITES_ONE_AMD] if log.is_amd else [_WRITES_ONE, *([_ASYNCHRONOUS] if log.error else [])]
    return documents.FromCoreDocument(
        path=str(path), driver=None, devices=(), kernels=[], faults=[], elsewhere=[], memory=[],
        command=_command(log.kernels), notes=notes, log=None,
    )  # fmt: skip


class _Reading:
    def __init__(self, dump: Dump, program: Path | None, sass: bool) -> None:
        self._dump = dump
        self._grids = {(grid.device, grid.id): grid for grid in dump.grids()}
        self._numbers = {key: number for number, key in enumerate(self._grids)}
        self._memory = dump.memory()
        self._driver = dump.driver()
        self._has_global = self._driver is not None and "global memory" not in self._driver.left_out
        self._code = Code(dump, program)
        self._texts: dict[str, str | None] | None = {} if sass else None  # SASS by kernel

    def document(self, path: Path) -> documents.FromCoreDocument:
        stopped = find(self._dump)
        faults = [self._fault(fault) for fault in stopped.faults[:MAX_FAULTS]]
        kernels = [self._kernel(grid, stopped) for grid in self._grids.values()]
        elsewhere = self._elsewhere(stopped)
        to_blame = [kernels[each.kernel].mangled for each in faults if each.kernel is not None]
        if not faults:
            to_blame = [kernels[each.kernel].mangled for each in elsewhere if each.kernel is not None]
        return documents.FromCoreDocument(
            path=str(path),
            driver=self._driver,
            devices=tuple(self._dump.devices()),
            kernels=kernels,
            faults=faults,
            elsewhere=elsewhere,
            memory=list(self._memory),
            command=_command([name for name in to_blame if name]),
            notes=[*self._notes(stopped), *dict.fromkeys(map(one_line, self._code.problems))],
            log=None,
        )

    def _kernel(self, grid: Grid, stopped: Stopped) -> documents.CoreKernel:
        place = self._code.place(grid.entry)
        mangled = None if place is None else place.kernel
        return documents.CoreKernel(
            name=None if mangled is None else base_name(mangled),
            mangled=mangled,
            device=grid.device,
            grid=grid.grid,
            block=grid.block,
            cluster=grid.cluster if any(grid.cluster) else None,
            registers=grid.registers,
            from_device=grid.from_device,
            resident_threads=stopped.resident[grid.device, grid.id],
            parameters=self._parameters(grid, mangled),
        )

    def _parameters(self, grid: Grid, kernel: str | None) -> list[documents.CoreParameter] | None:
        data = self._dump.parameters(grid)
        layout = None if kernel is None else self._code.layout(kernel)
        if data is None or layout is None:
            return None
        return [
            documents.CoreParameter(offset=offset, bytes=data[offset : offset + size].hex())
            for offset, size in layout
            if offset + size <= len(data)
        ]

    def _fault(self, fault: Fault) -> documents.CoreFault:
        place = None if fault.pc is None else self._code.place(fault.pc)
        accesses = [self._access(thread, place) for thread in fault.threads]
        order = _oddest_first(accesses)
        kind = exceptions.of(fault.exception)
        return documents.CoreFault(
            exception=dataclasses.replace(kind, code=max(kind.code, 0)),
            device=fault.device,
            kernel=self._numbers.get((fault.device, fault.grid)),
            blocks=len(fault.blocks),
            thread_count=fault.count,
            pc=fault.pc,
            place=self._place(place),
            threads=[
                documents.CoreThread(
                    block=fault.threads[n].warp.block, thread=fault.threads[n].index, access=accesses[n]
                )
                for n in order[:MAX_THREADS]
            ],
            first_thread=self._state(fault.threads[order[0]]) if order else None,
        )

    def _access(self, thread: Thread, place: Place | None) -> documents.CoreAccess | None:
        if place is None:
            return None
        registers = self._dump.registers(thread.warp, thread.row)
        executed = self._code.executed(place.pc, thread.pc)
        found = access.address(executed, self._code.arch(place.kernel), registers)
        if found is None:
            return None
        return documents.CoreAccess(space=found[0], address=found[1], in_dump=self._in_dump(*found))

    def _in_dump(self, space: str, address: int) -> bool | None:
        """Whether the memory is there; None if the dump doesn't have all of that kind."""
        if space != "global" or not self._has_global:
            return None
        known = ((each.address, each.bytes) for each in self._memory if each.address is not None)
        return any(0 <= address - start < size for start, size in known)

    def _state(self, thread: Thread) -> documents.CoreThreadState:
        frames = [self._code.place(pc) for pc in self._dump.return_addresses(thread.warp, thread.row)]
        return documents.CoreThreadState(
            sm=thread.warp.sm,
            warp=thread.warp.id,
            lane=thread.lane,
            pc=thread.pc,
            backtrace=[at for frame in frames if (at := self._place(frame)) is not None],
            registers=self._dump.registers(thread.warp, thread.row),
            accumulators=(),
            uniform_registers=self._dump.uniform_registers(thread.warp),
            predicates=self._dump.predicates(thread.warp, thread.row),
            special=None,
        )

    def _elsewhere(self, stopped: Stopped) -> list[documents.CoreElsewhere]:
        return [
            documents.CoreElsewhere(
                kernel=self._numbers.get((device, grid)),
                pc=pc,
                place=self._place(self._code.place(pc)),
                thread_count=count,
            )
            for (device, grid, pc), count in stopped.elsewhere.most_common(MAX_ELSEWHERE)
        ]

    def _place(self, place: Place | None) -> documents.CodeAt | None:
        if place is None:
            return None
        return documents.CodeAt(
            function=place.function,
            offset=place.offset,
            kernel=place.kernel,
            kernel_offset=place.kernel_offset,
            file=place.file,
            line=place.line,
            instruction=self._instruction(place),
        )

    def _instruction(self, place: Place) -> str | None:
        if self._texts is None:
            return None
        if place.kernel not in self._texts:
            self._texts[place.kernel] = self._disassembled(place.kernel)
        text = self._texts[place.kernel]
        return None if text is None else disassemble.instruction(text, place.kernel, place.kernel_offset)

    def _disassembled(self, kernel: str) -> str | None:
        data = self._code.cubin(kernel)
        if data is None:
            return None
        with scratch.temporary("core") as folder:
            image = Path(folder) / "image.cubin"
            image.write_bytes(data)
            text = disassemble.sass(image)
        if text is None:
            self._code.problems.append(
                "no instruction is shown: no nvdisasm or cuobjdump here reads the image"
            )
        return text

    def _notes(self, stopped: Stopped) -> list[str]:
        notes = [_AFTER]
        if not stopped.faults:
            notes.append(
                "no thread has an exception: the dump was asked for, or the kernel was stopped from outside"
            )
        if len(stopped.faults) > MAX_FAULTS:
            notes.append(f"only the first {MAX_FAULTS} of {len(stopped.faults):,} faults are listed")
        return notes


def _oddest_first(accesses: Sequence[documents.CoreAccess | None]) -> list[int]:
    """Threads by number: whose memory is not in the dump first, then by how far they are from the others'."""
    known = sorted(each.address for each in accesses if each is not None)
    middle = known[len(known) // 2] if known else 0

    def oddness(number: int) -> tuple[bool, int]:
        found = accesses[number]
        return (True, 0) if found is None else (found.in_dump is not False, -abs(found.address - middle))

    return sorted(range(len(accesses)), key=oddness)


def _command(mangled: Sequence[str]) -> str:
    """What captures the launch in the next run; CMD stands for the program."""
    names = [re.escape(name) for name in dict.fromkeys(map(base_name, mangled))][:MAX_PATTERN_NAMES]
    pattern = f"^{names[0]}$" if len(names) == 1 else f"^({'|'.join(names)})$"
    return shlex.join(["kerncap", "capture", "--on-fault", *(["-k", pattern] if names else []), "--", "CMD"])

"""What ROCm's core dumps say of the kernel that faulted: the part of ``from-core`` that is AMD's."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field
from pathlib import Path

from kerncap.capture.core_dump.amd import accesses, exceptions
from kerncap.capture.core_dump.amd.accesses import Access
from kerncap.capture.core_dump.amd.code_objects import CodeObjects, Place
from kerncap.capture.core_dump.amd.dump import Dump, Launch
from kerncap.capture.core_dump.amd.waves import LANES, Wave
from kerncap.capture.core_dump.dump import Memory
from kerncap.capture.kernel_spellings import base_name
from kerncap.log import one_line
from kerncap.report.documents import from_core as documents

MAX_FAULTS = 64
MAX_THREADS = 64  # of a fault that are listed
MAX_BLAMED = 256  # waves of a fault whose accesses are looked at
MAX_KERNELS = 1024
MAX_ELSEWHERE = 64
_NO_PROCESS = (
    "the waves, with their registers, are in the core dump of the process, which is not here: put core.PID "
    "next to this one, or give it with --host-core"
)
_NOT_TOLD = "which workgroup a wave is of is not in the dump: on gfx90a it is with HSA_ENABLE_DEBUG=1"
_LATER = (
    "a memory violation stops a wave some instructions after the access: the one that made it is at the line "
    "that is shown, or before it"
)


@dataclass
class _Launched:
    """A kernel that was running. ``launch``: None if it isn't known which one it was."""

    device: int
    launch: Launch | None
    kernel: str | None
    threads: int = 0
    registers: int = 0


@dataclass
class _Fault:
    device: int
    exception: int
    pc: int | None
    kernel: int | None
    waves: list[Wave] = field(default_factory=list)
    is_placed: bool = False  # the access that made it is known


@dataclass(frozen=True)
class _Lane:
    """An active lane. ``address``: what it accessed; None if that isn't known, or isn't global memory."""

    wave: Wave
    lane: int
    address: int | None = None
    is_mapped: bool = True


class Reading:
    """``notes``: what is to be said of the files."""

    def __init__(self, dump: Dump, notes: list[str], program: Path | None) -> None:
        self._dump = dump
        self._code = CodeObjects(dump.memory, dump.state.debug, program)
        self._notes = notes
        self._launched: dict[tuple[int, int | str | None], _Launched] = {}
        self._waves = [(wave, self._number(wave)) for wave in dump.waves()]

    def document(self, path: Path, command: Callable[[Sequence[str]], str]) -> documents.FromCoreDocument:
        """``command``: what captures kernels of these names."""
        launched = list(self._launched.values())
        found = self._faults()
        faults = [self._fault(fault) for fault in found[:MAX_FAULTS]]
        kernels = [self._kernel(each) for each in launched[:MAX_KERNELS]]
        elsewhere = self._elsewhere()
        numbers = [each.kernel for each in faults if each.kernel is not None]
        numbers = numbers or [each.kernel for each in elsewhere if each.kernel is not None]
        names = [launched[number].kernel for number in numbers]
        return documents.FromCoreDocument(
            path=str(path),
            driver=None,
            devices=tuple(self._dump.devices()),
            kernels=kernels,
            faults=faults,
            elsewhere=elsewhere,
            memory=self._memory(),
            command=command([name for name in names if name]),
            notes=[*self._all_notes(found), *dict.fromkeys(map(one_line, self._code.problems))],
            log=None,
        )

    def _memory(self) -> list[Memory]:
        lds = [wave.lds_bytes for wave, _ in self._waves if wave.lds_bytes]
        shared = [Memory("shared", None, sum(lds), len(lds))] if lds else []
        return [*self._dump.memory_rows(), *shared]

    def _number(self, wave: Wave) -> int | None:
        """Which of the kernels that were running a wave is of; None if it isn't known."""
        key: int | str | None = wave.packet
        launch = None
        if wave.packet is not None:
            launch = self._dump.launch(wave.queue, wave.packet)
        else:
            place = self._code.place(wave.pc)
            active = self._dump.launches(wave.queue)
            if place is not None and place.function is not None and self._code.is_kernel(place.function):
                key = place.function.name
                active = tuple(each for each in active if self._code.kernel_of(each.descriptor) == key)
            launch = active[0] if len(active) == 1 else None
        kernel = key if isinstance(key, str) else None
        if launch is not None:
            kernel = self._code.kernel_of(launch.descriptor) or kernel
            key = launch.place
        if launch is None and kernel is None:
            return None
        found = self._launched.setdefault(
            (wave.queue.id, key), _Launched(self._dump.index(wave.queue), launch, kernel)
        )
        found.threads += _threads(wave, launch)
        found.registers = max(found.registers, wave.vector_count + wave.accumulator_count)
        return list(self._launched).index((wave.queue.id, key))

    def _faults(self) -> list[_Fault]:
        faults: dict[tuple[int, int, int, int | None], _Fault] = {}
        for wave, kernel in self._waves:
            if wave.exception:
                device = self._dump.index(wave.queue)
                key = device, wave.exception, wave.at, kernel
                faults.setdefault(key, _Fault(*key)).waves.append(wave)
        found = list(faults.values())
        for queue in self._dump.state.queues:
            for code in exceptions.of_packets(queue.exceptions):
                found.append(_Fault(self._dump.index(queue), code, None, None))
        for device, agent in enumerate(self._dump.state.agents):
            known = any(
                each.device == device and each.exception == exceptions.MEMORY_VIOLATION for each in found
            )
            if agent.exceptions >> exceptions.OF_A_GPU - 1 & 1 and not known:
                found.append(_Fault(device, exceptions.OF_A_GPU, None, None))
        return found

    def _fault(self, fault: _Fault) -> documents.CoreFault:
        place = None if fault.pc is None else self._code.place(fault.pc)
        launched = None if fault.kernel is None else list(self._launched.values())[fault.kernel]
        blamed, lanes = self._blamed(fault, place)
        pc = fault.pc
        if blamed is not None:
            fault.is_placed, pc = True, blamed.pc
            place = self._code.place(pc)
        threads = [
            documents.CoreThread(
                block=each.wave.workgroup,
                thread=_index(each.wave, each.lane, launched),
                access=self._access(each.address),
            )
            for each in lanes[:MAX_THREADS]
        ]
        return documents.CoreFault(
            exception=exceptions.of(fault.exception),
            device=fault.device,
            kernel=fault.kernel,
            blocks=_blocks(fault.waves),
            thread_count=sum(wave.exec.bit_count() for wave in fault.waves),
            pc=pc,
            place=self._place(place, launched),
            threads=threads,
            first_thread=self._state(fault.waves, lanes),
        )

    def _blamed(self, fault: _Fault, place: Place | None) -> tuple[Access | None, list[_Lane]]:
        """The access that wasn't allowed, None if it isn't known; active lanes, those first that made it."""
        waves = fault.waves[:MAX_BLAMED]
        function = None if place is None else place.function
        if fault.exception == exceptions.MEMORY_VIOLATION and function is not None and place is not None:
            code = self._dump.memory.read(
                function.start, min(function.end - function.start, accesses.MAX_CODE_BYTES + 1)
            )
            for access in reversed(accesses.before(code or b"", function.start, place.pc)):
                lanes = [lane for wave in waves for lane in self._accessed(wave, access)]
                if not all(each.is_mapped for each in lanes):
                    return access, sorted(lanes, key=lambda each: each.is_mapped)
        return None, [_Lane(wave, lane) for wave in waves[:MAX_THREADS] for lane in wave.lanes()]

    def _accessed(self, wave: Wave, access: Access) -> Iterator[_Lane]:
        agent = self._dump.state.agents[self._dump.index(wave.queue)]
        for lane, address in access.addresses(self._dump.memory, wave).items():
            if access.is_flat and (address in agent.lds or address in agent.scratch):
                yield _Lane(wave, lane)
            else:
                yield _Lane(wave, lane, address, self._dump.memory.is_mapped(address))

    def _access(self, address: int | None) -> documents.CoreAccess | None:
        if address is None:
            return None
        is_there = self._dump.memory.start_of(address) is not None
        return documents.CoreAccess(space="global", address=address, in_dump=is_there)

    def _state(self, waves: list[Wave], lanes: list[_Lane]) -> documents.CoreThreadState | None:
        if not waves:
            return None
        wave, lane = (lanes[0].wave, lanes[0].lane) if lanes else (waves[0], 0)
        scalars, vcc = wave.scalars(self._dump.memory)
        return documents.CoreThreadState(
            sm=None,
            warp=wave.number,
            lane=lane,
            pc=wave.pc,
            backtrace=[],
            registers=wave.vectors(self._dump.memory, lane),
            accumulators=wave.accumulators(self._dump.memory, lane),
            uniform_registers=scalars,
            predicates=(),
            special=documents.WaveRegisters(
                exec=wave.exec, vcc=vcc, m0=wave.m0, mode=wave.mode, status=wave.status,
                trapsts=wave.trapsts,
            ),
        )  # fmt: skip

    def _kernel(self, each: _Launched) -> documents.CoreKernel:
        launch = each.launch
        grid = None
        if launch is not None:
            x, y, z = (-(-a // b) for a, b in zip(launch.grid, launch.block, strict=True))
            grid = x, y, z
        return documents.CoreKernel(
            name=None if each.kernel is None else base_name(each.kernel),
            mangled=each.kernel,
            device=each.device,
            grid=grid,
            block=None if launch is None else launch.block,
            cluster=None,
            registers=each.registers,
            from_device=False,
            resident_threads=each.threads,
            parameters=None if launch is None else self._parameters(launch),
        )

    def _parameters(self, launch: Launch) -> list[documents.CoreParameter] | None:
        kernel = self._code.kernel_of(launch.descriptor)
        layout = None if kernel is None else self._code.layout(launch.descriptor, kernel)
        if layout is None:
            return None
        found = []
        for offset, size in layout:
            data = self._dump.memory.read(launch.arguments + offset, size)
            if data is None:
                return None
            found.append(documents.CoreParameter(offset=offset, bytes=data.hex()))
        return found

    def _elsewhere(self) -> list[documents.CoreElsewhere]:
        launched = list(self._launched.values())
        counts: Counter[tuple[int | None, int]] = Counter()
        for wave, kernel in self._waves:
            if not wave.exception:
                counts[kernel, wave.pc] += _threads(wave, None if kernel is None else launched[kernel].launch)
        return [
            documents.CoreElsewhere(
                kernel=kernel,
                pc=pc,
                place=self._place(self._code.place(pc), None if kernel is None else launched[kernel]),
                thread_count=count,
            )
            for (kernel, pc), count in counts.most_common(MAX_ELSEWHERE)
        ]

    def _place(self, place: Place | None, launched: _Launched | None) -> documents.CodeAt | None:
        if place is None:
            return None
        function = place.function
        entry = None
        if launched is not None and launched.launch is not None:
            entry = self._code.entry_of(launched.launch.descriptor)
        start = place.base if function is None else function.start
        kernel = launched.kernel if launched is not None and launched.kernel else None
        is_own = function is not None and function.name == kernel
        if function is not None and kernel is None and self._code.is_kernel(function):
            kernel, is_own, entry = function.name, True, function.start
        return documents.CodeAt(
            function=None if function is None else function.name,
            offset=place.pc - start,
            kernel=kernel,
            kernel_offset=place.pc - (entry or start) if is_own else None,
            file=place.file,
            line=place.line,
            instruction=None,
        )

    def _all_notes(self, found: list[_Fault]) -> Iterator[str]:
        if not self._dump.has_process:
            yield _NO_PROCESS
        yield from self._notes
        for arch in self._dump.unread():
            yield f"the waves of {arch} are not read, as it saves them in its own way; rocgdb reads them"
        if any(wave.workgroup is None for wave, _ in self._waves):
            yield _NOT_TOLD
        if any(fault.exception == exceptions.MEMORY_VIOLATION and not fault.is_placed for fault in found):
            yield _LATER
        if not found and self._waves:
            yield "no wave has an exception: the dump was asked for"
        if len(found) > MAX_FAULTS:
            yield f"only the first {MAX_FAULTS} of {len(found):,} faults are listed"


def _blocks(found: list[Wave]) -> int | None:
    """How many workgroups have the waves; None if the dump doesn't say."""
    known = {wave.workgroup for wave in found}
    return None if None in known else len(known)


def _index(wave: Wave, lane: int, launched: _Launched | None) -> tuple[int, int, int] | None:
    """A thread's index in its workgroup; None if the dump doesn't say."""
    if wave.number is None or launched is None or launched.launch is None:
        return None
    x, y, _ = launched.launch.block
    at = wave.number * LANES + lane
    return at % x, at // x % y, at // x // y


def _threads(wave: Wave, launch: Launch | None) -> int:
    """The threads of a wave, which may be fewer at the end of a workgroup."""
    if launch is None or wave.number is None:
        return LANES
    x, y, z = launch.block
    return max(0, min(LANES, x * y * z - wave.number * LANES))

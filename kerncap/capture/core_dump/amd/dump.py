"""What ROCm's core dumps say of the GPUs at the moment of the exception: queues, launches, waves, memory."""

from __future__ import annotations

import contextlib
import itertools
import re
import struct
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from functools import cache
from pathlib import Path

from kerncap.capture.core_dump.amd import code_objects, note, waves
from kerncap.capture.core_dump.amd.core_file import CoreFile, Memory, is_core
from kerncap.capture.core_dump.amd.note import Queue, State
from kerncap.capture.core_dump.amd.waves import Wave
from kerncap.capture.core_dump.dump import Device, Extents
from kerncap.capture.core_dump.dump import Memory as MemoryRow
from kerncap.errors import FormatError, UsageError
from kerncap.regular_file import open_regular

_PACKET = struct.Struct("<HHHHHHIIIIIQQQQ")
_PACKET_BYTES = 64
_DISPATCH = 2  # HSA_PACKET_TYPE_KERNEL_DISPATCH
_SIMDS_OF_A_UNIT = 4
_READ_AT = 128  # in amd_queue_t, of its read_dispatch_id; the number after it says so
_GPU_NAME = re.compile(r"gpucore\.(\d{1,10})\Z")
_GPU_SUFFIX = ".gpu"
_LIMITED = "ROCm left out memory, as the limit of core dumps was reached (ulimit -c)"
MAX_ACTIVE = 1 << 16  # packets of a queue that are looked at
MAX_WAVES = 1 << 17
MAX_PAGES = 1 << 16  # in which code objects are looked for


@dataclass(frozen=True)
class Launch:
    """A dispatch packet of a queue. ``place``: its number in the ring; ``descriptor``: of its kernel."""

    queue: Queue
    place: int
    grid: Extents  # in work-items
    block: Extents
    descriptor: int
    arguments: int


class Dump:
    """An open core dump of ROCr's, with the process's if that is here. Every method may raise FormatError."""

    def __init__(self, files: Sequence[CoreFile], state: State) -> None:
        self.state = state
        self.memory = Memory(files)
        self._agents = {agent.id: agent for agent in state.agents}
        # The dispatch packets of a queue that the GPU had not done with, in their order.
        self.launches: Callable[[Queue], tuple[Launch, ...]] = cache(self._find_launches)

    @property
    def has_process(self) -> bool:
        """Whether memory of the process is there: the runtime's own, which the queues are in."""
        return any(self.memory.read(queue.read_pointer, 8) is not None for queue in self._queues())

    def devices(self) -> tuple[Device, ...]:
        return tuple(
            Device(
                index, f"AMD GPU {agent.vendor:04x}:{agent.device:04x}", agent.arch,
                agent.simds // _SIMDS_OF_A_UNIT * agent.xccs,
            )
            for index, agent in enumerate(self.state.agents)
        )  # fmt: skip

    def index(self, queue: Queue) -> int:
        """The device that a queue is of, by its index."""
        return self.state.agents.index(self._agents[queue.agent])

    def waves(self) -> Iterator[Wave]:
        """All that were on a GPU, by queue and workgroup."""
        left = MAX_WAVES
        for queue in self._queues():
            agent = self._agents[queue.agent]
            for wave in waves.saved(self.memory, agent, queue) if waves.is_known(agent) else ():
                left -= 1
                if left < 0:
                    raise self.memory.wrong(queue.area, f"more than {MAX_WAVES:,} waves; the dump is damaged")
                yield wave

    def unread(self) -> tuple[str, ...]:
        """The architectures whose waves are not read."""
        return tuple(dict.fromkeys(each.arch for each in self.state.agents if not waves.is_known(each)))

    def _find_launches(self, queue: Queue) -> tuple[Launch, ...]:
        first, end = (self.memory.number(at) for at in (queue.read_pointer, queue.write_pointer))
        slots = queue.ring_bytes // _PACKET_BYTES
        if first is None or end is None or not slots or not 0 <= end - first <= slots:
            return ()
        found = (self.launch(queue, number % slots) for number in range(first, min(end, first + MAX_ACTIVE)))
        return tuple(each for each in found if each is not None)

    def launch(self, queue: Queue, place: int) -> Launch | None:
        """The dispatch packet at ``place`` of the ring; None for another packet, or if it isn't in memory."""
        if place >= queue.ring_bytes // _PACKET_BYTES:
            return None
        data = self.memory.read(queue.ring + place * _PACKET_BYTES, _PACKET.size)
        if data is None:
            return None
        header, _, x, y, z, _, grid_x, grid_y, grid_z, _, _, kernel, arguments, _, _ = _PACKET.unpack(data)
        if header & 0xFF != _DISPATCH or not x:
            return None
        grid = Extents(grid_x, max(grid_y, 1), max(grid_z, 1))
        return Launch(queue, place, grid, Extents(x, max(y, 1), max(z, 1)), kernel, arguments)

    def memory_rows(self) -> tuple[MemoryRow, ...]:
        """The GPU's memory by address, then the sum of the process's."""
        rows = [
            MemoryRow("global", each.address, each.stored)
            for file in self.memory.files
            if file.is_gpu
            for each in file.segments
        ]
        own = [each for file in self.memory.files if not file.is_gpu for each in file.segments]
        if own:
            rows.append(MemoryRow("host", None, sum(each.stored for each in own), len(own)))
        return tuple(rows)

    def _queues(self) -> Iterator[Queue]:
        return (each for each in self.state.queues if each.type == note.AQL and each.agent in self._agents)


def is_amd(path: Path) -> bool:
    """Whether a file may be a core dump of an AMD GPU. Raises UsageError for one that can't be read."""
    with open_regular(path) as file:
        return is_core(file.read(64))


def next_to(path: Path) -> list[Path]:
    """Where the kernel puts the process's core dump if it is not told otherwise."""
    number = _GPU_NAME.match(path.name)
    if number is not None:
        return [path.with_name(f"core.{number[1]}"), path.with_name("core")]
    return [path.with_suffix("")] if path.suffix == _GPU_SUFFIX else []


@contextlib.contextmanager
def open_dump(path: Path, hosts: Sequence[Path], is_asked_for: bool) -> Iterator[tuple[Dump, list[str]]]:
    """The dump, and what is to be said of its files. ``hosts``: where the process's core dump may be.

    Raises UsageError for a file that can't be read, FormatError for one that is no whole core dump; for one
    of ``hosts`` only if that ``is_asked_for``.
    """
    with contextlib.ExitStack() as stack:
        file = CoreFile(path, stack.enter_context(open_regular(path)))
        found = file.state()
        if found is None:
            raise FormatError(
                path, 18,
                "the core dump of a process, not of a GPU; give the GPU's: ROCm writes gpucore.PID, and CUDA "
                "what CUDA_COREDUMP_FILE names",
            )  # fmt: skip
        content, at = found
        state = note.read(path, at, content)
        files, notes = [file], [_LIMITED] if file.is_limited else []
        if file.is_gpu:
            number = _GPU_NAME.match(path.name)
            wanted = None if number is None else int(number[1])
            for candidate in hosts:
                try:
                    other = _host(stack, candidate, is_asked_for)
                except FormatError as error:
                    if is_asked_for:
                        raise
                    notes.append(f"{error}, and so not read")
                    continue
                if other is None:
                    continue
                if wanted not in (None, other.process()):
                    problem = f"{candidate}: of process {other.process()}, not of {wanted}"
                    if is_asked_for:
                        raise UsageError(f"{problem}; give that of the same process")
                    notes.append(f"{problem}, and so not read")
                    continue
                if not _is_of(state, Memory([file, other])):
                    if is_asked_for:
                        raise UsageError(f"{candidate}: of another process; give that of the same process")
                    continue
                files.append(other)
                break
        _place_segments(file, state, Memory(files))
        yield Dump(files, state), notes


def _host(stack: contextlib.ExitStack, path: Path, is_asked_for: bool) -> CoreFile | None:
    """The core file of a process; None if it isn't one, and no one said that it was."""
    if not is_asked_for and not path.is_file():
        return None
    opened = stack.enter_context(open_regular(path))
    if not is_core(opened.read(64)):
        if is_asked_for:
            raise FormatError(
                path, 0, "not the core dump of a process; give the one of the process that faulted"
            )
        return None
    return CoreFile(path, opened)


def _place_segments(file: CoreFile, state: State, memory: Memory) -> None:
    """Whether the segments are where their headers say, by the code objects: where these begin is known."""
    if not file.gap:
        return
    bases = [each.base for each in code_objects.listed(memory, state.debug)]
    if not bases:
        starts = (range(each.address, each.end, code_objects.PAGE) for each in file.segments)
        bases = list(itertools.islice(itertools.chain.from_iterable(starts), MAX_PAGES))
    if not any(code_objects.is_at(memory, base) for base in bases):
        file.moved = file.gap
        if not any(code_objects.is_at(memory, base) for base in bases):
            file.moved = 0


def _is_of(state: State, memory: Memory) -> bool:
    """Whether the queues are where the note says: each has its ring's address in front of its pointers."""
    for queue in state.queues:
        if queue.type != note.AQL:
            continue
        back = memory.number(queue.read_pointer + 8, 4)
        ring = None if back is None else memory.number(queue.read_pointer - back + 8)
        if back != _READ_AT or ring != queue.ring:
            return False
    return True

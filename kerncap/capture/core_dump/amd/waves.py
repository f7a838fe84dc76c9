"""The waves that a queue had on the GPU, out of its context save area.

The control stack has a word for each wave, and one for the registers of those that follow. The waves are next
to each other in the same order, the first at the highest address: vector registers, accumulation registers,
scalar registers, 32 words of the hardware, LDS of the workgroup for its first wave, and 64 bytes.

Source: amdkfd's cwsr_trap_handler_gfx9.asm and kfd_mqd_manager_v9.c; ROCr's trap_handler.s; ROCdbgapi's
architecture.cpp (gfx90a_t, gfx9_4_architecture_t, gfx950_t) and queue.cpp.
"""

from __future__ import annotations

import struct
from collections.abc import Iterator
from dataclasses import dataclass

from kerncap.capture.core_dump.amd.core_file import Memory
from kerncap.capture.core_dump.amd.note import Agent, Queue
from kerncap.errors import FormatError

LANES = 64
MAX_WAVES = 1 << 16  # of one queue; a GPU has some thousands
MAX_AREA_BYTES, MAX_STACK_BYTES = 1 << 30, 1 << 20
_GFX90A = 90010
_LDS_UNITS = {_GFX90A: 512, 90402: 512, 90500: 1280}  # bytes; the targets whose save areas are read
_AREA = struct.Struct("<IIII")
_HARDWARE = struct.Struct("<32I")
_WORD, _END = 4, 64
_LEAD = 2  # words at the beginning of the control stack
_ALIASES, _MOST_NAMED = 6, 108  # the last scalar registers are flat_scratch, xnack_mask and vcc
# TRAPSTS
_MATH, _MEMORY, _ILLEGAL, _XNACK = 0x7F, 1 << 8, 1 << 11, 1 << 28
_ENABLED_AT = 12  # of MODE: which of _MATH are exceptions
_STOPPED = 1 << 30  # of TTMP6: by the runtime's trap handler
_NOT_TOLD, _SET_UP = 1 << 31, 1 << 31  # of TTMP6, TTMP11
_ABORT = 2  # the trap of a failed assertion
_TRAP_BYTES = 4  # of the instruction s_trap


@dataclass(frozen=True)
class Wave:
    """A wavefront that had not ended. ``exception``: 0 if it was running, else one of `exceptions`.

    ``pc`` is where it would go on, ``at`` the instruction that stopped it, as nearly as that is known:
    ``pc``, or the trap before it. ``workgroup``, ``number`` (of the wave in it) and ``packet`` (in the
    queue's ring) are None if the GPU was not asked to tell the waves.
    """

    queue: Queue
    exception: int
    pc: int
    at: int
    exec: int
    m0: int
    mode: int
    status: int
    trapsts: int
    workgroup: tuple[int, int, int] | None
    number: int | None
    packet: int | None
    vector_count: int
    accumulator_count: int
    scalar_count: int
    lds_bytes: int  # saved with this wave
    begin: int  # of its registers

    def lanes(self) -> Iterator[int]:
        """Those that are active."""
        return (lane for lane in range(LANES) if self.exec >> lane & 1)

    def row(self, memory: Memory, register: int) -> tuple[int, ...]:
        """A vector register of all lanes; () if it is not there."""
        if register >= self.vector_count:
            return ()
        return _words(memory.read(self.begin + register * LANES * _WORD, LANES * _WORD))

    def vectors(self, memory: Memory, lane: int) -> tuple[int, ...]:
        """v0, v1, … of a lane."""
        return self._column(memory, self.begin, self.vector_count, lane)

    def accumulators(self, memory: Memory, lane: int) -> tuple[int, ...]:
        """a0, a1, … of a lane."""
        start = self.begin + self.vector_count * LANES * _WORD
        return self._column(memory, start, self.accumulator_count, lane)

    def scalars(self, memory: Memory) -> tuple[tuple[int, ...], int]:
        """s0, s1, …, and vcc."""
        start = self.begin + (self.vector_count + self.accumulator_count) * LANES * _WORD
        words = _words(memory.read(start, self.scalar_count * _WORD))
        end = min(len(words), _MOST_NAMED)
        if end < _ALIASES:
            return words, 0
        return words[: end - _ALIASES], words[end - 2] | words[end - 1] << 32

    def _column(self, memory: Memory, start: int, count: int, lane: int) -> tuple[int, ...]:
        words = _words(memory.read(start, count * LANES * _WORD))
        return words[lane::LANES]


def is_known(agent: Agent) -> bool:
    """Whether the save area of its architecture is read."""
    return agent.target in _LDS_UNITS


def saved(memory: Memory, agent: Agent, queue: Queue) -> Iterator[Wave]:
    """The queue's waves in the order of their workgroups; none if its save area is not in the memory.

    Raises FormatError for an area that makes no sense.
    """
    left = MAX_WAVES
    for xcc in range(agent.xccs):
        start = queue.area + xcc * queue.area_bytes
        header = memory.read(start, _AREA.size)
        if header is None:
            return
        stack_at, stack_bytes, end, used = _AREA.unpack(header)
        if not stack_bytes and not used:
            continue
        if (
            stack_at + stack_bytes != end - used
            or end > min(queue.area_bytes, MAX_AREA_BYTES)
            or stack_bytes % _WORD
            or stack_bytes > MAX_STACK_BYTES
        ):
            raise _damaged(memory, start, queue, f"{stack_bytes:,} and {used:,} bytes up to {end:,}")
        words = _words(memory.read(start + stack_at, stack_bytes))
        lowest, state = start + end - used, 0
        at = start + end
        for word in words[_LEAD:]:
            if word >> 30 & 1:  # an event
                continue
            if word >> 31:
                state = word
                continue
            left -= 1
            wave = _wave(memory, agent, queue, word, state, at)
            if wave is None or left < 0 or wave.begin < lowest:
                raise _damaged(memory, start, queue, "waves that are not in it")
            at = wave.begin
            yield wave
        if at != lowest:
            raise _damaged(memory, start, queue, f"{at - lowest:,} bytes of no wave")


def _wave(memory: Memory, agent: Agent, queue: Queue, word: int, state: int, end: int) -> Wave | None:
    """The wave that ends at ``end``; None if it is not in the memory."""
    is_first = bool(word >> 17 & 1)
    registers = ((state & 63) + 1) * 8
    vector_count = ((state >> 24 & 63) + 1) * 4
    accumulator_count = registers - vector_count
    scalar_count = (state >> 6 & 7) * 16
    lds_bytes = (state >> 9 & 255) * _LDS_UNITS[agent.target] if is_first else 0
    hardware = end - _END - lds_bytes - _HARDWARE.size
    begin = hardware - scalar_count * _WORD - registers * LANES * _WORD
    data = memory.read(hardware, _HARDWARE.size) if begin >= 0 and accumulator_count >= 0 else None
    if data is None:
        return None
    words = _HARDWARE.unpack(data)
    ttmp = words[16:]
    m0, pc, exec_, status, trapsts, mode = (
        words[0], words[1] | (words[2] & 0xFFFF) << 32, words[3] | words[4] << 32, words[5], words[6],
        words[9],
    )  # fmt: skip
    is_stopped = bool(ttmp[6] & _STOPPED)
    is_older = agent.target == _GFX90A
    if is_older and is_stopped:  # it waits in the trap handler, which put the place away
        pc = ttmp[7] | (ttmp[11] >> 7 & 0xFFFF) << 32
    is_told = agent.waves_are_told and not (ttmp[6] & _NOT_TOLD and (is_older or ttmp[11] & _SET_UP))
    packet = ttmp[6] & 0x1FFFFFF if is_older else ttmp[11] >> 6 & 0x1FFFFFF
    trap = ttmp[6] >> 25 & 15 if is_stopped else 0
    return Wave(
        queue=queue,
        exception=_exception(trapsts, mode, trap, is_stopped),
        pc=pc,
        at=pc - _TRAP_BYTES if trap else pc,
        exec=exec_,
        m0=m0,
        mode=mode,
        status=status,
        trapsts=trapsts,
        workgroup=(ttmp[8], ttmp[9], ttmp[10]) if is_told else None,
        number=ttmp[11] & 63 if is_told else None,
        packet=packet if is_told else None,
        vector_count=vector_count,
        accumulator_count=accumulator_count,
        scalar_count=scalar_count,
        lds_bytes=lds_bytes,
        begin=begin,
    )


def _exception(trapsts: int, mode: int, trap: int, is_stopped: bool) -> int:
    """The number of amdkfd's exception that the trap handler makes of the registers."""
    if trapsts & _XNACK:
        return 5  # memory violation
    if trapsts & _MEMORY:
        return 6  # aperture violation
    if trapsts & _ILLEGAL:
        return 4
    if trapsts & mode >> _ENABLED_AT & _MATH:
        return 3
    if trap == _ABORT:
        return 1
    return 2 if is_stopped else 0  # a trap


def _words(data: bytes | None) -> tuple[int, ...]:
    return () if data is None else struct.unpack(f"<{len(data) // _WORD}I", data)


def _damaged(memory: Memory, start: int, queue: Queue, problem: str) -> FormatError:
    return memory.wrong(start, f"the waves of queue {queue.id}: {problem}; the dump is damaged")

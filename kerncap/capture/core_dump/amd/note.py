"""ROCr's note in a core dump: the runtime, the GPUs and the queues, as the kernel driver reports them.

Source: struct kfd_runtime_info, kfd_dbg_device_info_entry and kfd_queue_snapshot_entry of linux/kfd_ioctl.h.
Newer drivers add fields at the end of an entry.
"""

from __future__ import annotations

import struct
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

from kerncap.errors import FormatError

_VERSION = 1
_HEADER = struct.Struct("<QIIQIIII")
_RUNTIME = struct.Struct("<QII")
_AGENT = struct.Struct("<7Q16I")
_QUEUE = struct.Struct("<5Q5I")
MAX_ENTRIES = 1 << 16
MAX_XCCS = 128
_ALWAYS_TOLD = 0x400  # HSA_DBG_DISPATCH_INFO_ALWAYS_VALID
AQL = 2  # KFD_IOC_QUEUE_TYPE_COMPUTE_AQL
_MARKS = 3 << 30  # of a queue's number: it could not be suspended


@dataclass(frozen=True)
class Agent:
    """A GPU. ``exceptions``: bit n - 1 is exception n. ``target``: 90402 for gfx942."""

    id: int
    exceptions: int
    target: int
    vendor: int
    device: int
    simds: int
    xccs: int
    waves_are_told: bool  # in each wave's registers: its workgroup and its dispatch
    lds: range  # the flat addresses of a workgroup's LDS, and of a lane's scratch
    scratch: range

    @property
    def arch(self) -> str:
        """As the compiler names it: gfx90a."""
        return f"gfx{self.target // 10000}{self.target // 100 % 100:x}{self.target % 100:x}"


@dataclass(frozen=True)
class Queue:
    """A queue. Sizes are bytes, and ``area`` is where the waves are that it had on the GPU."""

    id: int
    agent: int
    type: int
    exceptions: int
    ring: int
    ring_bytes: int
    read_pointer: int
    write_pointer: int
    area: int
    area_bytes: int
    is_suspended: bool


@dataclass(frozen=True)
class State:
    """``debug``: address of what ROCr tells debuggers, such as its code objects; 0: not known."""

    debug: int
    agents: tuple[Agent, ...]
    queues: tuple[Queue, ...]


def read(path: Path, at: int, data: memoryview) -> State:
    """``at``: where the note is, for the message. Raises FormatError."""
    if len(data) < _HEADER.size:
        raise FormatError(path, at, f"a note of {len(data)} bytes; the dump is damaged")
    version, _, _, runtime_bytes, agents, agent_bytes, queues, queue_bytes = _HEADER.unpack_from(data)
    if version != _VERSION:
        raise FormatError(
            path, at, f"a note of version {version}, which this kerncap doesn't read; update kerncap"
        )
    sizes = (runtime_bytes, agents * agent_bytes, queues * queue_bytes)
    wanted = _HEADER.size + sum(size + -size % 8 for size in sizes)
    if max(agents, queues) > MAX_ENTRIES or wanted > len(data):
        raise FormatError(
            path, at,
            f"a note of {len(data):,} bytes for {agents:,} GPUs of {agent_bytes:,} bytes and {queues:,} "
            f"queues of {queue_bytes:,}; the dump is damaged",
        )  # fmt: skip
    for name, size, least in (
        ("the runtime", runtime_bytes, _RUNTIME.size if runtime_bytes else 0),
        ("a GPU", agent_bytes if agents else _AGENT.size, _AGENT.size),
        ("a queue", queue_bytes if queues else _QUEUE.size, _QUEUE.size),
    ):
        if size < least:
            raise FormatError(
                path, at, f"a note with {size} bytes for {name}; at least {least} were expected"
            )
    place = _HEADER.size
    debug, _, is_told = _RUNTIME.unpack_from(data, place) if runtime_bytes else (0, 0, 0)
    place += sizes[0] + -sizes[0] % 8
    found_agents = tuple(_agent(each, bool(is_told)) for each in _entries(data, place, agents, agent_bytes))
    if any(agent.xccs > MAX_XCCS for agent in found_agents):
        raise FormatError(path, at, f"a GPU with more than {MAX_XCCS} XCCs; the dump is damaged")
    place += sizes[1] + -sizes[1] % 8
    return State(
        debug, found_agents, tuple(_queue(each) for each in _entries(data, place, queues, queue_bytes))
    )


def _entries(data: memoryview, at: int, count: int, size: int) -> Iterator[memoryview]:
    for number in range(count):
        yield data[at + number * size : at + (number + 1) * size]


def _agent(entry: memoryview, is_told: bool) -> Agent:
    (
        exceptions, lds, lds_last, scratch, scratch_last, _, _, gpu, _, vendor, device, _, _, _, _, target,
        simds, _, _, _, xccs, _, properties,
    ) = _AGENT.unpack_from(entry)  # fmt: skip
    return Agent(
        gpu, exceptions, target, vendor, device, simds, xccs, is_told or bool(properties & _ALWAYS_TOLD),
        range(lds, lds_last + 1), range(scratch, scratch_last + 1),
    )  # fmt: skip


def _queue(entry: memoryview) -> Queue:
    (
        exceptions, ring, write_pointer, read_pointer, area, number, agent, ring_bytes, kind, area_bytes,
    ) = _QUEUE.unpack_from(entry)  # fmt: skip
    return Queue(
        number & ~_MARKS & 0xFFFFFFFF, agent, kind, exceptions, ring, ring_bytes, read_pointer, write_pointer,
        area, area_bytes, not number & _MARKS,
    )  # fmt: skip

"""Units packed in processes: threads would wait for each other, since each digest is a turn at Python's lock.

The units' memory is shared with them: a slot is a unit, and room for what is packed of it. A thread asks one
process at a time, over a socket: the slot's number and the unit's size, answered by a row for each chunk.
"""

from __future__ import annotations

import contextlib
import mmap
import os
import queue
import socket
import struct
import subprocess
import sys

from kerncap import child
from kerncap.format import digests
from kerncap.format.packing import CHUNK_BYTES, UNIT_BYTES, Packer, Payload, Unit

_SLOT_BYTES = 2 * UNIT_BYTES
_ASKED = struct.Struct("<II")
_ROW = struct.Struct("<32sI32s")  # digest, bytes packed, and their digest
_RAW, _ZERO = CHUNK_BYTES, CHUNK_BYTES + 1  # in place of bytes packed
_MOST_BYTES = UNIT_BYTES // CHUNK_BYTES * _ROW.size


class Processes:
    """``count`` of them, and memory for ``slots`` units. Raises OSError."""

    def __init__(self, count: int, slots: int, digest: digests.Digest) -> None:
        self._memory = os.memfd_create("kerncap-units", os.MFD_CLOEXEC)
        self._starting: list[socket.socket] = []
        self._free: queue.SimpleQueue[socket.socket] = queue.SimpleQueue()
        self._slots: dict[int, int] = {}  # by the id of their mapping
        theirs = []
        try:
            os.ftruncate(self._memory, slots * _SLOT_BYTES)
            for _ in range(count):
                ours, other = socket.socketpair(socket.AF_UNIX, socket.SOCK_SEQPACKET)
                self._starting.append(ours)
                theirs.append(other)
            given = [self._memory, *(each.fileno() for each in theirs)]
            words = child.kerncap(__name__, digest, str(slots), *map(str, given))
            self._process = child.Child(
                words, pass_fds=given, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL
            )
        except OSError:
            os.close(self._memory)
            raise
        finally:
            for each in theirs:
                each.close()

    def buffer(self, slot: int) -> memoryview:
        """The memory of a unit."""
        mapped = mmap.mmap(self._memory, _SLOT_BYTES, offset=slot * _SLOT_BYTES)
        self._slots[id(mapped)] = slot
        return memoryview(mapped)[:UNIT_BYTES]

    def pack(self, data: memoryview, buffer: memoryview) -> Unit | None:
        """`Packer.pack` of what a buffer of ours begins with; None for other memory, or if none is free."""
        if data.obj is not buffer.obj:
            return None
        process = self._idle()
        if process is None:
            return None
        try:
            process.send(_ASKED.pack(self._slots[id(buffer.obj)], len(data)))
            rows = process.recv(_MOST_BYTES)
        except OSError:
            rows = b""
        if not rows:
            process.close()  # it has ended
            return None
        self._free.put(process)
        return _unit(data, memoryview(buffer.obj)[UNIT_BYTES:], rows)

    def close(self) -> None:
        """End them. No thread asks any more."""
        while (process := self._idle()) is not None:
            process.close()
        for each in self._starting:
            each.close()
        self._process.end()
        os.close(self._memory)

    def _idle(self) -> socket.socket | None:
        with contextlib.suppress(queue.Empty):
            return self._free.get_nowait()
        for process in [*self._starting]:  # a turn for each: `remove` says who has it
            with contextlib.suppress(OSError, ValueError):
                begun = process.recv(1, socket.MSG_PEEK | socket.MSG_DONTWAIT)
                self._starting.remove(process)
                if begun:
                    process.recv(1)
                    return process
                process.close()
        return None


def _unit(data: memoryview, packed: memoryview, rows: bytes) -> Unit:
    unit = Unit(data)
    for number, (digest, size, digest_of_packed) in enumerate(_ROW.iter_unpack(rows)):
        if size == _ZERO:
            unit.digests.append(None)
            continue
        unit.digests.append(digest)
        start = number * CHUNK_BYTES
        if size == _RAW:
            payload = Payload(min(CHUNK_BYTES, len(data) - start), None, digest)
        else:
            payload = Payload(size, packed[start : start + size], digest_of_packed)
        unit.payloads.setdefault(digest, payload)
    return unit


def main() -> None:
    """As `Processes` starts it: a fork for each socket but the last, which is this process's own."""
    digest, slots, memory, *sockets = sys.argv[1:]
    mapped = memoryview(mmap.mmap(int(memory), int(slots) * _SLOT_BYTES))
    packer = Packer("blake3" if digest == "blake3" else "sha256")
    for number in range(len(sockets)):
        if number + 1 < len(sockets) and os.fork():
            os.close(int(sockets[number]))
            continue
        for other in sockets[number + 1 :]:
            os.close(int(other))
        _serve(socket.socket(fileno=int(sockets[number])), mapped, packer)
        os._exit(0)


def _serve(control: socket.socket, memory: memoryview, packer: Packer) -> None:
    os.nice(5)
    control.send(b".")
    while asked := control.recv(_ASKED.size):
        slot, size = _ASKED.unpack(asked)
        whole = memory[slot * _SLOT_BYTES : (slot + 1) * _SLOT_BYTES]
        control.send(_rows(packer.pack(whole[:size]), whole[UNIT_BYTES:]))


def _rows(unit: Unit, packed: memoryview) -> bytes:
    rows, placed = [], set()
    for number, digest in enumerate(unit.digests):
        if digest is None:
            rows.append(_ROW.pack(b"", _ZERO, b""))
            continue
        payload = unit.payloads[digest]
        if payload.data is None or digest in placed:
            rows.append(_ROW.pack(digest, _RAW, b""))
            continue
        placed.add(digest)
        start = number * CHUNK_BYTES
        packed[start : start + payload.size] = payload.data
        rows.append(_ROW.pack(digest, payload.size, payload.digest))
    return b"".join(rows)

"""What a kernel asks of its host while it runs, as the application's HIP runtime answers it: text to print,
memory for the kernel's `malloc`, and the counters by which a whole grid waits for itself.

A wave takes a packet from a stack of free ones, marks it, fills it, puts it on the stack of ready ones, and
waits until the mark is gone. Nothing is taken from that stack here: what is above its last top is new.
Source: LLVM's device libraries (ockl: hostcall_impl.cl, services.cl, dm.cl, cg.cl), ROCclr (devhostcall.cpp).
"""

from __future__ import annotations

import functools
import struct
import sys
from collections.abc import Collection, Sequence
from typing import Any

import numpy as np

from ..common.host_bytes import host_bytes
from ..protocol import Slot
from . import hsa
from .device import Device
from .printf import formatted

_BUFFER_BYTES, _HEADER_BYTES, _PAYLOAD_BYTES = 64, 24, 64 * 8 * 8
_PRINTF, _DEVICE_MEMORY = 2, 3  # services; a call of a function of the host's is answered with zeros
_BEGIN, _END = 1, 2  # of a message, in the descriptor that comes first in each lane's part
_LENGTH_SHIFT, _LENGTH_MASK, _ID_SHIFT = 5, 7, 8
_MOST_MESSAGES = 1 << 16  # that have begun and not ended
_MOST_WORDS = 1 << 16  # of a message
_HEAP_BYTES = 128 << 10  # "all bits 0" is the state that it begins in
_SLAB_BYTES = 2 << 20  # memory that is asked for in this size has this alignment
_GRID = "<QIIQQIII"  # of other grids; this one's number, how many; work-items before and in all; counters


@functools.cache
def of_device(device: Device) -> HostServices:
    """Those of all launches of a device, which run in turns."""
    return HostServices(device)


class HostServices:
    """What hidden arguments lead to that are the host's."""

    def __init__(self, device: Device) -> None:
        self._device = device
        self._given: dict[str, int] = {}
        self._memory: dict[int, int] = {}  # what a kernel was given, by the address that it knows
        self._heap_is_new = True
        self._messages: dict[int, list[int]] = {}
        self._last_message = 0

    def give(self, slots: Sequence[Slot]) -> dict[str, int]:
        """The address for each kind among ``slots`` that this gives."""
        make = {
            "hidden_hostcall_buffer": self._make_packets,
            "hidden_heap_v1": self._make_heap,
            "hidden_multigrid_sync_arg": lambda: self._device.host_memory(struct.calcsize(_GRID)),
        }
        kinds = make.keys() & {slot.kind for slot in slots}
        for kind in kinds - self._given.keys():
            self._given[kind] = make[kind]()
        return {kind: self._given[kind] for kind in kinds}

    def begin(self, given: Collection[str], work_items: int, groups: int) -> None:
        """Before a run of a launch that was ``given`` these kinds: as at the start of an application."""
        if "hidden_multigrid_sync_arg" in given:
            grid = struct.pack(_GRID, 0, 0, 1, 0, work_items, 0, 0, groups)
            at = self._given["hidden_multigrid_sync_arg"]
            host_bytes(at, len(grid))[:] = np.frombuffer(grid, dtype=np.uint8)
        if "hidden_heap_v1" in given and not self._heap_is_new:
            for made in self._memory.values():
                self._device.free(made)
            self._memory.clear()
            self._device.zero(self._given["hidden_heap_v1"], _HEAP_BYTES)
            self._heap_is_new = True
        if "hidden_hostcall_buffer" in given:
            self._messages.clear()
            self._device.serve = self._serve

    def _make_heap(self) -> int:
        made = self._device.allocate(_HEAP_BYTES)
        self._device.zero(made, _HEAP_BYTES)
        return made

    # --- packets -----------------------------------------------------------------------------------

    def _make_packets(self) -> int:
        """As many as waves can be under way, since a wave that finds none would take one that is in use."""
        device = self._device
        count = device.number(hsa.AGENT_COMPUTE_UNITS) * device.number(hsa.AGENT_WAVES_PER_CU)
        mask = (1 << (count - 1).bit_length()) - 1
        base = device.host_memory(_BUFFER_BYTES + count * (_HEADER_BYTES + _PAYLOAD_BYTES))
        headers, payloads = base + _BUFFER_BYTES, base + _BUFFER_BYTES + count * _HEADER_BYTES
        # The free packets as a linked list that ends at index 0, which has a tag: a plain 0 ends the list.
        words = host_bytes(headers, count * _HEADER_BYTES).view(np.uint64).reshape(count, -1)
        words[:] = 0
        words[1:, 0] = np.arange(count - 1)
        words[1, 0] = mask + 1
        buffer = (headers, payloads, device.runtime.signal(), count - 1, 0, mask)
        held = host_bytes(base, len(buffer) * 8).view(np.uint64)
        held[:] = buffer
        self._top, self._answered, self._mask = held[4:5], 0, mask
        self._next, self._lanes = words[:, 0], words[:, 1]
        self._service, self._ready = words.view(np.uint32)[:, 4], words.view(np.uint32)[:, 5]
        self._payloads = host_bytes(payloads, count * _PAYLOAD_BYTES).view(np.uint64).reshape(count, 64, 8)
        return base

    def _serve(self) -> None:
        """Answer every packet that is ready and was not answered yet."""
        top = pointer = int(self._top[0])
        while pointer != self._answered:  # each use of a packet has another tag beside its index
            index = pointer & self._mask
            pointer = int(self._next[index])
            service, lanes = int(self._service[index]), int(self._lanes[index])
            for lane in range(64):
                if lanes >> lane & 1:
                    self._answer(service, self._payloads[index, lane])
            self._ready[index] = 0  # after the answers: x86 keeps the order of stores
        self._answered = top

    def _answer(self, service: int, words: Any) -> None:
        if service == _PRINTF:
            words[0] = self._append(int(words[0]), [int(word) for word in words[1:]])
        elif service == _DEVICE_MEMORY:
            words[0] = self._device_memory(int(words[0]), int(words[1]))
        else:
            words[:2] = 0

    def _append(self, descriptor: int, words: list[int]) -> int:
        """A part of a message; the descriptor of the next part, or at the end what `printf` gives."""
        number = descriptor >> _ID_SHIFT
        if descriptor & _BEGIN:
            self._last_message += 1
            number = self._last_message
            if len(self._messages) < _MOST_MESSAGES:
                self._messages[number] = []
        message = self._messages.get(number, [])
        if len(message) < _MOST_WORDS:
            message += words[: descriptor >> _LENGTH_SHIFT & _LENGTH_MASK]
        if not descriptor & _END:
            flags = descriptor & ((1 << _ID_SHIFT) - 1) & ~_BEGIN
            return number << _ID_SHIFT | flags
        self._messages.pop(number, None)
        if not message:
            return 0
        text = formatted(message[1:])
        (sys.stderr if message[0] & 1 else sys.stdout).buffer.write(text)
        return len(text)

    def _device_memory(self, address: int, size: int) -> int:
        """Allocate memory for the kernel's heap (0: none left), or free what is at ``address``."""
        if address:
            given = self._memory.pop(address, 0)
            if given:
                self._device.release(given)
            return 0
        room = size + _SLAB_BYTES if size == _SLAB_BYTES else size
        if not self._device.room_for(room):
            return 0
        try:
            made = self._device.allocate(room)
        except hsa.HsaError:
            return 0
        aligned = -(-made // _SLAB_BYTES) * _SLAB_BYTES if size == _SLAB_BYTES else made
        self._memory[aligned] = made
        self._heap_is_new = False
        return aligned

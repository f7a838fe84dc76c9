"""Stores of other ranks into a launch's memory while it runs, on a stream next to the launch's.

Copies from pinned memory and values that the stream writes need no multiprocessor, so a kernel that has all
of them and waits gets them.
"""

from __future__ import annotations

from collections.abc import Iterator

from ..common.host_bytes import Bytes, host_bytes
from ..cuda.device import Device
from ..protocol import Range, Stores
from .states import States

_MOST_ONE_BY_ONE = 4096  # bytes of a range; what is longer is copied


class PeerStores:
    """The post-state's bytes, stored in steps."""

    def __init__(self, device: Device, states: States) -> None:
        self._device = device
        self._driver = device.driver
        self._states = states
        self._stream = self._driver.call(
            "cuStreamCreate", self._driver.api.CUstream_flags.CU_STREAM_NON_BLOCKING
        )
        self._pinned: tuple[int, int] = 0, 0  # address, size
        self._steps: list[tuple[Stores, list[Bytes], int]] = []

    def prepare(self, stores: list[Stores]) -> None:
        """Get all ready that can be before the launch: what takes memory may wait for a kernel that runs."""
        steps = [(step, [self._post(each) for each in [*step.values, *step.last]]) for step in stores]
        address = self._room(sum(len(part) for _, parts in steps for part in parts))
        self._steps = []
        for step, parts in steps:
            self._steps.append((step, parts, address))
            for part in parts:
                host_bytes(address, len(part))[:] = part
                address += len(part)

    def serve(self) -> int:
        """Make the stores, each step in its time; how many steps were made before the launch ended."""
        made = 0
        for step, parts, address in self._steps:
            made += not self._device.ends_within(step.after_s)
            for index, (target, part) in enumerate(self._targets(step, parts)):
                is_value = index < len(step.values)
                if is_value or len(part) > _MOST_ONE_BY_ONE or (target | len(part)) % 4:
                    self._driver.call("cuMemcpyAsync", target, address, len(part), self._stream)
                else:
                    self._store(target, part)
                address += len(part)
        return made

    def finish(self) -> None:
        self._driver.call("cuStreamSynchronize", self._stream)

    def _targets(self, step: Stores, parts: list[Bytes]) -> Iterator[tuple[int, Bytes]]:
        for (region, start, _), part in zip([*step.values, *step.last], parts, strict=True):
            yield self._states.base(region) + start, part

    def _store(self, target: int, part: Bytes) -> None:
        at = 0
        while at < len(part):
            width = 8 if (target + at) % 8 == 0 and len(part) - at >= 8 else 4
            value = int(part[at : at + width].view(f"<u{width}")[0])
            self._driver.call(f"cuStreamWriteValue{8 * width}", self._stream, target + at, value, 0)
            at += width

    def _post(self, of: Range) -> Bytes:
        return self._states.read("post", *of)

    def _room(self, size: int) -> int:
        address, room = self._pinned
        if size > room:
            if room:
                self._driver.call("cuMemFreeHost", address)
            self._pinned = int(self._driver.call("cuMemHostAlloc", size, 0)), size
        return self._pinned[0]

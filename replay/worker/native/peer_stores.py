"""Stores of other ranks into a launch's memory while it runs, on a stream next to the launch's.

Copies from pinned memory and values that the stream writes need no multiprocessor, so a kernel that has all
of them and waits gets them.
"""

from __future__ import annotations

import time
from collections.abc import Iterator

import numpy as np
import numpy.typing as npt

from ..common.host_bytes import Bytes, host_bytes
from ..cuda.device import Device
from ..protocol import Mirror, Range, Stores
from .states import States

_MOST_ONE_BY_ONE = 4096  # bytes of a range; what is longer is copied

Words = npt.NDArray[np.uint32]
Flags = npt.NDArray[np.bool_]
_Window = tuple[Mirror, Words, Flags]


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
        self._limit_s = 0.0
        self._seen = 0  # where windows are read to
        self.answered = 0

    def prepare(self, stores: list[Stores], limit_s: float) -> None:
        """Get all ready that can be before the launch: what takes memory may wait for a kernel that runs."""
        self._limit_s, self.answered = limit_s, 0
        steps = [(step, [self._post(each) for each in [*step.values, *step.last]]) for step in stores]
        size = sum(len(part) for _, parts in steps for part in parts)
        windows = [self._states.sizes[mirror.theirs] for step in stores for mirror in step.mirrors]
        address = self._room(size + max(windows, default=0) + 8)
        self._seen = -(-(address + size) // 8) * 8
        self._steps = []
        for step, parts in steps:
            self._steps.append((step, parts, address))
            for part in parts:
                host_bytes(address, len(part))[:] = part
                address += len(part)

    def serve(self) -> int:
        """Make the stores, each step in its time; how many steps were made before the launch ended."""
        made = 0
        windows: list[_Window] = []
        for step, parts, address in self._steps:
            made += not self._ends_within(step.after_s, windows)
            for index, (target, part) in enumerate(self._targets(step, parts)):
                is_value = index < len(step.values)
                if is_value or len(part) > _MOST_ONE_BY_ONE or (target | len(part)) % 4:
                    self._driver.call("cuMemcpyAsync", target, address, len(part), self._stream)
                else:
                    self._store(target, part)
                address += len(part)
            windows = [(mirror, *self._quiet(mirror.theirs)) for mirror in step.mirrors]
        if windows:
            self._ends_within(self._limit_s, windows)
        return made

    def finish(self) -> None:
        self._driver.call("cuStreamSynchronize", self._stream)

    # --- signals -------------------------------------------------------------------------------------

    def _quiet(self, window: int) -> tuple[Words, Flags]:
        """The words of a window before the launch; and which of them are the same after it."""
        size = self._states.sizes[window] // 4 * 4
        before, after = (self._states.read(name, window, 0, size).view("<u4") for name in ("pre", "post"))
        return before, before == after

    def _ends_within(self, seconds: float, windows: list[_Window]) -> bool:
        """Whether the launch ends in that time; meanwhile its signals are taken back and given to it."""
        if not windows:
            return self._device.ends_within(seconds)
        begin = time.monotonic()
        while True:
            is_over = time.monotonic() - begin > seconds
            has_ended = self._device.ends_within(0.0)
            for window in windows:
                self._take_back(*window, give=not has_ended)
            self.finish()
            if has_ended or is_over:
                return has_ended

    def _take_back(self, mirror: Mirror, before: Words, is_quiet: Flags, give: bool) -> None:
        base, size = self._states.base(mirror.theirs), before.nbytes
        self._driver.call("cuMemcpyAsync", self._seen, base, size, self._stream)
        self.finish()
        now = host_bytes(self._seen, size).view("<u4")
        for word in np.flatnonzero((now != before) & is_quiet).tolist():
            at = 4 * word + mirror.shift
            if give and 0 <= at <= self._states.sizes[mirror.ours] - 4:
                self._word(self._states.base(mirror.ours) + at, int(now[word]))
                self.answered += 1
            self._word(base + 4 * word, int(before[word]))

    def _word(self, target: int, value: int) -> None:
        self._driver.call("cuStreamWriteValue32", self._stream, target, value, 0)

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

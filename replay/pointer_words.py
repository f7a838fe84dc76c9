"""Words of a native launch's memory that point into its memory: poison in their place leads anywhere.

What the poison would tell of them is not worth the fault that it makes: they keep their contents while the
write set is measured, and count as input.
"""

from __future__ import annotations

import contextlib
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt

from kerncap.format.chunks import worker_count
from kerncap.format.schema import Manifest
from kerncap.replay.worker.common import bitmap
from kerncap.replay.worker.common.bitmap import Bits
from kerncap.replay.worker.common.private_map import private_map
from kerncap.replay.write_set_units import Unit

_WORD = 8
_STEP = 32 * 1024 * 1024
_MOST_BYTES = 2 << 30  # that are looked through; beyond it no word is taken for a pointer


class PointerWords:
    """Aligned words of the pre-state that fall into a region, as the closure was found, or ``beside``."""

    def __init__(
        self, manifest: Manifest, files: list[list[Path]], beside: Sequence[range]
    ) -> None:  # fmt: skip
        self._manifest = manifest
        self._files = files
        self._found: dict[tuple[int, bool], Bits] = {}
        self._left = _MOST_BYTES if manifest.launch.mode == "native" else 0
        ranges = [(region.base, region.base + region.size) for region in manifest.regions if region.size]
        ranges = sorted([*ranges, *((other.start, other.stop) for other in beside if other)])
        self._starts = np.array([start for start, _ in ranges], dtype=np.uint64)
        # Regions may overlap: the furthest end of all that begin before.
        self._stops = np.maximum.accumulate(np.array([stop for _, stop in ranges], dtype=np.uint64))

    def of(self, unit: Unit, zeros: bool = False) -> Bits:
        """The bytes of a unit that are such words; none where its views say that it holds floats.

        With ``zeros`` also words of zeros: pointers that point nowhere.
        """
        size = self._manifest.regions[unit.region].size
        views = [self._manifest.views[number] for number in unit.views]
        if any(view.dtype.startswith(("float", "bfloat", "complex")) for view in views):
            return bitmap.empty(size)
        if (unit.region, zeros) not in self._found:
            self._found[unit.region, zeros] = self._look(unit.region, zeros)
        return self._found[unit.region, zeros] & unit.bits(size)

    def _look(self, region: int, zeros: bool) -> Bits:
        size, base = self._manifest.regions[region].size, self._manifest.regions[region].base
        skew = -base % _WORD
        if size - skew < _WORD or size > self._left:
            return bitmap.empty(size)
        self._left -= size
        data = np.frombuffer(private_map(self._files[region], size), dtype=np.uint8)
        bits = np.zeros((size + 7) // 8, dtype=np.uint8)
        starts = range(skew, size - _WORD + 1, _STEP)
        with contextlib.ExitStack() as threads:
            each: Any = map
            if len(starts) > 1:
                from concurrent.futures import ThreadPoolExecutor  # for large memory only

                each = threads.enter_context(ThreadPoolExecutor(min(worker_count(), len(starts)))).map
            for firsts in each(lambda start: self._words(data, start, zeros), starts):
                for bit in range(_WORD):
                    at = firsts + bit
                    np.bitwise_or.at(bits, at // 8, (1 << (at % 8)).astype(np.uint8))
        return bitmap.of_parts(size, [(0, bits)])

    def _words(self, data: npt.NDArray[np.uint8], start: int, zeros: bool) -> npt.NDArray[np.intp]:
        """Where such words are among the next _STEP bytes."""
        part = data[start : start + _STEP]
        words = part[: len(part) // _WORD * _WORD].view(np.uint64)
        near = np.flatnonzero((words >= self._starts[0]) & (words < self._stops[-1]))
        owner = np.searchsorted(self._starts, words[near], side="right") - 1
        found = near[words[near] < self._stops[owner]]
        if zeros:
            found = np.concatenate([found, np.flatnonzero(words == 0)])
        return start + found * _WORD

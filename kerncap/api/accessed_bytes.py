"""The bytes that a Triton launch reads and stores, exactly, from its TTIR and the captured contents."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from kerncap.api.compiled_ttir import compile_source
from kerncap.errors import KerncapError
from kerncap.format import Reproducer
from kerncap.format.schema import Region
from kerncap.replay.worker.common import bitmap
from kerncap.replay.worker.common.bitmap import Bits
from kerncap.sanitizer.concrete.events import AccessEvent
from kerncap.sanitizer.concrete.machine import Limits
from kerncap.sanitizer.concrete.memory import Memory
from kerncap.sanitizer.concrete.run import evaluate
from kerncap.sanitizer.launch import Launch
from kerncap.sanitizer.sources.reproducer import NoTtir, launch_from_reproducer, target_of
from kerncap.sanitizer.ttir import read_module

_MOST_BYTES = 4 << 30  # of all regions: one byte of ours for each
_READ, _STORED = 1, 2
_KINDS = {"load": _READ, "store": _STORED, "atomic": _READ | _STORED}
_ELEMENT_OPERATIONS = 20_000_000_000


@dataclass(frozen=True)
class Accessed:
    """By region: what some program reads, and what some program stores; atomics do both."""

    read: dict[int, Bits]
    stored: dict[int, Bits]


def accessed_bytes(
    reproducer: Reproducer, seconds: float, trusted: bool, python: str | None
) -> tuple[Accessed | None, str]:
    """What a launch accesses; or None, and why that is not known."""
    manifest = reproducer.manifest
    if manifest.kernel.language != "triton":
        return None, "it is not a Triton launch"
    if sum(region.size for region in manifest.regions) > _MOST_BYTES:
        return None, f"its memory is larger than {_MOST_BYTES >> 30} GiB"
    try:
        text, target = None, None
        if reproducer.code("ttir") is None:
            target = target_of(manifest.device)
            why = "it holds no TTIR"
            text = compile_source(reproducer, target, why, trusted=trusted, python=python)
        launch = launch_from_reproducer(reproducer, text, target)
    except (NoTtir, KerncapError) as error:
        return None, f"its TTIR is not known ({error})"
    seen = _Seen(launch, manifest.regions)
    module = read_module(launch.ttir)
    outcome = evaluate(
        module, module.kernel, launch, Memory(launch), addresses_only=True, observer=seen,
        limits=Limits(_ELEMENT_OPERATIONS, seconds),
    )  # fmt: skip
    if not outcome.complete:
        return None, f"its accesses could not all be followed ({outcome.reason})"
    if outcome.unknown_contents:
        return None, "it reads bytes that it wrote itself, with values that are not known"
    return Accessed(seen.masks(_READ), seen.masks(_STORED)), ""


class _Seen:
    """An observer that marks each byte that is accessed."""

    def __init__(self, launch: Launch, regions: tuple[Region, ...]) -> None:
        self._memory = Memory(launch)
        self._regions = regions
        # Pages of the system, of which most are not needed; those of a bitmap that are.
        self._marks = [np.zeros(region.size, dtype=np.uint8) for region in regions]
        self._pages = [np.zeros(-(-region.size // bitmap.PAGE), dtype=np.bool_) for region in regions]

    def access(self, event: AccessEvent) -> None:
        addresses = self._memory.absolute(event.argument, event.offsets)[event.mask]
        for number, region in enumerate(self._regions):
            self._mark(number, addresses - np.int64(region.base), event.width_bytes, _KINDS[event.kind])

    def _mark(self, number: int, offsets: npt.NDArray[np.int64], width: int, kind: int) -> None:
        marks = self._marks[number]
        inside = offsets[(offsets > -width) & (offsets < len(marks))]
        if not inside.size:
            return
        for more in range(width):
            at = inside + more
            at = at[(at >= 0) & (at < len(marks))]
            marks[at] |= kind
            self._pages[number][at // bitmap.PAGE] = True

    def masks(self, kind: int) -> dict[int, Bits]:
        return {number: self._bits(number, kind) for number in range(len(self._marks))}

    def _bits(self, number: int, kind: int) -> Bits:
        marks = self._marks[number]
        starts = np.flatnonzero(self._pages[number]) * bitmap.PAGE
        pages = ((start, marks[start : start + bitmap.PAGE] & kind != 0) for start in starts.tolist())
        return bitmap.of_parts(
            len(marks), ((start, np.packbits(page, bitorder="little")) for start, page in pages)
        )

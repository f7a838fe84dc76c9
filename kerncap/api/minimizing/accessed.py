"""The bytes that a Triton launch reads, exactly, from its TTIR and the captured contents."""

from __future__ import annotations

import numpy as np
import numpy.typing as npt

from kerncap.api.sanitize_source import compile_source, target_of
from kerncap.errors import KerncapError
from kerncap.format import Reproducer
from kerncap.format.schema import Region
from kerncap.replay.bitmap import Bits
from kerncap.sanitizer.concrete.events import AccessEvent
from kerncap.sanitizer.concrete.machine import Limits
from kerncap.sanitizer.concrete.memory import Memory
from kerncap.sanitizer.concrete.run import evaluate
from kerncap.sanitizer.launch import Launch
from kerncap.sanitizer.sources.reproducer import NoTtir, launch_from_reproducer
from kerncap.sanitizer.ttir import read_module

_MOST_BYTES = 4 << 30  # of all regions: one byte of ours for each
_ELEMENT_OPERATIONS = 20_000_000_000


def read_bytes(
    reproducer: Reproducer, seconds: float, trusted: bool, python: str | None
) -> tuple[dict[int, Bits] | None, str]:
    """For each region the bytes that some program reads, as packed bits; or None, and why not."""
    manifest = reproducer.manifest
    if manifest.kernel.language != "triton":
        return None, "it is no Triton launch"
    if sum(region.size for region in manifest.regions) > _MOST_BYTES:
        return None, f"its memory is larger than {_MOST_BYTES >> 30} GiB"
    try:
        text, target = None, None
        if reproducer.code("ttir") is None:
            target = target_of(manifest.device)
            why = "it holds no TTIR to look at"
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
    return seen.masks(), ""


class _Seen:
    """An observer that marks each byte that a load or an atomic reads."""

    def __init__(self, launch: Launch, regions: tuple[Region, ...]) -> None:
        self._memory = Memory(launch)
        self._regions = regions
        self._marks = [np.zeros(region.size, dtype=np.bool_) for region in regions]

    def access(self, event: AccessEvent) -> None:
        if event.kind == "store":
            return
        addresses = self._memory.absolute(event.argument, event.offsets)[event.mask]
        for region, marks in zip(self._regions, self._marks, strict=True):
            self._mark(addresses - np.int64(region.base), marks, event.width_bytes)

    @staticmethod
    def _mark(offsets: npt.NDArray[np.int64], marks: npt.NDArray[np.bool_], width: int) -> None:
        inside = offsets[(offsets > -width) & (offsets < len(marks))]
        if not inside.size:
            return
        for more in range(width):
            at = inside + more
            marks[at[(at >= 0) & (at < len(marks))]] = True

    def masks(self) -> dict[int, Bits]:
        return {number: np.packbits(marks, bitorder="little") for number, marks in enumerate(self._marks)}

"""Whether a launch that was captured left what it had left when it was traced: a run that shows both.

A side whose captured launch did the same again is not nondeterministic there, so no run is needed for that.
"""

from __future__ import annotations

from pathlib import Path

from kerncap.api.diff import opened
from kerncap.api.diverge.recorded_side import storage_of
from kerncap.capture.payloads import HashedRegion, TracedRecord
from kerncap.errors import KerncapError
from kerncap.format import Reproducer, fingerprints
from kerncap.format.contract import default, word


def can_be_compared(launch: TracedRecord) -> bool:
    """A native launch has no names for its storages."""
    return launch.mode != word.mode.native and not launch.reason and not launch.error


def did_the_same(launch: TracedRecord, captured: Path) -> bool:
    """Whether the reproducer has what the launch left; False too if that can't be known."""
    names: dict[int, str] = {view.region: view.name for view in launch.views}
    try:
        with opened(captured) as reproducer:
            return all(
                one.addresses or (number in names and _is_left(one, names[number], reproducer))
                for number, one in enumerate(launch.hashed)
            )
    except KerncapError:
        return False


def _is_left(traced: HashedRegion, name: str, reproducer: Reproducer) -> bool:
    """Whether the storage of an argument has the traced digest after the launch."""
    storage = storage_of(name, reproducer)
    if storage is None:
        return False
    region, start, size = storage
    return size == traced.size and traced.after == _digest(reproducer, region, start, size)


def _digest(reproducer: Reproducer, region: int, start: int, size: int) -> str:
    step, end = default.chunk_bytes, start + size
    return fingerprints.digest(
        fingerprints.sums(reproducer.read("post", region, at, min(step, end - at)))
        for at in range(start, end, step)
    )

"""What a reproducer's memory takes once it is written out, said and bounded before a byte of it is.

Equal chunks are stored once, so that some hundred kilobytes may stand for terabytes.
"""

from __future__ import annotations

import shutil
from pathlib import Path

from kerncap.errors import UsageError
from kerncap.format.reader import Reproducer
from kerncap.log import size
from kerncap.printable import visible

ALWAYS_ALLOWED = 4 << 30
MOST_TIMES_LARGER = 100  # than what is stored of it
_ROOM_LEFT = 16 << 20


def expanded_bytes(reproducer: Reproducer) -> int:
    """Bytes that are not zero before the launch, and of the regions that it changes those after it."""
    index, total = reproducer.index, 0
    for region in range(len(reproducer.manifest.regions)):
        changed, _ = index.stored("post", region)
        for state in ("pre", "post") if len(changed) else ("pre",):
            _, rows = index.nonzero(state, region)
            total += int(index.table["raw"][rows - 1].sum(dtype="u8")) if len(rows) else 0
    return total


def require_expandable(reproducer: Reproducer, place: Path | None = None) -> None:
    """Raises UsageError if writing the memory out takes more than the user allows, or than is likely.

    ``reproducer.max_expanded`` is what the user allows, in bytes. ``place``: a folder that needs room for it.
    """
    needed, stored = expanded_bytes(reproducer), reproducer.manifest.memory.stored_bytes
    allowed, where = reproducer.max_expanded, visible(reproducer.path)
    remedy = "--max-size of replay, verify, minimize and export allows more"
    if allowed is not None and needed > allowed:
        claim = f"its memory takes {size(needed)} written out, more than {size(allowed)}"
        raise UsageError(f"{where}: {claim}; {remedy}")
    if allowed is None and needed > max(ALWAYS_ALLOWED, MOST_TIMES_LARGER * stored):
        claim = f"{size(stored)} stored claim to be {size(needed)} written out"
        raise UsageError(f"{where}: {claim}; look at it first, {remedy}")
    if place is not None and needed + _ROOM_LEFT > (free := shutil.disk_usage(place).free):
        problem = f"{size(free)} are free, the memory of {where} takes {size(needed)} written out"
        raise UsageError(f"{visible(place)}: {problem}; set TMPDIR")

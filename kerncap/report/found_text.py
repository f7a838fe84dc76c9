"""Reproducers as a table, one line each, the newest first."""

from __future__ import annotations

import itertools
from collections.abc import Iterable, Sequence
from pathlib import Path

from kerncap import log
from kerncap.format import schema
from kerncap.format.find_reproducers import Found
from kerncap.printable import visible
from kerncap.report.tables import table

MOST_ROWS = 40


def render(found: Iterable[Found], now_s: float) -> str:
    """The table, with a line for those that are left out; empty without reproducers."""
    listed = iter(found)
    rows = [_row(each, now_s) for each in itertools.islice(listed, MOST_ROWS)]
    more = sum(1 for _ in listed)
    if not rows:
        return ""
    text = table(("reproducer", "age", "disk", "device", "launch"), rows, right=(1, 2))
    return text + (f"and {more:,} older\n" if more else "")


def render_collected(
    going: Sequence[Found],
    kept_count: int,
    left_alone: Iterable[tuple[Path, str]],
    removed: bool,
    now_s: float,
) -> str:  # fmt: skip
    """What ``kerncap gc`` would remove, or has removed."""
    lines = [f"{visible(path)}: left alone: {visible(reason)}" for path, reason in left_alone]
    size = log.size(sum(each.size_bytes for each in going))
    kept = f"{kept_count:,} kept"
    count = log.counted(len(going), "reproducer")
    if removed:
        lines.append(f"removed {count}, {size}; {kept}")
    elif going:
        lines.append(f"{count}, {size}, would be removed with --delete; {kept}")
    else:
        lines.append(f"nothing would be removed; {kept}")
    return render(going, now_s) + "".join(f"{line}\n" for line in lines)


def _row(found: Found, now_s: float) -> tuple[str, ...]:
    device, launch = _facts(found)
    size = log.size(found.size_bytes) if found.manifest is not None else "-"
    return str(found.path), age(now_s - found.sealed_s), size, device, launch


def _facts(found: Found) -> tuple[str, str]:
    manifest = found.manifest
    if manifest is None:
        return "-", visible(found.problem)
    if isinstance(manifest, schema.RangeManifest):
        return "-", f"a range of {len(manifest.launches):,} launches"
    grid = "x".join(map(str, manifest.launch.grid))
    oracle = manifest.oracle.kind
    said = "" if oracle == "trusted" else f"; application's result: {oracle}"
    return manifest.device.arch or manifest.device.kind, f"{manifest.kernel.name}, grid {grid}{said}"


def age(seconds: float) -> str:
    """``5 min``, ``3 h``, ``12 days``."""
    minutes = max(0, int(seconds // 60))
    if minutes < 120:
        return f"{minutes} min"
    hours = minutes // 60
    return f"{hours} h" if hours < 72 else f"{hours // 24:,} days"

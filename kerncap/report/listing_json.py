"""The document of ``kerncap list --json``; keys are only ever added."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import msgspec

from kerncap.capture.outcome import CaptureResult
from kerncap.capture.timeline import Timeline
from kerncap.format.contract import word
from kerncap.report.capture_text import capture_command, chooses_only, kernel_document
from kerncap.report.listing_data import Gain, Listed, figures
from kerncap.report.listing_groups import By, group_documents, groups, times_document


def listing_document(
    result: CaptureResult, by: By | None = None, top: int = 0, timeline_path: Path | None = None
) -> dict[str, Any]:
    """Kernels by time, whole names, every row; ``top`` 0: all. ``timeline_path``: where the trace is."""
    found = figures(result)
    shown = found.kernels[: top or None]
    return {
        "kernels": [_kernel(listed, result) for listed in shown],
        "kernel_count": len(found.kernels),
        "by": by,
        "groups": group_documents(groups(result, found, by), found) if by is not None else [],
        "wall_ns": result.wall_ns,
        "program_ns": found.wall_ns,
        "device_ns": found.device_ns,
        "clocks": [
            {"pid": clock.pid, "clock": clock.name, "reason": clock.reason} for clock in result.listing.clocks
        ],
        "process_count": len(result.listing.spans),
        "timeline": _timeline(result.timeline, timeline_path),
        "notes": result.notes,
        "failed": result.failed,
        "reason": result.reason,
        "target_status": result.target.status,
        "launches": result.launches,
        "overhead_ns": result.overhead_ns,
    }


def _timeline(timeline: Timeline | None, path: Path | None) -> dict[str, Any] | None:
    if timeline is None or path is None:
        return None
    return {
        "path": str(path),
        "launches": timeline.count(word.timed.launch),
        "copies": timeline.count(word.timed.copy, word.timed.fill),
        "ranges": timeline.count(word.timed.range),
        "lost": timeline.lost,
    }


def _kernel(listed: Listed, result: CaptureResult) -> dict[str, Any]:
    kernel = listed.kernel
    return {
        **kernel_document(kernel),
        **times_document(listed.times),
        "short_name": listed.name,
        "configurations": listed.configurations,
        "share": listed.device.share if listed.device is not None else 0.0,
        **_gain("wall", listed.wall),
        **_gain("device", listed.device),
        "rows": [
            {**msgspec.to_builtins(row.record), "pid": row.pid, "rank": row.rank} for row in kernel.rows
        ],
        "stack": [list(frame) for frame in kernel.stack],
        "command": capture_command(kernel, result),
        "command_is_exact": chooses_only(kernel, result),
    }


def _gain(base: str, gain: Gain | None) -> dict[str, float | None]:
    """At most: twice as fast, and gone (null if it is the whole)."""
    return {
        f"share_of_{base}": gain.share if gain is not None else None,
        f"speedup_if_twice_as_fast_{base}": gain.twice if gain is not None else None,
        f"speedup_if_gone_{base}": gain.gone if gain is not None else None,
    }

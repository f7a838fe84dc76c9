"""The document of ``kerncap list --json``; keys are only ever added."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Any

from msgspec.structs import asdict

from kerncap.capture.outcome import CaptureResult
from kerncap.capture.timeline import Timeline
from kerncap.format.contract import word
from kerncap.report.capture_json import seen_kernel
from kerncap.report.capture_text import capture_command, chooses_only
from kerncap.report.documents import capture as documents
from kerncap.report.listing_data import Figures, Gain, Listed, Times, figures
from kerncap.report.listing_groups import By, Group, groups


def listing_document(
    result: CaptureResult, by: By | None = None, top: int = 0, timeline_path: Path | None = None
) -> dict[str, Any]:
    """Kernels by time, whole names, every row; ``top`` 0: all. ``timeline_path``: where the trace is."""
    found = figures(result)
    shown = found.kernels[: top or None]
    return documents.ListDocument(
        kernels=tuple(_kernel(listed, result) for listed in shown),
        kernel_count=len(found.kernels),
        by=by,
        groups=_groups(groups(result, found, by), found) if by is not None else (),
        wall_ns=result.wall_ns,
        program_ns=found.wall_ns,
        device_ns=found.device_ns,
        clocks=tuple(
            documents.ClockOfProcess(pid=clock.pid, clock=clock.name, reason=clock.reason)
            for clock in result.listing.clocks
        ),
        process_count=len(result.listing.spans),
        timeline=_timeline(result.timeline, timeline_path),
        notes=tuple(result.notes),
        failed=tuple(result.failed),
        reason=result.reason,
        target_status=result.target.status,
        launches=result.launches,
        overhead_ns=result.overhead_ns,
    ).as_dict()


def _timeline(timeline: Timeline | None, path: Path | None) -> documents.TimelineFile | None:
    if timeline is None or path is None:
        return None
    return documents.TimelineFile(
        path=str(path),
        launches=timeline.count(word.timed.launch),
        copies=timeline.count(word.timed.copy, word.timed.fill),
        ranges=timeline.count(word.timed.range),
        lost=timeline.lost,
    )


def _kernel(listed: Listed, result: CaptureResult) -> documents.ListedKernel:
    kernel = listed.kernel
    return documents.ListedKernel(
        **(asdict(seen_kernel(kernel)) | _times(listed.times)),
        short_name=listed.name,
        configurations=listed.configurations,
        share=listed.device.share if listed.device is not None else 0.0,
        **_gain("wall", listed.wall),
        **_gain("device", listed.device),
        rows=tuple(
            documents.ListedRow(**asdict(row.record), pid=row.pid, rank=row.rank) for row in kernel.rows
        ),
        stack=kernel.stack,
        command=capture_command(kernel, result),
        command_is_exact=chooses_only(kernel, result),
    )


def _groups(found: Sequence[Group], figures: Figures) -> tuple[documents.ListedGroup, ...]:
    """A group holds only direct launches."""
    return tuple(
        documents.ListedGroup(
            name=group.key,
            **_times(group.times),
            command=group.command,
            share_of_device=group.times.time_ns / figures.device_ns if figures.device_ns else None,
            kernels=tuple(
                documents.GroupedKernel(
                    name=leaf.kernel.kernel.name,
                    qualified_name=leaf.kernel.kernel.qualified_name,
                    **_times(leaf.times),
                    command=leaf.command,
                )
                for leaf in group.leaves
            ),
        )
        for group in found
    )


# What several types have is given by name: they refuse a name that they don't have, and a lack of one.
def _times(times: Times) -> dict[str, Any]:
    return {
        "launches": times.launches,
        "time_ns": times.time_ns,
        "timed_launches": times.timed,
        "mean_ns": times.mean_ns,
        "min_ns": times.min_ns,
        "max_ns": times.max_ns,
    }


def _gain(base: str, gain: Gain | None) -> dict[str, Any]:
    """At most: twice as fast, and gone (null if it is the whole)."""
    return {
        f"share_of_{base}": gain.share if gain is not None else None,
        f"speedup_if_twice_as_fast_{base}": gain.twice if gain is not None else None,
        f"speedup_if_gone_{base}": gain.gone if gain is not None else None,
    }

"""The kernels of a run by time, as a table and as the document of ``--json``."""

from __future__ import annotations

from typing import Any

from kerncap import log
from kerncap.capture.outcome import CaptureResult, KernelSummary
from kerncap.report.capture_text import capture_command, kernel_document, shown_name
from kerncap.report.tables import table


def by_time(result: CaptureResult) -> list[KernelSummary]:
    """The most expensive kernel first; equal ones by launches, then by name."""
    return sorted(
        result.kernels,
        key=lambda kernel: (-kernel.counts.time_ns, -kernel.counts.launches, kernel.qualified_name),
    )


def render_listing(result: CaptureResult) -> str:
    """A table with a ready-made capture command per kernel, or why there is none."""
    if not result.kernels:
        prefix = "" if result.target.pid is None else "no kernels: "
        return f"kerncap: {prefix}{result.reason}\n"
    total = sum(kernel.counts.time_ns for kernel in result.kernels) or 1
    rows = [
        [
            log.one_line(shown_name(kernel, result), 60),
            str(kernel.counts.launches),
            str(kernel.counts.configs) if kernel.counts.configs else "",  # a shim does not count them
            log.duration(kernel.counts.time_ns),
            f"{100 * kernel.counts.time_ns / total:.1f} %",
            capture_command(kernel, result),
        ]
        for kernel in by_time(result)
    ]
    headers = ["kernel", "launches", "configurations", "time", "share", "to capture it"]
    return table(headers, rows, right=[1, 2, 3, 4])


def listing_document(result: CaptureResult) -> dict[str, Any]:
    """The document of ``kerncap list --json``."""
    total = sum(kernel.counts.time_ns for kernel in result.kernels) or 1
    return {
        "kernels": [
            {
                **kernel_document(kernel),
                "share": kernel.counts.time_ns / total,
                "command": capture_command(kernel, result),
            }
            for kernel in by_time(result)
        ],
        "reason": result.reason,
        "target_status": result.target.status,
        "launches": result.launches,
        "overhead_ns": result.overhead_ns,
    }

"""`sanitize RANGE`: each launch of a range, and launches that nothing is known to order."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path

from kerncap.api.range_flow import meeting
from kerncap.api.sanitize import judged
from kerncap.errors import BackendUnavailable, KerncapError
from kerncap.format import LaunchOfRange, LaunchRange
from kerncap.log import one_line
from kerncap.replay import trust
from kerncap.sanitizer.analysis import Options
from kerncap.sanitizer.findings import NOT_SANITISED, LaunchReport, Settled, Unproven
from kerncap.sanitizer.ttir.ir import UNKNOWN_LOCATION

_NO_OPERATION = -1  # of the TTIR: the question is about the launch as a whole


def sanitize_range(
    path: Path,
    options: Options | None = None,
    *,
    target: str | None = None,
    trusted: bool = False,
    python: str | None = None,
) -> list[LaunchReport]:
    """A report for each launch of the range, on the memory before it.

    Launches on different streams run in any order unless an event is between them, and a capture does not
    record events: if two of them reach the same bytes and one writes there, this is an open question of the
    later one. A launch that can't be judged says so. Raises as `sanitize_reproducer` does.
    """
    options = options or Options()
    with LaunchRange.open(path) as opened:
        for launch in opened.launches:
            if launch.code("ttir") is None and launch.manifest.kernel.language == "triton":
                trust.require(
                    launch, trusted, ": a launch without compiled code is compiled from its source. That"
                )
        reports = [_report(launch, options, target, trusted, python) for launch in opened.launches]
        if "race" in options.checks:
            for number, question in _unordered(opened):
                settled = (*reports[number].settled, question)
                reports[number] = replace(reports[number], settled=settled)
        return reports


def _report(
    launch: LaunchOfRange, options: Options, target: str | None, trusted: bool, python: str | None
) -> LaunchReport:
    manifest, label = launch.manifest, f"launch {launch.number}"
    try:
        if manifest.kernel.language != "triton":
            raise BackendUnavailable(
                "the sanitizer", f"it judges Triton kernels, not {manifest.kernel.language}"
            )
        return replace(judged(launch, options, target, trusted, python), label=label)
    except KerncapError as error:
        x, y, z = (*manifest.launch.grid, 1, 1)[:3]
        notes = (f"{NOT_SANITISED}: {one_line(error)}",)
        return LaunchReport(manifest.kernel.name, (x, y, z), (), notes, label)


def _unordered(opened: LaunchRange) -> Iterator[tuple[int, Settled]]:
    """The later launch of each pair that may race, and the question."""
    streams = [launch.manifest.launch.stream for launch in opened.launches]
    if opened.launches[0].manifest.device.kind not in ("cuda", "hip"):
        return  # the host carries them out one after another
    pairs = [
        (one, other)
        for other in range(len(streams))
        for one in range(other)
        if streams[one] != streams[other]
    ]
    for (one, other), count in meeting(opened, pairs).items():
        first, second = (opened.launches[each].manifest.kernel.name for each in (one, other))
        why = (
            f"launch {one} ({first}, stream {streams[one] or 'not recorded'}) and launch {other} ({second}, "
            f"stream {streams[other] or 'not recorded'}) reach the same {count:,} bytes, and one of them "
            "writes there; events between streams are not recorded, so what orders the two is not known"
        )
        yield other, Settled("race", "none", UNKNOWN_LOCATION, Unproven(one_line(why)), order=_NO_OPERATION)

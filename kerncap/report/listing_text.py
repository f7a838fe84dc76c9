"""The kernels of a run by time: a table, where they are launched from, and the command for each."""

from __future__ import annotations

import os
from collections import Counter
from collections.abc import Sequence

from kerncap import log
from kerncap.capture.outcome import CaptureResult
from kerncap.report.capture_text import capture_command
from kerncap.report.listing_data import Figures, Gain, Listed, figures
from kerncap.report.listing_groups import By, groups, numbered_commands, render_groups
from kerncap.report.listing_names import full_name
from kerncap.report.tables import table

TOP = 20
MAX_FRAMES = 8

_CLOCKS = {
    "cupti": "device time by CUPTI",
    "events": "device time by events, launches' gaps within it",
    "hsa": "device time by HSA's dispatch timestamps",
    "host": "the host's clock",
}


def render_listing(
    result: CaptureResult,
    by: By | None = None,
    stacks: bool = False,
    top: int = TOP,
    full_names: bool = False,
) -> str:
    """All that ``kerncap list`` prints for people, or why there is nothing. ``top`` 0 is all."""
    if not result.kernels:
        prefix = "" if result.target.pid is None else "no kernels: "
        return f"kerncap: {prefix}{result.reason}\n"
    found = figures(result)
    shown = found.kernels[: top or None]
    parts = [_head(result, found)]
    if by is not None:
        parts.append(render_groups(groups(result, found, by), found, by, top))
    else:
        parts.append(_kernels(shown) + _left_out(found, len(shown)))
        commands = [capture_command(listed.kernel, result) for listed in shown]
        parts.append("to capture it:\n" + numbered_commands(commands))
    if full_names:
        whole = [f"{number}  {full_name(each.kernel)}\n" for number, each in enumerate(shown, 1)]
        parts.append("".join(["full names:\n", *whole]))
    if stacks:
        parts.append(_stacks(shown))
    return "\n".join(parts)


def _head(result: CaptureResult, found: Figures) -> str:
    launches = sum(each.times.launches for each in found.kernels)
    processes = len(result.listing.spans)
    of_it = "of it " if processes < 2 else ""  # processes side by side sum up to more
    where = "" if processes < 2 else f" of {processes} processes"
    lines = [
        f"{log.duration(result.wall_ns)} wall time, {log.duration(found.device_ns)} {of_it}in "
        f"{log.counted(len(found.kernels), 'kernel')} ({log.counted(launches, 'launch')}){where}",
        *_clock_lines(result),
        f"listing cost the program {log.duration(result.overhead_ns)}",
        *result.notes,
    ]
    return "".join(f"kerncap: {line}\n" for line in lines)


def _clock_lines(result: CaptureResult) -> list[str]:
    """Which clock measured, and why no better one."""
    counted = Counter((clock.name, clock.reason) for clock in result.listing.clocks)
    lines = []
    for (name, reason), count in counted.items():
        where = f" in {count} processes" if count > 1 else ""
        why = f" ({log.one_line(reason, 200)})" if reason else ""
        lines.append(f"clock: {name}{where}, {_CLOCKS[name]}{why}")
    if not lines:
        lines.append("clock: none; launches are counted only")
    return lines


def _kernels(shown: Sequence[Listed]) -> str:
    rows = [
        [
            str(number),
            listed.name,
            f"{listed.times.launches:,}",
            _configurations(listed),
            log.duration(listed.times.time_ns) if listed.times.timed else "not timed",
            f"{100 * listed.device.share:.1f} %" if listed.device is not None else "",
            log.duration(round(listed.times.mean_ns)) if listed.times.mean_ns is not None else "",
            _spread(listed),
            _twice(listed.wall),
            _twice(listed.device),
        ]
        for number, listed in enumerate(shown, 1)
    ]
    headers = [
        "",
        "kernel",
        "launches",
        "configs",
        "time",
        "share",
        "mean",
        "min..max",
        "program at 2x",
        "kernels at 2x",
    ]
    text = table(headers, rows, right=[0, 2, 3, 4, 5, 6, 7, 8, 9])
    if not any(listed.device for listed in shown):
        return text
    return text + (
        "at 2x: how much faster the program (wall time) and all kernels (device time) get at most, "
        "if this one takes half as long\n"
    )


def _left_out(found: Figures, shown: int) -> str:
    rest = found.kernels[shown:]
    if not rest:
        return ""
    time_ns = sum(listed.times.time_ns for listed in rest)
    share = f", {100 * time_ns / found.device_ns:.1f} % of the time" if found.device_ns else ""
    return f"… and {len(rest)} more kernels{share} (-n 0 shows all)\n"


def _configurations(listed: Listed) -> str:
    if listed.configurations is None:
        return ""
    return f"{listed.configurations:,}{'+' if listed.more_configurations else ''}"


def _spread(listed: Listed) -> str:
    times = listed.times
    if times.timed < 2 or times.min_ns is None or times.max_ns is None:
        return ""
    return f"{log.duration(times.min_ns)}..{log.duration(times.max_ns)}"


def _twice(gain: Gain | None) -> str:
    return f"{gain.twice:.2f}x" if gain is not None else ""


def _stacks(shown: Sequence[Listed]) -> str:
    """Where each kernel was launched from at first, innermost last."""
    lines = []
    for number, listed in enumerate(shown, 1):
        frames = listed.kernel.stack[-MAX_FRAMES:]
        lines.append(f"{number}  {listed.name} is launched from\n")
        lines += [
            f"     {_place(file)}:{line} in {log.one_line(function, 80)}\n" for file, line, function in frames
        ]
        if not frames:
            lines.append(
                "     no Python stack: not launched from Python, or its interpreter can't be asked\n"
            )
    return "".join(lines)


def _place(file: str) -> str:
    """Relative to here if that is shorter."""
    relative = os.path.relpath(file) if os.path.isabs(file) else file
    return log.one_line(
        relative if len(relative) < len(file) and not relative.startswith("..") else file, 200
    )

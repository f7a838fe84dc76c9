"""`kerncap list --by range|graph|stream|device|rank|configuration`: the same launches, split."""

from __future__ import annotations

import functools
import re
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Literal

from kerncap import log
from kerncap.capture.listed import Row
from kerncap.capture.outcome import CaptureResult
from kerncap.report.capture_text import capture_command, range_command
from kerncap.report.listing_data import Figures, Listed, Times
from kerncap.report.tables import table

By = Literal["range", "graph", "stream", "device", "rank", "configuration"]
_INDENT = "  "
# Other streams have handles that are new in each run: of several none can be chosen. The legacy default
# stream has two handles, 0 and 1.
_DEFAULT_STREAMS = {
    "0": "stream in (0, 1)",
    "the default stream": "stream in (0, 1)",
    "the thread's default stream": "stream == 2",
}
_ANOTHER_STREAM = "stream > 2"
# What of a Triton configuration can be compared in --where: `BLOCK=64`, `EVEN=True`, `EPS=1e-05`,
# `ACT='relu'`, `DTYPE=fp16`; no functions, tuples and classes.
_NUMBER = r"-?[0-9]+(?:\.[0-9]+)?(?:e[+-]?[0-9]+)?|True|False|None"
_TEXT = r"'(?:[^'\\]|\\.)*'|\"(?:[^\"\\]|\\.)*\""
_DTYPE = r"u?int(?:1|8|16|32|64)|fp(?:8\w+|16|32|64)|bf16"
_OPTION = re.compile(rf"(?:^| )([^\W\d]\w*)=(?:({_NUMBER}|{_TEXT})|({_DTYPE}))(?= |$)")


@dataclass(frozen=True)
class Leaf:
    """One kernel's launches in one group, and the command that captures the first of them."""

    kernel: Listed
    times: Times
    command: str | None  # None: no selector of capture tells these from the others


@dataclass(frozen=True)
class Group:
    """``key`` are the names from the outermost; one, except for nested ranges. ``command`` captures the whole
    group as a range of launches."""

    key: tuple[str, ...]
    times: Times
    leaves: tuple[Leaf, ...]
    note: str = ""
    command: str | None = None


def groups(result: CaptureResult, figures: Figures, by: By) -> list[Group]:
    """Largest first. With ``range`` a group holds only direct launches, see `render_groups`."""
    rows: dict[tuple[str, ...], dict[int, list[Row]]] = {}
    for number, listed in enumerate(figures.kernels):
        for row in listed.kernel.rows:
            key = _key(row, by, listed.name)
            rows.setdefault(key, {}).setdefault(number, []).append(row)
    found = [_group(key, inside, result, figures, by) for key, inside in rows.items()]
    return sorted(found, key=lambda group: (-group.times.time_ns, -group.times.launches, group.key))


def render_groups(found: Sequence[Group], figures: Figures, by: By, top: int) -> str:
    """A tree as an aligned table: each group's sum, its kernels below it, numbered; then their commands."""
    lines: list[list[str]] = []
    commands: list[str | None] = []
    order = _order(found)
    for shown, key in enumerate(order):
        if top and shown >= top:
            lines.append(["", f"… and {len(order) - shown} more (-n 0 shows all)", "", "", "", ""])
            break
        depth = len(key) - 1
        label = log.one_line(key[-1] or _NOTHING[by], 80)
        own = next((group for group in found if group.key == key), None)
        leaves = own.leaves[: top or None] if own is not None else []
        is_leaf = by == "configuration" and own is not None
        is_whole = own is not None and own.command is not None
        if own is not None and (is_leaf or is_whole):
            label += own.note
            commands.append(leaves[0].command if is_leaf else own.command)
        times = Times.of(group.times for group in found if group.key[: len(key)] == key)
        number = _number(commands) if is_leaf or is_whole else ""
        lines.append([number, _INDENT * depth + label, *_cells(times, figures)])
        for leaf in () if is_leaf else leaves:
            if not is_whole:
                commands.append(leaf.command)
            name = _INDENT * (depth + 1) + leaf.kernel.name
            lines.append(["" if is_whole else _number(commands), name, *_cells(leaf.times, figures)])
    text = table(["", by, "launches", "time", "share", "mean"], lines, right=[0, 2, 3, 4, 5])
    return text + "\nto capture it:\n" + numbered_commands(commands)


def numbered_commands(commands: Sequence[str | None]) -> str:
    """One a line, by the numbers of the table."""
    width = len(str(len(commands)))
    return "".join(
        f"{number:>{width}}  {command or '(no selector of capture distinguishes these launches)'}\n"
        for number, command in enumerate(commands, 1)
    )


def _number(commands: Sequence[str | None]) -> str:
    return str(len(commands))


_NOTHING = {
    "range": "(outside of all ranges)",
    "graph": "(outside of all graphs)",
    "stream": "(no stream)",
    "device": "(the host)",
    "rank": "(no rank)",
    "configuration": "(not known)",
}


def configuration(row: Row) -> str:
    """Grid, block and options, if known."""
    record = row.record
    if record.rest:
        return "(all others)"
    parts = []
    if record.config:
        parts.append(record.config)
    for name, size in (("grid", record.grid), ("block", record.block)):
        if size is not None:
            parts.append(f"{name} {'x'.join(map(str, size))}")
    if record.shared_bytes:
        parts.append(f"shared {record.shared_bytes}")
    if record.route == "autotuner":
        parts.append("the autotuner's own")
    return ", ".join(parts)


def _key(row: Row, by: By, kernel: str) -> tuple[str, ...]:
    record = row.record
    if by == "range":
        return record.range or ("",)
    if by == "graph":
        return ("" if record.graph is None else f"graph {record.graph}",)
    if by == "stream":
        device = "" if record.device is None else f"device {record.device}, "
        stream = record.stream or ""
        known = stream if " " in stream else f"stream {stream}"
        return (f"{device}{known}" if stream else "",)
    if by == "device":
        return ("" if record.device is None else f"device {record.device}",)
    if by == "rank":
        return ("" if row.rank is None else f"rank {row.rank}",)
    return (kernel, configuration(row))


def _group(
    key: tuple[str, ...], inside: dict[int, list[Row]], result: CaptureResult, figures: Figures, by: By
) -> Group:
    leaves = []
    for number, rows in inside.items():
        kernel = figures.kernels[number]
        leaves.append(Leaf(kernel, Times.of(row.record for row in rows), _command(kernel, rows, result, by)))
    leaves.sort(key=lambda leaf: (-leaf.times.time_ns, -leaf.times.launches))
    times = Times.of(leaf.times for leaf in leaves)
    graph = next(iter(inside.values()))[0].record.graph
    if by != "graph" or graph is None:
        return Group(key, times, tuple(leaves))
    counted = result.listing.graphs[graph : graph + 1]
    note = "".join(f", launched {'once' if times == 1 else f'{times:,} times'}" for times in counted)
    return Group(key, times, tuple(leaves), note, range_command(result, ["--graph", str(graph)]))


def _command(kernel: Listed, rows: Sequence[Row], result: CaptureResult, by: By) -> str | None:
    """What captures the first launch of exactly these; no more selectors than that takes."""
    is_all = len(rows) == len(kernel.kernel.rows)
    selector = [] if is_all else _selector(rows[0], by, kernel.kernel.is_native)
    if by == "configuration" and not is_all and _chooses_others(kernel, rows):
        selector = None
    if by == "stream" and selector is None and len(_other_streams(kernel)) == 1:
        selector = ["--where", _ANOTHER_STREAM]
    return None if selector is None else capture_command(kernel.kernel, result, selector)


def _other_streams(kernel: Listed) -> set[tuple[int | None, int | None, str]]:
    """By rank, device and handle: those of the kernel's launches that are no default stream."""
    records = [(row.rank, row.record) for row in kernel.kernel.rows]
    return {
        (rank, record.device, record.stream)
        for rank, record in records
        if record.stream is not None and record.stream not in _DEFAULT_STREAMS
    }


def _selector(row: Row, by: By, is_native: bool) -> list[str] | None:
    record = row.record
    if by == "range":
        return ["--range", f"^{re.escape('/'.join(record.range))}$"]
    if by == "graph":
        return None if record.graph is None else ["--graph", str(record.graph)]
    if by == "rank":
        return None if row.rank is None else ["--rank", str(row.rank)]
    if by == "device" and record.device is not None:
        device = record.device if is_native else f"'cuda:{record.device}'"
        return ["--where", f"device == {device}"]
    if by == "stream":
        default = _DEFAULT_STREAMS.get(record.stream or "")
        return ["--where", default] if default is not None else None
    if by == "configuration":
        parts = _conditions(row, is_native)
        return ["--where", " and ".join(parts)] if parts else None
    return None


def _conditions(row: Row, is_native: bool) -> list[str]:
    """What ``--where`` can ask of a row's configuration; empty if its grid is not known."""
    record = row.record
    if record.rest or record.grid is None:
        return []
    names = [("grid", record.grid), ("block", record.block)] if is_native else [("grid", record.grid)]
    parts = [f"{name} == {tuple(size)}" for name, size in names if size is not None]
    parts += _of_options(record.config or "")
    if record.shared_bytes is not None and is_native:
        parts.append(f"shared == {record.shared_bytes}")
    return parts


@functools.lru_cache(maxsize=4096)
def _of_options(config: str) -> tuple[str, ...]:
    found = _OPTION.findall(config)
    return tuple(f"{name} == {plain}" if plain else f"{name} == '{dtype}'" for name, plain, dtype in found)


@functools.lru_cache(maxsize=4096)
def _set_of_options(config: str) -> frozenset[str]:
    return frozenset(_of_options(config))


def _chooses_others(kernel: Listed, rows: Sequence[Row]) -> bool:
    """Whether the conditions of these rows hold for another configuration too: it might be launched first."""
    if kernel.kernel.is_native:  # grid, block and shared memory are all of its configuration
        return False
    own, grid = {id(row) for row in rows}, rows[0].record.grid
    wanted = _set_of_options(rows[0].record.config or "")
    others = (row for row in kernel.kernel.rows if row.record.grid == grid and id(row) not in own)
    return any(wanted <= _set_of_options(row.record.config or "") for row in others)


def _order(found: Sequence[Group]) -> list[tuple[str, ...]]:
    """Every key and its parents, depth first, largest first on each level."""
    time_of: dict[tuple[str, ...], int] = {}
    for group in found:
        for length in range(1, len(group.key) + 1):
            key = group.key[:length]
            time_of[key] = time_of.get(key, 0) + group.times.time_ns
    return sorted(
        time_of,
        key=lambda key: [(-time_of[key[:length]], key[length - 1]) for length in range(1, len(key) + 1)],
    )


def _cells(times: Times, figures: Figures) -> list[str]:
    known = figures.device_ns and times.timed
    share = f"{100 * times.time_ns / figures.device_ns:.1f} %" if known else ""
    mean = log.duration(round(times.mean_ns)) if times.mean_ns is not None else ""
    return [f"{times.launches:,}", log.duration(times.time_ns) if times.timed else "not timed", share, mean]

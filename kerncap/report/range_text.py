"""Ranges as text: what a replay came to, launch by launch, and what flows between the launches."""

from __future__ import annotations

from typing import Any

from kerncap import log
from kerncap.report.tables import table

_SHOWN_REASONS = 12
_MOST_NAME = 60
_MOST_FUSED = 4


def render(result: Any) -> str:
    """All lines of a `RangeResult`; the last one is ``Result: PASS …``, ``FAIL …`` or ``UNDECIDED …``."""
    lines = [f"{result.launches} launches: {result.engine} on {log.one_line(result.device)}"]
    rows = [
        [
            str(step.number),
            log.one_line(step.kernel, _MOST_NAME),
            f"{step.compared_bytes:,}",
            f"{step.poisoned_bytes:,}",
            _result(step),
        ]
        for step in result.steps
    ]
    titles = ["launch", "kernel", "bytes changed", "poisoned before", "result"]
    lines.append(table(titles, rows, right=[0, 2, 3]).rstrip("\n"))
    if left := result.launches - len(result.steps):
        lines.append(f"not run: the last {left} launches")
    lines += [f"note: {log.one_line(note)}" for note in [*result.notes, *result.verdict.notes]]
    if not result.passed:
        reasons = result.verdict.reasons
        lines += [f"- {log.one_line(reason)}" for reason in reasons[:_SHOWN_REASONS]]
        if len(reasons) > _SHOWN_REASONS:
            lines.append(f"- and {len(reasons) - _SHOWN_REASONS} more")
    return "\n".join([*lines, log.one_line(result.verdict.line)])


def _result(step: Any) -> str:
    if step.verdict is None:
        return "not run"
    if step.verdict.passed:
        return log.one_line(step.verdict.summary)
    return "differs" if step.verdict.answer.value == "fail" else "undecided"


def render_inspect(document: dict[str, Any]) -> str:
    """The document of a range's ``inspect`` for a person."""
    launches = document["launches"]
    rows = [
        [
            str(each["launch"]),
            str(each["position"]),
            log.one_line(each["kernel"], _MOST_NAME),
            "x".join(map(str, each["grid"])),
            f"{each['written']:,}{'' if each['is_measured'] else ' or more'}",
            f"{each['read_inside']:,}",
            f"{each['overwritten']:,}",
            f"{each['from_outside']:,}",
        ]
        for each in launches
    ]
    titles = [
        "launch", "in the program", "kernel", "grid", "writes", "of it read inside", "overwritten",
        "reads from outside",
    ]  # fmt: skip
    if len({each["stream"] for each in launches}) > 1:
        titles.append("stream")
        rows = [
            [*row, log.one_line(each["stream"], _MOST_NAME)] for row, each in zip(rows, launches, strict=True)
        ]
    lines = [
        f"a range of {len(launches)} launches on {log.one_line(document['device'])}",
        f"program   {log.one_line(' '.join(document['command']), 200)}",
        f"memory    {log.size(document['memory_bytes'])} stored; digests: {document['digests']}",
        "",
        table(titles, rows, right=[0, 1, 4, 5, 6, 7]).rstrip("\n"),
        "bytes; what is overwritten is gone before the range ends",
        "",
    ]
    for flow in document["flows"]:
        names = [log.one_line(launches[flow[end]]["kernel"], _MOST_NAME) for end in ("from", "to")]
        said = {True: "", False: "; not ordered", None: "; order not known"}[flow["ordered"]]
        lines.append(
            f"{flow['from']} -> {flow['to']}: {flow['bytes']:,} bytes ({names[0]} to {names[1]}){said}"
        )
    for each in launches:
        if each["changed_before"]:
            number, regions = each["launch"], each["changed_before_regions"]
            lines.append(
                f"changed between launches {number - 1} and {number} by something outside the range: "
                f"{log.counted(regions, 'region')}, {each['changed_before']:,} bytes"
            )
    if not all(each["is_measured"] for each in launches):
        lines.append("what some launches write was not measured: a replay measures it")
    lines += [
        f"missing: launch {each['position']} of the program: {log.one_line(each['reason'])}"
        for each in document["missing"]
    ]
    lines += [f"note: {log.one_line(note)}" for note in document["notes"]]
    return "\n".join(lines) + "\n"


def render_limits(found: Any) -> str:
    """What fusing launches saves: a `RangeLimits`."""
    rows = [_fusion_row(one) for one in (found.whole, *found.pairs)]
    titles = ["fused", "bytes now", "bytes saved", "at most", "launches saved", "ms now", "ms at best"]
    if found.device is None:
        rows, titles = [row[:5] for row in rows], titles[:5]
    lines = [
        table(titles, rows, right=list(range(1, len(titles)))).rstrip("\n"),
        "bytes read and written; at most: if nothing after the range needs what flows between them",
    ]
    if found.device is None:
        lines.append("times need the ceilings of a device: --ceilings FILE|NAME")
    else:
        lines.append(f"times: the traffic at the bandwidth of {log.one_line(found.device)}")
        if found.launch_us is not None:
            lines.append(f"an empty launch takes {found.launch_us:.1f} us there")
    return "\n".join([*lines, *(f"note: {log.one_line(note)}" for note in found.notes)])


def _fusion_row(one: Any) -> list[str]:
    names = ", ".join(one.kernels[:_MOST_FUSED]) + (", …" if len(one.kernels) > _MOST_FUSED else "")
    times = ["" if ms is None else f"{ms:.4g}" for ms in (one.traffic_ms, one.fused_ms)]
    saved = one.saved_reads + one.saved_writes
    return [
        f"{one.first} to {one.last} ({log.one_line(names, _MOST_NAME)})",
        f"{one.reads + one.writes:,}", f"{saved:,}", f"{saved + one.more_writes:,}", f"{one.saved_launches}",
        *times,
    ]  # fmt: skip

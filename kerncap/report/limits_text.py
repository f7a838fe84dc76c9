"""How far from the limit, in words and one small table."""

from __future__ import annotations

from kerncap.log import one_line
from kerncap.replay.limits.binding_floor import NEAR, Bound, LimitReport
from kerncap.replay.limits.launch_work import Work
from kerncap.report.tables import table
from kerncap.report.verdict_text import milliseconds

_OPERATIONS = ("fp32", "fp64", "fp16", "bf16", "special", "integer", "comparison", "conversion")
_ADVICE = {
    "DRAM": "as long as it moves these bytes",
    "L2": "as long as it asks the cache for these bytes",
    "launch": "as long as it is a separate launch",
}
_SHOWN_TENSORS = 8


def render(report: LimitReport) -> str:
    """All lines of a report."""
    times = report.times
    shown = [
        f"{name} {milliseconds(value)}"
        for name, value in (
            ("warm cache", times.warm_ms),
            ("cold cache", times.cold_ms),
            ("timed", times.median_ms),
        )
        if value is not None
    ]
    where = f"{report.engine} on {report.device}" if shown else "counted, not run"
    lines = [f"{one_line(report.kernel)}: {'; '.join([where, *shown])}"]
    lines += _work(report.counted)
    if report.counters is not None:
        lines += _counters(report)
    lines += [f"note: {one_line(note)}" for note in (*report.notes, *report.counted.notes)]
    if report.bounds and report.latency_ms is None:
        lines += ["", _table(report).rstrip("\n")]
    if report.ceilings is not None:
        lines += ["", _source(report)]
    lines.append(_verdict(report))
    return "\n".join(lines)


def quantity(value: float, unit: str = "") -> str:
    """A number for people: ``4.02 T``, ``67.1 M``; ``unit`` is put behind it."""
    for factor, prefix in ((1e15, "P"), (1e12, "T"), (1e9, "G"), (1e6, "M"), (1e3, "k")):
        if abs(value) >= factor:
            return f"{value / factor:.3g} {prefix}{unit}"
    return f"{value:.3g} {unit}".rstrip()


def percent(value: float | None) -> str:
    return "-" if value is None else f"{100 * value:.0f} %" if value >= 0.01 else f"{100 * value:.2g} %"


# --- the parts ---------------------------------------------------------------------------------------


def _work(work: Work) -> list[str]:
    at_most = "" if work.exact else "at most "
    parts = []
    for name, one in (("read", work.read), ("written", work.written)):
        if one is not None and one.unique_bytes:
            parts.append(f"{at_most}{quantity(one.unique_bytes, 'B')} {name}")
    line = f"bytes ({work.source}): {', '.join(parts) or 'none'}"
    if work.l2_bytes:
        line += f"; all programs together ask the cache for {at_most}{quantity(work.l2_bytes, 'B')}"
    if work.dram_bytes and work.l2_bytes > 1.5 * work.dram_bytes:
        line += f", {work.l2_bytes / work.dram_bytes:.3g} times that"
    lines = [line]
    if work.tensors:
        told = [f"{one_line(n)} {_moved(r, w)}" for n, r, w in work.tensors[:_SHOWN_TENSORS]]
        more = len(work.tensors) - _SHOWN_TENSORS
        lines.append(f"  of {'; '.join(told)}" + (f"; and {more} more" if more > 0 else ""))
    tensor = [kind for kind in work.operations if kind.startswith("tensor ")]
    told = [
        f"{quantity(work.operations[kind])} {kind}"
        for kind in (*tensor, *_OPERATIONS)
        if kind in work.operations
    ]
    if told:
        line = f"operations: {', '.join(told)}"
        if work.intensity is not None:
            line += f"; {work.intensity:.3g} flop per byte"
        lines.append(line)
    if work.lanes and work.masked_lanes:
        lines.append(
            f"masks: {percent(work.masked_lanes / work.lanes)} of the lanes of loads and stores are off"
        )
    if work.atomics:
        lines.append(f"atomics: {quantity(work.atomics)} elements, each read and written")
    if work.contents and work.source == "TTIR":
        lines.append("for these contents: addresses or branches depend on the contents of memory")
    return lines


def _moved(read: int, written: int) -> str:
    parts = [f"{quantity(read, 'B')} read"] if read else []
    parts += [f"{quantity(written, 'B')} written"] if written else []
    return " and ".join(parts)


def _counters(report: LimitReport) -> list[str]:
    work, counted = report.counters, report.counted
    assert work is not None and work.read is not None and work.written is not None
    line = (
        f"bytes (ncu): {quantity(work.read.unique_bytes, 'B')} from memory, "
        f"{quantity(work.written.unique_bytes, 'B')} to it, {quantity(work.l2_bytes, 'B')} through the cache"
    )
    if counted.exact and counted.dram_bytes and work.dram_bytes > 1.05 * counted.dram_bytes:
        line += f"; {work.dram_bytes / counted.dram_bytes:.3g} times what has to be moved"
    lines = [line]
    told = [
        f"{name} {value:.3g} %" for name, value in report.counter_metrics.items() if "pct_of_peak" in name
    ]
    if told:
        lines.append(f"ncu: {', '.join(told)}")
    return lines


def _table(report: LimitReport) -> str:
    warm, cold = report.times.warm_ms or report.times.median_ms, report.times.cold_ms
    headers = ["limit", "needs", "ceiling", "at least", "warm", "cold", "of its peak"]
    rows = []
    for one in report.bounds:
        floor = one.cold_floor_ms if one.cold_floor_ms is not None else one.warm_floor_ms
        shares = (one.fraction("warm", warm), one.fraction("cold", cold), one.fraction_of_peak(cold or warm))
        rows.append([
            one.name, _amount(one), _rate(one, report), "-" if floor is None else milliseconds(floor),
            *(percent(share) for share in shares),
        ])  # fmt: skip
    if not (warm or cold):
        headers, rows = headers[:4], [row[:4] for row in rows]
    return table(headers, rows, right=range(1, len(headers)))


def _amount(bound: Bound) -> str:
    if bound.unit == "launch":
        return "1"
    return quantity(bound.amount, "B" if bound.unit == "bytes" else "op")


def _rate(bound: Bound, report: LimitReport) -> str:
    if bound.unit == "launch":
        return ""
    if bound.measured is None:
        return f"not {_origin(report)}"
    return quantity(bound.measured, "B/s" if bound.unit == "bytes" else "op/s")


def _source(report: LimitReport) -> str:
    device = report.ceilings
    assert device is not None
    if device.origin == "published":
        units = f"{device.sm_count} compute units at {device.clock_khz // 1000:,} MHz"
        return f"ceilings: published for the {device.device} ({units}), not measured"
    at = f", {device.measured_at}" if device.measured_at else ""
    return f"ceilings: measured on {device.device}, CUDA driver {device.driver}{at}"


def _origin(report: LimitReport) -> str:
    return "measured" if report.ceilings is None else report.ceilings.origin


def _verdict(report: LimitReport) -> str:
    bound, head, achieved = report.binding, report.times.headline, report.achieved
    if bound is None:
        return "Limit: not known: no ceiling was measured" if report.ceilings is None else "Limit: not known"
    if head is None:
        floor = bound.floor_ms("cold") or 0.0
        return f"Limit: {_limit(bound)}; this work takes no less than {milliseconds(floor)} on that device"
    state, time_ms = head
    took = f"{milliseconds(time_ms)} ({state})"
    if report.too_fast is not None:
        below, least_ms = report.too_fast
        origin = _origin(report)
        too_low = ", or the ceiling was measured too low" if origin == "measured" else ""
        again = ", or measure again with --measure-again" if origin == "measured" else ""
        return (
            f"Limit: suspicious: {took} is less than the {milliseconds(least_ms)} that the {origin} "
            f"{_limit(below)} permits: not all of this work is done{too_low}; verify it{again}"
        )
    if report.latency_ms is not None:
        empty = milliseconds(report.latency_ms)
        return f"Limit: latency-bound: {empty} of {took} are what an empty launch takes here"
    if achieved is None:
        return (
            f"Limit: not known: {took} is less than all of the counted work takes by {_limit(bound)}: "
            "part of it was saved by a cache, or was counted as an upper bound"
        )
    least = "at least " if bound.fraction(state, time_ms) is None else ""
    line = f"Limit: {_limit(bound)}: {least}{percent(achieved)} of it is reached "
    line += f"({state}, {milliseconds(time_ms)})"
    if achieved < NEAR:
        line += "; nothing is near its limit: look at latency, at the grid, at work that is not counted here"
    headroom = report.headroom
    if headroom is None:
        return line
    if headroom < 1.02:
        return line + "; it is as fast as this device allows"
    advice = _ADVICE.get(bound.name, "as long as it does these operations")
    return line + f"; at most {headroom:.3g}x faster here, {advice}"


def _limit(bound: Bound) -> str:
    if bound.name in ("DRAM", "L2"):
        return f"{bound.name} bandwidth"
    return "the launch itself" if bound.unit == "launch" else f"{bound.name} throughput"

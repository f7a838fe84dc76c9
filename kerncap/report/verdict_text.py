"""A verdict as text: what ran where, what differs, and the one line to look for."""

from __future__ import annotations

from typing import Any

from kerncap.log import one_line

_SHOWN_REASONS = 12
_SHOWN_TRACEBACK = 30  # lines
_SHOWN_RATE = 100  # replays: of fewer the rate says little


def render(result: Any) -> str:
    """All lines of a `ReplayResult`; the last one is ``Result: PASS …``, ``FAIL …`` or ``UNDECIDED …``."""
    where = f"{result.engine} on {result.device}, {result.software}" if result.engine != "none" else "not run"
    lines = [f"{one_line(result.kernel)}: {where}; judged by {result.judged_by}"]
    for note in [*result.notes, *result.verdict.notes]:
        text = note.strip().split("\n")
        if len(text) > 1:  # a traceback
            lines += ["", *(f"  {line}" for line in text[-_SHOWN_TRACEBACK:]), ""]
        else:
            lines.append(f"note: {one_line(note)}")
    if result.timing is not None:
        t = result.timing
        spread = f"{milliseconds(t.low_ms)} to {milliseconds(t.high_ms)}"
        line = f"time: median {milliseconds(t.median_ms)}, {spread} in {t.runs:,} runs ({t.clock})"
        for name, value in (("warm cache", t.warm_ms), ("cold cache", t.cold_ms)):
            if value is not None:
                line += f"; {name} {milliseconds(value)}"
        lines.append(line)
        if t.replays_per_s is not None and t.runs >= _SHOWN_RATE:
            lines.append(f"rate: {t.replays_per_s:,.0f} replays a second, restoring included")
    if result.different is not None:
        lines.append(f"runs: {result.different:,} of {result.runs:,} differ")
    elif result.runs > 1:
        lines.append(f"runs: {result.runs}")
    lines += _stages(result)
    if not result.passed:
        reasons = result.verdict.reasons
        lines += [f"- {one_line(reason)}" for reason in reasons[:_SHOWN_REASONS]]
        if len(reasons) > _SHOWN_REASONS:
            lines.append(f"- and {len(reasons) - _SHOWN_REASONS} more")
    lines.append(one_line(result.verdict.line))
    return "\n".join(lines)


def render_one_of_many(judged: Any) -> str:
    """The one line of a `Judged` reproducer."""
    said = f"not judged ({judged.error})" if judged.result is None else judged.result.verdict.line
    return one_line(f"{judged.path}: {said.removeprefix('Result: ')}")


def _stages(result: Any) -> list[str]:
    """One line for each stage of a verify, then what it showed and what it did not."""
    lines = []
    for stage in getattr(result, "stages", ()):
        open_ = stage.result in ("skipped", "undecided")
        why = f": {one_line(stage.reasons[0])}" if open_ and stage.reasons else ""
        lines.append(f"{stage.name}: {stage.result}{why}")
        lines += [f"  shown: {one_line(text)}" for text in stage.shown]
        if stage.result != "skipped":
            lines += [f"  not shown: {one_line(text)}" for text in stage.not_shown]
    return lines


def milliseconds(value: float) -> str:
    """A time for people: ``12.4 us``, ``3.1 ms``, ``2.5 s``."""
    if value < 1:
        return f"{value * 1000:.3g} us"
    return f"{value:.3g} ms" if value < 1000 else f"{value / 1000:.3g} s"

"""A tuning result as one HTML file: every trial as a point, no script, no network, for light and dark."""

from __future__ import annotations

import html
import math
from typing import Any

from kerncap.report.verdict_text import milliseconds

_WIDTH, _HEIGHT = 860, 320
_LEFT, _RIGHT, _TOP, _BOTTOM = 76, 16, 16, 36
_STYLE = """
:root { color-scheme: light dark; --ink: #1c2430; --soft: #66707c; --line: #d5dbe1; --back: #ffffff;
  --timed: #1f6fb2; --slow: #9aa7b3; --bad: #c0392b; --best: #1a8f4c; }
@media (prefers-color-scheme: dark) { :root { --ink: #e4e8ec; --soft: #97a3af; --line: #36404a;
  --back: #14181d; --timed: #63b0ec; --slow: #66717c; --bad: #f0776a; --best: #55cf8c; } }
body { font: 15px/1.5 system-ui, sans-serif; color: var(--ink); background: var(--back); margin: 2rem auto;
  max-width: 900px; padding: 0 1rem; }
h1 { font-size: 1.3rem; } h2 { font-size: 1.05rem; margin-top: 2rem; }
table { border-collapse: collapse; font-variant-numeric: tabular-nums; }
.wide { overflow-x: auto; }
td, th { padding: 0.15rem 0.7rem; border-bottom: 1px solid var(--line); text-align: right; }
td, th { white-space: nowrap; }
td.text, th.text { text-align: left; } tr.best td { color: var(--best); font-weight: 600; }
pre { overflow-x: auto; border: 1px solid var(--line); padding: 0.7rem; }
svg { width: 100%; height: auto; } svg text { fill: var(--soft); font-size: 11px; }
.axis { stroke: var(--line); } .timed { fill: var(--timed); } .slow { fill: var(--slow); }
.wrong, .failed, .lost { fill: none; stroke: var(--bad); stroke-width: 1.6; } .best { fill: var(--best); }
.captured { stroke: var(--soft); stroke-dasharray: 4 4; } .front { fill: none; stroke: var(--best); }
p.note { color: var(--soft); }
"""


def render(result: Any) -> str:
    """The whole page of a `TuneResult`."""
    facts = result.facts
    where = f"{facts['engine']} on {facts['device']}"
    parts = [
        "<!doctype html>", '<html lang="en"><head><meta charset="utf-8">',
        '<meta name="viewport" content="width=device-width, initial-scale=1">',
        f"<title>{_e(result.kernel)}: tuned</title><style>{_STYLE}</style></head><body>",
        f"<h1>{_e(result.kernel)}</h1>",
        f"<p>{_e(where)}; {result.legal.size:,} configurations, "
        f"{len(result.found.trials):,} tried in {result.found.seconds:.1f} s ({_e(result.sampler)}); "
        f"ended: {_e(result.found.ended)}</p>",
    ]  # fmt: skip
    for shape in result.shapes:
        trials = [by[shape.digest] for by in result.found.trials.values() if shape.digest in by]
        best = result.best_of(shape.digest)
        parts.append(f"<h2>{_e(shape.label)}</h2>")
        parts.append(_plot(trials, shape, best))
        if best is not None:
            text = " ".join(f"{k}={v}" for k, v in best.point.items())
            line = f"{_e(text)}: {milliseconds(best.ms)}"
            if best.speedup is not None:
                s = best.speedup
                line += f", {s.median:.3f}x as fast as captured (95 %: {s.low:.3f} to {s.high:.3f})"
            parts.append(f"<p>{line}</p>")
        parts.append(_table(trials, result, best))
    if result.decorator:
        parts.append(f"<h2>Ready to paste</h2><pre>{_e(result.decorator)}</pre>")
    if result.patch.text:
        parts.append(f"<h2>Patch</h2><pre>{_e(result.patch.text)}</pre>")
    parts += [f'<p class="note">{_e(note)}</p>' for note in dict.fromkeys(result.notes)]
    pinned = [f"<li>{_e(name)}: {_e(why)}</li>" for name, why in result.pinned.items()]
    if pinned:
        parts.append(f"<h2>Not tuned</h2><ul>{''.join(pinned)}</ul>")
    return "\n".join([*parts, "</body></html>", ""])


def _plot(trials: list[Any], shape: Any, best: Any) -> str:
    """Time by trial, logarithmic; the best so far as a line, the captured time dashed."""
    measured = [(number, trial) for number, trial in enumerate(trials) if trial.ms]
    times = [trial.ms for _, trial in measured] + ([shape.original_ms] if shape.original_ms else [])
    if not times:
        return "<p>nothing was timed</p>"
    low, high = math.log(min(times) * 0.95), math.log(max(times) * 1.05)

    def x(number: int) -> float:
        return _LEFT + (_WIDTH - _LEFT - _RIGHT) * (number + 0.5) / max(1, len(trials))

    def y(ms: float) -> float:
        return _TOP + (_HEIGHT - _TOP - _BOTTOM) * (high - math.log(ms)) / max(1e-9, high - low)

    bottom = _HEIGHT - _BOTTOM
    parts = [
        f'<svg viewBox="0 0 {_WIDTH} {_HEIGHT}" role="img" aria-label="time of each trial">',
        f'<line class="axis" x1="{_LEFT}" x2="{_WIDTH - _RIGHT}" y1="{bottom}" y2="{bottom}"/>',
    ]
    for step in range(5):
        ms = math.exp(low + (high - low) * step / 4)
        parts.append(
            f'<line class="axis" x1="{_LEFT}" x2="{_WIDTH - _RIGHT}" y1="{y(ms):.1f}" y2="{y(ms):.1f}"/>'
        )
        parts.append(f'<text x="{_LEFT - 8}" y="{y(ms) + 4:.1f}" text-anchor="end">{milliseconds(ms)}</text>')
    captured = y(shape.original_ms)
    parts.append(
        f'<line class="captured" x1="{_LEFT}" x2="{_WIDTH - _RIGHT}" '
        f'y1="{captured:.1f}" y2="{captured:.1f}"/>'
        f'<text x="{_WIDTH - _RIGHT}" y="{captured - 4:.1f}" text-anchor="end">as captured</text>'
    )
    front: list[str] = []
    least = math.inf
    for number, trial in measured:
        if trial.state == "timed" and trial.ms < least:
            if front:
                front.append(f"{x(number):.1f},{y(least):.1f}")
            least = trial.ms
            front.append(f"{x(number):.1f},{y(least):.1f}")
    if front:
        front.append(f"{_WIDTH - _RIGHT},{y(least):.1f}")
        parts.append(f'<polyline class="front" points="{" ".join(front)}"/>')
    for number, trial in enumerate(trials):
        title = " ".join(f"{k}={v}" for k, v in trial.point.items())
        if trial.ms:
            is_best = best is not None and dict(best.point) == dict(trial.point)
            kind, radius = ("best", 6) if is_best else (trial.state, 4)
            title += f": {milliseconds(trial.ms)}"
            height = y(trial.ms)
        elif trial.state in ("wrong", "failed", "lost"):
            kind, radius, height = trial.state, 4, bottom - 8.0
            title += f": {trial.state}: {trial.reason}"
        else:
            continue
        parts.append(
            f'<circle class="{kind}" cx="{x(number):.1f}" cy="{height:.1f}" r="{radius}">'
            f"<title>{_e(title)}</title></circle>"
        )
    parts.append(f'<text x="{_LEFT}" y="{_HEIGHT - 12}">trials in the order in which they ended</text></svg>')
    return "\n".join(parts)


def _table(trials: list[Any], result: Any, best: Any) -> str:
    names = [parameter.name for parameter in result.parameters]
    names += sorted({name for trial in trials for name in trial.point} - set(names))
    head = "".join(f"<th>{_e(name)}</th>" for name in names)
    rows = []
    ranked = sorted(trials, key=lambda t: (t.state != "timed", t.ms is None, t.ms or 0.0))
    for trial in ranked:
        cells = "".join(f"<td>{_e(trial.point.get(name, ''))}</td>" for name in names)
        time = milliseconds(trial.ms) if trial.ms else ""
        is_best = best is not None and dict(best.point) == dict(trial.point)
        rows.append(
            f"<tr{' class=best' if is_best else ''}>{cells}<td>{time}</td><td>{_number(trial.registers)}</td>"
            f"<td>{_number(trial.spilled_bytes)}</td><td>{_number(trial.shared_bytes)}</td>"
            f'<td class="text">{_e(trial.state)}</td><td class="text">{_e(trial.reason)}</td></tr>'
        )
    return (
        f'<details><summary>All {len(trials):,} trials</summary><div class="wide"><table><tr>{head}'
        "<th>time</th><th>registers</th><th>spilled</th><th>shared</th>"
        '<th class="text">state</th><th class="text">why</th>'
        f"</tr>{''.join(rows)}</table></div></details>"
    )


def _number(value: Any) -> str:
    return "" if value is None else f"{value:,}"


def _e(value: Any) -> str:
    return html.escape(str(value))

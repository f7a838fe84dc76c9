"""A tuning result for the terminal: a table of configurations, the choice, code that is ready to paste."""

from __future__ import annotations

import io
import math
import shutil
from typing import Any

from kerncap.answer import Answer
from kerncap.log import counted, one_line
from kerncap.report.verdict_text import milliseconds
from kerncap.result_line import result_line

_SHOWN = 12
_COLUMNS = 8  # of parameters: launches of a range have many
_SHOWN_REASONS = 6


def render(result: Any) -> str:
    """All lines of a `TuneResult`; the last is ``Result: PASS …``, ``FAIL …`` or ``UNDECIDED …``."""
    facts = result.facts
    many = f", {facts['workers']} workers" if facts["workers"] > 1 else ""
    lines = [
        f"{one_line(result.kernel)}: {facts['engine']} on {facts['device']}, Triton {facts['triton']}{many}"
        if facts["triton"]
        else f"{one_line(result.kernel)}: {facts['engine']} on {facts['device']}{many}",
        *_space(result),
        "",
        _table(result),
    ]
    lines += _refused(result)
    lines += _choice(result)
    lines += [f"note: {one_line(note)}" for note in dict.fromkeys(result.notes)]
    lines.append(_last(result))
    return "\n".join(lines)


def _space(result: Any) -> list[str]:
    what = result.legal.counted + ("" if result.legal.exact else " before constraints, sampled")
    named = ", ".join(f"{p.name} {_values(p.values)}" for p in result.parameters)
    lines = [f"space: {what}: {one_line(named, 1000)}"]
    lines += [f"  not tuned: {one_line(name)} ({one_line(why)})" for name, why in result.pinned.items()]
    states = result.states
    order = ("timed", "slow", "wrong", "failed", "pruned", "lost")
    counted = ", ".join(f"{states[state]} {state}" for state in order if states[state])
    resumed = f", {result.found.resumed} from before" if result.found.resumed else ""
    lines.append(
        f"trials: {counted or 'none'}{resumed} ({result.sampler}, {result.found.seconds:.1f} s); "
        f"ended: {result.found.ended}"
    )
    return lines


def _values(values: Any) -> str:
    shown = [str(value) for value in values[:8]]
    return "/".join(shown) + ("/…" if len(values) > 8 else "")


def _table(result: Any) -> str:
    """The fastest configurations by the mean over all launches, a column of times for each launch."""
    from rich.box import SIMPLE_HEAD
    from rich.console import Console
    from rich.table import Table

    table = Table(box=SIMPLE_HEAD, pad_edge=False)
    names = [parameter.name for parameter in result.parameters]
    names += sorted({name for trial in result.found.all() for name in trial.point} - set(names))
    rows = _ranked(result)[:_SHOWN]
    if len(names) > _COLUMNS:
        shown = [next(iter(by_digest.values())).point for by_digest in rows]
        names = [name for name in names if len({_cell(point.get(name)) for point in shown}) > 1][:_COLUMNS]
    for name in names:
        table.add_column(name, justify="right")
    for shape in result.shapes:
        table.add_column(shape.label, justify="right")
    table.add_column("regs", justify="right")
    table.add_column("shared", justify="right")
    table.add_column("")
    captured = result.shapes[0].captured
    table.add_row(
        *[_cell(captured.get(name)) for name in names],
        *[milliseconds(shape.original_ms) for shape in result.shapes],
        "", "", "as captured", style="dim",
    )  # fmt: skip
    for by_digest in rows:
        first = next(iter(by_digest.values()))
        cells = []
        for shape in result.shapes:
            trial = by_digest.get(shape.digest)
            cells.append(_time(trial, result, shape))
        table.add_row(
            *[_cell(first.point.get(name)) for name in names], *cells,
            _cell(first.registers), _cell(first.shared_bytes), _mark(result, first.point),
        )  # fmt: skip
    text = io.StringIO()
    width = max(100, shutil.get_terminal_size((120, 24)).columns)
    Console(file=text, width=width, color_system=None, highlight=False).print(table)
    return "\n".join(line.rstrip() for line in text.getvalue().split("\n")).strip("\n")


def _ranked(result: Any) -> list[Any]:
    found = []
    for by_digest in result.found.trials.values():
        times = [t.ms for t in by_digest.values() if t.state in ("timed", "slow") and t.ms is not None]
        if times and any(t.state == "timed" for t in by_digest.values()):
            missing = len(result.shapes) - len(times)
            found.append((missing, sum(math.log(ms) for ms in times) / len(times), by_digest))
    return [each for _, _, each in sorted(found, key=lambda item: item[:2])]


def _time(trial: Any, result: Any, shape: Any) -> str:
    if trial is None:
        return "-"
    best = result.best_of(shape.digest)
    if trial.state == "timed" and best is not None and dict(best.point) == dict(trial.point):
        return f"*{milliseconds(trial.ms)}"
    if trial.ms is None:
        return str(trial.state)
    return f">{milliseconds(trial.ms)}" if trial.state == "slow" else milliseconds(trial.ms)


def _mark(result: Any, point: Any) -> str:
    marks = []
    if any(dict(each) == dict(point) for each in result.choice.selected):
        marks.append("selected")
    robust = result.choice.robust
    if robust is not None and len(result.shapes) > 1 and dict(robust.point) == dict(point):
        marks.append("robust")
    return ", ".join(marks)


def _cell(value: Any) -> str:
    return (
        "-" if value is None else f"{value:,}" if isinstance(value, int) and value >= 10_000 else str(value)
    )


def _refused(result: Any) -> list[str]:
    """Wrong, failed and pruned configurations, one of each reason."""
    lines = []
    seen: dict[str, int] = {}
    for trial in result.found.all():
        if trial.state in ("wrong", "failed", "lost"):
            text = " ".join(f"{k}={v}" for k, v in trial.point.items())
            lines.append(f"{trial.state}: {text}: {one_line(trial.reason)}")
        elif trial.state == "pruned":
            seen[trial.reason] = seen.get(trial.reason, 0) + 1
    more = len(lines) - _SHOWN_REASONS
    lines = lines[:_SHOWN_REASONS] + ([f"and {more} more that are wrong or failed"] if more > 0 else [])
    common = sorted(seen.items(), key=lambda item: -item[1])[:_SHOWN_REASONS]
    return lines + [f"pruned {count}: {one_line(reason)}" for reason, count in common]


def _choice(result: Any) -> list[str]:
    choice = result.choice
    lines = []
    for shape in result.shapes:
        best = result.best_of(shape.digest)
        if best is None:
            continue
        text = " ".join(f"{name}={value}" for name, value in best.point.items())
        line = f"best for {one_line(shape.label)}: {one_line(text)}: {milliseconds(best.ms)}"
        if best.speedup is not None:
            s = best.speedup
            line += f", {s.median:.3f}x as fast as captured (95 %: {s.low:.3f} to {s.high:.3f})"
        lines.append(line)
    if choice.robust is not None and len(result.shapes) > 1:
        text = " ".join(f"{name}={value}" for name, value in choice.robust.point.items())
        lines.append(
            f"one for all: {one_line(text)}: {choice.robust.mean:.3f}x the best times on average, "
            f"{choice.robust.worst:.3f}x at most"
        )
    if result.decorator:
        lines += ["", result.decorator.rstrip(), ""]
    if result.patch.text:
        lines += [result.patch.text.rstrip(), "", f"patch: {result.patch_path}"]
    if result.patch.note:
        lines.append(f"note: {result.patch.note}")
    return lines


def _last(result: Any) -> str:
    if result.answer is Answer.NO:
        return result_line(result.answer, "no configuration gives the right result on every launch")
    if result.answer is Answer.UNDECIDED:
        count = sum(result.states.values())
        why = f"none of {count:,} trials gave the right result on every launch; other configurations may"
        return result_line(result.answer, why)
    speedups = [b.speedup.median for b in result.choice.best if b.speedup is not None]
    count = len(result.choice.selected)
    what = f"{counted(count, 'configuration')} within 3 % of the best"
    if not speedups:
        return result_line(result.answer, what)
    mean = math.exp(sum(math.log(each) for each in speedups) / len(speedups))
    return result_line(result.answer, f"{what}, {mean:.2f}x as fast as captured")

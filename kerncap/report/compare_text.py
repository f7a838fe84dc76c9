"""A comparison of variants as text: a row for each, what they were compiled to, the result."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from kerncap.answer import Answer
from kerncap.log import one_line
from kerncap.report.tables import table
from kerncap.report.verdict_text import milliseconds
from kerncap.result_line import result_line

_SHOWN_LINES = 30  # of the diff of a stage
_SHOWN_OPCODES = 12
_SHOWN_REASONS = 6
_SHOWN_DETAIL = 30
_NONE = "-"


def render(result: Any) -> str:
    """All lines of a `CompareResult`; the last one is ``Result: PASS …`` or ``Result: FAIL …``."""
    software = f", Triton {result.triton}" if result.triton else ""
    where = f"{result.engine} on {result.device}{software}"
    lines = [f"{one_line(result.kernel)}: {where}, by {one_line(result.python)}"]
    lines += [f"note: {one_line(note)}" for note in result.notes]
    lines += ["", *_rows(result).rstrip("\n").split("\n")]
    for variant in result.variants:
        lines += _problems(variant)
    for difference in result.differences:
        if difference.stages or difference.missing:
            lines += ["", *_difference(difference)]
    lines += ["", one_line(_last(result))]
    return "\n".join(lines)


def _rows(result: Any) -> str:
    base = result.variants[0].name
    headers = (
        "variant", "result", "time", f"of {base}", "registers", "spilled", "shared", "occupancy", "warps",
        "stages",
    )  # fmt: skip
    rows = [
        (
            variant.name, _result(variant), _time(variant), _ratio(variant, base),
            _number(c.registers), _bytes(c.spilled_bytes), _bytes(c.shared_bytes),
            _NONE if c.occupancy is None else f"{100 * c.occupancy:.0f} %", _number(c.num_warps),
            _number(c.num_stages),
        )
        for variant in result.variants
        for c in (variant.compiled,)
    ]  # fmt: skip
    return table(headers, rows, right=range(4, len(headers)))


def _result(variant: Any) -> str:
    if variant.verdict is None:
        return "untested"
    return str(variant.answer.word)


def _time(variant: Any) -> str:
    if not variant.times_ms:
        return _NONE
    times = sorted(variant.times_ms)
    return str(milliseconds(times[len(times) // 2]))


def _ratio(variant: Any, base: str) -> str:
    if variant.name == base and variant.times_ms:
        return "1"
    if variant.ratio is None:
        return _NONE
    r = variant.ratio
    return f"{r.median:.3f} ({r.low:.3f} to {r.high:.3f})"


def _number(value: int | None) -> str:
    return _NONE if value is None else f"{value:,}"


def _bytes(value: int | None) -> str:
    return _NONE if value is None else f"{value:,} B"


def _problems(variant: Any) -> list[str]:
    if variant.problem:
        detail = variant.detail.strip().split("\n")[-_SHOWN_DETAIL:]
        return ["", f"{variant.name}: {one_line(variant.problem)}", *(f"  {one_line(d)}" for d in detail)]
    if variant.passed:
        return []
    reasons = variant.verdict.reasons or [variant.verdict.summary]
    return ["", f"{variant.name}:", *(f"- {one_line(reason)}" for reason in reasons[:_SHOWN_REASONS])]


def _difference(difference: Any) -> list[str]:
    lines = [f"{difference.before} -> {difference.after}"]
    for stage in difference.stages:
        lines.append(f"  {stage.stage.upper():<6}{_summary(stage)}")
        shown = stage.diff[:_SHOWN_LINES]
        lines += [f"    {one_line(line)}" for line in shown]
        if stage.diff_lines > len(shown):
            lines.append(f"    ... {stage.diff_lines - len(shown):,} lines more; --json has more of them")
    if difference.missing:
        names = ", ".join(stage.upper() for stage in difference.missing)
        lines.append(f"  {names}: not known of both")
    return lines


def _summary(stage: Any) -> str:
    before, after = stage.instructions
    if stage.same:
        return f"the same {before:,} instructions"
    if not stage.changed:
        return f"the same instructions ({before:,}) on other values or in another order"
    parts = [f"{name} {old:,} -> {new:,}" for name, (old, new) in stage.changed.items()]
    more = f" and {len(parts) - _SHOWN_OPCODES} others" if len(parts) > _SHOWN_OPCODES else ""
    return f"{before:,} -> {after:,} instructions: {', '.join(parts[:_SHOWN_OPCODES])}{more}"


def _last(result: Any) -> str:
    return result_line(result.answer, _said(result))


def _said(result: Any) -> str:
    if result.passed:
        names = _listed([variant.name for variant in result.variants])
        return f"{names} agree with the application's result"
    if result.slower and all(variant.answer is not Answer.NO for variant in result.variants):
        base = result.variants[0].name
        return f"{_listed(result.slower)}: more than {result.max_ratio:g} times as long as {base}"
    variant = next(each for each in result.variants if each.answer is result.answer)
    if variant.verdict is None:
        return f"{variant.name} can't be tested: {variant.problem}"
    return f"{variant.name}: {variant.verdict.summary}"


def _listed(names: Sequence[str]) -> str:
    return names[0] if len(names) == 1 else f"{', '.join(names[:-1])} and {names[-1]}"

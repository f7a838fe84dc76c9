"""A comparison of two reproducers as text: what is equal in a line each, what differs in full, the result."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from kerncap.log import counted, one_line
from kerncap.log import size as size_text
from kerncap.printable import printable
from kerncap.report.diff_map import heat_lines, histogram_lines
from kerncap.report.tables import table

_SHOWN_CHANGES = 24
_SHOWN_VIEWS = 4  # with histogram and map; the rest in a line each
_SHOWN_LINES = 40
_SHOWN_OPCODES = 12
_STATES = {"pre": "before", "post": "after"}
_WIDTH = 56  # of a column, side by side


def render(result: Any, stages: Sequence[str] = (), view: str | None = None) -> str:
    """All lines of a `ReproducerDiff`; the last is ``Result: EQUAL``, ``DIFFERENT …`` or ``UNDECIDED …``.

    ``stages`` are shown whole, and only ``view`` of all memory.
    """
    lines = [*_sides(result), "", *_summary(result)]
    for title, changes in (("launch", result.launch), ("arguments", result.arguments)):
        lines += _changes(title, changes)
    for one in result.code:
        lines += _code(one, one.stage in stages or one.how in stages)
    for one in result.source:
        lines += _source(one)
    lines += _memory(result, view)
    lines += _changes("environment", result.environment)
    lines += ["", *(f"note: {one_line(note)}" for note in result.notes)] if result.notes else []
    differing = ", ".join(result.differing)
    open_ = f"Result: UNDECIDED ({result.why_open})" if result.why_open else "Result: EQUAL"
    lines += ["", f"Result: DIFFERENT ({differing})" if differing else open_]
    return "\n".join(lines) + "\n"


def render_side_by_side(stage: str, rows: Sequence[tuple[str, str, str]]) -> str:
    """Two texts of a stage in columns; ``|`` is changed, ``<`` only in A, ``>`` only in B."""
    if not rows:
        return f"{stage.upper()}: the same\n"
    lines = [f"{stage.upper()}  {'A':<{_WIDTH}}   B"]
    for mark, left, right in rows:
        if mark == "…":
            lines.append("…")
            continue
        cut = [one if len(one) <= _WIDTH else one[: _WIDTH - 1] + "…" for one in map(_shown, (left, right))]
        lines.append(f"    {cut[0]:<{_WIDTH}} {mark} {cut[1]}".rstrip())
    return "\n".join(lines) + "\n"


def _sides(result: Any) -> list[str]:
    rows = [
        (letter, one_line(side.path, 200), side.kernel, _time(side.created), side.oracle)
        for letter, side in (("A", result.a), ("B", result.b))
    ]  # fmt: skip
    headers = ("", "reproducer", "kernel", "captured", "oracle")
    return table(headers, rows).rstrip("\n").split("\n")


def _time(created: str) -> str:
    return created[:19].replace("T", " ")


def _summary(result: Any) -> list[str]:
    """One line for each part."""
    counts = result.counts
    alike = f", {counts['pointers_alike']:,} pointers to the same place" if counts["pointers_alike"] else ""
    memory = counted(counts["views"], "view")
    if counts["regions"]:  # none if only one view was asked for
        memory += f", {size_text(counts['region_bytes'])} in {counted(counts['regions'], 'region')}"
    rows = [
        ("launch", _differences(result.launch)),
        (
            "arguments",
            _differences(result.arguments) if result.arguments else f"equal: {counts['arguments']}",
        ),
        ("code", _parts(result.code, lambda one: one.stage.upper())),
        ("source", _parts(result.source, lambda one: one_line(one.file))),
    ]
    for state, word in _STATES.items():
        if state == "post" and counts["states"] < 2:
            rows.append((f"memory {word}", "not known of both"))
            continue
        views, regions = (
            sum(
                not all(s.same for s in one.states if s.state == state) or bool(one.problem) for one in listed
            )
            for listed in (result.views, result.regions)
        )
        text = f"equal: {memory}{alike}"
        if views or regions:
            told = [f"{views:,} of {counts['views']:,} views"] if views else []
            told += [f"{regions:,} of {counts['regions']:,} regions outside the views"] if regions else []
            text = f"different: {' and '.join(told)}{alike}"
        rows.append((f"memory {word}", text))
    width = max(len(name) for name, _ in rows)
    return [f"{name:<{width}}  {text}" for name, text in rows]


def memory_lines(result: Any, states: Sequence[str]) -> list[str]:
    """What of memory differs in these states ("pre", "post"), without maps."""
    lines: list[str] = []
    named = [(_typed(one), one) for one in result.views]
    named += [(f"region {one_line(one.name, 80)}, bytes", one) for one in result.regions]
    for name, one in named:
        if one.problem:
            lines.append(f"{name}: {one.problem}")
        for state in one.states:
            if state.state in states and not state.same:
                lines += _state(name, state, whole=False)
    return lines


def source_lines(result: Any) -> list[str]:
    """The lines that were changed, without comments: those name files, which may be elsewhere."""
    found = []
    for one in result.source:
        if one.only_in or (one.note and not one.same):
            found += [line for line in _source(one) if line]
        for line in one.lines:
            is_changed = line[:1] in ("+", "-") and line[:3] not in ("+++", "---")
            if is_changed and line[1:].strip() and not line[1:].lstrip().startswith("#"):
                found.append(_shown(line))
    return found[:_SHOWN_LINES]


def _differences(changes: Sequence[Any]) -> str:
    if not changes:
        return "equal"
    names = ", ".join(one_line(one.what, 60) for one in changes[:6])
    return f"{len(changes):,} different: {names}{', …' if len(changes) > 6 else ''}"


def _parts(parts: Sequence[Any], name: Any) -> str:
    if not parts:
        return "none in either"
    same = [name(one) for one in parts if one.same]
    other = [
        f"{name(one)} only in {one.only_in}" if one.only_in else name(one) for one in parts if not one.same
    ]
    texts = [f"different: {', '.join(other)}"] if other else []
    return "; ".join(texts + ([f"equal: {', '.join(same)}"] if same else []))


def _changes(title: str, changes: Sequence[Any]) -> list[str]:
    if not changes:
        return []
    rows = [
        (f"  {one_line(one.what, 60)}", _side(one.a), _side(one.b))
        for one in changes[:_SHOWN_CHANGES]
    ]  # fmt: skip
    found = ["", *table((title, "A", "B"), rows).rstrip("\n").split("\n")]
    return found + _more(len(changes) - _SHOWN_CHANGES, "--json has them")


def _side(text: str | None) -> str:
    return "-" if text is None else one_line(text, 70)


def _code(one: Any, whole: bool) -> list[str]:
    if one.same and not one.note:
        return []
    name = one.stage.upper()
    if one.only_in:
        return [] if one.same else ["", f"{name}: only in {one.only_in}"]
    if one.text is None:
        return ["", f"{name}: other bytes{f' ({one.note})' if one.note else ''}"]
    before, after = one.text.instructions
    changed = [f"{op} {x:,} -> {y:,}" for op, (x, y) in one.text.changed.items()]
    what = (
        f"{before:,} -> {after:,} instructions" if changed else f"the same {before:,} instructions, otherwise"
    )
    shown = f": {', '.join(changed[:_SHOWN_OPCODES])}" if changed else ""
    shown += f" and {len(changed) - _SHOWN_OPCODES} others" if len(changed) > _SHOWN_OPCODES else ""
    lines = one.text.diff if whole else one.text.diff[:_SHOWN_LINES]
    found = ["", f"{name} {what}{shown}", *(f"  {_shown(line)}" for line in lines)]
    stage = one.how if one.how in ("sass", "isa") else one.stage
    return found + _more(one.text.diff_lines - len(lines), f"--code {stage} --lines 0 has them")


def _source(one: Any) -> list[str]:
    if one.same:
        return []
    if one.only_in or one.note:
        return ["", f"{one_line(one.file)}: {one.note or f'only in {one.only_in}'}"]
    shown = [f"  {_shown(line)}" for line in one.lines[:_SHOWN_LINES]]
    return ["", *shown, *_more(one.lines_total - len(shown), "--json has more of them")]


def _memory(result: Any, view: str | None) -> list[str]:
    lines: list[str] = []
    whole = 0
    for one in result.views:
        if one.same:
            if view is not None:
                lines += ["", f"{one_line(one.name)}: equal{_ignored(one)}"]
            continue
        if one.problem:
            lines += ["", f"{_typed(one)}: {one.problem}"]
        for state in one.states:
            if not state.same:
                whole += 1
                lines += ["", *_state(_typed(one), state, view is not None or whole <= _SHOWN_VIEWS)]
    for one in result.regions:
        if one.same:
            continue
        name = f"region {one_line(one.name, 80)}"
        if one.problem:
            lines += ["", f"{name}: {one.problem}"]
        for state in one.states:
            if not state.same:
                whole += 1
                lines += ["", *_state(f"{name}, bytes", state, whole <= _SHOWN_VIEWS)]
    return lines


def _typed(one: Any) -> str:
    dtypes = " / ".join(dict.fromkeys(d for d in one.dtypes if d is not None))
    shapes = " / ".join(dict.fromkeys(f"[{', '.join(map(str, s))}]" for s in one.shapes if s is not None))
    return f"{one_line(one.name, 80)} ({one_line(dtypes, 80)}{shapes})"


def _ignored(one: Any) -> str:
    count = sum(state.ignored for state in one.states)
    return f" ({count:,} elements differ that the launch does not read)" if count else ""


def _state(name: str, state: Any, whole: bool) -> list[str]:
    word = _STATES[state.state]
    some = "" if state.complete else " of those that were read"
    head = f"{name} {word}: {state.different:,} of {state.elements:,} differ{some}"
    if state.first is None:
        return [head]
    first = f"[{', '.join(map(str, state.first.index))}]"
    lines = [f"{head}, first at {first}: {state.first.a} -> {state.first.b}"]
    e = state.errors
    # Bytes have no size to err by.
    if state.histograms and not name.endswith("bytes"):
        text = f"  max abs {_number(e['abs_max'])}, rel {_number(e['rel_max'])}"
        if "ulp_max" in e:
            median, p99 = _number(e["ulp_median"]), _number(e["ulp_p99"])
            text += f", ulps {_number(e['ulp_max'])} (median {median}, p99 {p99})"
        lines.append(f"{text}; {e['larger']:,} larger, {e['smaller']:,} smaller")
        lines += _specials(e)
    if state.measured < state.different:
        lines.append(f"  errors are measured on {state.measured:,} of them")
    if state.box:
        box = ", ".join(f"{low}:{high}" for low, high in state.box)
        axes = ", ".join("?" if n < 0 else f"{n:,}" for n in state.axes)
        lines.append(f"  all within [{box}]; indices that meet one, by axis: {axes}")
    if state.ignored:
        lines.append(f"  {state.ignored:,} more differ that the launch does not read")
    if state.pointers:
        lines.append(f"  {state.pointers:,} more words differ, and point to the same place")
    if whole:
        if not name.endswith("bytes"):
            lines += [f"  {line}" for line in histogram_lines(state.histograms)]
        lines += [f"  {line}" for line in heat_lines(state.heat)]
    return lines


def _specials(e: dict[str, Any]) -> list[str]:
    parts = [
        f"{word} {e[f'{key}_a']:,} -> {e[f'{key}_b']:,}"
        for key, word in (("nan", "NaN"), ("inf", "infinite"))
        if e[f"{key}_a"] or e[f"{key}_b"]
    ]
    return [f"  among these: {', '.join(parts)}"] if parts else []


def _number(value: Any) -> str:
    return f"{value:.3g}" if isinstance(value, float) else str(value)


def _shown(line: str) -> str:
    """A line as it is, without what a terminal would obey."""
    return printable(line).expandtabs(4)[:400]


def _more(count: int, where: str) -> list[str]:
    return [f"  … and {count:,} more ({where})"] if count > 0 else []

"""Whether each condition of captured kernel and candidate went both ways on what it was tried on.

One that never did may hide a case for values that nobody had, and one of the captured kernel that never did
may have been left out; so the verdict is open, unless both have one on the same numbers.
"""

from __future__ import annotations

import ast
import math
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import replace

from kerncap.api.verify import candidate_ttir, larger_sizes
from kerncap.api.verify.verify_result import Case
from kerncap.errors import KerncapError
from kerncap.format.schema import FloatValue, IntValue
from kerncap.log import one_line
from kerncap.replay.engine import CANDIDATE, Engine
from kerncap.replay.judge_requests import memory
from kerncap.replay.other_contents import Shown
from kerncap.replay.outcome import Config
from kerncap.sanitizer.concrete.dataflow import MEMORY
from kerncap.sanitizer.concrete.machine import Limits
from kerncap.sanitizer.launch import Argument, Launch, ScalarArgument
from kerncap.sanitizer.one_way_conditions import Condition, Conditions, Form
from kerncap.sanitizer.paged_bytes import NotReadable
from kerncap.sanitizer.sources.reproducer import ReproducerContents
from kerncap.sanitizer.ttir.ir import Frame

_LIMITS = Limits(element_operations=200_000_000, seconds=5.0)  # of one set of values
_ENOUGH_S = 10.0  # of the thread's processor time, once nothing that is open would change the answer
_REMEDY = "a capture in which it goes the other way would decide it"
_WHAT = "that each condition went both ways"


def on_conditions(case: Case, contents: Sequence[Callable[[], None]], numbers: Sequence[Config]) -> Shown:
    """Conditions that went one way on the captured launch, and on all that was tried in place of it.

    ``contents`` put other values into memory; ``numbers`` were passed in place of the captured ones.
    """
    found = Shown(remedy=_REMEDY)
    if not candidate_ttir.applies(case) or case.options.candidate is None:
        return found
    captured = candidate_ttir.captured(case)
    try:
        launch = candidate_ttir.launch(case)
        kernels = [Conditions(one, _constexprs(case)) for one in (launch, captured())]
        why = _evaluate(case.engine, kernels, contents, numbers)
        texts = {case.options.candidate.name: case.options.candidate.read_text(encoding="utf-8")}
    except (KerncapError, OSError, UnicodeDecodeError) as error:
        found.not_shown.append(f"{_WHAT}: {one_line(str(error).splitlines()[0])}")
        return found
    mine, theirs = kernels
    if why:
        found.not_shown.append(f"{_WHAT}: {why}")
    if lines := _lines(mine.of_infinities):
        found.not_shown.append(f"NaN and infinities, which it tests for in {lines}")
    added, dropped = unlike(mine.open, theirs.open), _but_masks(unlike(theirs.open, mine.open))
    alike = [_said(one, texts) for one in mine.open if one not in added]
    found.not_shown += [f"{said}, as it is in the captured kernel" for said in dict.fromkeys(alike)]
    found.open += dict.fromkeys(_said(one, texts) for one in added)
    found.remedy += ", and so would a candidate without it" * bool(added)
    found.open += dict.fromkeys(_dropped(one, captured()) for one in dropped)
    mine_only = unlike(mine.of_constexprs, theirs.of_constexprs)
    theirs_only = _but_masks(unlike(theirs.of_constexprs, mine.of_constexprs))
    of_sizes = [_said(one, texts) for one in mine_only] + [_dropped(one, captured()) for one in theirs_only]
    if of_sizes and not found.open:
        number = math.ceil(max(number for one in mine_only + theirs_only for number in one.numbers))
        larger = larger_sizes.on_larger_sizes(case, list(dict.fromkeys(of_sizes)), number)
        found.open, found.remedy, found.shown = larger.open, larger.remedy, larger.shown
        found.not_shown += larger.not_shown
    return found


def unlike(some: Sequence[Condition], others: Sequence[Condition]) -> list[Condition]:
    """Those of some that the others don't have, or that decide something else there."""
    found = []
    for one in some:
        like = [other for other in others if one.is_like(other)]
        if not like or not one.uses <= frozenset().union(*(other.uses for other in like)):
            found.append(one)
    return found


def _lines(conditions: Sequence[Condition]) -> str:
    frames = (one.operation.location.frame for one in conditions)
    numbers = sorted({frame.line for frame in frames if frame is not None})
    return f"line {', '.join(map(str, numbers))}" if numbers else ""


def _but_masks(conditions: Sequence[Condition]) -> list[Condition]:
    """Without those that only leave places out: without these, the same is accessed on this launch."""
    return [one for one in conditions if one.lanes is None or not one.uses <= MEMORY]


def _dropped(condition: Condition, captured: Launch) -> str:
    said = _said(condition, captured.sources)
    return f"the captured kernel's {said}, and the candidate has none like it"


def _constexprs(case: Case) -> Iterator[float]:
    """The numbers with which captured kernel and candidate are compiled; an integer of 1 is one of them."""
    for argument in case.reproducer.manifest.arguments:
        value, is_constexpr = argument.value, argument.role == "constexpr"
        if isinstance(value, IntValue) and (is_constexpr or value.value == "1"):
            yield int(value.value)
        elif isinstance(value, FloatValue) and is_constexpr:
            yield float.fromhex(value.value)
    config = case.engine.config(CANDIDATE)
    for given in config.arguments.values() if config is not None else ():
        if isinstance(given, int | float):
            yield given


def _evaluate(
    engine: Engine,
    kernels: Sequence[Conditions],
    contents: Sequence[Callable[[], None]],
    numbers: Sequence[Config],
) -> str:
    """Evaluate the candidate's and the captured kernel; why not on all of it, if so."""
    mine, theirs = kernels
    tried: list[Callable[[], None] | Config] = [Config(), *numbers, *contents]
    why, start = "", time.thread_time()
    for number, one in enumerate(tried):
        waiting = [
            kernel
            for kernel in kernels
            if not number or any(each.storages or isinstance(one, Config) for each in kernel.open)
        ]
        if not waiting:
            continue
        decides = not number or unlike(mine.open, theirs.open) or unlike(theirs.open, mine.open)
        if not decides and time.thread_time() - start > _ENOUGH_S:
            return why or f"only on {number} of {len(tried)} sets of values"
        if not isinstance(one, Config):
            one()
        for kernel in waiting:
            launch = kernel.launch
            given = _with(one, launch) if isinstance(one, Config) else _in_memory(engine, launch)
            why = kernel.evaluate(given, _LIMITS) or why
    return why


def _with(numbers: Config, launch: Launch) -> Launch:
    """The launch with other numbers as arguments, and their grid."""
    arguments: list[Argument] = []
    for one in launch.arguments:
        number = numbers.arguments.get(one.name)
        if isinstance(one, ScalarArgument) and isinstance(number, int | float):
            one = replace(one, value=number)
        arguments.append(one)
    return replace(launch, arguments=tuple(arguments), grid=numbers.grid or launch.grid)


def _in_memory(engine: Engine, launch: Launch) -> Launch:
    """The launch with the contents that the worker's memory has."""

    def read_into(region: int, offset: int, target: memoryview) -> None:
        try:
            target[:] = memory(engine, region, offset, offset + len(target)).data
        except KerncapError as error:
            raise NotReadable(one_line(str(error))) from error

    assert isinstance(launch.contents, ReproducerContents)
    return replace(launch, contents=launch.contents.instead(read_into))


def _said(condition: Condition, texts: Mapping[str, str]) -> str:
    frame = condition.operation.location.frame
    place = (
        "a condition"
        if frame is None
        else f"line {frame.line}: {_expression(texts.get(frame.file, ''), frame)}"
    )
    [way] = condition.ways
    went = {
        Form.TRUTH: f"was {str(bool(way)).lower()}",
        Form.NUMBER: f"was {way:g}",
        Form.CHOICE: f"chose the {'first' if way else 'second'} operand",
        Form.ARITHMETIC: "rounded its operand away",
    }[condition.form]
    each = "value that was tried" if condition.lanes is None else "element that was accessed"
    return f"{place} {went} for every {each}"


def _expression(text: str, frame: Frame) -> str:
    """The expression that begins there, if the source has one, else the line."""
    for node in ast.walk(ast.parse(text)):
        if (
            isinstance(node, ast.Compare | ast.BinOp | ast.Call)
            and (node.lineno, node.col_offset + 1) == (frame.line, frame.column)
            and (segment := ast.get_source_segment(text, node))
        ):
            return one_line(segment)
    lines = text.splitlines()
    return lines[frame.line - 1].strip() if 0 < frame.line <= len(lines) else "a condition"

"""TTIR and TTGIR evaluated on a reproducer's memory."""

from __future__ import annotations

import re
from dataclasses import dataclass

from kerncap.api.blame.compiled_stages import State
from kerncap.api.blame.outputs import Comparison, Limits, Outputs, compare, of_memory
from kerncap.errors import KerncapError
from kerncap.format import Reproducer
from kerncap.log import one_line
from kerncap.sanitizer.concrete.run import Memory, Track, evaluate
from kerncap.sanitizer.sources.reproducer import launch_from_reproducer
from kerncap.sanitizer.ttir import read_module

_LOCATIONS = re.compile(r"\s*loc\([^\n]*$|^#loc.*\n", re.MULTILINE)


class NotEvaluated(Exception):
    """Why a text can't be evaluated."""


def evaluated(reproducer: Reproducer, text: str, target: str) -> Outputs:
    """What the kernel in ``text`` leaves, of the reproducer's launch. Raises NotEvaluated."""
    try:
        launch = launch_from_reproducer(reproducer, text, target)
        module = read_module(text)
    except KerncapError as error:
        raise NotEvaluated(one_line(str(error))) from error
    memory = Memory(launch)
    outcome = evaluate(module, module.kernel, launch, memory, track=Track(left_out=False))
    if not outcome.complete:
        raise NotEvaluated(outcome.reason or "it did not end")
    if outcome.unknown_contents:
        raise NotEvaluated(outcome.unknown_contents[0][1])
    return of_memory(reproducer.manifest, launch, memory)


@dataclass(frozen=True)
class GuiltyPass:
    """The pass between two states that can be evaluated, of which only the first gives the outputs before."""

    passes: tuple[str, ...]  # one; several if the states between them can't be evaluated
    before: str
    after: str
    comparison: Comparison


def guilty_pass(
    reproducer: Reproducer, target: str, states: list[State], after: str, right: Outputs, limits: Limits
) -> GuiltyPass | None:
    """Bisect the passes of a stage: from the first state, which gives ``right``, to ``after``, which doesn't.

    None if the first state can't be evaluated, or differs already.
    """
    texts = [*(state.text for state in states), after]
    names = [state.passed for state in states]
    known: dict[str, Comparison | None] = {}

    def told(number: int) -> Comparison | None:
        """None for what can't be evaluated."""
        key = _LOCATIONS.sub("", texts[number])
        if key not in known:
            try:
                now = evaluated(reproducer, texts[number], target)
                known[key] = compare(reproducer.manifest, right, now, limits)
            except NotEvaluated:
                known[key] = None
        return known[key]

    def is_wrong(found: Comparison | None) -> bool:
        return found is not None and found.result == "differs"

    first = next((number for number in range(len(texts)) if told(number) is not None), None)
    if first is None or is_wrong(told(first)) or not is_wrong(told(len(texts) - 1)):
        return None
    low, high = first, len(texts) - 1
    while between := [number for number in range(low + 1, high) if told(number) is not None]:
        middle = between[len(between) // 2]
        if is_wrong(told(middle)):
            high = middle
        else:
            low = middle
    comparison = told(high)
    assert comparison is not None
    return GuiltyPass(tuple(dict.fromkeys(names[low:high])), texts[low], texts[high], comparison)

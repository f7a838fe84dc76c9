"""TTIR and TTGIR evaluated on a reproducer's memory."""

from __future__ import annotations

from dataclasses import dataclass

from kerncap.api.blame.stage_outputs import Comparison, Limits, Outputs, compare, of_memory
from kerncap.api.compiled_stages import State, change_between
from kerncap.errors import KerncapError
from kerncap.format import Reproducer
from kerncap.log import one_line
from kerncap.sanitizer.concrete.run import Memory, Track, evaluate
from kerncap.sanitizer.sources.reproducer import launch_from_reproducer
from kerncap.sanitizer.ttir.tensors_only import left, tensors_only


class NotEvaluated(Exception):
    """Why a text can't be evaluated."""


def evaluated(reproducer: Reproducer, text: str, target: str) -> Outputs:
    """What the kernel in ``text`` leaves, of the reproducer's launch. Raises NotEvaluated."""
    try:
        launch = launch_from_reproducer(reproducer, text, target)
        module = tensors_only(text)
    except KerncapError as error:
        raise NotEvaluated(one_line(str(error))) from error
    for name in left(module):  # what it does to memory would be missing
        raise NotEvaluated(f"{name} has no semantics here")
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
    compared: dict[str, Comparison] = {}

    def is_wrong(text: str) -> bool | None:
        try:
            now = evaluated(reproducer, text, target)
        except NotEvaluated:
            return None
        compared[text] = compare(reproducer.manifest, right, now, limits)
        return compared[text].result == "differs"

    found = change_between(states, after, is_wrong)
    if found is None:
        return None
    return GuiltyPass(found.passes, found.before, found.after, compared[found.after])

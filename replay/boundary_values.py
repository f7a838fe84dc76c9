"""A candidate on values where comparisons turn: equal ones, zeros, neighbours, and integers in other places.

``>=`` for ``>``, a case for one number, an index that is a constant: the captured values may never show it.
The application may never have such values either (a contract says that no row is empty, or that a mask holds
0 and 255 only), so a difference decides nothing: it keeps a candidate from passing, and never fails it.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace

from kerncap.replay.byte_effects import Measured
from kerncap.replay.engine import Engine
from kerncap.replay.judge_requests import boundaries, readable_views, redraw
from kerncap.replay.memory_names import view_name
from kerncap.replay.other_contents import Differential, Shown
from kerncap.replay.poisoned_launch import SEED_B, poison
from kerncap.replay.verdict_words import Tolerance
from kerncap.replay.wider_values import SLACK, nonfinite, nonfinite_of_capture
from kerncap.replay.worker.protocol import Limits

_SEED = 3
REMEDY = "a capture that has such values would decide it"


@dataclass(frozen=True)
class Steered:
    """``views``: those that decide where memory is touched, or how often anything runs.

    ``known``: numbers that the captured kernel compares others with; ``own``: the candidate. ``waits``:
    whether a loop may wait for memory. ``free``: integers that are passed to the captured kernel, and decide
    neither. ``unordered``: what only the candidate changes without atomics, at places that memory decides.
    ``why``: the reason if nothing is known of memory.
    """

    views: frozenset[int] = frozenset()
    known: tuple[float, ...] = ()
    own: tuple[float, ...] = ()
    waits: bool = False
    free: frozenset[str] = frozenset()
    unordered: tuple[str, ...] = ()
    why: str = ""


def on_boundary_values(engine: Engine, measured: Measured, tolerance: Tolerance, steered: Steered) -> Shown:
    """Captured kernel and candidate on values on which comparisons turn, but for what steers."""
    floats, integers = readable_views(engine.manifest, measured)
    free = [view for view in integers if not steered.why and view not in steered.views]
    left = [view for view in integers if view not in free]
    views = [view for view in floats if view not in steered.views] + free
    if engine.manifest.launch.mode == "native":
        views = []  # of other types, perhaps, than they are said to be
    found = _tried(
        engine, measured, tolerance, "boundary values",
        views, lambda views: boundaries(engine, views, steered.known, steered.own), few=True,
    )  # fmt: skip
    if free:
        found.not_shown.append(f"integers beyond the range of {_names(engine, free)}")
    if left:
        why = steered.why or "they may be places in memory, or lengths"
        found.not_shown.append(f"other integers than those that {_names(engine, left)} had: {why}")
    return found


def on_other_places(engine: Engine, measured: Measured, tolerance: Tolerance, steered: Steered) -> Shown:
    """Captured kernel and candidate with the integers that steer in other places, next to floats.

    (Where there are no floats `on_other_values` does it.)
    """
    floats, integers = readable_views(engine.manifest, measured)
    views = [view for view in integers if view in steered.views]
    if not floats or not views or steered.waits and engine.choice.memory != "host":
        return Shown()
    return _tried(
        engine, measured, tolerance, "another order", views, lambda views: redraw(engine, views, _SEED)
    )


def _tried(
    engine: Engine,
    measured: Measured,
    tolerance: Tolerance,
    kind: str,
    views: list[int],
    give: Callable[[list[int]], list[int]],
    few: bool = False,
) -> Shown:
    engine.restore()
    changed = give(views) if views else []
    if not changed:
        return Shown()
    limit = nonfinite_of_capture(engine, measured)
    what = f"{kind} of {_names(engine, changed)}"
    return _Undeciding(engine, measured, tolerance, what, views, give=give, nonfinite=limit, few=few).judge()


def _names(engine: Engine, views: list[int]) -> str:
    return ", ".join(dict.fromkeys(view_name(engine.manifest, view) for view in views))


@dataclass
class _Undeciding(Differential):
    """A differential of which a difference decides nothing; ``nonfinite``: how many results may be none.

    ``few``: so few values are others that the result for the captured ones need not be a stored one.
    """

    give: Callable[[list[int]], list[int]] = list
    nonfinite: int = 0
    few: bool = False

    def judge(self) -> Shown:
        found = super().judge()
        return replace(found, open=found.open + found.reasons, reasons=[], remedy=REMEDY)

    @property
    def _changes(self) -> bool:
        return not self.few

    def _prepare(self) -> None:
        self.engine.restore()
        self.give(self.redrawn)
        poison(self.engine, self.measured, SEED_B)

    def _problem(self) -> str:
        return "it gives NaN or infinities" * (nonfinite(self.engine, self.measured) > self.nonfinite)

    def _told(self) -> bool:
        return True  # other values have shown the work already

    def _limits(self, view: int, noise: dict[int, float]) -> Limits:
        _, relative, absolute = super()._limits(view, noise)
        return view, SLACK * relative, SLACK * absolute

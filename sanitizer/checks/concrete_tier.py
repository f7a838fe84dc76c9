"""The concrete tier: what the symbolic checks left open, decided by running the kernel on this launch's data.

One evaluation of addresses and masks serves all checks. A second one, of everything that the kernel
computes, follows only if it matters what is stored: whether it is defined, and whether two programs
that write to one place write the same.

A violation that was seen stays one even where the evaluation did not come to its end; whatever else was
asked is then unproven.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping
from dataclasses import dataclass, replace

from kerncap.sanitizer.analysis import Analysis
from kerncap.sanitizer.checks.bounds.bounds_watcher import BoundsWatcher
from kerncap.sanitizer.checks.claims.order_watcher import OrderWatcher
from kerncap.sanitizer.checks.events.elements import in_own_storage
from kerncap.sanitizer.checks.events.rounding_watcher import RoundingWatcher, deciding_roundings
from kerncap.sanitizer.checks.events.watchers import (
    AlignmentWatcher,
    OverflowWatcher,
    UninitWatcher,
    Watcher,
    counts_left_out,
    stores_in_doubt,
)
from kerncap.sanitizer.checks.make_finding import finding_of_witness
from kerncap.sanitizer.checks.races.evaluated.race_observer import RaceObserver
from kerncap.sanitizer.concrete.events import AccessEvent, Observer, Results
from kerncap.sanitizer.concrete.memory import Memory
from kerncap.sanitizer.concrete.run import Limits, Outcome, Track, evaluate
from kerncap.sanitizer.findings import Check, Proved, Unproven, Verdict, Violated
from kerncap.sanitizer.launch import Launch
from kerncap.sanitizer.ttir.ir import Operation

Wanted = tuple[Operation, Check]
ByCheck = Mapping[Check, Collection[Operation]]

NOT_EVALUATED = "the evaluation of memory operations does not settle this check"


@dataclass(frozen=True)
class EvaluatedResult:
    """A verdict for everything that was wanted; ``outcomes`` of one or two evaluations."""

    verdicts: Mapping[Wanted, Verdict]
    reason: str | None  # why an evaluation is incomplete; None if all are complete
    outcomes: tuple[Outcome, ...]


def settle(analysis: Analysis, wanted: Collection[Wanted]) -> EvaluatedResult:
    """Evaluates all programs and answers every (operation, check) that is wanted.

    An operation that never runs is proved. All proofs hold for these contents of memory only.
    """
    in_doubt = stores_in_doubt(analysis, [one for one, check in wanted if check == "uninit"])
    by_values: set[Wanted] = {(one, check) for one, check in wanted if check == "uninit" and one in in_doubt}
    verdicts: dict[Wanted, Verdict] = {}
    outcomes: list[Outcome] = []
    by_addresses = [one for one in wanted if one not in by_values]
    if by_addresses:
        answers, uncompared, outcome = _evaluate(analysis, by_addresses, addresses_only=True)
        verdicts.update(answers)
        outcomes.append(outcome)
        by_values |= {(one, check) for one, check in by_addresses if check == "race" and one in uncompared}
    if by_values:
        ordered = [one for one in wanted if one in by_values]
        answers, _, outcome = _evaluate(analysis, ordered, addresses_only=False)
        outcomes.append(outcome)
        for one, verdict in answers.items():
            # Another pair of the operation may have shown a conflict before.
            if not (isinstance(verdict, Unproven) and isinstance(verdicts.get(one), Violated)):
                verdicts[one] = verdict
    reason = next((_reason(one) for one in outcomes if not one.complete), None)
    return EvaluatedResult(verdicts, reason, tuple(outcomes))


class _Everyone:
    """Passes each event on to all who watch.

    What leaves its tensor's storage is the bounds check's alone: that it meets another tensor's accesses
    there is no race of its own.
    """

    def __init__(
        self, launch: Launch, watchers: Collection[Watcher | OrderWatcher], races: RaceObserver | None
    ) -> None:
        self._launch = launch
        self._watchers = tuple(watchers)
        self._races = races

    def access(self, event: AccessEvent) -> None:
        for one in self._watchers:
            one.access(event)
        if self._races is not None and self._races.concerns(event):
            self._races.access(in_own_storage(self._launch, event))


def _evaluate(
    analysis: Analysis, wanted: Collection[Wanted], *, addresses_only: bool
) -> tuple[dict[Wanted, Verdict], Collection[Operation], Outcome]:
    """Verdicts, and the stores of conflicts whose values are not known."""
    by_check: dict[Check, set[Operation]] = {}
    for operation, check in wanted:
        by_check.setdefault(check, set()).add(operation)
    watchers = _watchers(analysis, by_check)
    races = RaceObserver(analysis) if "race" in by_check else None
    order = OrderWatcher({one for one, _ in wanted}, analysis)
    options = analysis.options
    reached = options.progress and options.progress(f"{analysis.launch.kernel}: evaluated")
    limits = Limits(options.evaluation_limit, options.evaluation_timeout_s, reached)
    outcome = _run(
        analysis, addresses_only, _Everyone(analysis.launch, (*watchers.values(), order), races), limits,
        Track("uninit" in by_check, "overflow" in watchers, left_out=counts_left_out(analysis)),
    )  # fmt: skip

    def again(observer: Observer, results: Results) -> Outcome:
        # It costs as much, unless what atomics give back decides how long a loop goes on.
        most = min(limits.element_operations, 2 * outcome.element_operations + 1_000_000)
        again = replace(limits, element_operations=most)
        return _run(analysis, addresses_only, observer, again, Track(overflow=True), results)

    deciding = deciding_roundings(analysis, (one for one, _ in wanted))
    certain = _watchers(analysis, {"oob": by_check.get("oob", set())})["oob"]
    rounding = RoundingWatcher(deciding, certain)
    if deciding:
        half = replace(limits, seconds=limits.seconds / 2)
        rounding.ended(_run(analysis, True, rounding, half, Track(rounding=True)))
    reason = None if outcome.complete else _reason(outcome)
    of_races = races.verdicts() if races is not None else {}
    verdicts: dict[Wanted, Verdict] = {}
    for operation, check in wanted:
        if check == "race":
            verdicts[operation, check] = _race_verdict(of_races.get(operation), reason)
        elif check == "oob":
            verdict = _verdict(analysis, watchers[check], operation, check, reason)
            verdicts[operation, check] = _explained(verdict, operation, watchers)
        elif check in watchers:
            verdicts[operation, check] = _verdict(analysis, watchers[check], operation, check, reason)
        else:
            verdicts[operation, check] = Unproven(NOT_EVALUATED)
        if isinstance(verdicts[operation, check], Proved):
            doubt = order.doubt_of_race(operation) if check == "race" else order.doubt(operation)
            if doubt is not None and not order.hold(operation, check, again):
                verdicts[operation, check] = Unproven(doubt)
        doubt = rounding.doubt(operation)
        if doubt is not None and not (check == "oob" and operation in certain.violations):
            verdicts[operation, check] = Unproven(doubt)
    return verdicts, races.uncompared if races is not None else (), outcome


def _run(
    analysis: Analysis,
    addresses_only: bool,
    observer: Observer,
    limits: Limits,
    track: Track,
    results: Results | None = None,
) -> Outcome:
    return evaluate(
        analysis.module, analysis.function, analysis.launch, Memory(analysis.launch),
        addresses_only=addresses_only, observer=observer, limits=limits, track=track, results=results,
    )  # fmt: skip


def _reason(outcome: Outcome) -> str:
    return outcome.reason or "the evaluation did not come to its end"


def _watchers(analysis: Analysis, by_check: ByCheck) -> dict[Check, Watcher]:
    watchers: dict[Check, Watcher] = {}
    if "oob" in by_check:
        watchers["oob"] = BoundsWatcher(by_check["oob"], analysis)
    if "overflow" in by_check:
        watchers["overflow"] = OverflowWatcher(by_check["overflow"])
    if "alignment" in by_check:
        watchers["alignment"] = AlignmentWatcher(by_check["alignment"], analysis)
    if "uninit" in by_check:
        watchers["uninit"] = UninitWatcher(by_check["uninit"], analysis)
    return watchers


def _verdict(
    analysis: Analysis, watcher: Watcher, operation: Operation, check: Check, reason: str | None
) -> Verdict:
    seen = watcher.violations.get(operation)
    if seen is not None:
        return Violated((finding_of_witness(analysis, operation, check, seen),))
    if operation in watcher.doubts:
        return Unproven(watcher.doubts[operation])
    return Proved("evaluated", contents=True) if reason is None else Unproven(reason)


def _explained(verdict: Verdict, operation: Operation, watchers: Mapping[Check, Watcher]) -> Verdict:
    """Out of bounds only where an integer overflows, which is a finding of its own: said so."""
    overflow, bounds = watchers.get("overflow"), watchers["oob"]
    assert isinstance(bounds, BoundsWatcher)
    if not isinstance(verdict, Violated) or overflow is None or operation not in overflow.violations:
        return verdict
    if operation not in bounds.only_by_overflow:
        return verdict
    text = " (only where an integer overflows: see the overflow finding)"
    return Violated(
        tuple(replace(one, message=one.message + text, suggestion=None) for one in verdict.findings)
    )


def _race_verdict(verdict: Verdict | None, reason: str | None) -> Verdict:
    """A proof counts only if the evaluation saw everything."""
    if isinstance(verdict, Violated):
        return verdict
    if reason is not None:
        return Unproven(reason)
    return Proved("evaluated", contents=True) if verdict is None else verdict

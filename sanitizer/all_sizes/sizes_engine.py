"""All sizes of one kernel at once: every memory operation proved, violated at small sizes, or unproven.

The walk and the solver are those of one launch; only the numbers are expressions. What the solver says can
fail is believed only after the launch of these sizes was checked as any other launch is.
"""

from __future__ import annotations

import time
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace

from kerncap.errors import UsageError
from kerncap.sanitizer.all_sizes.launches import AllSizes
from kerncap.sanitizer.all_sizes.loaded_values import Reads
from kerncap.sanitizer.all_sizes.meetings import Meetings
from kerncap.sanitizer.all_sizes.proposals import proposed
from kerncap.sanitizer.all_sizes.sampled_sizes import Samples
from kerncap.sanitizer.all_sizes.smallest_sizes import Asker, Smallest
from kerncap.sanitizer.all_sizes.wrong_accesses import WRONG, Wrong
from kerncap.sanitizer.analysis import Analysis
from kerncap.sanitizer.engine import kind_of, sanitize
from kerncap.sanitizer.findings import (
    Check,
    ForAll,
    LaunchReport,
    Proved,
    Settled,
    Unproven,
    Verdict,
    Violated,
    join,
)
from kerncap.sanitizer.line_comments import commented
from kerncap.sanitizer.options import Options
from kerncap.sanitizer.symbolic.expr import TRUE, forgetting
from kerncap.sanitizer.symbolic.solve import Sat, Solver, Unknown, Unsat
from kerncap.sanitizer.ttir.ir import Operation, memory_operations
from kerncap.sanitizer.walk import Unsupported, walk
from kerncap.sanitizer.walk.access import Promise

CHECKS: tuple[Check, ...] = ("oob", "overflow", "race")
# An address as a number: where memory lies is made up here.
_ADDRESSES_AS_NUMBERS = frozenset(("tt.ptr_to_int", "tt.int_to_ptr"))


def sanitize_all_sizes(problem: AllSizes, options: Options) -> LaunchReport:
    """Check the memory operations of a kernel for every size that ``problem`` states. Runs nothing."""
    with forgetting():
        return _Judge(problem, options).report()


class NoSizes(UsageError):
    """What is stated leaves no sizes."""


@dataclass(frozen=True)
class _Candidate:
    """A point where something would be wrong, and the sizes there."""

    wrong: Wrong
    point: Smallest
    sizes: Mapping[str, int]
    reads: Reads


@dataclass
class _Judge:
    problem: AllSizes
    options: Options

    def __post_init__(self) -> None:
        self.started = time.perf_counter()
        self.checks: list[Check] = [one for one in CHECKS if one in self.options.checks]
        self.smallest_launch = launch = self.problem.launch_at({}, grid=(1, 1, 1))
        self.stated = commented(self.problem.ttir, launch.sources, launch.configuration, launch.ones)
        self.module = self.stated.module
        self.function = self.module.kernel
        self.solver = Solver(None, self.options.solver_timeout_s)
        self.asker = Asker(self.solver)
        self.samples = Samples(self.problem, replace(self.options, checks=frozenset(self.checks)))
        self.notes = [f"checked for all sizes: {', '.join(self.checks)}; the other checks need a launch"]

    def report(self) -> LaunchReport:
        self._refuse_no_sizes()
        settled = [replace(one, verdict=self._tried(one)) for one in self._settled()]
        problem, launch = self.problem, self.smallest_launch
        return LaunchReport(
            kernel=launch.kernel,
            grid=launch.grid,
            settled=tuple(sorted(settled, key=lambda one: one.order)),
            notes=tuple(dict.fromkeys(self.notes)),
            configuration=launch.configuration,
            python_stack=launch.python_stack,
            seconds=time.perf_counter() - self.started,
            sources=launch.sources,
            for_all=ForAll(
                {name: str(interval) for name, interval in problem.statement.sizes.items()},
                problem.grid_text,
                problem.assumed(),
            ),
        )

    def _settled(self) -> list[Settled]:
        operations = memory_operations(self.module)
        walked = None
        try:
            self._refuse_addresses()
            walked = walk(
                self.module, self.function, self.smallest_launch, self.solver,
                frozenset((*self.checks, "promise")), self.problem.symbols,
            )  # fmt: skip
        except Unsupported as reason:
            self.notes.append(f"not followed symbolically: {reason}")
        if walked is None:
            return [
                Settled(check, kind_of(one), one.location, Unproven(self.notes[-1]), one.order)
                for one in operations
                for check in self.checks
            ]
        self.notes.extend(walked.notes)
        analysis = Analysis(
            self.smallest_launch, self.module, self.function, walked, self.solver, self.options
        )
        meetings = Meetings(self.problem, walked, self.asker) if "race" in self.checks else None
        found: list[Settled] = []
        for operation in operations:
            contexts = [one for one in walked.accesses if one.operation is operation]
            for check in self.checks:
                if check == "race" and meetings is not None:
                    wrongs = meetings.of(operation)
                else:
                    wrongs = [
                        wrong for access in contexts for wrong in WRONG[check](analysis, self.problem, access)
                    ]
                verdict = self._verdict(operation, check, [self._answer(one) for one in wrongs])
                if isinstance(verdict, Unproven):
                    verdict = proposed(verdict, wrongs, self.problem, self.smallest_launch, self.asker)
                found.append(Settled(check, kind_of(operation), operation.location, verdict, operation.order))
        return [*found, *self._of_comments(walked.promises)]

    def _of_comments(self, promises: Sequence[Promise]) -> list[Settled]:
        found = [
            Settled("promise", "none", place, Unproven(reason), -1) for place, reason in self.stated.open
        ]
        asked: dict[Operation, list[Promise]] = {}
        for promise in promises:
            if promise.operation is not None and promise.about is not None:
                asked.setdefault(promise.operation, []).append(promise)
        for operation, contexts in asked.items():
            answers = [self._answer(Wrong(one.path, ~one.value)) for one in contexts]
            verdict = self._verdict(operation, "promise", answers)
            found.append(Settled("promise", "none", operation.location, verdict, operation.order))
        return found

    def _refuse_no_sizes(self) -> None:
        """Of none everything would be proved."""
        given = self.problem.symbols.given
        if given is not TRUE and not isinstance(self.asker.ask(TRUE, given), Sat):
            said = ", ".join(f"{name}={interval}" for name, interval in self.problem.statement.sizes.items())
            rest = "; ".join(self.problem.given)
            raise NoSizes(
                f"{self.problem.name}: no sizes of --for-all {said} were found that meet the rest of what is "
                f"stated{f' ({rest})' if rest else ''}; state others"
            )

    def _refuse_addresses(self) -> None:
        for operation in self.module.operations():
            if operation.name in _ADDRESSES_AS_NUMBERS:
                raise Unsupported(f"{operation.name}: the address of memory, which differs from size to size")

    def _answer(self, wrong: Wrong) -> Proved | Unproven | _Candidate:
        if wrong.reason:
            return Unproven(wrong.reason)
        reads = Reads(self.problem, self.smallest_launch)
        given, condition = reads.replaced(wrong.given), reads.replaced(wrong.condition)
        given = given & reads.facts()
        answer = self.asker.ask(given, condition)
        if isinstance(answer, Unsat):
            return Proved(answer.how)
        if reads.open:
            return Unproven(reads.open)
        if isinstance(answer, Unknown):
            return Unproven(answer.reason)
        smallest = self.asker.smallest(given, condition, list(self.problem.sizes.values()), answer)
        return _Candidate(wrong, smallest, self.problem.values_at(smallest.assignment), reads)

    def _verdict(
        self, operation: Operation, check: Check, answers: Sequence[Proved | Unproven | _Candidate]
    ) -> Verdict:
        """The candidate of the least sizes that its launch confirms; else what is open."""
        candidates = [one for one in answers if isinstance(one, _Candidate)]
        closed = [one for one in answers if not isinstance(one, _Candidate)]
        least = all(one.point.least for one in candidates) and not any(
            isinstance(one, Unproven) for one in closed
        )
        failed: list[Unproven] = []
        for one in sorted(candidates, key=lambda each: (sum(each.sizes.values()), *each.sizes.values())):
            verdict = self._confirmed(operation, check, one, least and not failed)
            if isinstance(verdict, Violated):
                return verdict
            failed.append(verdict)
        # Code that no path leads to is right for all sizes.
        return join([*failed, *closed]) if failed or closed else Proved("interval")

    def _confirmed(
        self, operation: Operation, check: Check, candidate: _Candidate, least: bool
    ) -> Violated | Unproven:
        sizes, point = candidate.sizes, candidate.point.assignment
        if candidate.wrong.unconfirmed:
            return Unproven(f"{candidate.wrong.unconfirmed}, from {named(sizes)} on")
        try:
            launch = self.problem.launch_at(point, candidate.reads.words(point))
        except UsageError as error:
            return Unproven(f"it may fail with {named(sizes)}, whose launch can't be evaluated: {error}")
        report = sanitize(launch, replace(self.options, checks=frozenset((check,))))
        for one in report.settled:
            if one.order != operation.order or one.check != check or not isinstance(one.verdict, Violated):
                continue
            if all(each.note for each in one.verdict.findings):
                return Unproven(f"{one.verdict.findings[0].message}, with {named(sizes)}")
            return _at_sizes(one.verdict, sizes, least)
        return Unproven(f"it may fail with {named(sizes)}, which its launch did not confirm")

    def _tried(self, one: Settled) -> Verdict:
        """What is open is looked for in the launches of some sizes."""
        if not isinstance(one.verdict, Unproven):
            return one.verdict
        found = self.samples.violated(one.order, one.check)
        return one.verdict if found is None else _at_sizes(found[0], found[1], False)


def named(sizes: Mapping[str, int]) -> str:
    """``M = 3, N = 17``."""
    return ", ".join(f"{name} = {value}" for name, value in sizes.items())


def _at_sizes(verdict: Violated, sizes: Mapping[str, int], least: bool) -> Violated:
    kind = "the smallest" if least else "seen"
    return Violated(
        tuple(
            replace(
                one,
                sizes=tuple(sizes.items()),
                smallest=least,
                suggestion=None,  # it is shown to be enough for these sizes only
                message=f"with {named(sizes)} ({kind}): {one.message}",
            )
            for one in verdict.findings
        )
    )

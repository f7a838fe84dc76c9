"""One launch, all checks: symbolic first, then the concrete tier for what depends on memory."""

from __future__ import annotations

import os
import time
import traceback
from collections.abc import Callable, Iterable, Mapping
from dataclasses import replace
from typing import TypeVar

from kerncap.sanitizer.analysis import Analysis
from kerncap.sanitizer.binding import bind
from kerncap.sanitizer.checks import alignment, bounds, descriptor, overflow, promises, races, uninit
from kerncap.sanitizer.checks.concrete_tier import Wanted, settle
from kerncap.sanitizer.checks.events.unwritten_uses import unused
from kerncap.sanitizer.checks.memory_before_launch import ContentsSource
from kerncap.sanitizer.checks.races.conflict_findings import EQUAL_THERE
from kerncap.sanitizer.checks.races.equal_values import computed
from kerncap.sanitizer.checks.races.lanes_of_one_store import with_lanes
from kerncap.sanitizer.checks.races.one_program import with_one_program
from kerncap.sanitizer.findings import (
    AccessKind,
    Check,
    LaunchReport,
    Proved,
    Settled,
    Unproven,
    Verdict,
    Violated,
    join,
)
from kerncap.sanitizer.launch import Launch
from kerncap.sanitizer.line_comments import Commented, commented
from kerncap.sanitizer.max_memory import LimitedContents
from kerncap.sanitizer.options import Options
from kerncap.sanitizer.shared import check as shared
from kerncap.sanitizer.symbolic.expr import Variable, forgetting
from kerncap.sanitizer.symbolic.solve import Solver
from kerncap.sanitizer.ttir import read_module
from kerncap.sanitizer.ttir.ir import MEMORY, Operation, memory_operations
from kerncap.sanitizer.walk import Unsupported, walk
from kerncap.sanitizer.walk.access import Access, Promise, Walked
from kerncap.sanitizer.walk.symbols import symbols_of

AccessCheck = Callable[[Analysis, Access], "Verdict | None"]
# In the order in which a reader wants them: a wrap explains the access out of bounds that follows.
ACCESS_CHECKS: dict[Check, AccessCheck] = {
    "oob": bounds.check,
    "uninit": uninit.check,
    "overflow": overflow.check,
    "alignment": alignment.check,
    "descriptor": descriptor.check,
}


def sanitize(launch: Launch, options: Options | None = None) -> LaunchReport:
    """Check every memory operation of one launch, for all of its programs.

    Reads the launch's contents only where an address, a mask or a bound depends on them. Runs
    nothing of the target. Raises FormatError for a TTIR that can't be read, UsageError for arguments
    that don't fit it.
    """
    with forgetting():
        return _sanitize(launch, options or Options(), time.perf_counter())


def _sanitize(launch: Launch, options: Options, started: float) -> LaunchReport:
    if launch.program_count == 0:
        return _report(launch, (), ("the grid is empty: nothing runs",), started)
    limited = None
    if options.max_memory_bytes is not None:
        limited = LimitedContents(launch, options.max_memory_bytes)
        launch = replace(launch, contents=limited)
    stated = Commented(read_module(launch.ttir))
    if "promise" in options.checks:
        stated = commented(launch.ttir, launch.sources, launch.configuration, launch.ones)
    module = stated.module
    function = module.kernel
    bind(function, launch.arguments)
    solver = Solver(ContentsSource(launch), timeout_s=options.solver_timeout_s)
    notes: list[str] = []
    try:
        walked = walk(module, function, launch, solver, options.checks)
    except Unsupported as reason:
        notes.append(f"not followed symbolically: {reason}")
        walked = None
    except Exception as error:
        notes.append(f"not followed symbolically: {_failure(error)}")
        walked = None
    settled: list[Settled] = []
    if walked is not None:
        analysis = Analysis(launch, module, function, walked, solver, options)
        notes.extend(walked.notes)
        settled = _symbolic(analysis)
    else:
        nothing = Walked(_programs(launch), (), (), (), symbols_of(launch, function))
        analysis = Analysis(launch, module, function, nothing, solver, options)
        settled = _unfollowed(analysis, notes[-1])
    settled = _without_unused(analysis, _evaluate(analysis, settled, notes))
    if "race" in options.checks:
        settled = _with_lanes(analysis, settled, notes)
    settled += _compiled(analysis)
    settled += [Settled("promise", "none", place, Unproven(reason), -1) for place, reason in stated.open]
    settled.sort(key=lambda one: one.order)
    needs_bytes = 0
    if limited is not None and limited.told is not None:
        notes.append(limited.told)
        needs_bytes = limited.needs_bytes
    report = _report(launch, tuple(settled), tuple(dict.fromkeys(notes)), started)
    return replace(report, needs_bytes=needs_bytes)


def _symbolic(analysis: Analysis) -> list[Settled]:
    """Every check of every operation, over all contexts in which the operation was met."""
    wanted = analysis.options.checks
    by_operation: dict[Operation, list[Access]] = {}
    for access in analysis.walked.accesses:
        by_operation.setdefault(access.operation, []).append(access)
    settled: list[Settled] = []
    for operation, accesses in by_operation.items():
        for name, check in ACCESS_CHECKS.items():
            if name not in wanted:
                continue
            verdicts = [v for access in accesses if (v := _guarded(check, analysis, access)) is not None]
            if verdicts:
                joined = join(verdicts)
                settled.append(Settled(name, accesses[0].kind, operation.location, joined, operation.order))
    if "race" in wanted:
        settled.extend(_races(analysis))
    if "promise" in wanted:
        settled.extend(_promises(analysis))
    return settled


Subject = TypeVar("Subject")
Answer = TypeVar("Answer", bound="Verdict | None")


def _guarded(
    check: Callable[[Analysis, Subject], Answer], analysis: Analysis, subject: Subject
) -> Answer | Unproven:
    """A mistake in one check must not cost the verdicts of all others: it leaves its own open, by name."""
    try:
        return check(analysis, subject)
    except Exception as error:
        return Unproven(_failure(error))


def _failure(error: Exception) -> str:
    """What a reader should pass on. With KERNCAP_SANITIZER_STRICT set, the error itself (for tests)."""
    if os.environ.get("KERNCAP_SANITIZER_STRICT"):
        raise error
    frame = traceback.extract_tb(error.__traceback__)[-1]
    place = f"{os.path.basename(frame.filename)}:{frame.lineno}"
    return f"the sanitizer failed here, which is a bug in kerncap: {type(error).__name__}: {error} ({place})"


def _races(analysis: Analysis) -> list[Settled]:
    try:
        return races.check(analysis)
    except Exception as error:
        reason = _failure(error)
        return [
            Settled("race", kind_of(one), one.location, Unproven(reason), one.order)
            for one in memory_operations(analysis.module)
        ]


def _compiled(analysis: Analysis) -> list[Settled]:
    """What only TTGIR has: shared memory, and ways to the launch's memory that are not read."""
    if not shared.is_ttgir(analysis.module):
        return []
    settled = []
    if "oob" in analysis.options.checks:
        settled += shared.unseen_accesses(analysis.module)
    if "shared" in analysis.options.checks:
        try:
            settled += shared.check(analysis.module, analysis.launch)
        except Exception as error:
            operations = shared.operations(analysis.module)
            settled += [shared.settled(one, Unproven(_failure(error))) for one in operations]
    return settled


def _promises(analysis: Analysis) -> Iterable[Settled]:
    grouped: dict[tuple[Operation | None, str, str], list[Verdict]] = {}
    where: dict[tuple[Operation | None, str, str], Promise] = {}
    for promise in analysis.walked.promises:
        key: tuple[Operation | None, str, str] = (promise.operation, promise.kind, promise.subject)
        verdict = _guarded(promises.check, analysis, promise)
        grouped.setdefault(key, []).append(verdict)
        where[key] = promise
    for key, verdicts in grouped.items():
        order = key[0].order if key[0] is not None else -1
        yield Settled("promise", "none", where[key].location, join(verdicts), order)


def _evaluate(analysis: Analysis, settled: list[Settled], notes: list[str]) -> list[Settled]:
    """What stays open goes to the concrete tier, all of it in one evaluation of the launch."""
    open_ones: set[tuple[int, Check]] = {
        (one.order, one.check)
        for one in settled
        if isinstance(one.verdict, Unproven)
        and one.check != "promise"
        and one.verdict.reason != uninit.NOT_KNOWN
    }
    if not open_ones:
        return settled
    operations = {operation.order: operation for operation in memory_operations(analysis.module)}
    wanted: list[Wanted] = [
        (operations[order], check) for order, check in sorted(open_ones) if order in operations
    ]
    try:
        result = settle(analysis, wanted)
    except Exception as error:
        notes.append(f"contents were not examined: {_failure(error)}")
        return settled
    answers = {(operation.order, check): verdict for (operation, check), verdict in result.verdicts.items()}
    done: list[Settled] = []
    for one in settled:
        verdict = answers.get((one.order, one.check)) if (one.order, one.check) in open_ones else None
        if _is_chance(analysis, one, verdict, operations):
            verdict = None
        if one.check == "uninit" and isinstance(verdict, Proved):
            verdict = uninit.noted(analysis, operations[one.order], verdict)
        if isinstance(verdict, Unproven) and isinstance(one.verdict, Unproven):
            # Why the proof failed and why the contents did not help, both.
            verdict = Unproven(_both(one.verdict.reason, verdict.reason))
        done.append(one if verdict is None else replace(one, verdict=verdict))
    return done


def _is_chance(
    analysis: Analysis, one: Settled, verdict: Verdict | None, operations: Mapping[int, Operation]
) -> bool:
    """Whether racing stores are equal for these contents only, of which the walk knows that they race."""
    return (
        isinstance(one.verdict, Unproven)
        and one.verdict.reason == EQUAL_THERE
        and isinstance(verdict, Violated)
        and all(finding.note for finding in verdict.findings)
        and not computed(operations[one.order], analysis.function)
    )


def _with_lanes(analysis: Analysis, settled: list[Settled], notes: list[str]) -> list[Settled]:
    try:
        return with_one_program(analysis, with_lanes(analysis, settled))
    except Exception as error:
        notes.append(f"lanes of one program that meet were not looked for: {_failure(error)}")
        return settled


def _without_unused(analysis: Analysis, settled: list[Settled]) -> list[Settled]:
    """Loads of memory that nobody wrote are no findings if nothing of it is used."""
    accused = {
        one.order
        for one in settled
        if one.access == "load"
        and isinstance(one.verdict, Violated)
        and all(finding.unwritten for finding in one.verdict.findings)
    }
    loads = [
        one
        for one in memory_operations(analysis.module)
        # What is copied to shared memory is used from there.
        if one.order in accused and one.name != "ttg.async_copy_global_to_local"
    ]
    dropped = {one.order for one in unused(analysis, loads)} if loads else set()
    return [
        replace(one, verdict=Proved("evaluated", contents=True))
        if one.order in dropped and one.check == "uninit"
        else one
        for one in settled
    ]


def _both(symbolic: str, concrete: str) -> str:
    return symbolic if concrete in symbolic else f"{symbolic}; {concrete}"


def _unfollowed(analysis: Analysis, reason: str) -> list[Settled]:
    """Nothing is known symbolically: every memory operation is open for every check."""
    checks: tuple[Check, ...] = ("oob", "race", "uninit", "overflow", "alignment")
    return [
        Settled(check, kind_of(operation), operation.location, Unproven(reason), operation.order)
        for operation in memory_operations(analysis.module)
        for check in checks
        if check in analysis.options.checks and not (check == "race" and analysis.launch.program_count == 1)
    ]


def kind_of(operation: Operation) -> AccessKind:
    return MEMORY[operation.name]


def _programs(launch: Launch) -> tuple[Variable, Variable, Variable]:
    x, y, z = (Variable(f"program_id({axis})", "program", 0, n - 1) for axis, n in enumerate(launch.grid))
    return x, y, z


def _report(
    launch: Launch, settled: tuple[Settled, ...], notes: tuple[str, ...], started: float
) -> LaunchReport:
    return LaunchReport(
        kernel=launch.kernel,
        grid=launch.grid,
        settled=settled,
        notes=notes,
        label=launch.label,
        configuration=launch.configuration,
        python_stack=launch.python_stack,
        seconds=time.perf_counter() - started,
        sources=launch.sources,
    )

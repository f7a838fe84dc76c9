"""The check of shared and tensor memory in a launch's TTGIR: an answer for each operation that uses it."""

from __future__ import annotations

from contextlib import suppress
from typing import Any

import numpy as np

from kerncap.sanitizer.concrete.dataflow import Dataflow
from kerncap.sanitizer.findings import (
    AccessKind,
    Finding,
    OtherAccess,
    Place,
    Proved,
    Settled,
    Unproven,
    Verdict,
    Violated,
)
from kerncap.sanitizer.launch import Launch
from kerncap.sanitizer.shared.clusters import Cluster
from kerncap.sanitizer.shared.in_flight import Wait
from kerncap.sanitizer.shared.needed_operations import needed, unmodelled
from kerncap.sanitizer.shared.operations import ACTIONS
from kerncap.sanitizer.shared.program_path import Path
from kerncap.sanitizer.shared.program_run import Diverged, Programs, Report, Stopped, Violation
from kerncap.sanitizer.ttir.ir import Module, Operation

MAX_STEPS = 1_000_000  # operations that are followed, of all paths together
MAX_PROGRAMS = 1 << 22
MAX_LATE = 8  # waits that are tried late, of one path
MAX_BLOCKS = 16  # of a cluster, that reach each other's memory
_VIEWS = frozenset(
    ("ttg.memdesc_subslice", "ttng.tmem_subslice", "ttg.memdesc_trans", "ttg.memdesc_reshape",
     "ttg.memdesc_reinterpret", "ttng.inval_barrier", "ttng.clc_is_canceled")
)  # fmt: skip
_WRITING = ("store", "alloc", "copy_global_to_local", "scatter", "init_barrier", "tma_gather", "dealloc")


def is_ttgir(module: Module) -> bool:
    return "ttg.num-warps" in module.attributes


def operations(module: Module) -> list[Operation]:
    """Those that get an answer; what only makes a view of another part of a buffer gets none."""
    return [
        one
        for one in module.operations()
        if one.name not in _VIEWS and (one.name in ACTIONS or unmodelled(one, ACTIONS))
    ]


def unseen_accesses(module: Module) -> list[Settled]:
    """Copies between the launch's memory and shared memory whose addresses no other check reads."""
    return [
        Settled("oob", "load", one.location, Unproven(f"the addresses of {one.name} are not read"), one.order)
        for one in module.operations()
        if one.name.startswith(("amdg.", "amdgpu."))
    ]


def check(module: Module, launch: Launch) -> list[Settled]:
    """Follow every path that programs of the launch take. Nothing for a kernel without shared memory."""
    found = operations(module)
    if not found:
        return []
    report = Report()
    doubt = next((f"{one.name} is not modelled" for one in found if one.name not in ACTIONS), "")
    cluster = Cluster.of(module)
    blocks = cluster.blocks if cluster.reached(module, ACTIONS, 1) else 1
    doubt = doubt or cluster.reached(module, ACTIONS, blocks) or cluster.synchronised(module, blocks)
    if launch.program_count > MAX_PROGRAMS:
        report.stopped = f"the grid has more than {MAX_PROGRAMS:,} programs"
    elif blocks > MAX_BLOCKS:
        report.stopped = f"a cluster has more than {MAX_BLOCKS} blocks"
    else:
        _follow(module, launch, report, blocks)
    # A product's result may be used by any operation.
    also = dict.fromkeys(one.operation for one in report.violations.values())
    answers = [settled(one, _verdict(one, report, doubt, launch)) for one in dict.fromkeys([*found, *also])]
    # A wait is counted only if something is wrong with it.
    return [one for one in answers if one.access != "none" or not isinstance(one.verdict, Proved)]


def settled(operation: Operation, verdict: Verdict) -> Settled:
    return Settled("shared", _kind(operation), operation.location, verdict, operation.order)


def _follow(module: Module, launch: Launch, report: Report, blocks: int) -> None:
    function = module.kernel
    wanted = needed(Dataflow(module, function, launch), frozenset(ACTIONS))
    budget = [MAX_STEPS]
    paths: list[tuple[Programs, int]] = [(np.arange(launch.program_count, dtype=np.int64), 0)]
    while paths:
        programs, taken = paths.pop()
        arguments = (module, function, launch, programs, wanted, ACTIONS, report, budget, blocks, taken)
        run = Path(*arguments)
        try:
            run.follow()
        except Diverged as several:
            paths += [(one, taken) for one in several.groups]
        except Stopped as stopped:
            report.stopped = report.stopped or str(stopped)
        else:
            if not report.violations:
                _begin_late(run.overrun, report, arguments)
            if run.ends_by_answer and taken + 1 < launch.program_count:
                paths.append((programs, taken + 1))


def _begin_late(waits: list[Wait], report: Report, arguments: tuple[Any, ...]) -> None:
    """Each such wait may begin once the phase after its own is over, and then has missed its own."""
    first = {one.operation: one for one in reversed(waits)}
    for late in list(first.values())[:MAX_LATE]:
        tried = Report()
        with suppress(Diverged, Stopped):
            Path(*arguments[:6], tried, *arguments[7:], late=late).follow()
        if tried.violations:
            report.violations.update(tried.violations)
            report.stopped = report.stopped or tried.stopped
            return


def _verdict(operation: Operation, report: Report, doubt: str, launch: Launch) -> Verdict:
    found = [one for one in report.violations.values() if one.operation is operation]
    if found and doubt:
        return Unproven(f"{found[0].message}; but {doubt}, and may order them")
    if found:
        return Violated(tuple(_finding(one, launch) for one in found))
    reason = report.open.get(operation) or report.stopped
    return Unproven(reason) if reason else Proved("ordered")


def _finding(found: Violation, launch: Launch) -> Finding:
    other = None
    if found.other is not None:
        place = _place(found.program, found.other.iterations, launch)
        kind: AccessKind = "store" if found.other.writes else "load"
        other = OtherAccess(kind, found.other.operation.location, place)
    return Finding(
        check="shared",
        access=_kind(found.operation),
        location=found.operation.location,
        message=found.message,
        place=_place(found.program, found.iterations, launch),
        argument=found.view.allocation.name if found.view is not None else None,
        other=other,
        python_stack=launch.python_stack,
    )


def _place(program: int, iterations: tuple[tuple[str, int], ...], launch: Launch) -> Place:
    x, y, _ = launch.grid
    return Place((program % x, program // x % y, program // (x * y)), (), iterations)


def _kind(operation: Operation) -> AccessKind:
    name = operation.name
    if any(word in name for word in ("wait", "barrier", "arrive", "commit", "index", "dealloc")):
        return "none"
    return "store" if any(word in name for word in _WRITING) else "load"

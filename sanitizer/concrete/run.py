"""Evaluates one launch: all programs or some, in chunks in lockstep, or one by one if they wait."""

from __future__ import annotations

import time
from collections.abc import Iterator
from dataclasses import dataclass

import numpy as np

from kerncap.log import one_line
from kerncap.sanitizer.concrete import (  # noqa: F401  (each fills the tables of operations)
    blocks,
    control,
    left_out,
    ops_atomic,
    ops_basic,
    ops_dot,
    ops_memory,
    ops_pointers,
    ops_reduce,
    ops_shape,
    ops_shared,
    rounding,
)
from kerncap.sanitizer.concrete.control import run_region
from kerncap.sanitizer.concrete.dataflow import Dataflow
from kerncap.sanitizer.concrete.events import Observer, Reads, Results, StopEvaluation
from kerncap.sanitizer.concrete.machine import Limits, Machine, Progress, Shared, Track
from kerncap.sanitizer.concrete.memory import Memory
from kerncap.sanitizer.concrete.needed_operations import address_arithmetic, addresses, waits
from kerncap.sanitizer.concrete.plan import Plan
from kerncap.sanitizer.concrete.values import Incomplete, Ints, shape_of, where
from kerncap.sanitizer.launch import Launch
from kerncap.sanitizer.paged_bytes import NotReadable
from kerncap.sanitizer.ttir.ir import Function, Module, walk

__all__ = ["Limits", "Memory", "Outcome", "Track", "evaluate"]

# Elements of the largest tile of one chunk: few enough that arrays stay in the processor's cache.
_CHUNK_ELEMENTS = 1 << 18
_CHUNK_PROGRAMS = 1 << 14
# Elements of all of a chunk's values together, which live until its end: some 200 MB at most.
_CHUNK_VALUES = 1 << 25


@dataclass(frozen=True)
class Outcome:
    """How an evaluation ended. ``complete``: every program ran to its end.

    ``stopped``: the observer had seen what it wanted. ``notes``: operations without semantics that were
    met, divisions by zero. ``unknown_contents``: storages, by index, that hold bytes which the kernel
    wrote and nobody knows, with the reason; `Memory.changed` is not to be relied upon for those.
    """

    complete: bool
    reason: str | None = None
    stopped: bool = False
    notes: tuple[str, ...] = ()
    unknown_contents: tuple[tuple[int, str], ...] = ()
    element_operations: int = 0
    forked: bool = False  # see `Shared.forked`


def evaluate(
    module: Module,
    function: Function,
    launch: Launch,
    memory: Memory,
    *,
    programs: Ints | None = None,
    addresses_only: bool = False,
    observer: Observer | None = None,
    limits: Limits = Limits(),  # noqa: B008  (frozen)
    track: Track = Track(),  # noqa: B008
    plan: Plan | None = None,
    results: Results | None = None,
    reads: Reads | None = None,
    at_once: int = _CHUNK_PROGRAMS,
) -> Outcome:
    """Runs a kernel's programs on ``memory``.

    ``programs``: linear ids (x fastest), in the order in which they are to run; all of them by default.
    ``addresses_only``: evaluates what addresses, masks and conditions depend on, and leaves out the rest:
    stores that nothing of that reads go to the observer and are not carried out.
    ``plan``: what to evaluate instead, and how, for callers with a plan of their own.
    ``results``: what atomics give back in place of what they find; what they leave behind stays the same.
    ``reads``: which of the elements that loads find are undefined; needs ``observer``.
    ``at_once``: the most programs in lockstep.
    """
    shared: Shared | None = None
    reason, stopped = None, False
    with np.errstate(all="ignore"):
        try:
            shared = _prepared(
                module, function, launch, memory, addresses_only, observer, limits, track, plan
            )  # fmt: skip
            shared.results, shared.reads = results, reads
            if programs is None:
                programs = np.arange(launch.program_count, dtype=np.int64)
            if shared.cooperative:
                _one_by_one(shared, programs)
            else:
                done = 0
                for chunk in _chunks(function, programs, plan, at_once):
                    _finish(_start(shared, chunk))
                    done += len(chunk)
                    if limits.reached is not None:
                        limits.reached(done, len(programs))
        except Incomplete as incomplete:
            reason = str(incomplete)
        except NotReadable as error:
            reason = str(error)
        except MemoryError:
            reason = "too large: not enough memory"
        except StopEvaluation:
            reason, stopped = "the observer has seen what it wanted", True
        except Exception as error:  # a mistake of the evaluator's: nothing is known, least of all a proof
            reason = f"the evaluation failed: {type(error).__name__}: {one_line(str(error))}"
    return Outcome(
        reason is None,
        reason,
        stopped,
        tuple(shared.notes) if shared is not None else (),
        tuple(sorted(memory.unknown().items())),
        shared.spent if shared is not None else 0,
        shared.forked if shared is not None else False,
    )


def _prepared(
    module: Module,
    function: Function,
    launch: Launch,
    memory: Memory,
    addresses_only: bool,
    observer: Observer | None,
    limits: Limits,
    track: Track,
    plan: Plan | None,
) -> Shared:
    flow = Dataflow(module, function, launch)
    plan = plan or Plan(
        module,
        function,
        launch,
        track,
        addresses(flow) if addresses_only else None,
        address_arithmetic(flow) if track.overflow else None,
    )
    shared = Shared(launch, memory, plan, limits, observer)
    shared.deadline = time.thread_time() + limits.seconds
    shared.cooperative = any(
        operation.name == "tt.atomic_poll" or (operation.name == "scf.while" and waits(flow, operation))
        for operation in flow.operations
    )
    return shared


# --- programs ----------------------------------------------------------------------------------------


def _chunks(function: Function, programs: Ints, plan: Plan | None, at_once: int) -> Iterator[Ints]:
    largest = total = 1
    assert function.body is not None
    for operation in walk(function.body):
        if plan is not None and not plan.evaluated(operation):
            continue
        for value in operation.results:
            elements = int(np.prod(shape_of(value.type), dtype=np.int64))
            largest, total = max(largest, elements), total + elements
    size = max(1, min(at_once, _CHUNK_ELEMENTS // largest, _CHUNK_VALUES // total))
    for start in range(0, len(programs), size):
        yield programs[start : start + size]


def _start(shared: Shared, programs: Ints) -> tuple[Machine, Progress]:
    machine = Machine(shared, np.asarray(programs, dtype=np.int64))
    function = shared.plan.function
    for index, argument in enumerate(function.arguments):
        machine.env[argument] = shared.plan.argument(argument, index)
    return machine, _body(machine, function)


def _body(machine: Machine, function: Function) -> Progress:
    assert function.body is not None
    yield from run_region(machine, function.body)


def _finish(started: tuple[Machine, Progress]) -> None:
    for _ in started[1]:
        pass


def _one_by_one(shared: Shared, programs: Ints) -> None:
    """Each program goes until it waits or ends; those that wait take turns until nobody gets on."""
    waiting: list[tuple[Machine, Progress]] = []
    for program in programs:
        started = _start(shared, program.reshape(1))
        if not _ends(started):
            waiting.append(started)
    while waiting:
        version = shared.memory.version
        still, progress = [], False
        for started in waiting:
            machine, run = started
            try:
                progress |= next(run)
                still.append(started)
            except StopIteration:
                progress = True
        if not progress and shared.memory.version == version:
            raise Incomplete(_deadlock(shared, still))
        waiting = still


def _ends(started: tuple[Machine, Progress]) -> bool:
    return next(started[1], None) is None


def _deadlock(shared: Shared, waiting: list[tuple[Machine, Progress]]) -> str:
    machine = waiting[0][0]
    grid = shared.launch.grid
    linear = int(machine.programs[0])
    place = (linear % grid[0], linear // grid[0] % grid[1], linear // (grid[0] * grid[1]))
    at = "" if machine.waiting is None else f" in {where(machine.waiting)}"
    count = f"{len(waiting)} programs wait" if len(waiting) > 1 else "a program waits"
    return f"deadlock: {count}{at} for a value that is never written, the first is program {place}"

"""Operations on mbarriers, and on the barrier of a cluster's blocks."""

from __future__ import annotations

from kerncap.sanitizer.shared.in_flight import Barrier, Thread, Wait
from kerncap.sanitizer.shared.operands import numbers_of, short
from kerncap.sanitizer.shared.program_run import Env, Later, Run, Stopped, attribute
from kerncap.sanitizer.shared.views import View
from kerncap.sanitizer.ttir.ir import IntType, Operation


def _key(view: View, block: int) -> tuple[Operation, int, int]:
    return view.allocation.operation, view.box[0][0] if len(view.box) > 1 else 0, block


def initialise(run: Run, operation: Operation, env: Env, thread: Thread) -> None:
    view = run.view(env, operation.operands[0], operation)
    counts = numbers_of(operation) or [attribute(operation, "count")]
    name = run.of_block(view, thread.block)
    if run.blocks > 1 and _key(view, thread.block) in run.ended_barriers:
        raise Stopped(f"a second barrier in {name}, which other blocks may use, is not modelled")
    if _key(view, thread.block) in run.barriers:
        run.violate(operation, f"{name} is a barrier already: it is not invalidated before", thread, view)
    count = counts[0] * len(run.cluster.sharing(operation.operands[0].type, thread.block))
    barrier = run.barriers[_key(view, thread.block)] = Barrier(name, count, count)
    run.initialised.append(barrier)
    run.access(operation, view, thread, True, short(operation))
    thread.initialised = thread.step


def invalidate(run: Run, operation: Operation, env: Env, thread: Thread) -> None:
    view = run.view(env, operation.operands[0], operation)
    barrier = barrier_in(run, operation, view, thread, thread.block)
    if barrier is None:
        return
    in_use = barrier.pending != barrier.count or barrier.bytes != 0
    if run.blocks > 1 and (in_use or thread.clock.get(barrier, -1) < barrier.phase - 1):
        run.doubt(f"nothing shows that other blocks are done with {barrier.name} when it is invalidated")
    run.ended_barriers.add(_key(view, thread.block))
    del run.barriers[_key(view, thread.block)]


def barrier_in(run: Run, operation: Operation, view: View, thread: Thread, block: int) -> Barrier | None:
    doubt = run.doubted_barriers.get(view.allocation.operation)
    if doubt:
        raise Stopped(f"{doubt}, which uses the barrier {view}, is not modelled")
    found = run.barriers.get(_key(view, block))
    if found is None and block != thread.block:
        # The compiler lets no block go on before the barriers that others use are made.
        raise Later
    if found is None:
        run.violate(
            operation, f"{short(operation)} uses the barrier {view}, which is not initialised", thread, view
        )
        raise Stopped("the kernel uses a barrier that is not initialised before")
    return found


def _signalled(run: Run, operation: Operation, env: Env, thread: Thread) -> list[Barrier]:
    """The barriers at which the block arrives: usually its own, or the one that it shares."""
    value = operation.operands[0]
    view = run.view(env, value, operation)
    to = [one for one in range(run.blocks) if run.cluster.sender(operation, one) == thread.block]
    found = [barrier_in(run, operation, view, thread, run.cluster.first(value.type, one)) for one in to]
    return [one for one in found if one is not None]


def expect(run: Run, operation: Operation, env: Env, thread: Thread) -> None:
    if run.predicated(operation, env):
        sizes = numbers_of(operation) or [attribute(operation, "size")]
        for barrier in _signalled(run, operation, env, thread):
            count_arrivals(run, operation, thread, barrier, 1)
            barrier.expect(thread, sizes[0])


def arrive(run: Run, operation: Operation, env: Env, thread: Thread) -> None:
    if "perThread" in operation.attributes:
        raise Stopped("arrive_barrier by each thread is not modelled")
    if run.predicated(operation, env):
        counts = numbers_of(operation) or [attribute(operation, "count")]
        for barrier in _signalled(run, operation, env, thread):
            count_arrivals(run, operation, thread, barrier, counts[0])
            barrier.arrive(thread, counts[0])


def count_arrivals(run: Run, operation: Operation, thread: Thread, barrier: Barrier, count: int) -> None:
    thread.tick()
    in_phase(run, thread, barrier)
    if count > barrier.pending:
        message = f"{short(operation)} arrives {count} times at {barrier.name}, whose phase {barrier.phase}"
        run.violate(operation, f"{message} lacks {barrier.pending} arrivals", thread)
        raise Stopped("a barrier gets too many arrivals before")


def in_phase(run: Run, thread: Thread, barrier: Barrier) -> None:
    """Which phase gets an arrival may rest on how fast other blocks are."""
    if run.blocks > 1 and not barrier.begun_for(thread.clock):
        run.doubt(f"nothing shows that phase {barrier.phase - 1} of {barrier.name} is over for an arrival")


def wait(run: Run, operation: Operation, env: Env, thread: Thread) -> Wait | None:
    value = operation.operands[0]
    if run.cluster.first(value.type, thread.block) != thread.block:
        return None  # only the block that has the barrier waits
    flags = [one for one in operation.operands[2:3] if one.type == IntType(1)]
    if flags and not run.happens(env, flags[0], operation):
        return None
    barrier = barrier_in(run, operation, run.view(env, value, operation), thread, thread.block)
    if barrier is None:
        return None
    parity = run.decided(run.scalar(env, operation.operands[1]), "the phase of a wait") & 1
    phase = barrier.phase if barrier.phase & 1 == parity else barrier.phase - 1
    return Wait(thread, barrier, operation, phase, thread.iterations())


def meet(run: Run, operation: Operation, env: Env, thread: Thread) -> Wait | None:
    """All blocks of the cluster arrive and wait, at once or by two operations."""
    if thread.inherited:
        raise Stopped(f"{short(operation)} by a partition is not modelled")
    if (operation.name == "ttng.cluster_wait") != (thread.arrived > thread.met):
        raise Stopped(f"{short(operation)} without its other half is not modelled")
    if operation.name != "ttng.cluster_wait":
        count_arrivals(run, operation, thread, run.meeting, 1)
        relaxed = operation.attributes.get("relaxed") is True
        run.meeting.arrive(thread, tells=not relaxed)
        thread.arrived += 1
    if operation.name == "ttng.cluster_arrive":
        return None
    thread.met += 1
    return Wait(thread, run.meeting, operation, thread.met - 1, thread.iterations())

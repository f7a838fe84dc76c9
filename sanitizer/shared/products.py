"""Products: wgmma, and tcgen05 with its copies and commits."""

from __future__ import annotations

from kerncap.sanitizer.shared.barriers import barrier_in, count_arrivals
from kerncap.sanitizer.shared.in_flight import Access, Barrier, Thread
from kerncap.sanitizer.shared.operands import flags_of, has, memories_of
from kerncap.sanitizer.shared.program_run import Env, Run, Stopped, attribute
from kerncap.sanitizer.shared.views import memory_type
from kerncap.sanitizer.ttir.ir import Operation, Value


def product(run: Run, operation: Operation, env: Env, thread: Thread) -> None:
    """wgmma: reads its operands until a wait, and its accumulator is there after it."""
    asynchronous = operation.attributes.get("isAsync") is True
    accesses = [
        run.access(
            operation,
            run.view(env, one, operation),
            thread,
            False,
            "warp_group_dot",
            asynchronous,
            "products",
            True,
        )
        for one in memories_of(operation)
    ]
    end = thread.entry("products")
    if not asynchronous:
        thread.wait_queue("products", 0)
        env.pop(operation.results[0], None)
        return
    for access in accesses:
        access.ends.append(end)
    if not accesses:
        raise Stopped("the operands of warp_group_dot are not understood")
    env[operation.results[0]] = accesses[0]


def wait_products(run: Run, operation: Operation, env: Env, thread: Thread) -> None:
    thread.wait_queue("products", attribute(operation, "pendings"))
    for operand, result in zip(operation.operands, operation.results, strict=False):
        found = env.get(operand)
        if found is None:
            env.pop(result, None)
        else:
            env[result] = found


def tensor_product(run: Run, operation: Operation, env: Env, thread: Thread) -> None:
    """tcgen05: operands and accumulator are in use until a barrier that a commit arrives at.

    Also without ``is_async``: Triton's compiler has added a wait to such a product, Gluon's adds none.
    """
    memories = [one for one in memories_of(operation) if not _is_barrier(one)]
    barriers = [one for one in memories_of(operation) if _is_barrier(one)]
    flags = flags_of(operation)
    if len(memories) < 3 or len(flags) != 2 + len(barriers):
        raise Stopped(f"the operands of {operation.name} are not understood")
    if not run.happens(env, flags[1], operation) or _follows(run, thread):
        return
    accumulates = run.happens(env, flags[0], operation)
    used: list[Access] = []
    several = memories[:2] if has(operation, "multicast") else []
    commits = [
        _commit_barriers(run, operation, env, thread, value, several)
        for value, flag in zip(barriers, flags[2:], strict=True)
        if run.happens(env, flag, operation)
    ]

    def use(value: Value, writes: bool) -> None:
        view = run.view(env, value, operation)
        for block in _together(run, thread):
            access = run.access(
                operation, view, thread, writes, "tc_gen5_mma", True, "tcgen05", True, block=block
            )
            used.append(access)

    for number, value in enumerate(memories):
        if number != 2:
            use(value, False)
    if accumulates:
        use(memories[2], False)
    use(memories[2], True)
    thread.products += used
    for one in commits:
        _commit_to(run, operation, thread, one)


def _follows(run: Run, thread: Thread) -> bool:
    """Of two blocks that use tcgen05 together, the first one issues it."""
    return _together(run, thread)[0] != thread.block


def _together(run: Run, thread: Thread) -> list[int]:
    first = thread.block & ~1
    return [first, first + 1] if run.blocks > 1 and run.cluster.pairs else [thread.block]


def _is_barrier(value: Value) -> bool:
    type_ = memory_type(value.type)
    return type_ is not None and type_.is_barrier


def tensor_copy(run: Run, operation: Operation, env: Env, thread: Thread) -> None:
    memories = memories_of(operation)
    source, target = (run.view(env, one, operation) for one in memories[:2])
    if _follows(run, thread):
        return
    commits = [_commit_barriers(run, operation, env, thread, one, []) for one in memories[2:]]
    for view, writes in ((source, False), (target, True)):
        for block in _together(run, thread):
            access = run.access(
                operation, view, thread, writes, "tmem_copy", True, "tcgen05", True, block=block
            )
            thread.products.append(access)
    for one in commits:
        _commit_to(run, operation, thread, one)


def commit_products(run: Run, operation: Operation, env: Env, thread: Thread) -> None:
    flags = flags_of(operation)
    if (not flags or run.happens(env, flags[-1], operation)) and not _follows(run, thread):
        barrier, *several = memories_of(operation)
        _commit_to(run, operation, thread, _commit_barriers(run, operation, env, thread, barrier, several))


def _commit_barriers(
    run: Run, operation: Operation, env: Env, thread: Thread, value: Value, several: list[Value]
) -> list[Barrier]:
    """``several``: operands that copies bring to several blocks, which all learn of the end."""
    view = run.view(env, value, operation)
    blocks = {thread.block, *_together(run, thread)}
    if run.blocks > 1:
        for one in several:
            for block in _together(run, thread):
                blocks.update(run.cluster.sharing(one.type, block))
    found = [barrier_in(run, operation, view, thread, block) for block in sorted(blocks)]
    return [one for one in found if one is not None]


def _commit_to(run: Run, operation: Operation, thread: Thread, barriers: list[Barrier]) -> None:
    """Each barrier gets one arrival when everything before is over, all at once."""
    event = thread.entry("commits")
    thread.products = [one for one in thread.products if not one.over_for(thread.clock)]
    for barrier in barriers:
        for access in thread.products:
            access.ends.append((barrier, barrier.phase))
            access.barrier = barrier
        count_arrivals(run, operation, thread, barrier, 1)
        barrier.arrive(thread, event=event)

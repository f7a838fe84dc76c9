"""What each operation on shared and tensor memory does to the machine.

Source: Triton's TritonGPUOps.td and TritonNvidiaGPUOps.td; PTX ISA.
"""

from __future__ import annotations

from functools import partial

from kerncap.sanitizer.shared.in_flight import Access, Barrier, Thread, Wait
from kerncap.sanitizer.shared.needed_operations import FENCES, HARMLESS
from kerncap.sanitizer.shared.program_run import (
    Action,
    Cancelled,
    Env,
    Later,
    Outside,
    Run,
    Stopped,
    view_of_allocation,
)
from kerncap.sanitizer.shared.scalars import Unknown
from kerncap.sanitizer.shared.views import View, memory_type
from kerncap.sanitizer.ttir.ir import IntType, Operation, TensorType, Value


def _memories(operation: Operation) -> list[Value]:
    return [one for one in operation.operands if memory_type(one.type) is not None]


def _numbers(operation: Operation) -> list[int]:
    """Integers that the custom assembly has between operands: offsets, counts."""
    words = operation.attributes.get("words", ())
    return [int(word) for word in words if str(word).lstrip("-").isdecimal()]


def _flags(operation: Operation) -> list[Value]:
    return [one for one in operation.operands if one.type == IntType(1)]


def _predicated(run: Run, operation: Operation, env: Env) -> bool:
    """By the last operand, if that is a flag."""
    flags = _flags(operation)
    return not flags or run.happens(env, flags[-1], operation)


# --- buffers and views --------------------------------------------------------------------------------


def _allocate(run: Run, operation: Operation, env: Env, thread: Thread) -> None:
    view = view_of_allocation(operation)
    if view is None:
        raise Stopped(f"the type of {operation.name} is not understood")
    env[operation.results[0]] = view
    run.buffer(view, thread.block).filled = []
    if any(isinstance(one.type, TensorType) for one in operation.operands):
        run.access(operation, view, thread, True, _short(operation))


def _free(run: Run, operation: Operation, env: Env, thread: Thread) -> None:
    view = run.view(env, operation.operands[0], operation)
    # As a write: whatever gets the memory next writes it.
    run.access(operation, view, thread, True, _short(operation))
    run.buffer(view, thread.block).filled = []


def _source(operation: Operation, env: Env) -> View | None:
    """What a view is made of; views of what is outside are outside too."""
    found = env.get(operation.operands[0])
    if isinstance(found, Outside):
        env[operation.results[0]] = found
    return found if isinstance(found, View) else None


def _index(run: Run, operation: Operation, env: Env, thread: Thread) -> None:
    result = operation.results[0]
    source = _source(operation, env)
    if source is None:
        return
    type_ = memory_type(operation.operands[0].type)
    number = run.scalar(env, operation.operands[1])
    if type_ is None or isinstance(number, Unknown):
        reason = number.reason if isinstance(number, Unknown) else "a type that is not understood"
        run.leave_open(operation, f"its index rests on {reason}")
        env[result] = Unknown(reason)
        return
    at = run.decided(number, "an index")
    if not 0 <= at < type_.shape[0]:
        message = f"index {at} of {source.allocation.name} is out of bounds: it has {type_.shape[0]} slots"
        # Often of a slot before the first one, whose use has a condition.
        env[result] = Outside(partial(run.violate, operation, message, thread, source))
        return
    env[result] = source.index(at)


def _slice(run: Run, operation: Operation, env: Env, thread: Thread) -> None:
    source = _source(operation, env)
    type_ = memory_type(operation.results[0].type)
    if source is None or type_ is None:
        return
    starts = _numbers(operation)
    if operation.name == "ttng.tmem_subslice":
        starts = [0] * len(type_.shape)
        offset = operation.attributes.get("offset", operation.attributes.get("N"))
        if isinstance(offset, int):
            starts[int(operation.attributes.get("dim", len(starts) - 1))] = offset
        else:
            starts = []
    if len(starts) != len(type_.shape):
        env[operation.results[0]] = View(source.allocation, source.box, None, False)
        return
    view = source
    for axis, (start, size) in enumerate(zip(starts, type_.shape, strict=True)):
        view = view.part(axis, start, size)
    env[operation.results[0]] = view


def _transpose(run: Run, operation: Operation, env: Env, thread: Thread) -> None:
    source = _source(operation, env)
    if source is not None:
        order = operation.attributes.get("order")
        if isinstance(order, tuple) and all(isinstance(one, int) for one in order):
            env[operation.results[0]] = source.transposed(order)
        else:
            env[operation.results[0]] = source.reshaped()


def _reshape(run: Run, operation: Operation, env: Env, thread: Thread) -> None:
    source = _source(operation, env)
    if source is None:
        return
    old = memory_type(operation.operands[0].type)
    sizes = [run.cluster.size_bytes(one.type) for one in (operation.operands[0], operation.results[0])]
    view = source.reshaped()
    if old is None or old.tensor_memory or None in sizes or sizes[0] != sizes[1]:
        view = View(view.allocation, view.box, None, False)
    env[operation.results[0]] = view


# --- accesses in order ---------------------------------------------------------------------------------


def _load(run: Run, operation: Operation, env: Env, thread: Thread) -> None:
    run.access(operation, run.view(env, operation.operands[0], operation), thread, False, _short(operation))


def _store(run: Run, operation: Operation, env: Env, thread: Thread) -> None:
    if _predicated(run, operation, env):
        view = run.view(env, _memories(operation)[0], operation)
        run.access(operation, view, thread, True, _short(operation))


def _gather(run: Run, operation: Operation, env: Env, thread: Thread) -> None:
    view = run.view(env, _memories(operation)[0], operation)
    part = View(view.allocation, view.box, view.axes, False)
    run.access(operation, part, thread, operation.name.endswith("scatter"), _short(operation))


# --- copies in commit groups ----------------------------------------------------------------------------


def _copy(run: Run, operation: Operation, env: Env, thread: Thread) -> None:
    view = run.view(env, _memories(operation)[0], operation)
    thread.copies.append(run.access(operation, view, thread, True, "async_copy", True))


def _commit(run: Run, operation: Operation, env: Env, thread: Thread) -> None:
    end = thread.entry("copies")
    for access in thread.copies:
        access.ends.append(end)
    thread.copies = []


def _wait_copies(run: Run, operation: Operation, env: Env, thread: Thread) -> None:
    thread.wait_queue("copies", _attribute(operation, "num"))


def _attribute(operation: Operation, name: str) -> int:
    value = operation.attributes.get(name)
    if not isinstance(value, int):
        raise Stopped(f"{operation.name} does not say how many it leaves in flight")
    return value


# --- barriers -------------------------------------------------------------------------------------------


def _key(view: View, block: int) -> tuple[Operation, int, int]:
    return view.allocation.operation, view.box[0][0] if len(view.box) > 1 else 0, block


def _initialise(run: Run, operation: Operation, env: Env, thread: Thread) -> None:
    view = run.view(env, operation.operands[0], operation)
    counts = _numbers(operation) or [_attribute(operation, "count")]
    name = run.of_block(view, thread.block)
    if run.blocks > 1 and _key(view, thread.block) in run.ended_barriers:
        raise Stopped(f"a second barrier in {name}, which other blocks may use, is not modelled")
    if _key(view, thread.block) in run.barriers:
        run.violate(operation, f"{name} is a barrier already: it is not invalidated before", thread, view)
    count = counts[0] * len(run.cluster.sharing(operation.operands[0].type, thread.block))
    barrier = run.barriers[_key(view, thread.block)] = Barrier(name, count, count)
    run.initialised.append(barrier)
    run.access(operation, view, thread, True, _short(operation))
    thread.initialised = thread.step


def _invalidate(run: Run, operation: Operation, env: Env, thread: Thread) -> None:
    view = run.view(env, operation.operands[0], operation)
    barrier = _barrier(run, operation, view, thread, thread.block)
    if barrier is None:
        return
    in_use = barrier.pending != barrier.count or barrier.bytes != 0
    if run.blocks > 1 and (in_use or thread.clock.get(barrier, -1) < barrier.phase - 1):
        raise Stopped(f"nothing shows that other blocks are done with {barrier.name} when it is invalidated")
    run.ended_barriers.add(_key(view, thread.block))
    del run.barriers[_key(view, thread.block)]


def _barrier(run: Run, operation: Operation, view: View, thread: Thread, block: int) -> Barrier | None:
    doubt = run.doubted_barriers.get(view.allocation.operation)
    if doubt:
        raise Stopped(f"{doubt}, which uses the barrier {view}, is not modelled")
    found = run.barriers.get(_key(view, block))
    if found is None and block != thread.block:
        # The compiler lets no block go on before the barriers that others use are made.
        raise Later
    if found is None:
        run.violate(
            operation, f"{_short(operation)} uses the barrier {view}, which is not initialised", thread, view
        )
        raise Stopped("the kernel uses a barrier that is not initialised before")
    return found


def _barrier_of(run: Run, operation: Operation, env: Env, thread: Thread, value: Value) -> Barrier | None:
    block = run.cluster.first(value.type, thread.block)
    return _barrier(run, operation, run.view(env, value, operation), thread, block)


def _expect(run: Run, operation: Operation, env: Env, thread: Thread) -> None:
    if _predicated(run, operation, env):
        barrier = _barrier_of(run, operation, env, thread, operation.operands[0])
        sizes = _numbers(operation) or [_attribute(operation, "size")]
        if barrier is not None:
            _count(run, operation, thread, barrier, 1)
            barrier.expect(thread, sizes[0])


def _arrive(run: Run, operation: Operation, env: Env, thread: Thread) -> None:
    if "perThread" in operation.attributes:
        raise Stopped("arrive_barrier by each thread is not modelled")
    if _predicated(run, operation, env):
        barrier = _barrier_of(run, operation, env, thread, operation.operands[0])
        counts = _numbers(operation) or [_attribute(operation, "count")]
        if barrier is not None:
            _count(run, operation, thread, barrier, counts[0])
            barrier.arrive(thread, counts[0])


def _count(run: Run, operation: Operation, thread: Thread, barrier: Barrier, count: int) -> None:
    thread.tick()
    _in_phase(run, thread, barrier)
    if count > barrier.pending:
        message = f"{_short(operation)} arrives {count} times at {barrier.name}, whose phase {barrier.phase}"
        run.violate(operation, f"{message} lacks {barrier.pending} arrivals", thread)
        raise Stopped("a barrier gets too many arrivals before")


def _in_phase(run: Run, thread: Thread, barrier: Barrier) -> None:
    """Which phase gets an arrival does not rest on how fast other blocks are."""
    if run.blocks > 1 and not barrier.begun_for(thread.clock):
        raise Stopped(
            f"nothing shows that phase {barrier.phase - 1} of {barrier.name} is over for an arrival"
        )


def _wait(run: Run, operation: Operation, env: Env, thread: Thread) -> Wait | None:
    if run.cluster.first(operation.operands[0].type, thread.block) != thread.block:
        return None  # only the block that has the barrier waits
    flags = [one for one in operation.operands[2:3] if one.type == IntType(1)]
    if flags and not run.happens(env, flags[0], operation):
        return None
    barrier = _barrier_of(run, operation, env, thread, operation.operands[0])
    if barrier is None:
        return None
    parity = run.decided(run.scalar(env, operation.operands[1]), "the phase of a wait") & 1
    phase = barrier.phase if barrier.phase & 1 == parity else barrier.phase - 1
    return Wait(thread, barrier, operation, phase, thread.iterations())


# --- the tensor memory accelerator -------------------------------------------------------------------------


def _fetch(run: Run, operation: Operation, env: Env, thread: Thread) -> None:
    if not _predicated(run, operation, env):
        return
    memories = _memories(operation)
    if len(memories) != 2:
        raise Stopped(f"the operands of {operation.name} are not understood")
    view = run.view(env, memories[0], operation)
    size = run.cluster.size_bytes(memories[0].type)
    blocks = [thread.block]
    if "multicast" in operation.attributes and run.blocks > 1:
        blocks = run.cluster.sharing(memories[0].type, thread.block)
        if blocks[0] != thread.block:
            return
    signals = run.view(env, memories[1], operation)
    barriers = [
        _barrier(run, operation, signals, thread, run.cluster.first(memories[1].type, block))
        for block in blocks
    ]
    for block, barrier in zip(blocks, barriers, strict=True):
        if barrier is not None and size is not None:
            access = run.access(operation, view, thread, True, "a TMA copy", True, proxy=True, block=block)
            _in_phase(run, thread, barrier)
            access.barrier = barrier
            access.ends.append(barrier.bring(thread, size))


def _send(run: Run, operation: Operation, env: Env, thread: Thread) -> None:
    view = run.view(env, _memories(operation)[0], operation)
    access = run.access(operation, view, thread, False, "a TMA store", True, proxy=True)
    access.ends.append(thread.entry("stores"))


def _wait_stores(run: Run, operation: Operation, env: Env, thread: Thread) -> None:
    thread.wait_queue("stores", _attribute(operation, "pendings"))


# --- products ----------------------------------------------------------------------------------------------


def _product(run: Run, operation: Operation, env: Env, thread: Thread) -> None:
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
        for one in _memories(operation)
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


def _wait_products(run: Run, operation: Operation, env: Env, thread: Thread) -> None:
    thread.wait_queue("products", _attribute(operation, "pendings"))
    for operand, result in zip(operation.operands, operation.results, strict=False):
        found = env.get(operand)
        if found is None:
            env.pop(result, None)
        else:
            env[result] = found


def _tensor_product(run: Run, operation: Operation, env: Env, thread: Thread) -> None:
    """tcgen05: operands and accumulator are in use until a barrier that a commit arrives at.

    Also without ``is_async``: Triton's compiler has added a wait to such a product, Gluon's adds none.
    """
    memories = [one for one in _memories(operation) if not _is_barrier(one)]
    barriers = [one for one in _memories(operation) if _is_barrier(one)]
    flags = _flags(operation)
    if len(memories) < 3 or len(flags) != 2 + len(barriers):
        raise Stopped(f"the operands of {operation.name} are not understood")
    if not run.happens(env, flags[1], operation) or _follows(run, thread):
        return
    accumulates = run.happens(env, flags[0], operation)
    used: list[Access] = []
    several = memories[:2] if "multicast" in operation.attributes else []
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


def _tensor_copy(run: Run, operation: Operation, env: Env, thread: Thread) -> None:
    memories = _memories(operation)
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


def _commit_products(run: Run, operation: Operation, env: Env, thread: Thread) -> None:
    flags = _flags(operation)
    if (not flags or run.happens(env, flags[-1], operation)) and not _follows(run, thread):
        barrier, *several = _memories(operation)
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
    found = [_barrier(run, operation, view, thread, block) for block in sorted(blocks)]
    return [one for one in found if one is not None]


def _commit_to(run: Run, operation: Operation, thread: Thread, barriers: list[Barrier]) -> None:
    """Each barrier gets one arrival when everything before is over, all at once."""
    event = thread.entry("commits")
    thread.products = [one for one in thread.products if not one.over_for(thread.clock)]
    for barrier in barriers:
        for access in thread.products:
            access.ends.append((barrier, barrier.phase))
            access.barrier = barrier
        _count(run, operation, thread, barrier, 1)
        barrier.arrive(thread, event=event)


# --- clusters ----------------------------------------------------------------------------------------------


def _meet(run: Run, operation: Operation, env: Env, thread: Thread) -> Wait | None:
    """All blocks of the cluster arrive and wait, at once or by two operations."""
    if thread.inherited or operation.attributes.get("relaxed") is True and run.blocks > 1:
        raise Stopped(f"{_short(operation)} by a partition or without an order of memory is not modelled")
    if (operation.name == "ttng.cluster_wait") != (thread.arrived > thread.met):
        raise Stopped(f"{_short(operation)} without its other half is not modelled")
    if operation.name != "ttng.cluster_wait":
        _count(run, operation, thread, run.meeting, 1)
        run.meeting.arrive(thread)
        thread.arrived += 1
    if operation.name == "ttng.cluster_arrive":
        return None
    thread.met += 1
    return Wait(thread, run.meeting, operation, thread.met - 1, thread.iterations())


def _fence(run: Run, operation: Operation, env: Env, thread: Thread) -> None:
    thread.fence()


def _cancel(run: Run, operation: Operation, env: Env, thread: Thread) -> None:
    """Cluster launch control: the answer comes as a copy's bytes do."""
    target, barrier_value = operation.operands[:2]
    view = run.view(env, target, operation)
    barrier = _barrier_of(run, operation, env, thread, barrier_value)
    if barrier is not None:
        access = run.access(operation, view, thread, True, "clc_try_cancel", True, proxy=True)
        access.barrier = barrier
        access.ends.append(barrier.bring(thread, _CANCEL_BYTES))
        run.answers[view.allocation.operation, view.box] = Cancelled(run.asked)
        run.asked += 1


def _answer(run: Run, operation: Operation, env: Env, thread: Thread) -> None:
    _load(run, operation, env, thread)
    view = run.view(env, operation.operands[0], operation)
    found = run.answers.get((view.allocation.operation, view.box))
    env[operation.results[0]] = Unknown(_short(operation)) if found is None else found


def _is_cancelled(run: Run, operation: Operation, env: Env, thread: Thread) -> None:
    """The first requests are granted, and none after one that is not."""
    found = env.get(operation.operands[0])
    if not isinstance(found, Cancelled):
        env[operation.results[0]] = Unknown(_short(operation))
        return
    run.ends_by_answer = run.ends_by_answer or found.number >= run.taken
    env[operation.results[0]] = int(found.number < run.taken)


def _short(operation: Operation) -> str:
    return operation.name.partition(".")[2]


_CANCEL_BYTES = 16
ACTIONS: dict[str, Action] = {
    "ttg.local_alloc": _allocate,
    "ttng.tmem_alloc": _allocate,
    "ttg.local_dealloc": _free,
    "ttg.memdesc_index": _index,
    "ttg.memdesc_subslice": _slice,
    "ttng.tmem_subslice": _slice,
    "ttg.memdesc_trans": _transpose,
    "ttg.memdesc_reshape": _reshape,
    "ttg.memdesc_reinterpret": _reshape,
    "ttg.local_load": _load,
    "ttng.tmem_load": _load,
    "ttg.local_store": _store,
    "ttng.tmem_store": _store,
    "ttg.local_gather": _gather,
    "ttg.local_scatter": _gather,
    "ttg.async_copy_global_to_local": _copy,
    "ttg.async_commit_group": _commit,
    "ttg.async_wait": _wait_copies,
    "ttng.init_barrier": _initialise,
    "ttng.inval_barrier": _invalidate,
    "ttng.barrier_expect": _expect,
    "ttng.arrive_barrier": _arrive,
    "ttng.wait_barrier": _wait,
    "ttng.async_tma_copy_global_to_local": _fetch,
    "ttng.async_tma_gather": _fetch,
    "ttng.async_tma_copy_local_to_global": _send,
    "ttng.async_tma_reduce": _send,
    "ttng.async_tma_scatter": _send,
    "ttng.async_tma_store_wait": _wait_stores,
    "ttng.warp_group_dot": _product,
    "ttng.warp_group_dot_wait": _wait_products,
    "ttng.tc_gen5_mma": _tensor_product,
    "ttng.tc_gen5_mma_scaled": _tensor_product,
    "ttng.tc_gen5_commit": _commit_products,
    "ttng.tmem_copy": _tensor_copy,
    "ttng.fence_async_shared": _fence,
    "ttng.cluster_barrier": _meet,
    "ttng.cluster_arrive": _meet,
    "ttng.cluster_wait": _meet,
    "ttng.clc_try_cancel": _cancel,
    "ttng.async_clc_try_cancel": _cancel,
    "ttng.clc_load_result": _answer,
    "ttng.clc_is_canceled": _is_cancelled,
}


def known(operation: Operation) -> bool:
    """Whether the check of shared memory knows what the operation does."""
    return operation.name in ACTIONS or operation.name in FENCES or operation.name in HARMLESS

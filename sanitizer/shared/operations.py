"""What each operation on shared and tensor memory does to the machine.

Source: Triton's TritonGPUOps.td and TritonNvidiaGPUOps.td; PTX ISA.
"""

from __future__ import annotations

from functools import partial

from kerncap.sanitizer.shared import barriers, products, reached_parts
from kerncap.sanitizer.shared.in_flight import Thread
from kerncap.sanitizer.shared.needed_operations import FENCES, HARMLESS
from kerncap.sanitizer.shared.operands import has, memories_of, numbers_of, short
from kerncap.sanitizer.shared.program_run import (
    Action,
    Cancelled,
    Env,
    Outside,
    Run,
    Stopped,
    attribute,
    view_of_allocation,
)
from kerncap.sanitizer.shared.scalars import Unknown
from kerncap.sanitizer.shared.views import View, memory_type
from kerncap.sanitizer.ttir.ir import Operation, TensorType

# --- buffers and views --------------------------------------------------------------------------------


def _allocate(run: Run, operation: Operation, env: Env, thread: Thread) -> None:
    view = view_of_allocation(operation)
    if view is None:
        raise Stopped(f"the type of {operation.name} is not understood")
    env[operation.results[0]] = view
    if (operation, thread.block) in run.allocated:  # or else other blocks may have stored there
        run.buffer(view, thread.block).filled = []
    run.allocated.add((operation, thread.block))
    if any(isinstance(one.type, TensorType) for one in operation.operands):
        reached_parts.use_own(run, operation, view, operation.results[0], thread, True)


def _free(run: Run, operation: Operation, env: Env, thread: Thread) -> None:
    view = run.view(env, operation.operands[0], operation)
    # As a write: whatever gets the memory next writes it.
    run.access(operation, view, thread, True, short(operation))
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
    starts = numbers_of(operation)
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
    memory = operation.operands[0]
    reached_parts.use_own(run, operation, run.view(env, memory, operation), memory, thread, False)


def _store(run: Run, operation: Operation, env: Env, thread: Thread) -> None:
    if run.predicated(operation, env):
        memory = memories_of(operation)[0]
        reached_parts.use_own(run, operation, run.view(env, memory, operation), memory, thread, True)


# --- copies in commit groups ----------------------------------------------------------------------------


def _copy(run: Run, operation: Operation, env: Env, thread: Thread) -> None:
    view = run.view(env, memories_of(operation)[0], operation)
    thread.copies.append(run.access(operation, view, thread, True, "async_copy", True))


def _commit(run: Run, operation: Operation, env: Env, thread: Thread) -> None:
    end = thread.entry("copies")
    for access in thread.copies:
        access.ends.append(end)
    thread.copies = []


def _wait_copies(run: Run, operation: Operation, env: Env, thread: Thread) -> None:
    thread.wait_queue("copies", attribute(operation, "num"))


# --- stores that arrive at a barrier ---------------------------------------------------------------------


def _send_registers(run: Run, operation: Operation, env: Env, thread: Thread) -> None:
    """To blocks of the cluster; each one's barrier gets the bytes that come to the block."""
    memories = memories_of(operation)
    if len(memories) != 2:
        raise Stopped(f"the operands of {operation.name} are not understood")
    target, signals = memories
    view, kind = run.view(env, target, operation), memory_type(target.type)
    reached = reached_parts.routes(run, operation, view, target, thread)
    bars = run.view(env, signals, operation)
    signalled = [
        barriers.barrier_in(run, operation, bars, thread, run.cluster.first(signals.type, block))
        for block, _, _ in reached
    ]
    for (block, part, count), barrier in zip(reached, signalled, strict=True):
        if barrier is not None and kind is not None:
            access = run.access(operation, part, thread, True, short(operation), True, block=block)
            barriers.in_phase(run, thread, barrier)
            access.barrier = barrier
            access.ends.append(barrier.bring(thread, count * kind.element_bits // 8))


# --- the tensor memory accelerator -------------------------------------------------------------------------


def _fetch(run: Run, operation: Operation, env: Env, thread: Thread) -> None:
    if not run.predicated(operation, env):
        return
    memories = memories_of(operation)
    if len(memories) != 2:
        raise Stopped(f"the operands of {operation.name} are not understood")
    view = run.view(env, memories[0], operation)
    size = run.cluster.size_bytes(memories[0].type)
    blocks = [thread.block]
    if has(operation, "multicast") and run.blocks > 1:
        blocks = run.cluster.sharing(memories[0].type, thread.block)
        if blocks[0] != thread.block:
            return
    signals = run.view(env, memories[1], operation)
    signalled = [
        barriers.barrier_in(run, operation, signals, thread, run.cluster.first(memories[1].type, block))
        for block in blocks
    ]
    for block, barrier in zip(blocks, signalled, strict=True):
        if barrier is not None and size is not None:
            access = run.access(operation, view, thread, True, "a TMA copy", True, proxy=True, block=block)
            barriers.in_phase(run, thread, barrier)
            access.barrier = barrier
            access.ends.append(barrier.bring(thread, size))


def _send(run: Run, operation: Operation, env: Env, thread: Thread) -> None:
    view = run.view(env, memories_of(operation)[0], operation)
    access = run.access(operation, view, thread, False, "a TMA store", True, proxy=True)
    access.ends.append(thread.entry("stores"))


def _wait_stores(run: Run, operation: Operation, env: Env, thread: Thread) -> None:
    thread.wait_queue("stores", attribute(operation, "pendings"))


def _fence(run: Run, operation: Operation, env: Env, thread: Thread) -> None:
    thread.fence()


def _cancel(run: Run, operation: Operation, env: Env, thread: Thread) -> None:
    """Cluster launch control: the answer comes as a copy's bytes do, to all blocks if the first one asks."""
    if thread.block:
        return
    target, signals = (run.view(env, one, operation) for one in operation.operands[:2])
    signalled = [barriers.barrier_in(run, operation, signals, thread, one) for one in range(run.blocks)]
    for block, barrier in enumerate(signalled):
        if barrier is not None:
            access = run.access(
                operation, target, thread, True, short(operation), True, proxy=True, block=block
            )
            barriers.in_phase(run, thread, barrier)
            access.barrier = barrier
            access.ends.append(barrier.bring(thread, _CANCEL_BYTES))
    run.answers[target.allocation.operation, target.box] = Cancelled(run.asked)
    run.asked += 1


def _answer(run: Run, operation: Operation, env: Env, thread: Thread) -> None:
    _load(run, operation, env, thread)
    view = run.view(env, operation.operands[0], operation)
    found = run.answers.get((view.allocation.operation, view.box))
    env[operation.results[0]] = Unknown(short(operation)) if found is None else found


def _is_cancelled(run: Run, operation: Operation, env: Env, thread: Thread) -> None:
    """The first requests are granted, and none after one that is not."""
    found = env.get(operation.operands[0])
    if not isinstance(found, Cancelled):
        env[operation.results[0]] = Unknown(short(operation))
        return
    run.ends_by_answer = run.ends_by_answer or found.number >= run.taken
    env[operation.results[0]] = int(found.number < run.taken)


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
    "ttg.local_gather": reached_parts.use_indexed,
    "ttg.local_scatter": reached_parts.use_indexed,
    "ttg.async_copy_global_to_local": _copy,
    "ttg.async_commit_group": _commit,
    "ttg.async_wait": _wait_copies,
    "ttng.async_shared_store": _send_registers,
    "ttng.init_barrier": barriers.initialise,
    "ttng.inval_barrier": barriers.invalidate,
    "ttng.barrier_expect": barriers.expect,
    "ttng.arrive_barrier": barriers.arrive,
    "ttng.wait_barrier": barriers.wait,
    "ttng.async_tma_copy_global_to_local": _fetch,
    "ttng.async_tma_gather": _fetch,
    "ttng.async_tma_copy_local_to_global": _send,
    "ttng.async_tma_reduce": _send,
    "ttng.async_tma_scatter": _send,
    "ttng.async_tma_store_wait": _wait_stores,
    "ttng.warp_group_dot": products.product,
    "ttng.warp_group_dot_wait": products.wait_products,
    "ttng.tc_gen5_mma": products.tensor_product,
    "ttng.tc_gen5_mma_scaled": products.tensor_product,
    "ttng.tc_gen5_commit": products.commit_products,
    "ttng.tmem_copy": products.tensor_copy,
    "ttng.fence_async_shared": _fence,
    "ttng.cluster_barrier": barriers.meet,
    "ttng.cluster_arrive": barriers.meet,
    "ttng.cluster_wait": barriers.meet,
    "ttng.clc_try_cancel": _cancel,
    "ttng.async_clc_try_cancel": _cancel,
    "ttng.clc_load_result": _answer,
    "ttng.clc_is_canceled": _is_cancelled,
}


def known(operation: Operation) -> bool:
    """Whether the check of shared memory knows what the operation does."""
    return operation.name in ACTIONS or operation.name in FENCES or operation.name in HARMLESS

"""Locks, tickets, flags, compare-and-swap loops, atomic maxima, and plain accesses beside atomics."""

from __future__ import annotations

import triton
import triton.language as tl

from tests.integration.sanitizer.suite.cases import case
from tests.integration.sanitizer.suite.tensors import ints, izeros, rand, zeros


@case((4,), lock_ptr=izeros(1), x_ptr=rand(4, 16), out_ptr=zeros(16), BLOCK=16)
@triton.jit
def spin_lock_around_an_update(lock_ptr, x_ptr, out_ptr, BLOCK: tl.constexpr):
    cols = tl.arange(0, BLOCK)
    x = tl.load(x_ptr + tl.program_id(0) * BLOCK + cols)
    while tl.atomic_cas(lock_ptr, 0, 1) == 1:
        pass
    tl.store(out_ptr + cols, tl.load(out_ptr + cols) + x)
    tl.debug_barrier()
    tl.atomic_xchg(lock_ptr, 0)


@case((4,), lock_ptr=izeros(1), x_ptr=rand(4, 16), out_ptr=zeros(16), BLOCK=16)
@triton.jit
def spin_lock_released_before_the_store(lock_ptr, x_ptr, out_ptr, BLOCK: tl.constexpr):
    cols = tl.arange(0, BLOCK)
    x = tl.load(x_ptr + tl.program_id(0) * BLOCK + cols)
    while tl.atomic_cas(lock_ptr, 0, 1) == 1:
        pass
    before = tl.load(out_ptr + cols)  # BUG: race argument=out_ptr
    tl.atomic_xchg(lock_ptr, 0)
    tl.store(out_ptr + cols, before + x)  # BUG: race argument=out_ptr


@case((4,), lock_ptr=izeros(2), x_ptr=rand(4, 16), out_ptr=zeros(16), BLOCK=16)
@triton.jit
def two_locks_for_one_buffer(lock_ptr, x_ptr, out_ptr, BLOCK: tl.constexpr):
    pid = tl.program_id(0)
    cols = tl.arange(0, BLOCK)
    x = tl.load(x_ptr + pid * BLOCK + cols)
    while tl.atomic_cas(lock_ptr + pid % 2, 0, 1) == 1:
        pass
    before = tl.load(out_ptr + cols)  # BUG: race argument=out_ptr
    tl.store(out_ptr + cols, before + x)  # BUG: race argument=out_ptr
    tl.debug_barrier()
    tl.atomic_xchg(lock_ptr + pid % 2, 0)


@case((4,), lock_ptr=izeros(2), x_ptr=rand(4, 16), out_ptr=zeros(2, 16), BLOCK=16)
@triton.jit
def a_lock_for_each_buffer(lock_ptr, x_ptr, out_ptr, BLOCK: tl.constexpr):
    pid = tl.program_id(0)
    cols = tl.arange(0, BLOCK)
    x = tl.load(x_ptr + pid * BLOCK + cols)
    while tl.atomic_cas(lock_ptr + pid % 2, 0, 1) == 1:
        pass
    at = out_ptr + pid % 2 * BLOCK + cols
    tl.store(at, tl.load(at) + x)
    tl.debug_barrier()
    tl.atomic_xchg(lock_ptr + pid % 2, 0)


@case((4,), lock_ptr=izeros(3), x_ptr=rand(4, 16), out_ptr=zeros(4, 16), BLOCK=16)
@triton.jit
def lock_index_outside(lock_ptr, x_ptr, out_ptr, BLOCK: tl.constexpr):
    pid = tl.program_id(0)
    cols = tl.arange(0, BLOCK)
    x = tl.load(x_ptr + pid * BLOCK + cols)
    tl.atomic_add(lock_ptr + pid, 1)  # BUG: oob argument=lock_ptr
    tl.store(out_ptr + pid * BLOCK + cols, x)


@case((4,), x_ptr=rand(64), top_ptr=zeros(1), n=64, BLOCK=16)
@triton.jit
def maximum_by_atomic_max(x_ptr, top_ptr, n, BLOCK: tl.constexpr):
    offs = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    x = tl.load(x_ptr + offs, mask=offs < n, other=-float("inf"))
    tl.atomic_max(top_ptr, tl.max(x, 0))


@case((4,), x_ptr=rand(64), top_ptr=zeros(1), out_ptr=zeros(64), n=64, BLOCK=16)
@triton.jit
def maximum_read_back_at_once(x_ptr, top_ptr, out_ptr, n, BLOCK: tl.constexpr):
    offs = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    x = tl.load(x_ptr + offs, mask=offs < n, other=-float("inf"))
    tl.atomic_max(top_ptr, tl.max(x, 0))  # BUG: race argument=top_ptr
    top = tl.load(top_ptr)  # BUG: race argument=top_ptr
    tl.store(out_ptr + offs, x / top, mask=offs < n)


@case((4,), x_ptr=ints(range(1, 65)), out_ptr=izeros(1), BLOCK=16)
@triton.jit
def compare_and_swap_loop(x_ptr, out_ptr, BLOCK: tl.constexpr):
    x = tl.max(tl.load(x_ptr + tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)), 0)
    old = tl.atomic_or(out_ptr, 0)
    done = 0
    while done == 0:
        seen = tl.atomic_cas(out_ptr, old, old + x)
        done = (seen == old).to(tl.int32)
        old = seen


@case((4,), flag_ptr=izeros(1), data_ptr=zeros(16), out_ptr=zeros(4, 16), BLOCK=16)
@triton.jit
def first_program_produces(flag_ptr, data_ptr, out_ptr, BLOCK: tl.constexpr):
    pid = tl.program_id(0)
    cols = tl.arange(0, BLOCK)
    if pid == 0:
        tl.store(data_ptr + cols, cols * 1.5)
        tl.debug_barrier()
        tl.atomic_xchg(flag_ptr, 1, sem="release")
    else:
        while tl.atomic_add(flag_ptr, 0, sem="acquire") == 0:
            pass
        tl.store(out_ptr + pid * BLOCK + cols, tl.load(data_ptr + cols))


@case((4,), flag_ptr=izeros(1), data_ptr=zeros(16), out_ptr=zeros(4, 16), BLOCK=16)
@triton.jit
def first_program_produces_nobody_waits(flag_ptr, data_ptr, out_ptr, BLOCK: tl.constexpr):
    pid = tl.program_id(0)
    cols = tl.arange(0, BLOCK)
    if pid == 0:
        tl.store(data_ptr + cols, cols * 1.5 + 1)  # BUG: race argument=data_ptr
        tl.atomic_xchg(flag_ptr, 1, sem="release")
    else:
        x = tl.load(data_ptr + cols)  # BUG: race argument=data_ptr
        tl.store(out_ptr + pid * BLOCK + cols, x)


@case((4,), count_ptr=izeros(1), out_ptr=izeros(4))
@triton.jit
def ticket_gives_a_slot(count_ptr, out_ptr):
    slot = tl.atomic_add(count_ptr, 1)
    tl.store(out_ptr + slot, tl.program_id(0))


@case((4,), count_ptr=izeros(1), out_ptr=izeros(4))
@triton.jit
def ticket_read_and_written_back(count_ptr, out_ptr):
    pid = tl.program_id(0)
    slot = tl.load(count_ptr)  # BUG: race argument=count_ptr
    tl.store(count_ptr, slot + 1)  # BUG: race argument=count_ptr
    tl.store(out_ptr + pid, slot)


@case((4,), count_ptr=ints([1]), out_ptr=izeros(4))
@triton.jit
def ticket_counter_not_reset(count_ptr, out_ptr):
    slot = tl.atomic_add(count_ptr, 1)
    tl.store(out_ptr + slot, tl.program_id(0))  # BUG: oob argument=out_ptr


@case((4,), done_ptr=izeros(1))
@triton.jit
def everybody_writes_the_same_flag(done_ptr):
    tl.store(done_ptr, 1)


@case((4,), done_ptr=izeros(1))
@triton.jit
def everybody_writes_another_flag(done_ptr):
    tl.store(done_ptr, tl.program_id(0))  # BUG: race argument=done_ptr


@case((4,), mask_ptr=izeros(2), x_ptr=ints(range(64)), BLOCK=16)
@triton.jit
def bit_mask_by_atomic_or(mask_ptr, x_ptr, BLOCK: tl.constexpr):
    x = tl.load(x_ptr + tl.program_id(0) * BLOCK + tl.arange(0, BLOCK))
    tl.atomic_or(mask_ptr + x // 32, 1 << (x % 32))


@case((4,), mask_ptr=izeros(2), x_ptr=ints(range(64)), BLOCK=16)
@triton.jit
def bit_mask_word_index_too_fine(mask_ptr, x_ptr, BLOCK: tl.constexpr):
    x = tl.load(x_ptr + tl.program_id(0) * BLOCK + tl.arange(0, BLOCK))
    tl.atomic_or(mask_ptr + x // 16, 1 << (x % 32))  # BUG: oob argument=mask_ptr

"""Kernels whose violations `test_oracle` states by hand."""

from __future__ import annotations

import torch
import triton
import triton.language as tl

from tests.integration.sanitizer.suite.cases import case
from tests.integration.sanitizer.suite.tensors import ints, izeros, rand, zeros


@case((2,), x_ptr=rand(10), out_ptr=zeros(16))
@triton.jit
def ten_of_sixteen(x_ptr, out_ptr):
    offs = tl.program_id(0) * 8 + tl.arange(0, 8)
    x = tl.load(x_ptr + offs)
    tl.store(out_ptr + offs, x)


@case((1,), x_ptr=torch.zeros(14, dtype=torch.uint8), out_ptr=izeros(4))
@triton.jit
def last_half_word(x_ptr, out_ptr):
    lane = tl.arange(0, 4)
    x = tl.load(x_ptr.to(tl.pointer_type(tl.int32)) + lane)
    tl.store(out_ptr + lane, x)


_pair = (rand(16), rand(16))


@case((1,), x_ptr=_pair[0], y_ptr=_pair[1], distance=(_pair[1].data_ptr() - _pair[0].data_ptr()) // 4)
@triton.jit
def reaches_for_the_other_tensor(x_ptr, y_ptr, distance):
    x = tl.load(x_ptr + distance)
    tl.store(y_ptr, x)


@case((4,), "view", bounds="view", x_ptr=rand(4, 8)[:, :3], out_ptr=zeros(4, 4))
@case((4,), "storage", x_ptr=rand(4, 8)[:, :3], out_ptr=zeros(4, 4))
@triton.jit
def columns(x_ptr, out_ptr):
    row = tl.program_id(0)
    cols = tl.arange(0, 4)
    x = tl.load(x_ptr + row * 8 + cols)
    tl.store(out_ptr + row * 4 + cols, x)


@case((3,), "different", out_ptr=izeros(1), factor=1)
@case((3,), "same", out_ptr=izeros(1), factor=0)
@triton.jit
def all_store(out_ptr, factor):
    tl.store(out_ptr, tl.program_id(0) * factor)


@case((3,), count_ptr=izeros(1), out_ptr=izeros(1))
@triton.jit
def counter_then_store(count_ptr, out_ptr):
    ticket = tl.atomic_add(count_ptr, 1)
    tl.store(out_ptr, ticket)


@case((3,), lock_ptr=izeros(1), out_ptr=izeros(1))
@triton.jit
def locked_update(lock_ptr, out_ptr):
    while tl.atomic_cas(lock_ptr, 0, 1) == 1:
        pass
    tl.store(out_ptr, tl.load(out_ptr) + 1)
    tl.atomic_xchg(lock_ptr, 0)


@case((3,), lock_ptr=izeros(1), out_ptr=izeros(1))
@triton.jit
def relaxed_unlock(lock_ptr, out_ptr):
    while tl.atomic_cas(lock_ptr, 0, 1, sem="relaxed") == 1:
        pass
    tl.store(out_ptr, tl.load(out_ptr) + 1)
    tl.atomic_xchg(lock_ptr, 0, sem="relaxed")


@case((3,), out_ptr=izeros(1))
@triton.jit
def unlocked_update(out_ptr):
    before = tl.load(out_ptr)
    tl.store(out_ptr, before + 1)


@case((1,), fresh="acc_ptr", acc_ptr=torch.empty(8))
@triton.jit
def reads_fresh(acc_ptr):
    lane = tl.arange(0, 4)
    tl.store(acc_ptr + lane, lane * 1.0)
    whole = tl.arange(0, 8)
    before = tl.load(acc_ptr + whole)
    tl.store(acc_ptr + whole, before + 1)


@case((1,), x_ptr=rand(5), out_ptr=zeros(1))
@triton.jit
def sums_undefined(x_ptr, out_ptr):
    lane = tl.arange(0, 8)
    x = tl.load(x_ptr + lane, mask=lane < 5)
    tl.store(out_ptr, tl.sum(x, 0))


@case((1,), x_ptr=rand(5), out_ptr=zeros(1))
@triton.jit
def replaces_undefined(x_ptr, out_ptr):
    lane = tl.arange(0, 8)
    x = tl.load(x_ptr + lane, mask=lane < 5)
    tl.store(out_ptr, tl.max(tl.where(lane < 5, x, 0.0), 0))


@case((1,), index_ptr=ints(range(5)), x_ptr=rand(5), out_ptr=zeros(8))
@triton.jit
def steers_by_undefined(index_ptr, x_ptr, out_ptr):
    lane = tl.arange(0, 8)
    index = tl.load(index_ptr + lane, mask=lane < 5)
    x = tl.load(x_ptr + index)
    tl.store(out_ptr + lane, x)


@case((3,), x_ptr=rand(4), out_ptr=zeros(3), stride=1 << 31)
@triton.jit
def wraps(x_ptr, out_ptr, stride):
    pid = tl.program_id(0)
    half = (stride // 2).to(tl.int32)
    x = tl.load(x_ptr + pid * half * 4)
    tl.store(out_ptr + pid, x)


@case((3,), x_ptr=rand(4), out_ptr=zeros(3))
@triton.jit
def wraps_in_a_hash(x_ptr, out_ptr):
    pid = tl.program_id(0)
    slot = ((pid + 1) * 1103515245 + 12345) & 3
    x = tl.load(x_ptr + slot)
    tl.store(out_ptr + pid, x)


@case((3,), x_ptr=rand(64), out_ptr=zeros(64))
@triton.jit
def promises(x_ptr, out_ptr):
    pid = tl.program_id(0)
    kept = pid * 16
    kept = tl.multiple_of(kept, 16)
    broken = pid * 8
    broken = tl.multiple_of(broken, 16)
    tl.assume(pid >= 0)
    tl.assume(pid < 2)
    lanes = kept + tl.arange(0, 16)
    lanes = tl.max_contiguous(tl.multiple_of(lanes, 16), 16)
    tl.store(out_ptr + lanes, tl.load(x_ptr + lanes) + broken)


@case((2,), count_ptr=izeros(1), out_ptr=zeros(16))
@triton.jit
def atomic_slots(count_ptr, out_ptr):
    lane = tl.arange(0, 8)
    slot = tl.atomic_add(count_ptr + lane * 0, 1)
    tl.store(out_ptr + slot, lane * 1.0)

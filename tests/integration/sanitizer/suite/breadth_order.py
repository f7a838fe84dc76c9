"""Programs that wait for each other: turns, barriers, look-back, last arrivals."""

from __future__ import annotations

import torch
import triton
import triton.language as tl

from tests.integration.sanitizer.suite.cases import case
from tests.integration.sanitizer.suite.tensors import ints, izeros, rand, zeros


@case(
    (4,), x_ptr=ints(range(64)), o_ptr=izeros(64), st_ptr=torch.zeros(4, dtype=torch.int64), n=64, B=16,
    oracle=False,
)  # fmt: skip
@triton.jit
def lookback_scan(x_ptr, o_ptr, st_ptr, n, B: tl.constexpr):
    pid = tl.program_id(0)
    offs = pid * B + tl.arange(0, B)
    x = tl.load(x_ptr + offs, mask=offs < n, other=0)
    tot = tl.sum(x, 0)
    pack = (tot.to(tl.int64) << 2) | 1
    tl.atomic_xchg(st_ptr + pid, pack, sem="release")
    pre = tl.zeros([], tl.int64)
    j = pid - 1
    while j >= 0:
        f = tl.atomic_add(st_ptr + j, 0, sem="acquire")
        while (f & 3) == 0:
            f = tl.atomic_add(st_ptr + j, 0, sem="acquire")
        pre += f >> 2
        if (f & 3) == 2:
            j = -1
        else:
            j -= 1
    tl.atomic_xchg(st_ptr + pid, ((pre + tot) << 2) | 2, sem="release")
    s = tl.cumsum(x, 0) + pre
    tl.store(o_ptr + offs, s.to(tl.int32), mask=offs < n)


@case((4,), x_ptr=ints(range(1, 65)), o_ptr=izeros(64), st_ptr=izeros(4), n=64, B=16, oracle=False)
@triton.jit
def lookback_plain_partial(x_ptr, o_ptr, st_ptr, n, B: tl.constexpr):
    pid = tl.program_id(0)
    offs = pid * B + tl.arange(0, B)
    x = tl.load(x_ptr + offs, mask=offs < n, other=0)
    tl.store(st_ptr + pid, tl.sum(x, 0))  # BUG: race argument=st_ptr
    pre = 0
    for j in range(pid):
        pre += tl.load(st_ptr + j)  # BUG: race argument=st_ptr
    tl.store(o_ptr + offs, tl.cumsum(x, 0) + pre, mask=offs < n)


@case(
    (2, 3), x_ptr=rand(2, 48), w_ptr=torch.empty(2, 3, 16), o_ptr=zeros(2, 16), cnt_ptr=izeros(2), S=3, B=16
)
@triton.jit
def last_block_off_by_one(x_ptr, w_ptr, o_ptr, cnt_ptr, S: tl.constexpr, B: tl.constexpr):
    r = tl.program_id(0)
    s = tl.program_id(1)
    c = tl.arange(0, B)
    x = tl.load(x_ptr + r * S * B + s * B + c)
    tl.store(w_ptr + (r * S + s) * B + c, x)  # BUG: race argument=w_ptr
    done = tl.atomic_add(cnt_ptr + r, 1)
    if done == S - 2:
        acc = tl.zeros([B], tl.float32)
        for i in range(S):
            acc += tl.load(w_ptr + (r * S + i) * B + c)  # BUG: race argument=w_ptr
        tl.store(o_ptr + r * B + c, acc)


@case(
    (2, 3), x_ptr=rand(2, 48), w_ptr=torch.empty(2, 3, 16), o_ptr=zeros(2, 16), cnt_ptr=izeros(2), S=3,
    B=16, oracle=False,
)  # fmt: skip
@triton.jit
def last_block_relaxed(x_ptr, w_ptr, o_ptr, cnt_ptr, S: tl.constexpr, B: tl.constexpr):
    r = tl.program_id(0)
    s = tl.program_id(1)
    c = tl.arange(0, B)
    x = tl.load(x_ptr + r * S * B + s * B + c)
    tl.store(w_ptr + (r * S + s) * B + c, x)  # BUG: race argument=w_ptr
    done = tl.atomic_add(cnt_ptr + r, 1, sem="relaxed")
    if done == S - 1:
        acc = tl.zeros([B], tl.float32)
        for i in range(S):
            acc += tl.load(w_ptr + (r * S + i) * B + c)  # BUG: race argument=w_ptr
        tl.store(o_ptr + r * B + c, acc)


@case((3,), x_ptr=rand(3, 16), o_ptr=zeros(16), sem_ptr=izeros(1), B=16, oracle=False)
@triton.jit
def ordered_accumulate(x_ptr, o_ptr, sem_ptr, B: tl.constexpr):
    p = tl.program_id(0)
    c = tl.arange(0, B)
    x = tl.load(x_ptr + p * B + c)
    while tl.atomic_add(sem_ptr, 0, sem="acquire") != p:
        pass
    y = tl.load(o_ptr + c)
    tl.store(o_ptr + c, x + y)
    tl.atomic_add(sem_ptr, 1, sem="release")


@case((3,), x_ptr=rand(3, 16), o_ptr=zeros(16), sem_ptr=izeros(1), B=16, oracle=False)
@triton.jit
def ordered_accumulate_released_first(x_ptr, o_ptr, sem_ptr, B: tl.constexpr):
    p = tl.program_id(0)
    c = tl.arange(0, B)
    x = tl.load(x_ptr + p * B + c)
    while tl.atomic_add(sem_ptr, 0, sem="acquire") != p:
        pass
    y = tl.load(o_ptr + c)  # BUG: race argument=o_ptr
    tl.atomic_add(sem_ptr, 1, sem="release")
    tl.store(o_ptr + c, x + y)  # BUG: race argument=o_ptr


@case(
    (4,), x_ptr=rand(64), t_ptr=torch.empty(64), o_ptr=zeros(64), bar_ptr=izeros(1), fresh="t_ptr", B=16,
    NP=4, oracle=False,
)  # fmt: skip
@triton.jit
def grid_barrier(x_ptr, t_ptr, o_ptr, bar_ptr, B: tl.constexpr, NP: tl.constexpr):
    p = tl.program_id(0)
    c = tl.arange(0, B)
    tl.store(t_ptr + p * B + c, tl.load(x_ptr + p * B + c) * 2)
    tl.debug_barrier()
    tl.atomic_add(bar_ptr, 1)
    while tl.atomic_add(bar_ptr, 0) < NP:
        pass
    q = (p + 1) % NP
    tl.store(o_ptr + p * B + c, tl.load(t_ptr + q * B + c))


@case((4,), x_ptr=rand(64), t_ptr=zeros(64), o_ptr=zeros(64), bar_ptr=izeros(1), B=16, NP=4, oracle=False)
@triton.jit
def grid_barrier_counts_too_few(x_ptr, t_ptr, o_ptr, bar_ptr, B: tl.constexpr, NP: tl.constexpr):
    p = tl.program_id(0)
    c = tl.arange(0, B)
    tl.store(t_ptr + p * B + c, tl.load(x_ptr + p * B + c) * 2)  # BUG: race argument=t_ptr
    tl.atomic_add(bar_ptr, 1)
    while tl.atomic_add(bar_ptr, 0) < NP - 1:
        pass
    q = (p + 1) % NP
    tl.store(o_ptr + p * B + c, tl.load(t_ptr + q * B + c))  # BUG: race argument=t_ptr


@case((4,), x=rand(4, 16), o=zeros(2, 16), sem=izeros(2), B=16, oracle=False)
@triton.jit
def turns_at_two_words(x, o, sem, B: tl.constexpr):
    p = tl.program_id(0)
    c = tl.arange(0, B)
    g = p % 2
    v = tl.load(x + p * B + c)
    while tl.atomic_add(sem + g, 0) != p // 2:
        pass
    y = tl.load(o + g * B + c)
    tl.store(o + g * B + c, v + y)
    tl.atomic_add(sem + g, 1)


@case((4,), x=rand(4, 16), o=zeros(16), sem=izeros(2), B=16, oracle=False)
@triton.jit
def turns_at_two_words_one_row(x, o, sem, B: tl.constexpr):
    p = tl.program_id(0)
    c = tl.arange(0, B)
    g = p % 2
    v = tl.load(x + p * B + c)
    while tl.atomic_add(sem + g, 0) != p // 2:
        pass
    y = tl.load(o + c)  # BUG: race argument=o
    tl.store(o + c, v + y)  # BUG: race argument=o
    tl.atomic_add(sem + g, 1)

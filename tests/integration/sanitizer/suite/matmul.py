"""Matrix products: tiled, grouped, batched, with bumped pointers, tails in K, fused epilogues."""

from __future__ import annotations

import triton
import triton.language as tl

from tests.integration.sanitizer.suite.cases import case
from tests.integration.sanitizer.suite.tensors import half, ints, rand, zeros


def product(m=40, n=24, k=40, **more):
    return dict(
        a_ptr=half(m, k), b_ptr=half(k, n), c_ptr=zeros(m, n), m=m, n=n, k=k, stride_am=k, stride_ak=1,
        stride_bk=n, stride_bn=1, stride_cm=n, stride_cn=1, BM=16, BN=16, BK=16, **more,
    )  # fmt: skip


@case((6,), **product(), GROUP=2)
@triton.jit
def matmul_grouped_bumped_pointers(
    a_ptr, b_ptr, c_ptr, m, n, k, stride_am, stride_ak, stride_bk, stride_bn, stride_cm, stride_cn,
    BM: tl.constexpr, BN: tl.constexpr, BK: tl.constexpr, GROUP: tl.constexpr,
):  # fmt: skip
    pid = tl.program_id(0)
    tiles_m = tl.cdiv(m, BM)
    tiles_n = tl.cdiv(n, BN)
    in_group = GROUP * tiles_n
    first_m = (pid // in_group) * GROUP
    group_m = min(tiles_m - first_m, GROUP)
    pid_m = first_m + (pid % in_group) % group_m
    pid_n = (pid % in_group) // group_m
    rm = (pid_m * BM + tl.arange(0, BM)) % m
    rn = (pid_n * BN + tl.arange(0, BN)) % n
    rk = tl.arange(0, BK)
    a_ptrs = a_ptr + rm[:, None] * stride_am + rk[None, :] * stride_ak
    b_ptrs = b_ptr + rk[:, None] * stride_bk + rn[None, :] * stride_bn
    acc = tl.zeros((BM, BN), dtype=tl.float32)
    for i in range(tl.cdiv(k, BK)):
        a = tl.load(a_ptrs, mask=rk[None, :] < k - i * BK, other=0.0)
        b = tl.load(b_ptrs, mask=rk[:, None] < k - i * BK, other=0.0)
        acc = tl.dot(a, b, acc)
        a_ptrs += BK * stride_ak
        b_ptrs += BK * stride_bk
    cm = pid_m * BM + tl.arange(0, BM)
    cn = pid_n * BN + tl.arange(0, BN)
    c_ptrs = c_ptr + cm[:, None] * stride_cm + cn[None, :] * stride_cn
    tl.store(c_ptrs, acc, mask=(cm[:, None] < m) & (cn[None, :] < n))


@case((6,), heavy=True, **product(), GROUP=2)
@triton.jit
def matmul_k_tail_of_b_unmasked(
    a_ptr, b_ptr, c_ptr, m, n, k, stride_am, stride_ak, stride_bk, stride_bn, stride_cm, stride_cn,
    BM: tl.constexpr, BN: tl.constexpr, BK: tl.constexpr, GROUP: tl.constexpr,
):  # fmt: skip
    pid = tl.program_id(0)
    pid_m = pid // tl.cdiv(n, BN)
    pid_n = pid % tl.cdiv(n, BN)
    rm = (pid_m * BM + tl.arange(0, BM)) % m
    rn = (pid_n * BN + tl.arange(0, BN)) % n
    rk = tl.arange(0, BK)
    a_ptrs = a_ptr + rm[:, None] * stride_am + rk[None, :] * stride_ak
    b_ptrs = b_ptr + rk[:, None] * stride_bk + rn[None, :] * stride_bn
    acc = tl.zeros((BM, BN), dtype=tl.float32)
    for i in range(tl.cdiv(k, BK)):
        a = tl.load(a_ptrs, mask=rk[None, :] < k - i * BK, other=0.0)
        b = tl.load(b_ptrs)  # BUG: oob argument=b_ptr
        acc = tl.dot(a, b, acc)
        a_ptrs += BK * stride_ak
        b_ptrs += BK * stride_bk
    cm = pid_m * BM + tl.arange(0, BM)
    cn = pid_n * BN + tl.arange(0, BN)
    c_ptrs = c_ptr + cm[:, None] * stride_cm + cn[None, :] * stride_cn
    tl.store(c_ptrs, acc, mask=(cm[:, None] < m) & (cn[None, :] < n))


@case((3, 2), heavy=True, **product(k=48))
@triton.jit
def matmul_k_loop_one_too_far(
    a_ptr, b_ptr, c_ptr, m, n, k, stride_am, stride_ak, stride_bk, stride_bn, stride_cm, stride_cn,
    BM: tl.constexpr, BN: tl.constexpr, BK: tl.constexpr,
):  # fmt: skip
    rm = (tl.program_id(0) * BM + tl.arange(0, BM)) % m
    rn = (tl.program_id(1) * BN + tl.arange(0, BN)) % n
    rk = tl.arange(0, BK)
    acc = tl.zeros((BM, BN), dtype=tl.float32)
    for i in range(k // BK + 1):
        ks = i * BK + rk
        a = tl.load(a_ptr + rm[:, None] * stride_am + ks[None, :] * stride_ak)  # BUG: oob argument=a_ptr
        b = tl.load(b_ptr + ks[:, None] * stride_bk + rn[None, :] * stride_bn)  # BUG: oob argument=b_ptr
        acc += tl.dot(a, b)
    cm = tl.program_id(0) * BM + tl.arange(0, BM)
    cn = tl.program_id(1) * BN + tl.arange(0, BN)
    c_ptrs = c_ptr + cm[:, None] * stride_cm + cn[None, :] * stride_cn
    tl.store(c_ptrs, acc, mask=(cm[:, None] < m) & (cn[None, :] < n))


@case((3, 2), heavy=True, **product())
@triton.jit
def matmul_epilogue_bounds_swapped(
    a_ptr, b_ptr, c_ptr, m, n, k, stride_am, stride_ak, stride_bk, stride_bn, stride_cm, stride_cn,
    BM: tl.constexpr, BN: tl.constexpr, BK: tl.constexpr,
):  # fmt: skip
    rm = tl.program_id(0) * BM + tl.arange(0, BM)
    rn = tl.program_id(1) * BN + tl.arange(0, BN)
    acc = tl.zeros((BM, BN), dtype=tl.float32)
    for start in range(0, k, BK):
        rk = start + tl.arange(0, BK)
        a_mask = (rm[:, None] < m) & (rk[None, :] < k)
        b_mask = (rk[:, None] < k) & (rn[None, :] < n)
        a = tl.load(a_ptr + rm[:, None] * stride_am + rk[None, :] * stride_ak, mask=a_mask, other=0.0)
        b = tl.load(b_ptr + rk[:, None] * stride_bk + rn[None, :] * stride_bn, mask=b_mask, other=0.0)
        acc += tl.dot(a, b)
    acc += (tl.program_id(0) + 1) * 1.0 + rn[None, :]
    c_ptrs = c_ptr + rm[:, None] * stride_cm + rn[None, :] * stride_cn
    # BUG: oob argument=c_ptr; race argument=c_ptr
    tl.store(c_ptrs, acc, mask=(rm[:, None] < m) & (rn[None, :] < m))


@case((3, 2), **product())
@triton.jit
def matmul_two_dimensional_masks(
    a_ptr, b_ptr, c_ptr, m, n, k, stride_am, stride_ak, stride_bk, stride_bn, stride_cm, stride_cn,
    BM: tl.constexpr, BN: tl.constexpr, BK: tl.constexpr,
):  # fmt: skip
    rm = tl.program_id(0) * BM + tl.arange(0, BM)
    rn = tl.program_id(1) * BN + tl.arange(0, BN)
    acc = tl.zeros((BM, BN), dtype=tl.float32)
    for start in range(0, k, BK):
        rk = start + tl.arange(0, BK)
        a_mask = (rm[:, None] < m) & (rk[None, :] < k)
        b_mask = (rk[:, None] < k) & (rn[None, :] < n)
        a = tl.load(a_ptr + rm[:, None] * stride_am + rk[None, :] * stride_ak, mask=a_mask, other=0.0)
        b = tl.load(b_ptr + rk[:, None] * stride_bk + rn[None, :] * stride_bn, mask=b_mask, other=0.0)
        acc += tl.dot(a, b)
    c_ptrs = c_ptr + rm[:, None] * stride_cm + rn[None, :] * stride_cn
    tl.store(c_ptrs, acc, mask=(rm[:, None] < m) & (rn[None, :] < n))


@case(
    (3, 2), heavy=True, a_ptr=half(40, 40).t(), b_ptr=half(40, 24), c_ptr=zeros(40, 24), m=40, n=24, k=40,
    BM=16, BN=16, BK=8,
)  # fmt: skip
@triton.jit
def matmul_of_a_transposed(
    a_ptr, b_ptr, c_ptr, m, n, k, BM: tl.constexpr, BN: tl.constexpr, BK: tl.constexpr
):
    rm = tl.program_id(0) * BM + tl.arange(0, BM)
    rn = tl.program_id(1) * BN + tl.arange(0, BN)
    rk = tl.arange(0, BK)
    acc = tl.zeros((BM, BN), dtype=tl.float32)
    for start in range(0, k, BK):
        a = tl.load(a_ptr + rm[:, None] + (start + rk)[None, :] * m, mask=rm[:, None] < m, other=0.0)
        b = tl.load(b_ptr + (start + rk)[:, None] * n + rn[None, :], mask=rn[None, :] < n, other=0.0)
        for j in tl.static_range(0, 1):
            acc += tl.sum(a[:, :, None].to(tl.float32) * b[None, :, :].to(tl.float32), 1) * (j + 1)
    tl.store(c_ptr + rm[:, None] * n + rn[None, :], acc, mask=(rm[:, None] < m) & (rn[None, :] < n))


@case(
    (2, 1, 3), a_ptr=half(3, 20, 16), b_ptr=half(3, 16, 16), c_ptr=zeros(3, 20, 16), m=20, batch_a=320,
    batch_b=256, batch_c=320, BM=16, N=16, K=16,
)  # fmt: skip
@triton.jit
def batched_matmul(
    a_ptr, b_ptr, c_ptr, m, batch_a, batch_b, batch_c, BM: tl.constexpr, N: tl.constexpr, K: tl.constexpr
):
    batch = tl.program_id(2)
    rm = tl.program_id(0) * BM + tl.arange(0, BM)
    rk = tl.arange(0, K)
    rn = tl.program_id(1) * N + tl.arange(0, N)
    a = tl.load(a_ptr + batch * batch_a + rm[:, None] * K + rk[None, :], mask=rm[:, None] < m, other=0)
    b = tl.load(b_ptr + batch * batch_b + rk[:, None] * N + rn[None, :])
    c = c_ptr + batch * batch_c + rm[:, None] * N + rn[None, :]
    tl.store(c, tl.dot(a, b), mask=rm[:, None] < m)


@case(
    (2, 1, 3), a_ptr=half(3, 20, 16), b_ptr=half(3, 16, 16), c_ptr=zeros(3, 20, 16), m=20, batch_a=320,
    batch_c=320, BM=16, N=16, K=16,
)  # fmt: skip
@triton.jit
def batched_matmul_stride_of_the_other_operand(
    a_ptr, b_ptr, c_ptr, m, batch_a, batch_c, BM: tl.constexpr, N: tl.constexpr, K: tl.constexpr
):
    batch = tl.program_id(2)
    rm = tl.program_id(0) * BM + tl.arange(0, BM)
    rk = tl.arange(0, K)
    rn = tl.program_id(1) * N + tl.arange(0, N)
    a = tl.load(a_ptr + batch * batch_a + rm[:, None] * K + rk[None, :], mask=rm[:, None] < m, other=0)
    b = tl.load(b_ptr + batch * batch_a + rk[:, None] * N + rn[None, :])  # BUG: oob argument=b_ptr
    c = c_ptr + batch * batch_c + rm[:, None] * N + rn[None, :]
    tl.store(c, tl.dot(a, b), mask=rm[:, None] < m)


@case((2, 1, 3), a_ptr=half(3, 20, 16), c_ptr=zeros(3, 20, 16), m=20, batch_a=320, BM=16, N=16)
@triton.jit
def batched_scale_batch_not_masked(a_ptr, c_ptr, m, batch_a, BM: tl.constexpr, N: tl.constexpr):
    batch = tl.program_id(2)
    rm = tl.program_id(0) * BM + tl.arange(0, BM)
    rn = tl.arange(0, N)
    at = batch * batch_a + rm[:, None] * N + rn[None, :]
    a = tl.load(a_ptr + at, mask=rm[:, None] < m, other=0)
    # Rows past m are the next batch's first rows.
    # BUG: oob argument=c_ptr; race argument=c_ptr
    tl.store(c_ptr + at, a * (batch + 1))


@case((4,), a_ptr=half(32, 16), b_ptr=half(16, 32), c_ptr=zeros(32, 32), n=32, BM=16, BN=16, K=16)
@triton.jit
def tiles_by_a_wrong_decomposition(
    a_ptr, b_ptr, c_ptr, n, BM: tl.constexpr, BN: tl.constexpr, K: tl.constexpr
):
    pid = tl.program_id(0)
    pid_m = pid // 2
    pid_n = pid // 2
    rm = pid_m * BM + tl.arange(0, BM)
    rn = pid_n * BN + tl.arange(0, BN)
    rk = tl.arange(0, K)
    a = tl.load(a_ptr + rm[:, None] * K + rk[None, :])
    b = tl.load(b_ptr + rk[:, None] * n + rn[None, :])
    tl.store(c_ptr + rm[:, None] * n + rn[None, :], tl.dot(a, b) + pid)  # BUG: race argument=c_ptr


@case(
    (5,), x_ptr=half(20, 16), w_ptr=half(3, 16, 16), out_ptr=zeros(20, 16),
    expert_ptr=ints([0, 2, 1, 0, 2]), BM=4, K=16, N=16,
)  # fmt: skip
@triton.jit
def mixture_of_experts_by_block(
    x_ptr, w_ptr, out_ptr, expert_ptr, BM: tl.constexpr, K: tl.constexpr, N: tl.constexpr
):
    pid = tl.program_id(0)
    expert = tl.load(expert_ptr + pid)
    rm = pid * BM + tl.arange(0, BM)
    rk = tl.arange(0, K)
    rn = tl.arange(0, N)
    x = tl.load(x_ptr + rm[:, None] * K + rk[None, :]).to(tl.float32)
    w = tl.load(w_ptr + expert * K * N + rk[:, None] * N + rn[None, :]).to(tl.float32)
    tl.store(out_ptr + rm[:, None] * N + rn[None, :], tl.sum(x[:, :, None] * w[None, :, :], 1))


@case(
    (5,), x_ptr=half(20, 16), w_ptr=half(3, 16, 16), out_ptr=zeros(20, 16),
    expert_ptr=ints([0, 2, 1, 3, -1]), BM=4, K=16, N=16,
)  # fmt: skip
@triton.jit
def mixture_of_experts_padding_not_skipped(
    x_ptr, w_ptr, out_ptr, expert_ptr, BM: tl.constexpr, K: tl.constexpr, N: tl.constexpr
):
    pid = tl.program_id(0)
    expert = tl.load(expert_ptr + pid)
    rm = pid * BM + tl.arange(0, BM)
    rk = tl.arange(0, K)
    rn = tl.arange(0, N)
    x = tl.load(x_ptr + rm[:, None] * K + rk[None, :]).to(tl.float32)
    w = tl.load(w_ptr + expert * K * N + rk[:, None] * N + rn[None, :])  # BUG: oob argument=w_ptr
    tl.store(out_ptr + rm[:, None] * N + rn[None, :], tl.sum(x[:, :, None] * w[None, :, :].to(tl.float32), 1))


@case((3,), a_ptr=rand(40, 20), x_ptr=rand(20), y_ptr=zeros(40), m=40, n=20, stride=20, BM=16, BN=32)
@triton.jit
def matrix_times_vector(a_ptr, x_ptr, y_ptr, m, n, stride, BM: tl.constexpr, BN: tl.constexpr):
    rows = tl.program_id(0) * BM + tl.arange(0, BM)
    cols = tl.arange(0, BN)
    mask = (rows < m)[:, None] & (cols < n)[None, :]
    a = tl.load(a_ptr + rows[:, None] * stride + cols[None, :], mask=mask, other=0)
    x = tl.load(x_ptr + cols, mask=cols < n, other=0)
    tl.store(y_ptr + rows, tl.sum(a * x[None, :], 1), mask=rows < m)


@case((3,), a_ptr=rand(40, 20), x_ptr=rand(20), y_ptr=zeros(40), m=40, n=20, stride=20, BM=16, BN=32)
@triton.jit
def matrix_times_vector_only_rows_masked(
    a_ptr, x_ptr, y_ptr, m, n, stride, BM: tl.constexpr, BN: tl.constexpr
):
    rows = tl.program_id(0) * BM + tl.arange(0, BM)
    cols = tl.arange(0, BN)
    # BUG: oob argument=a_ptr
    a = tl.load(a_ptr + rows[:, None] * stride + cols[None, :], mask=(rows < m)[:, None])
    x = tl.load(x_ptr + cols, mask=cols < n, other=0)
    tl.store(y_ptr + rows, tl.sum(a * x[None, :], 1), mask=rows < m)

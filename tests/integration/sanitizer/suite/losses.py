"""Cross entropy with labels, KL, focal loss, label smoothing, hinge: forward and backward in place."""

from __future__ import annotations

import triton
import triton.language as tl

from tests.integration.sanitizer.suite.cases import case
from tests.integration.sanitizer.suite.tensors import longs, rand, zeros


def logits(labels=(3, 19, 0, 7)):
    return {"x_ptr": rand(4, 20), "label_ptr": longs(labels), "loss_ptr": zeros(4), "n": 20}


@case((4,), **logits(), BLOCK=32)
@triton.jit
def cross_entropy_forward(x_ptr, label_ptr, loss_ptr, n, BLOCK: tl.constexpr):
    row = tl.program_id(0)
    cols = tl.arange(0, BLOCK)
    label = tl.load(label_ptr + row)
    x = tl.load(x_ptr + row * n + cols, mask=cols < n, other=-float("inf"))
    top = tl.max(x, 0)
    lse = top + tl.log(tl.sum(tl.exp(x - top), 0))
    tl.store(loss_ptr + row, lse - tl.load(x_ptr + row * n + label))


@case((4,), **logits((3, -100, 0, 7)), ignore=-100, BLOCK=32)
@triton.jit
def cross_entropy_ignored_label_returns(x_ptr, label_ptr, loss_ptr, n, ignore, BLOCK: tl.constexpr):
    row = tl.program_id(0)
    cols = tl.arange(0, BLOCK)
    label = tl.load(label_ptr + row)
    if label == ignore:
        tl.store(loss_ptr + row, 0.0)
        return
    x = tl.load(x_ptr + row * n + cols, mask=cols < n, other=-float("inf"))
    top = tl.max(x, 0)
    lse = top + tl.log(tl.sum(tl.exp(x - top), 0))
    tl.store(loss_ptr + row, lse - tl.load(x_ptr + row * n + label))


@case((4,), **logits((-100, 3, 0, 7)), ignore=-100, BLOCK=32)
@triton.jit
def cross_entropy_ignored_label_read(x_ptr, label_ptr, loss_ptr, n, ignore, BLOCK: tl.constexpr):
    row = tl.program_id(0)
    cols = tl.arange(0, BLOCK)
    label = tl.load(label_ptr + row)
    x = tl.load(x_ptr + row * n + cols, mask=cols < n, other=-float("inf"))
    top = tl.max(x, 0)
    lse = top + tl.log(tl.sum(tl.exp(x - top), 0))
    target = tl.load(x_ptr + row * n + label)  # BUG: oob argument=x_ptr
    tl.store(loss_ptr + row, tl.where(label == ignore, 0.0, lse - target))


@case((4,), **logits((3, 5, 0, 20)), BLOCK=32)
@triton.jit
def cross_entropy_label_as_large_as_the_vocabulary(x_ptr, label_ptr, loss_ptr, n, BLOCK: tl.constexpr):
    row = tl.program_id(0)
    label = tl.load(label_ptr + row)
    target = tl.load(x_ptr + row * n + label)  # BUG: oob argument=x_ptr
    tl.store(loss_ptr + row, -target)


@case((4,), x_ptr=rand(4, 70), label_ptr=longs([3, 69, 0, 33]), loss_ptr=zeros(4), n=70, BLOCK=32)
@triton.jit
def cross_entropy_online_and_gradient_in_place(x_ptr, label_ptr, loss_ptr, n, BLOCK: tl.constexpr):
    row = tl.program_id(0).to(tl.int64)
    x_ptr += row * n
    label = tl.load(label_ptr + row)
    target = tl.load(x_ptr + label)
    top = -float("inf")
    total = 0.0
    for start in range(0, n, BLOCK):
        cols = start + tl.arange(0, BLOCK)
        x = tl.load(x_ptr + cols, mask=cols < n, other=-float("inf"))
        new_top = tl.maximum(top, tl.max(x))
        total = total * tl.exp(top - new_top) + tl.sum(tl.exp(x - new_top))
        top = new_top
    for start in range(0, n, BLOCK):
        cols = start + tl.arange(0, BLOCK)
        x = tl.load(x_ptr + cols, mask=cols < n, other=-float("inf"))
        p = tl.exp(x - top) / total
        tl.store(x_ptr + cols, tl.where(cols == label, p - 1.0, p), mask=cols < n)
    tl.debug_barrier()
    tl.store(loss_ptr + row, top + tl.log(total) - target)


@case((4,), x_ptr=rand(4, 70), label_ptr=longs([3, 69, 0, 33]), n=70, BLOCK=32)
@triton.jit
def cross_entropy_gradient_mask_rounded_up(x_ptr, label_ptr, n, BLOCK: tl.constexpr):
    row = tl.program_id(0)
    label = tl.load(label_ptr + row)
    for i in range(tl.cdiv(n, BLOCK)):
        cols = i * BLOCK + tl.arange(0, BLOCK)
        mask = cols < tl.cdiv(n, BLOCK) * BLOCK
        # BUG: oob argument=x_ptr; race argument=x_ptr
        x = tl.load(x_ptr + row * n + cols, mask=mask, other=0.0)
        # BUG: oob argument=x_ptr; race argument=x_ptr
        tl.store(x_ptr + row * n + cols, tl.where(cols == label, x - 1.0, x * 0.5), mask=mask)


@case((2, 4), x_ptr=rand(4, 20), y_ptr=rand(4, 20), loss_ptr=zeros(4, 20), n=20, BLOCK=16)
@triton.jit
def kl_divergence_elementwise(x_ptr, y_ptr, loss_ptr, n, BLOCK: tl.constexpr):
    row = tl.program_id(1)
    cols = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    mask = cols < n
    x = tl.load(x_ptr + row * n + cols, mask=mask, other=0.0)
    y = tl.load(y_ptr + row * n + cols, mask=mask, other=0.0)
    tl.store(loss_ptr + row * n + cols, tl.exp(y) * (y - x), mask=mask)


@case((2, 4), x_ptr=rand(4, 20), y_ptr=rand(4, 20), loss_ptr=zeros(4), n=20, BLOCK=16)
@triton.jit
def kl_divergence_row_sums_overwritten(x_ptr, y_ptr, loss_ptr, n, BLOCK: tl.constexpr):
    row = tl.program_id(1)
    cols = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    mask = cols < n
    x = tl.load(x_ptr + row * n + cols, mask=mask, other=0.0)
    y = tl.load(y_ptr + row * n + cols, mask=mask, other=0.0)
    tl.store(loss_ptr + row, tl.sum(tl.exp(y) * (y - x), 0))  # BUG: race argument=loss_ptr


@case((2, 4), x_ptr=rand(4, 20), y_ptr=rand(4, 20), loss_ptr=zeros(4), n=20, BLOCK=16)
@triton.jit
def kl_divergence_row_sums_added(x_ptr, y_ptr, loss_ptr, n, BLOCK: tl.constexpr):
    row = tl.program_id(1)
    cols = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    mask = cols < n
    x = tl.load(x_ptr + row * n + cols, mask=mask, other=0.0)
    y = tl.load(y_ptr + row * n + cols, mask=mask, other=0.0)
    tl.atomic_add(loss_ptr + row, tl.sum(tl.exp(y) * (y - x), 0))


@case((3,), x_ptr=rand(40), target_ptr=rand(40), loss_ptr=zeros(40), n=40, gamma=2.0, BLOCK=16)
@triton.jit
def focal_loss(x_ptr, target_ptr, loss_ptr, n, gamma, BLOCK: tl.constexpr):
    offs = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    mask = offs < n
    p = tl.sigmoid(tl.load(x_ptr + offs, mask=mask))
    t = tl.load(target_ptr + offs, mask=mask)
    pt = tl.where(t > 0, p, 1 - p)
    tl.store(loss_ptr + offs, -tl.exp(gamma * tl.log(1 - pt)) * tl.log(pt), mask=mask)


@case((4,), x_ptr=rand(4, 20), label_ptr=longs([1, 2, 3, 4]), loss_ptr=zeros(4), n=20, eps=0.1, BLOCK=32)
@triton.jit
def label_smoothing(x_ptr, label_ptr, loss_ptr, n, eps, BLOCK: tl.constexpr):
    row = tl.program_id(0)
    cols = tl.arange(0, BLOCK)
    x = tl.load(x_ptr + row * n + cols, mask=cols < n, other=-float("inf"))
    top = tl.max(x, 0)
    lse = top + tl.log(tl.sum(tl.exp(x - top), 0))
    mean = tl.sum(tl.where(cols < n, x, 0.0), 0) / n
    target = tl.load(x_ptr + row * n + tl.load(label_ptr + row))
    tl.store(loss_ptr + row, (1 - eps) * (lse - target) + eps * (lse - mean))


@case((4,), x_ptr=rand(4, 20), label_ptr=longs([1, 2, 3, 4]), loss_ptr=zeros(4), n=20, eps=0.1, BLOCK=32)
@triton.jit
def label_smoothing_averages_the_padding(x_ptr, label_ptr, loss_ptr, n, eps, BLOCK: tl.constexpr):
    row = tl.program_id(0)
    cols = tl.arange(0, BLOCK)
    x = tl.load(x_ptr + row * n + cols, mask=cols < n)
    target = tl.load(x_ptr + row * n + tl.load(label_ptr + row))
    # PORTABLE: uninit argument=loss_ptr
    tl.store(loss_ptr + row, (1 - eps) * target + eps * tl.sum(x, 0) / n)


@case((4,), a_ptr=rand(4, 20), p_ptr=rand(4, 20), n_ptr=rand(5, 20), loss_ptr=zeros(4), n=20, BLOCK=32)
@triton.jit
def triplet_margin_next_row_as_negative(a_ptr, p_ptr, n_ptr, loss_ptr, n, BLOCK: tl.constexpr):
    row = tl.program_id(0)
    cols = tl.arange(0, BLOCK)
    mask = cols < n
    a = tl.load(a_ptr + row * n + cols, mask=mask, other=0.0)
    p = tl.load(p_ptr + row * n + cols, mask=mask, other=0.0)
    far = tl.load(n_ptr + (row + 1) * n + cols, mask=mask, other=0.0)
    gap = tl.sum((a - p) * (a - p), 0) - tl.sum((a - far) * (a - far), 0)
    tl.store(loss_ptr + row, tl.maximum(gap + 1.0, 0.0))


@case((4,), a_ptr=rand(4, 20), p_ptr=rand(4, 20), loss_ptr=zeros(4), n=20, BLOCK=32)
@triton.jit
def triplet_margin_next_row_of_the_batch(a_ptr, p_ptr, loss_ptr, n, BLOCK: tl.constexpr):
    row = tl.program_id(0)
    cols = tl.arange(0, BLOCK)
    mask = cols < n
    a = tl.load(a_ptr + row * n + cols, mask=mask, other=0.0)
    far = tl.load(p_ptr + (row + 1) * n + cols, mask=mask, other=0.0)  # BUG: oob argument=p_ptr
    tl.store(loss_ptr + row, tl.sum(a * far, 0))

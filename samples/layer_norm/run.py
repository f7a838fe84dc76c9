"""Layer norm, forward and backward, as an autograd function."""

import os

import torch

if not torch.cuda.is_available():
    os.environ.setdefault("TRITON_INTERPRET", "1")  # Triton reads it when it is imported

import triton
import triton.language as tl


@triton.jit
def moments(x, mask, columns):
    """Mean and variance of a row."""
    mean = tl.sum(tl.where(mask, x, 0.0), axis=0) / columns
    centred = tl.where(mask, x - mean, 0.0)
    return mean, tl.sum(centred * centred, axis=0) / columns


@triton.jit
def layer_norm_forward(
    x_ptr, w_ptr, b_ptr, y_ptr, mean_ptr, rstd_ptr, stride, columns, eps, BLOCK: tl.constexpr
):
    row = tl.program_id(0)
    offsets = tl.arange(0, BLOCK)
    mask = offsets < columns
    x = tl.load(x_ptr + row * stride + offsets, mask=mask, other=0.0)
    mean, variance = moments(x, mask, columns)
    rstd = 1 / tl.sqrt(variance + eps)
    w = tl.load(w_ptr + offsets, mask=mask)
    b = tl.load(b_ptr + offsets, mask=mask)
    tl.store(y_ptr + row * stride + offsets, (x - mean) * rstd * w + b, mask=mask)
    tl.store(mean_ptr + row, mean)
    tl.store(rstd_ptr + row, rstd)


@triton.jit
def layer_norm_backward(
    dx_ptr, dw_ptr, db_ptr, dy_ptr, x_ptr, w_ptr, mean_ptr, rstd_ptr, stride, columns, BLOCK: tl.constexpr
):
    row = tl.program_id(0)
    offsets = tl.arange(0, BLOCK)
    mask = offsets < columns
    x = tl.load(x_ptr + row * stride + offsets, mask=mask, other=0.0)
    dy = tl.load(dy_ptr + row * stride + offsets, mask=mask, other=0.0)
    w = tl.load(w_ptr + offsets, mask=mask, other=0.0)
    rstd = tl.load(rstd_ptr + row)
    normal = tl.where(mask, (x - tl.load(mean_ptr + row)) * rstd, 0.0)
    wdy = w * dy
    along_normal = tl.sum(normal * wdy, axis=0) / columns
    along_one = tl.sum(wdy, axis=0) / columns
    tl.store(dx_ptr + row * stride + offsets, (wdy - (normal * along_normal + along_one)) * rstd, mask=mask)
    # rows add up in whatever order they run: on a GPU the last bits differ from run to run
    tl.atomic_add(dw_ptr + offsets, dy * normal, mask=mask)
    tl.atomic_add(db_ptr + offsets, dy, mask=mask)


class LayerNorm(torch.autograd.Function):
    @staticmethod
    def forward(ctx, x, w, b, eps):
        rows, columns = x.shape
        y = torch.empty_like(x)
        mean, rstd = x.new_empty(rows), x.new_empty(rows)
        ctx.block = triton.next_power_of_2(columns)
        layer_norm_forward[(rows,)](x, w, b, y, mean, rstd, x.stride(0), columns, eps, ctx.block)
        ctx.save_for_backward(x, w, mean, rstd)
        return y

    @staticmethod
    def backward(ctx, dy):
        x, w, mean, rstd = ctx.saved_tensors
        rows, columns = x.shape
        dy = dy.contiguous()
        dx, dw, db = torch.empty_like(x), torch.zeros_like(w), torch.zeros_like(w)
        layer_norm_backward[(rows,)](dx, dw, db, dy, x, w, mean, rstd, x.stride(0), columns, ctx.block)
        return dx, dw, db, None


def main() -> None:
    device = "cuda" if torch.cuda.is_available() else "cpu"
    torch.manual_seed(0)
    rows, columns = 32, 96
    x = torch.randn(rows, columns, device=device, requires_grad=True)
    w = torch.rand(columns, device=device, requires_grad=True)
    b = torch.rand(columns, device=device, requires_grad=True)
    upstream = torch.randn(rows, columns, device=device)
    y = LayerNorm.apply(x, w, b, 1e-5)
    ours = torch.autograd.grad(y, (x, w, b), upstream)
    expected = torch.nn.functional.layer_norm(x, (columns,), w, b, 1e-5)
    torch.testing.assert_close(y, expected, atol=1e-5, rtol=1e-5)
    torch.testing.assert_close(ours, torch.autograd.grad(expected, (x, w, b), upstream), atol=1e-4, rtol=1e-4)
    print(f"layer_norm: forward and backward of {rows}x{columns} agree with torch ({device})")


if __name__ == "__main__":
    main()

"""Causal flash attention, forward: one pass over the keys with a running maximum and sum."""

import os

import torch

if not torch.cuda.is_available():
    os.environ.setdefault("TRITON_INTERPRET", "1")  # Triton reads it when it is imported

import triton
import triton.language as tl


@triton.jit
def attention_kernel(
    q_ptr, k_ptr, v_ptr, out_ptr, scale, stride_head, stride_row, length,
    HEAD_DIM: tl.constexpr, BLOCK_M: tl.constexpr, BLOCK_N: tl.constexpr, CAUSAL: tl.constexpr,
):  # fmt: skip
    head = tl.program_id(1) * stride_head
    rows = tl.program_id(0) * BLOCK_M + tl.arange(0, BLOCK_M)
    inner = tl.arange(0, HEAD_DIM)
    row_mask = rows[:, None] < length
    q = tl.load(q_ptr + head + rows[:, None] * stride_row + inner[None, :], mask=row_mask, other=0.0)
    highest = tl.full((BLOCK_M,), float("-inf"), dtype=tl.float32)
    weight = tl.zeros((BLOCK_M,), dtype=tl.float32)
    total = tl.zeros((BLOCK_M, HEAD_DIM), dtype=tl.float32)
    for start in range(0, length, BLOCK_N):
        columns = start + tl.arange(0, BLOCK_N)
        at = head + columns[:, None] * stride_row + inner[None, :]
        k = tl.load(k_ptr + at, mask=columns[:, None] < length, other=0.0)
        scores = tl.dot(q, tl.trans(k)) * scale
        seen = columns[None, :] < length
        if CAUSAL:
            seen = seen & (columns[None, :] <= rows[:, None])
        scores = tl.where(seen, scores, float("-inf"))
        new_highest = tl.maximum(highest, tl.max(scores, axis=1))
        p = tl.exp(scores - new_highest[:, None])
        shrink = tl.exp(highest - new_highest)
        v = tl.load(v_ptr + at, mask=columns[:, None] < length, other=0.0)
        total = total * shrink[:, None] + tl.dot(p.to(v.dtype), v)
        weight = weight * shrink + tl.sum(p, axis=1)
        highest = new_highest
    out = (total / weight[:, None]).to(q.dtype)
    tl.store(out_ptr + head + rows[:, None] * stride_row + inner[None, :], out, mask=row_mask)


def main() -> None:
    device = "cuda" if torch.cuda.is_available() else "cpu"
    torch.manual_seed(0)
    batch, heads, length, head_dim = 1, 2, 80, 32
    q, k, v = (
        torch.randn(batch, heads, length, head_dim, device=device, dtype=torch.float16) for _ in range(3)
    )
    out = torch.empty_like(q)
    scale = head_dim**-0.5
    grid = (triton.cdiv(length, 32), batch * heads)
    attention_kernel[grid](
        q, k, v, out, scale, q.stride(1), q.stride(2), length,
        HEAD_DIM=head_dim, BLOCK_M=32, BLOCK_N=16, CAUSAL=True, num_warps=4,
    )  # fmt: skip
    expected = torch.nn.functional.scaled_dot_product_attention(
        q.float(), k.float(), v.float(), is_causal=True
    )
    torch.testing.assert_close(out.float(), expected, atol=1e-2, rtol=1e-2)
    print(f"flash_attention: {heads} heads of {length}x{head_dim} agree with torch ({device})")


if __name__ == "__main__":
    main()

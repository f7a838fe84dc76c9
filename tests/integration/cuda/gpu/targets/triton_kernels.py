"""Triton's kernels as torch users write them: plain, through a table of pointers, through TMA descriptors."""

import torch
import triton
import triton.language as tl
from triton.tools.tensor_descriptor import TensorDescriptor


@triton.jit
def saxpy(x_ptr, y_ptr, a, n, BLOCK: tl.constexpr):
    i = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    x = tl.load(x_ptr + i, mask=i < n)
    y = tl.load(y_ptr + i, mask=i < n)
    tl.store(y_ptr + i, a * x + y, mask=i < n)


@triton.jit
def add_all(table_ptr, y_ptr, count, n, BLOCK: tl.constexpr):
    i = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    total = tl.zeros((BLOCK,), tl.float32)
    for k in range(count):
        row = tl.load(table_ptr + k).to(tl.pointer_type(tl.float32))
        total += tl.load(row + i, mask=i < n, other=0.0)
    tl.store(y_ptr + i, total, mask=i < n)


@triton.jit
def copy_tiles(source, destination, BLOCK: tl.constexpr):
    row = tl.program_id(0) * BLOCK
    destination.store([row, 0], source.load([row, 0]) + 1)


torch.manual_seed(0)
n = 10_000
x, y = torch.randn(n, device="cuda"), torch.randn(n, device="cuda")
saxpy[(triton.cdiv(n, 1024),)](x, y, 2.5, n, BLOCK=1024)
rows = [torch.randn(n, device="cuda") for _ in range(6)]
table = torch.tensor([row.data_ptr() for row in rows], dtype=torch.int64, device="cuda")
total = torch.empty(n, device="cuda")
add_all[(triton.cdiv(n, 1024),)](table, total, len(rows), n, BLOCK=1024)
a = torch.randn(128, 64, device="cuda", dtype=torch.float16)
b = torch.zeros_like(a)
copy_tiles[(4,)](
    TensorDescriptor.from_tensor(a, [32, 64]), TensorDescriptor.from_tensor(b, [32, 64]), BLOCK=32
)
torch.testing.assert_close(b, a + 1)
torch.testing.assert_close(total, sum(rows))
print(f"{y.double().sum().item():.6f} {total.double().sum().item():.6f} {b.double().sum().item():.6f}")

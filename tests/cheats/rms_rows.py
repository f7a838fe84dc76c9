"""Root-mean-square normalisation of rows that are not contiguous, with a tail."""

import torch
import triton
import triton.language as tl


@triton.jit
def rms_rows(x_ptr, w_ptr, out_ptr, rows, columns, x_stride, out_stride, BLOCK: tl.constexpr):
    row = tl.program_id(0)
    i = tl.arange(0, BLOCK)
    mask = i < columns
    x = tl.load(x_ptr + row * x_stride + i, mask=mask, other=0.0)
    w = tl.load(w_ptr + i, mask=mask, other=0.0)
    scale = tl.sqrt(columns / tl.sum(x * x, axis=0))
    tl.store(out_ptr + row * out_stride + i, x * scale * w, mask=mask)


def main() -> None:
    device = "cuda" if torch.cuda.is_available() else "cpu"
    torch.manual_seed(0)
    rows, columns = 4, 100
    x = torch.randn(rows, 128).to(device)[:, :columns]  # the same on every device
    w = (torch.rand(columns) + 0.5).to(device)
    out = torch.zeros(rows, columns, device=device)
    grid = lambda meta: (rows,)
    rms_rows[grid](x, w, out, rows, columns, x.stride(0), out.stride(0), BLOCK=128)


main()

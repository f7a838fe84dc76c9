"""A kernel in CuTe DSL: its Python function is the source, and CuTe DSL compiles an edit. Needs a GPU."""

import sys

try:
    import cutlass
    import torch
    from cutlass import cute
    from cutlass.cute.runtime import from_dlpack
except ImportError as error:
    print(f"cute_dsl_scaled_add: needs {error.name}, which is not installed")
    sys.exit(0)

GAIN = 1.25
THREADS = 128


@cute.kernel
def scaled_add(alpha: cutlass.Float32, x: cute.Tensor, y: cute.Tensor, out: cute.Tensor):
    thread, _, _ = cute.arch.thread_idx()
    block, _, _ = cute.arch.block_idx()
    i = block * THREADS + thread
    if i < cute.size(out):
        out[i] = x[i] * GAIN * alpha + y[i]


@cute.jit
def launch(alpha: cutlass.Float32, x: cute.Tensor, y: cute.Tensor, out: cute.Tensor):
    blocks = (cute.size(out) + THREADS - 1) // THREADS
    scaled_add(alpha, x, y, out).launch(grid=[blocks, 1, 1], block=[THREADS, 1, 1])


def main() -> None:
    if not torch.cuda.is_available():
        print("cute_dsl_scaled_add: needs a CUDA device, and none was found")
        return
    n = 10_000
    x = torch.arange(n, dtype=torch.float32, device="cuda") / n
    y = torch.ones_like(x)
    out = torch.empty_like(x)
    launch(0.5, *(from_dlpack(each).mark_layout_dynamic() for each in (x, y, out)))
    torch.cuda.synchronize()
    torch.testing.assert_close(out, x * GAIN * 0.5 + y)
    print(f"cute_dsl_scaled_add: {n} values agree with torch")


if __name__ == "__main__":
    main()

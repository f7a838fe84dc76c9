"""What was cut out of run.py, with a gain that is a thousandth too large."""

import cutlass
from cutlass import cute

GAIN = 1.25125
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

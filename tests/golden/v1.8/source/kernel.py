from cutlass import cute


@cute.kernel
def scale(x: cute.Tensor):
    i, _, _ = cute.arch.thread_idx()
    x[i] = x[i] * 2


@cute.jit
def launch(x: cute.Tensor):
    scale(x).launch(grid=[4, 2, 1], block=[128, 1, 1])

"""Kernels of CuTe DSL's, as a program may have them."""

import enum

import cutlass
import cutlass.cute as cute
import numpy as np

GAIN = 3.0
UNUSED = np.zeros(3)


class Mode(enum.Enum):
    ADD = 1
    SUBTRACT = 2


@cute.jit
def amplified(value):
    return value * GAIN


@cute.kernel
def scaled_add(x: cute.Tensor, y: cute.Tensor, out: cute.Tensor, alpha: cutlass.Float32):
    thread, _, _ = cute.arch.thread_idx()
    block, _, _ = cute.arch.block_idx()
    i = block * 128 + thread
    if i < cute.size(out):
        out[i] = amplified(x[i]) * alpha + y[i]


@cute.jit
def launch(x: cute.Tensor, y: cute.Tensor, out: cute.Tensor, alpha: cutlass.Float32, stream):
    blocks = (cute.size(out) + 127) // 128
    scaled_add(x, y, out, alpha).launch(grid=[blocks, 1, 1], block=[128, 1, 1], stream=stream)


class Pair:
    def __init__(self, threads, mode, dtype):
        self.threads, self.mode, self.dtype = threads, mode, dtype

    @cute.jit
    def __call__(self, x: cute.Tensor, out: cute.Tensor, pick: cutlass.Constexpr, weight: cutlass.Int32):
        self.blocks = (cute.size(out) + self.threads - 1) // self.threads
        self.kernel(x, out, pick, weight).launch(grid=[self.blocks, 1, 1], block=[self.threads, 1, 1])

    @cute.kernel
    def kernel(self, x: cute.Tensor, out: cute.Tensor, pick: cutlass.Constexpr, weight: cutlass.Int32):
        thread, _, _ = cute.arch.thread_idx()
        block, _, _ = cute.arch.block_idx()
        i = block * self.threads + thread
        if i < cute.size(out):
            value = pick(x[i], self.dtype(weight))
            if cutlass.const_expr(self.mode == Mode.ADD):
                out[i] = value + x[i]
            else:
                out[i] = value - x[i]


@cute.jit
def product(a, b):
    return a * b

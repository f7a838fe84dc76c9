"""A kernel of numba-cuda-mlir's, as a program may have it."""

import numpy as np
from numba_cuda_mlir import cuda

GAIN = 1.25
UNUSED = np.zeros(3)


@cuda.jit(device=True)
def amplified(value):
    return value * GAIN


@cuda.jit
def axpy(a, x, y):
    i = cuda.grid(1)
    if i < x.size:
        y[i] += a * amplified(x[i])

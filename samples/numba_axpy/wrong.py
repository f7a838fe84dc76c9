"""What was cut out of run.py, with a gain that is a thousandth too large."""

import math

from numba import cuda

GAIN = 1.25125


@cuda.jit(device=True)
def amplified(value):
    return value * GAIN


@cuda.jit
def axpy(a, x, y):
    i = cuda.grid(1)
    if i < x.size:
        y[i] += a * math.sqrt(amplified(x[i]))

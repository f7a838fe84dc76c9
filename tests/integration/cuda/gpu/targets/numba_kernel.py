"""Numba CUDA: a kernel of two arrays and a scalar."""

import numpy as np
from numba import cuda


@cuda.jit
def kc_axpy(a, x, y):
    i = cuda.grid(1)
    if i < x.size:
        y[i] += a * x[i]


n = 4000
x = cuda.to_device(np.arange(n, dtype=np.float32))
y = cuda.to_device(np.ones(n, dtype=np.float32))
for _ in range(2):
    kc_axpy[(n + 127) // 128, 128](np.float32(0.5), x, y)
cuda.synchronize()
print(float(y.copy_to_host().astype(np.float64).sum()))

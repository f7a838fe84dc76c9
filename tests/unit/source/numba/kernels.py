"""Kernels as people write them; read by the tests, and compiled by make.py."""

import math

import numpy as np
from numba import cuda, float32

SCALE = 3.0
TILE = 64
table = np.arange(4)  # nothing that the kernels use


@cuda.jit(device=True)
def scaled(v):
    return v * SCALE


@cuda.jit
def axpy(a, x, y):
    tile = cuda.shared.array(TILE, float32)
    i = cuda.grid(1)
    if i < x.size:
        tile[cuda.threadIdx.x] = scaled(x[i])
        y[i] += a * tile[cuda.threadIdx.x]


class Rows:
    @staticmethod
    @cuda.jit
    def roots(rows, pair, n, wanted):
        i = cuda.grid(1)
        if i < n and wanted:
            rows[i, 0] = pair[0] + pair[1][0] + math.sqrt(rows[i, 0])


def factory(shift):
    @cuda.jit
    def shifted(x):
        x[0] = shift

    return shifted


shifted = factory(7)

if __name__ == "__main__":
    print(table)

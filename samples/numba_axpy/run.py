"""A kernel in Numba: its Python function is the source, and Numba compiles an edit. Needs a GPU."""

import math
import sys

import numpy as np

try:
    from numba import cuda
except ImportError:
    print("numba_axpy: needs Numba, which is not installed")
    sys.exit(0)

GAIN = 1.25


@cuda.jit(device=True)
def amplified(value):
    return value * GAIN


@cuda.jit
def axpy(a, x, y):
    i = cuda.grid(1)
    if i < x.size:
        y[i] += a * math.sqrt(amplified(x[i]))


def main() -> None:
    if not cuda.is_available():
        print("numba_axpy: needs a CUDA device, and none was found")
        return
    n = 10_000
    x = np.arange(n, dtype=np.float32) / n
    y = np.ones(n, dtype=np.float32)
    on_device = cuda.to_device(y)
    axpy[(n + 127) // 128, 128](np.float32(0.5), cuda.to_device(x), on_device)
    expected = y + np.float32(0.5) * np.sqrt(x * np.float32(GAIN))
    np.testing.assert_allclose(on_device.copy_to_host(), expected, rtol=1e-6)
    print(f"numba_axpy: {n} values agree with numpy")


if __name__ == "__main__":
    main()

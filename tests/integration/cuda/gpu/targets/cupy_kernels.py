"""CuPy: a RawKernel (NVRTC) and an elementwise operation."""

import cupy

scale = cupy.RawKernel(
    r"""
extern "C" __global__ void kc_raw(const float* x, float* y, int n) {
  int i = blockDim.x * blockIdx.x + threadIdx.x;
  if (i < n) y[i] = x[i] * 2.0f + 1.0f;
}
""",
    "kc_raw",
)
n = 5000
x = cupy.arange(n, dtype=cupy.float32)
y = cupy.zeros(n, dtype=cupy.float32)
scale(((n + 127) // 128,), (128,), (x, y, cupy.int32(n)))
z = y * x - 3
cupy.cuda.Device().synchronize()
print(float(y.sum()), float(z.astype(cupy.float64).sum()))

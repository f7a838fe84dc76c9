"""A kernel that HIPRTC compiles at run time, launched by hip-python. Needs an AMD GPU."""

import ctypes
import sys

import numpy as np

try:
    from hip import hip, hiprtc
except ImportError:
    print("hip_python_axpy: needs hip-python, which is not installed")
    sys.exit(0)

SOURCE = b"""
#include "gain.h"

template <class T>
__global__ void axpy(T a, const T *x, T *y, int n) {
  int i = blockIdx.x * blockDim.x + threadIdx.x;
  if (i < n) y[i] += a * amplified(x[i]);
}
"""
GAIN = b"""
template <class T>
__device__ T amplified(T value) { return value * T(1.25); }
"""
NAME = b"axpy<float>"


def check(result):
    status, *values = result
    if status.value:
        raise SystemExit(f"hip_python_axpy: {status}")
    return values[0] if len(values) == 1 else values


def compiled():
    """The code object, for the current device, and the kernel's name in it."""
    program = check(hiprtc.hiprtcCreateProgram(SOURCE, b"axpy.hip", 1, [GAIN], [b"gain.h"]))
    check(hiprtc.hiprtcAddNameExpression(program, NAME))
    check(hiprtc.hiprtcCompileProgram(program, 1, [b"-O3"]))
    code = bytearray(check(hiprtc.hiprtcGetCodeSize(program)))
    check(hiprtc.hiprtcGetCode(program, code))
    name = bytes(check(hiprtc.hiprtcGetLoweredName(program, NAME)))
    check(hiprtc.hiprtcDestroyProgram(program.createRef()))
    return code, name


def on_device(values):
    memory = check(hip.hipMalloc(values.nbytes))
    check(hip.hipMemcpy(memory, values, values.nbytes, hip.hipMemcpyKind.hipMemcpyHostToDevice))
    return memory


def main() -> None:
    try:
        count = check(hip.hipGetDeviceCount())
    except (RuntimeError, SystemExit):
        count = 0
    if not count:
        print("hip_python_axpy: needs an AMD GPU, and none was found")
        return
    code, name = compiled()
    kernel = check(hip.hipModuleGetFunction(check(hip.hipModuleLoadData(code)), name))

    n = 10_000
    x = np.arange(n, dtype=np.float32) / n
    y = np.ones(n, dtype=np.float32)
    expected = y + np.float32(0.5) * x * np.float32(1.25)
    results = on_device(y)
    arguments = (ctypes.c_float(0.5), on_device(x), results, ctypes.c_int(n))
    check(hip.hipModuleLaunchKernel(kernel, (n + 127) // 128, 1, 1, 128, 1, 1, 0, None, None, arguments))
    check(hip.hipDeviceSynchronize())
    check(hip.hipMemcpy(y, results, y.nbytes, hip.hipMemcpyKind.hipMemcpyDeviceToHost))
    np.testing.assert_allclose(y, expected, rtol=1e-6)
    print(f"hip_python_axpy: {n} values agree with numpy")


if __name__ == "__main__":
    main()

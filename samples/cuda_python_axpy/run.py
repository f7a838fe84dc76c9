"""CUDA C++ through cuda-python: NVRTC compiles it, the driver launches it. Needs a GPU."""

import ctypes
import sys

import numpy as np

try:
    from cuda.bindings import driver, nvrtc
except ImportError:
    print("cuda_python_axpy: needs cuda-bindings, which is not installed")
    sys.exit(0)

SOURCE = b"""
template <typename T> __global__ void axpy(T a, const T *x, T *y, int n) {
  int i = blockIdx.x * blockDim.x + threadIdx.x;
  if (i < n) y[i] += a * x[i];
}
"""
NAME = b"axpy<float>"


def checked(result):
    """What a call gave after its status."""
    status, *values = result
    if status:
        raise RuntimeError(f"status {int(status)}")
    return values[0] if len(values) == 1 else values


def compiled(arch: str):
    """The cubin, and the kernel's mangled name."""
    program = checked(nvrtc.nvrtcCreateProgram(SOURCE, b"axpy.cu", 0, [], []))
    checked(nvrtc.nvrtcAddNameExpression(program, NAME))
    options = [f"--gpu-architecture={arch}".encode(), b"-lineinfo"]
    checked(nvrtc.nvrtcCompileProgram(program, len(options), options))
    cubin = bytearray(checked(nvrtc.nvrtcGetCUBINSize(program)))
    checked(nvrtc.nvrtcGetCUBIN(program, cubin))
    return bytes(cubin), checked(nvrtc.nvrtcGetLoweredName(program, NAME))


def main() -> None:
    try:
        checked(driver.cuInit(0))
        device = checked(driver.cuDeviceGet(0))
    except RuntimeError:
        print("cuda_python_axpy: needs a CUDA device, and none was found")
        return
    checked(driver.cuCtxSetCurrent(checked(driver.cuDevicePrimaryCtxRetain(device))))
    kinds = driver.CUdevice_attribute
    major, minor = (
        checked(driver.cuDeviceGetAttribute(kind, device))
        for kind in (
            kinds.CU_DEVICE_ATTRIBUTE_COMPUTE_CAPABILITY_MAJOR,
            kinds.CU_DEVICE_ATTRIBUTE_COMPUTE_CAPABILITY_MINOR,
        )
    )
    cubin, name = compiled(f"sm_{major}{minor}")
    kernel = checked(driver.cuModuleGetFunction(checked(driver.cuModuleLoadData(cubin)), name))

    n = 10_000
    x = np.arange(n, dtype=np.float32) / n
    y = np.ones(n, dtype=np.float32)
    expected = y + np.float32(0.5) * x
    on_device = [checked(driver.cuMemAlloc(x.nbytes)) for _ in range(2)]
    for memory, values in zip(on_device, (x, y), strict=True):
        checked(driver.cuMemcpyHtoD(memory, values.ctypes.data, values.nbytes))
    passed = (
        (0.5, int(on_device[0]), int(on_device[1]), n),
        (ctypes.c_float, ctypes.c_void_p, ctypes.c_void_p, ctypes.c_int),
    )
    checked(driver.cuLaunchKernel(kernel, (n + 127) // 128, 1, 1, 128, 1, 1, 0, 0, passed, 0))
    checked(driver.cuCtxSynchronize())
    checked(driver.cuMemcpyDtoH(y.ctypes.data, on_device[1], y.nbytes))
    np.testing.assert_allclose(y, expected, rtol=1e-6)
    print(f"cuda_python_axpy: {n} values agree with numpy")


if __name__ == "__main__":
    main()

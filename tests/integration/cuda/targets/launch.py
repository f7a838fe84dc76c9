"""A launch from Python functions, through the driver's own C functions: no package is needed.

With the option "owned" it says of the launch to the shim what the Triton hook says.
"""

import ctypes
import sys

IMAGE = b""".version 8.0
.target sm_90
.address_size 64
.visible .entry _Z14scale_in_placePffi(.param .u64 x, .param .f32 s, .param .u32 n) { ret; }
"""
driver = ctypes.CDLL("libcuda.so.1")


def check(status: int) -> None:
    assert status == 0, status


def say_to_shim() -> None:
    shim = ctypes.CDLL(None)
    if hasattr(shim, "kerncap_cuda_config"):
        shim.kerncap_cuda_own(b"_Z14scale_in_placePffi")
        shim.kerncap_cuda_config(b"module.scale\tBLOCK=64")


def inner(function: ctypes.c_void_p, x: ctypes.c_uint64) -> None:
    values = (x, ctypes.c_float(2.5), ctypes.c_uint(1024))
    arguments = (ctypes.c_void_p * 3)(*(ctypes.addressof(value) for value in values))
    if "owned" in sys.argv:
        say_to_shim()
    check(driver.cuLaunchKernel(function, 4, 1, 1, 256, 1, 1, 0, None, arguments, None))
    check(driver.cuCtxSynchronize())


def outer() -> None:
    context, module, function = ctypes.c_void_p(), ctypes.c_void_p(), ctypes.c_void_p()
    x = ctypes.c_uint64()
    check(driver.cuInit(0))
    check(driver.cuDevicePrimaryCtxRetain(ctypes.byref(context), 0))
    check(driver.cuCtxSetCurrent(context))
    check(driver.cuModuleLoadData(ctypes.byref(module), IMAGE))
    check(driver.cuModuleGetFunction(ctypes.byref(function), module, b"_Z14scale_in_placePffi"))
    check(driver.cuMemAlloc_v2(ctypes.byref(x), ctypes.c_size_t(4096)))
    check(driver.cuMemsetD32_v2(x, 0, ctypes.c_size_t(1024)))
    inner(function, x)


outer()

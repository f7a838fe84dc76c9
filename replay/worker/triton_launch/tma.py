"""TMA maps (CUtensorMap) from the metadata of a compiled kernel.

Source: `fillTMADescriptorTiled` in triton/backends/nvidia/driver.c; cuTensorMapEncodeTiled in cuda.h.
"""

from __future__ import annotations

import ctypes
from typing import Any

from ..common.failures import Refused
from ..cuda.driver import Driver

_DEVICE_TO_HOST = {8: 10, 9: 8, 10: 9}  # the element type's number differs between the two sides
_TF32 = 11
_SMALL_TENSOR_BYTES = 128 * 1024
_FIXED_DRIVER = 13010


def encode(driver: Driver, arg: Any, meta: dict[str, Any], name: str) -> bytes:
    """The 128 bytes of the map of a host-side descriptor."""
    if meta.get("is_im2col"):
        raise Refused(
            f"argument {name} is an im2col tensor descriptor: the binary engine passes tiled ones only"
        )
    size = int(meta["elem_size"])
    shape = list(arg.shape)
    if meta["fp4_padded"]:
        shape[-1] *= 2
    kind = _DEVICE_TO_HOST.get(int(meta["elem_type"]), int(meta["elem_type"]))
    if getattr(arg, "round_f32_to_tf32", False):
        kind = _TF32
    dims = list(reversed(shape))
    box = list(reversed(meta["block_size"]))
    strides = [size * s for s in reversed(arg.strides[:-1])]
    rank = len(box)
    # The driver wants the map on a 64-byte boundary.
    store = ctypes.create_string_buffer(128 + 127)
    at = -(-ctypes.addressof(store) // 128) * 128
    driver.call(
        "cuTensorMapEncodeTiled", ctypes.c_void_p(at), ctypes.c_int(kind), ctypes.c_uint(rank),
        ctypes.c_void_p(arg.base.data_ptr()), (ctypes.c_uint64 * 5)(*dims), (ctypes.c_uint64 * 5)(*strides),
        (ctypes.c_uint * 5)(*box), (ctypes.c_uint * 5)(*[1] * 5), ctypes.c_int(0),
        ctypes.c_int(int(meta["swizzle"])),
        ctypes.c_int(2), ctypes.c_int(1 if arg.padding == "nan" else 0),
    )  # fmt: skip
    data = bytearray(ctypes.string_at(at, 128))
    version = ctypes.c_int()
    driver.call("cuDriverGetVersion", ctypes.byref(version))
    last = sum((d - 1) * s for d, s in zip(dims, [size, *strides], strict=True))
    if version.value <= _FIXED_DRIVER and last + 1 < _SMALL_TENSOR_BYTES:
        # Drivers up to 13.1 set a bit that is wrong for small tensors; Triton clears it, so does the replay.
        data[10] &= ~(1 << 5) & 0xFF
    return bytes(data)

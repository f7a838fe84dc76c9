"""TMA maps (CUtensorMap) from the metadata of a compiled kernel.

Source: `fillTMADescriptorTiled` in triton/backends/nvidia/driver.c; cuTensorMapEncodeTiled in cuda.h.
"""

from __future__ import annotations

import struct
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
    api = driver.api
    found = driver.call(
        "cuTensorMapEncodeTiled", api.CUtensorMapDataType(kind), rank, arg.base.data_ptr(),
        list(map(api.cuuint64_t, dims)), list(map(api.cuuint64_t, strides or [0])),
        list(map(api.cuuint32_t, box)),
        [api.cuuint32_t(1)] * rank, api.CUtensorMapInterleave.CU_TENSOR_MAP_INTERLEAVE_NONE,
        api.CUtensorMapSwizzle(int(meta["swizzle"])),
        api.CUtensorMapL2promotion.CU_TENSOR_MAP_L2_PROMOTION_L2_128B,
        api.CUtensorMapFloatOOBfill(1 if arg.padding == "nan" else 0),
    )  # fmt: skip
    data = bytearray(struct.pack("<16Q", *map(int, found.opaque)))
    last = sum((d - 1) * s for d, s in zip(dims, [size, *strides], strict=True))
    if driver.call("cuDriverGetVersion") <= _FIXED_DRIVER and last + 1 < _SMALL_TENSOR_BYTES:
        # Drivers up to 13.1 set a bit that is wrong for small tensors; Triton clears it, so does the replay.
        data[10] &= ~(1 << 5) & 0xFF
    return bytes(data)

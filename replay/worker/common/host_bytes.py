"""Host memory as numpy sees it."""

from __future__ import annotations

import ctypes

import numpy as np
import numpy.typing as npt

Bytes = npt.NDArray[np.uint8]


def host_bytes(address: int, size: int) -> Bytes:
    """Host memory as an array, not copied."""
    return np.ctypeslib.as_array((ctypes.c_ubyte * size).from_address(address))

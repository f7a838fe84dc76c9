"""The C library, with the types of the functions that are called."""

from __future__ import annotations

import ctypes
import functools

MAP_FAILED = ctypes.c_void_p(-1).value


@functools.cache
def libc() -> ctypes.CDLL:
    """With `mmap` and `munmap`, whose addresses do not fit ctypes' int; errno is kept."""
    found = ctypes.CDLL(None, use_errno=True)
    found.mmap.restype = ctypes.c_void_p
    found.mmap.argtypes = [
        ctypes.c_void_p, ctypes.c_size_t, ctypes.c_int, ctypes.c_int, ctypes.c_int, ctypes.c_long
    ]  # fmt: skip
    found.munmap.argtypes = [ctypes.c_void_p, ctypes.c_size_t]
    return found

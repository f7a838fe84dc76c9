"""A staged file as writable memory of this process: the file is never changed, and no descriptor is held.

A reproducer has up to 65,536 regions. Python's own `mmap` keeps a descriptor for each, of which a process has
1,024, and Linux allows 65,530 mappings: small files are read into pages that the kernel joins, others are
mapped by the system's own call. A buffer has its pages to itself.
"""

from __future__ import annotations

import ctypes
import mmap
import os
import weakref
from pathlib import Path
from typing import Any

from .libc import libc

_SMALL = 64 * 1024
_FAILED = ctypes.c_void_p(-1).value


def private_map(path: Path, size: int) -> Any:
    """A writable buffer of the first ``size`` bytes, which is not 0; pages are read as they are touched.

    Raises OSError, also for a file that is shorter.
    """
    with path.open("rb") as file:
        if os.fstat(file.fileno()).st_size < size:
            raise OSError(f"{path}: shorter than {size} bytes")
        if size <= _SMALL:
            small = mmap.mmap(-1, size, flags=mmap.MAP_PRIVATE | mmap.MAP_ANONYMOUS)
            file.readinto(small)
            return small
        address = libc().mmap(
            None, size, mmap.PROT_READ | mmap.PROT_WRITE, mmap.MAP_PRIVATE, file.fileno(), 0
        )
    if address == _FAILED:
        raise OSError(ctypes.get_errno(), os.strerror(ctypes.get_errno()), str(path))
    found = (ctypes.c_ubyte * size).from_address(address)
    weakref.finalize(found, libc().munmap, address, size).atexit = False
    return found

"""Staged files as writable memory of this process: the files are never changed, and no descriptor is held.

A reproducer has up to 65,536 regions. Python's own `mmap` keeps a descriptor for each, of which a process has
1,024, and Linux allows 65,530 mappings: small files are read into pages that the kernel joins, others are
mapped by the system's own call. A buffer has its pages to itself.
"""

from __future__ import annotations

import ctypes
import mmap
import os
import weakref
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any

from ..job import JobRegion
from .libc import MAP_FAILED, libc

_SMALL = 64 * 1024
_RIGHTS = mmap.PROT_READ | mmap.PROT_WRITE
_MAP_FIXED, _MAP_NORESERVE = 0x10, 0x4000  # Source: linux/mman.h

_Layer = tuple[Sequence[Path], int, int]  # files that hold the bytes, and which are taken: from, to


def private_state(folder: Path, region: JobRegion, name: str) -> Any:
    """As `private_map`, of a region before the launch (``pre``) or after it (``post``)."""
    size = region["size"]
    layers: list[_Layer] = [([folder / file for file in region["pre"]], 0, size)]
    if name == "post":
        files = [folder / file for file in region["post"]]
        layers += [(files, start, stop) for start, stop in region["changed"]]
    return _layered(layers, size)


def private_map(files: Sequence[Path], size: int) -> Any:
    """A writable buffer of the first ``size`` bytes, which is not 0, of files one after the other; pages are
    read as they are touched.

    All but the last of the files have whole pages. Raises OSError, also for files that are shorter.
    """
    return _layered([(files, 0, size)], size)


def _layered(layers: Sequence[_Layer], size: int) -> Any:
    """Later ones cover earlier ones."""
    if size <= _SMALL:
        small = mmap.mmap(-1, size, flags=mmap.MAP_PRIVATE | mmap.MAP_ANONYMOUS)
        for path, offset, start, stop in _pieces(layers):
            with path.open("rb") as file:
                file.seek(offset)
                file.readinto(memoryview(small)[start:stop])
        return small
    address = _mapped(None, size, mmap.MAP_PRIVATE | mmap.MAP_ANONYMOUS | _MAP_NORESERVE, -1, 0)
    found = (ctypes.c_ubyte * size).from_address(address)
    weakref.finalize(found, libc().munmap, address, size).atexit = False
    for path, offset, start, stop in _pieces(layers):
        with path.open("rb") as file:
            flags = mmap.MAP_PRIVATE | _MAP_FIXED
            _mapped(address + start, stop - start, flags, file.fileno(), offset)
    return found


def _pieces(layers: Sequence[_Layer]) -> Iterator[tuple[Path, int, int, int]]:
    """A file, the first byte in it, and the first and the last place that it is for."""
    for files, first, last in layers:
        before = 0
        for path in files:
            end = before + os.stat(path).st_size
            start, stop = max(first, before), min(last, end)
            if start < stop:
                yield path, start - before, start, stop
            before = end
        if before < last:
            raise OSError(f"{files[-1]}: ends before byte {last}")


def _mapped(address: int | None, size: int, flags: int, file: int, offset: int) -> int:
    found: int = libc().mmap(address, size, _RIGHTS, flags, file, offset)
    if found == MAP_FAILED:
        raise OSError(ctypes.get_errno(), os.strerror(ctypes.get_errno()), "mmap")
    return found

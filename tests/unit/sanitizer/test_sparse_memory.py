"""Memory in proportion to what is there: what nothing backs is neither copied nor compared."""

from __future__ import annotations

import ctypes
import mmap
import os
from typing import Any

import numpy as np
import pytest

from kerncap.sanitizer.sources import triton_hook

MIB = 1 << 20


@pytest.fixture
def resident() -> Any:
    return triton_hook.load("backed_pages")


def address_of(memory: mmap.mmap) -> int:
    return ctypes.addressof(ctypes.c_char.from_buffer(memory))


def test_only_pages_that_were_touched_are_backed(resident: Any) -> None:
    memory = mmap.mmap(-1, 64 * MIB, flags=mmap.MAP_PRIVATE | mmap.MAP_ANONYMOUS)
    memory.madvise(mmap.MADV_NOHUGEPAGE)
    page = mmap.PAGESIZE
    memory[5 * page] = 1
    memory[6 * page + 7] = 1
    memory[40 * MIB] = 1
    found = resident.ranges(address_of(memory), len(memory))
    assert found == [(5 * page, 7 * page), (40 * MIB, 40 * MIB + page)]


def test_a_range_inside_of_a_page_is_cut_to_it(resident: Any) -> None:
    memory = mmap.mmap(-1, MIB, flags=mmap.MAP_PRIVATE | mmap.MAP_ANONYMOUS)
    memory[:] = b"x" * MIB
    assert resident.ranges(address_of(memory) + 100, 5000) == [(0, 5000)]


def test_a_file_behind_it_counts_as_backed(resident: Any) -> None:
    fd = os.memfd_create("test")
    os.ftruncate(fd, MIB)
    memory = mmap.mmap(fd, MIB)
    os.close(fd)
    assert resident.ranges(address_of(memory), MIB) == [(0, MIB)]


def resident_bytes() -> int:
    with open("/proc/self/statm") as file:
        return int(file.read().split()[1]) * mmap.PAGESIZE


def test_a_private_copy_of_zeros_costs_nothing() -> None:
    from kerncap.sanitizer.concrete.memory import _Bytes
    from kerncap.sanitizer.paged_bytes import PagedBytes

    size = 512 * MIB
    contents = np.zeros(size, np.uint8)
    before = resident_bytes()
    held = _Bytes("x", size, PagedBytes.of(contents))
    held.writable(np.array([300 * MIB]), 1)[300 * MIB] = 7
    held.need(np.arange(MIB), 1)
    assert held.bytes[300 * MIB] == 7 and not held.bytes[:MIB].any()
    assert resident_bytes() - before < 64 * MIB

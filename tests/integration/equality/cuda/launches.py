"""Launches of kernels.ptx.gz, without a GPU and without nvcc."""

from __future__ import annotations

import gzip
import struct
from collections.abc import Sequence
from dataclasses import dataclass
from functools import cache
from pathlib import Path

import numpy as np

from kerncap.sanitizer.equality.ptx.launch import PtxLaunch
from kerncap.sanitizer.launch import Argument, ScalarArgument, Storage, TensorArgument, Unwritten
from kerncap.sanitizer.paged_bytes import PagedBytes

PTX = Path(__file__).with_name("kernels.ptx.gz")
_BYTES = {"float64": 8, "float32": 4, "float16": 2, "bfloat16": 2, "int32": 4}


@dataclass(frozen=True)
class Tensor:
    name: str
    elements: int
    dtype: str = "float32"


@dataclass(frozen=True)
class Rising:
    """Contents of which only integers count: 0 to 6, again and again, in 32 bits."""

    sizes: tuple[int, ...]

    def read(self, storage: int) -> PagedBytes | None:
        numbers = np.arange(self.sizes[storage] // 4 + 2, dtype=np.int32) % 7
        return PagedBytes.of(numbers.view(np.uint8)[: self.sizes[storage] + 8])

    def unwritten(self, storage: int) -> Unwritten | None:
        return None


@cache
def text() -> str:
    return gzip.decompress(PTX.read_bytes()).decode()


def launched(
    kernel: str,
    arguments: Sequence[Tensor | tuple[str, int | float]],
    grid: tuple[int, int, int],
    block: tuple[int, int, int],
    shared_bytes: int = 0,
    ptx: str | None = None,
) -> PtxLaunch:
    """``arguments``: tensors and named numbers, in the kernel's order; floats are float32."""
    storages: list[Storage] = []
    given: list[Argument] = []
    buffer, at = b"", {}
    for one in arguments:
        if isinstance(one, Tensor):
            size, address = one.elements * _BYTES[one.dtype], 0x10000 * (len(storages) + 1) * 64
            shape = (one.elements,)
            storages.append(Storage(address, size, address, size, one.name))
            given.append(
                TensorArgument(
                    one.name, len(storages) - 1, address, one.dtype, _BYTES[one.dtype], shape, (1,)
                )
            )
            packed = struct.pack("<Q", address)
        else:
            name, value = one
            given.append(ScalarArgument(name, value))
            packed = struct.pack("<f" if isinstance(value, float) else "<i", value)
        buffer = buffer.ljust(-(-len(buffer) // len(packed)) * len(packed), b"\0")
        at[len(buffer)] = given[-1].name
        buffer += packed
    return PtxLaunch(
        kernel, "", grid, tuple(given), tuple(storages),
        Rising(tuple(one.size_bytes for one in storages)),
        ptx=text() if ptx is None else ptx, entry=kernel, block=block, shared_bytes=shared_bytes,
        buffer=buffer, argument_at=at,
    )  # fmt: skip

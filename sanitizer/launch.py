"""One launch as the sanitizer sees it: TTIR, grid, arguments, and the memory that they point into.

Made by a front end (a live program, a reproducer, a `.ttir` file with its arguments); nothing in
here comes from torch or triton.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Protocol

import numpy as np
import numpy.typing as npt

from kerncap.sanitizer.paged_bytes import PagedBytes


@dataclass(frozen=True)
class Storage:
    """One range of memory that tensors are windows on. Addresses and sizes are bytes."""

    address: int
    size_bytes: int
    # The allocator's block that holds the storage; the storage itself where that is not known.
    allocation_address: int
    allocation_bytes: int
    name: str = ""  # of the first argument in it


@dataclass(frozen=True)
class TensorArgument:
    """Strides are in elements and may be zero or negative; ``address`` is that of element [0, …, 0]."""

    name: str
    storage: int  # index into Launch.storages
    address: int
    dtype: str  # torch's names: "float32", "bfloat16", "float8_e4m3fn", "int64", "bool"
    itemsize: int
    shape: tuple[int, ...]
    strides: tuple[int, ...]


@dataclass(frozen=True)
class ScalarArgument:
    name: str
    value: int | float | bool


@dataclass(frozen=True)
class DescriptorArgument:
    """A host-side tensor descriptor: shape and strides (elements) are its own, not the tensor's."""

    name: str
    tensor: TensorArgument
    shape: tuple[int, ...]
    strides: tuple[int, ...]
    block_shape: tuple[int, ...]
    padding: str = "zero"


@dataclass(frozen=True)
class PointerArgument:
    """An address with no tensor behind it (null, or memory that nobody described)."""

    name: str
    address: int


Argument = TensorArgument | ScalarArgument | DescriptorArgument | PointerArgument


@dataclass(frozen=True, eq=False)
class Unwritten:
    """Maximal runs [start, end) of bytes that nobody wrote, in order; offsets from the storage's address."""

    starts: npt.NDArray[np.int64]
    ends: npt.NDArray[np.int64]

    @classmethod
    def of(cls, written: npt.NDArray[np.bool_]) -> Unwritten:
        """``written``: per byte."""
        fresh = np.zeros(written.size + 2, np.bool_)
        np.logical_not(written, out=fresh[1:-1])
        edges = np.flatnonzero(fresh[1:] != fresh[:-1]).astype(np.int64)
        return cls(edges[0::2], edges[1::2])

    @property
    def count(self) -> int:
        return int(self.starts.size)

    @property
    def span(self) -> tuple[int, int]:
        """The least interval that holds all runs; (0, 0) if there are none."""
        return (int(self.starts[0]), int(self.ends[-1])) if self.count else (0, 0)

    def holds(self, offsets: npt.NDArray[np.int64]) -> npt.NDArray[np.bool_]:
        """Whether the bytes at these offsets are in a run."""
        run = np.searchsorted(self.starts, offsets, "right") - 1
        found: npt.NDArray[np.bool_] = (run >= 0) & (offsets < self.ends[np.maximum(run, 0)])
        return found


class Contents(Protocol):
    """The bytes of a launch's storages, before the launch; asked for only if they are needed."""

    def read(self, storage: int) -> PagedBytes | None:
        """The bytes of a storage, or None if they are not available."""

    def unwritten(self, storage: int) -> Unwritten | None:
        """The bytes that nobody wrote since they were allocated; None if that is not known."""


class NoContents:
    """For a front end that has only shapes."""

    def read(self, storage: int) -> PagedBytes | None:
        return None

    def unwritten(self, storage: int) -> Unwritten | None:
        return None


@dataclass(frozen=True)
class Launch:
    """``arguments`` has one entry per parameter of the TTIR function, in its order.

    (Constexprs, None and integers specialised to 1 are no parameters of TTIR. A host descriptor's
    shape and stride parameters follow it as ScalarArguments: see `binding`.)
    """

    kernel: str
    ttir: str
    grid: tuple[int, int, int]
    arguments: tuple[Argument, ...]
    storages: tuple[Storage, ...]
    contents: Contents = field(default_factory=NoContents)
    # Innermost last: (file, line, function) of the Python frames that launched it.
    python_stack: tuple[tuple[str, int, str], ...] = ()
    # Text of source files by the names that TTIR's locations use; files not in it may be on disk.
    sources: Mapping[str, str] = field(default_factory=dict)
    configuration: Mapping[str, str] = field(default_factory=dict)  # constexprs and options, for the report
    ones: frozenset[str] = frozenset()  # integers that the TTIR lacks: it was compiled for their being 1
    target: str = ""  # "cuda:90", "hip:gfx942": what the TTIR was made for
    triton: str = ""  # the version that compiles it; empty: not known
    label: str = ""  # "launch 3", "configuration 2 of 5": tells launches of one kernel apart

    @property
    def program_count(self) -> int:
        return self.grid[0] * self.grid[1] * self.grid[2]

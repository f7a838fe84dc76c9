"""What a stage leaves in the tensors of a launch, and how two stages' outputs compare."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any, Literal

import numpy as np
import numpy.typing as npt

from kerncap.format import Reproducer
from kerncap.format.schema import Manifest, View
from kerncap.format.validate import view_bounds
from kerncap.replay.judge_requests import FLOATS
from kerncap.replay.worker.native.dtypes import BITS, Number
from kerncap.sanitizer.concrete.memory import Memory
from kerncap.sanitizer.launch import Launch

Outputs = dict[int, npt.NDArray[np.float64]]  # by view of the manifest
Limits = Mapping[int, tuple[float, float]]  # by view: shares of the value and of the largest value
Result = Literal["equal", "rounding", "differs"]


@dataclass(frozen=True)
class Comparison:
    """``equal``: bit by bit, but for NaN's bits; ``rounding``: what rounding in another order explains.

    The place is the first element that says so, with the value before and the one now.
    """

    result: Result
    tensor: str = ""
    index: tuple[int, ...] = ()
    before: float = 0.0
    now: float = 0.0
    different: int = 0
    elements: int = 0

    @property
    def place(self) -> str:
        """``y[0, 3]: 0.5 -> 0.25, 12 of 64 elements``; empty if all are equal."""
        if self.result == "equal":
            return ""
        at = ", ".join(map(str, self.index))
        count = f"{self.different:,} of {self.elements:,} elements"
        return f"{self.tensor}[{at}]: {self.before!r} -> {self.now!r}, {count}"


def compared_views(manifest: Manifest) -> list[int]:
    """The tensors whose values are compared, each memory once."""
    found: dict[tuple[Any, ...], int] = {}
    for number, view in enumerate(manifest.views):
        if 0 not in view.shape and view.itemsize in BITS and not view.dtype.startswith("complex"):
            found.setdefault((view.region, view.offset, view.shape, view.strides, view.dtype), number)
    return list(found.values())


def of_application(reproducer: Reproducer) -> Outputs:
    """What the application's launch left."""
    manifest = reproducer.manifest

    def read(view: View, first: int, size: int) -> bytes:
        return reproducer.read("post", view.region, first, size)

    return {number: _values(manifest.views[number], read) for number in compared_views(manifest)}


def of_memory(manifest: Manifest, launch: Launch, memory: Memory) -> Outputs:
    """What an evaluation left."""

    def read(view: View, first: int, size: int) -> bytes:
        address = manifest.regions[view.region].base + first
        for index, storage in enumerate(launch.storages):
            start = address - storage.address
            if start >= 0 and start + size <= storage.size_bytes:
                held = memory.storage(index)
                held.need(np.array([start], dtype=np.int64), size)
                return held.bytes[start : start + size].tobytes()
        raise ValueError(f"{view.name} is in no storage")

    return {number: _values(manifest.views[number], read) for number in compared_views(manifest)}


def _values(view: View, read: Callable[[View, int, int], bytes]) -> npt.NDArray[np.float64]:
    bounds = view_bounds(view)
    assert bounds is not None
    first, end = bounds
    strides = [stride * view.itemsize for stride in view.strides]
    bits = np.ndarray(
        view.shape,
        BITS[view.itemsize],
        read(view, first, end - first),
        offset=view.offset - first,
        strides=strides,
    )
    values: npt.NDArray[np.float64] = Number(view.dtype, view.itemsize).decode(np.ascontiguousarray(bits))
    return values.reshape(view.shape)


def compare(manifest: Manifest, before: Outputs, now: Outputs, limits: Limits) -> Comparison:
    """The worst of all tensors: one that differs, else one that is rounded otherwise, else equal."""
    found = Comparison("equal")
    for number in before.keys() & now.keys():
        one = _compare(manifest.views[number], before[number], now[number], limits.get(number, (0.0, 0.0)))
        if one.result == "differs":
            return one
        if one.result == "rounding":
            found = one
    return found


def _compare(
    view: View, before: npt.NDArray[np.float64], now: npt.NDArray[np.float64], limits: tuple[float, float]
) -> Comparison:
    with np.errstate(all="ignore"):
        unequal = ~((before == now) | (np.isnan(before) & np.isnan(now)))
        if not unequal.any():
            return Comparison("equal")
        finite = np.isfinite(before)
        largest = float(np.abs(before[finite]).max()) if finite.any() else 0.0
        # Not `>`: a difference that is NaN, of NaN and infinity, exceeds every limit.
        wrong = unequal & ~(np.abs(now - before) <= sum(limits) * largest)
    result: Result = "rounding"
    if not view.dtype.startswith(FLOATS):
        wrong = unequal
    if wrong.any():
        result, unequal = "differs", wrong
    index = tuple(int(axis[0]) for axis in np.nonzero(unequal)) if unequal.ndim else ()
    return Comparison(
        result, view.name, index, float(before[index]), float(now[index]), int(unequal.sum()), unequal.size
    )

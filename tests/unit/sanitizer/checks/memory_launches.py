"""Hand-made launches and events for the tests of the memory checks."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
import numpy.typing as npt

from kerncap.sanitizer.concrete.events import AccessEvent
from kerncap.sanitizer.launch import Launch, Storage, TensorArgument, Unwritten
from kerncap.sanitizer.paged_bytes import PagedBytes
from kerncap.sanitizer.ttir.ir import Operation

BASE = 0x7F00_0000_0000
APART = 0x10_0000  # between two storages


class ArrayContents:
    """Contents given as numpy arrays; ``written`` per storage: a mask per byte, or None."""

    def __init__(
        self, arrays: Sequence[npt.NDArray[Any] | None], written: Sequence[npt.NDArray[np.bool_] | None] = ()
    ) -> None:
        self._arrays = list(arrays)
        self._written = list(written) or [None] * len(self._arrays)

    def read(self, storage: int) -> PagedBytes | None:
        array = self._arrays[storage]
        return None if array is None else PagedBytes.of(array)

    def unwritten(self, storage: int) -> Unwritten | None:
        written = self._written[storage]
        return None if written is None else Unwritten.of(written)


def launch_of(
    sizes: Sequence[int],
    *,
    itemsize: int = 4,
    dtype: str = "int32",
    grid: tuple[int, int, int] = (4, 1, 1),
    contents: Sequence[npt.NDArray[Any] | None] | None = None,
    written: Sequence[npt.NDArray[np.bool_] | None] = (),
    shift: int = 0,
) -> Launch:
    """One tensor argument per size (elements), each in a storage of its own, ``shift`` bytes into it."""
    storages = tuple(
        Storage(BASE + i * APART, n * itemsize + shift, BASE + i * APART, n * itemsize + shift, f"x{i}")
        for i, n in enumerate(sizes)
    )
    arguments = tuple(
        TensorArgument(f"x{i}", i, BASE + i * APART + shift, dtype, itemsize, (n,), (1,))
        for i, n in enumerate(sizes)
    )
    return Launch(
        kernel="kernel",
        ttir="",
        grid=grid,
        arguments=arguments,
        storages=storages,
        contents=ArrayContents(contents or [None] * len(sizes), written),
    )


def event_of(
    operation: Operation,
    kind: Any,
    offsets: npt.ArrayLike,
    *,
    argument: Any = 0,
    mask: npt.ArrayLike | None = None,
    programs: Sequence[int] | None = None,
    width: int = 4,
    **more: Any,
) -> AccessEvent:
    """An event of as many programs as ``offsets`` has rows."""
    places = np.asarray(offsets, np.int64)
    if kind != "load":
        more.setdefault("new", np.zeros(places.shape))
    return AccessEvent(
        operation=operation,
        kind=kind,
        programs=np.asarray(range(places.shape[0]) if programs is None else programs, np.int64),
        argument=argument,
        offsets=places,
        mask=np.ones(places.shape, np.bool_) if mask is None else np.asarray(mask, np.bool_),
        width_bytes=width,
        iterations=more.pop("iterations", ()),
        trips=more.pop("trips", ()),
        **more,
    )

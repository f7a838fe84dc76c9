"""Which bytes of a launch's memory nobody has written since they were allocated."""

from __future__ import annotations

import weakref
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from kerncap.sanitizer.diagnose.place import tensor_of
from kerncap.sanitizer.launch import Launch

# Of a front end that does not track allocations: said once per launch.
NOT_KNOWN = "whether this memory was written before is not known here"


@dataclass(frozen=True)
class Unwritten:
    """Maximal runs [start, end) of unwritten bytes, as offsets from the storage's address."""

    starts: npt.NDArray[np.int64]
    ends: npt.NDArray[np.int64]

    @property
    def count(self) -> int:
        return int(self.starts.size)

    @property
    def span(self) -> tuple[int, int]:
        """The least interval that holds all runs; (0, 0) where there are none."""
        return (int(self.starts[0]), int(self.ends[-1])) if self.count else (0, 0)


# The runs of the launch that was asked about last: every access asks, and a storage can be large.
_last: tuple[weakref.ref[Launch], dict[int, Unwritten | None]] | None = None


def unwritten(launch: Launch, storage: int) -> Unwritten | None:
    """The unwritten runs of one storage, in order; None where freshness is not known."""
    global _last
    if _last is None or _last[0]() is not launch:
        _last = (weakref.ref(launch), {})
    known = _last[1]
    if storage not in known:
        known[storage] = _find_unwritten(launch, storage)
    return known[storage]


def _find_unwritten(launch: Launch, storage: int) -> Unwritten | None:
    written = launch.contents.written(storage)
    if written is None:
        return None
    same = written.strides == (0,)  # one answer for all of a storage, however large
    if bool(written[:1].all() if same else written.all()):
        return Unwritten(np.zeros(0, np.int64), np.zeros(0, np.int64))
    fresh = np.concatenate(([0], (~written).view(np.int8), [0]))
    edges = np.flatnonzero(np.diff(fresh)).astype(np.int64)
    return Unwritten(edges[0::2], edges[1::2])


def argument_storage(launch: Launch, index: int | None) -> tuple[int, int] | None:
    """The storage behind an argument, and where in it (bytes) the argument's address is; None without one."""
    tensor = tensor_of(launch, index)
    if tensor is None:
        return None
    return tensor.storage, tensor.address - launch.storages[tensor.storage].address

"""Which bytes of a launch's memory were not written since they were allocated."""

from __future__ import annotations

import weakref

from kerncap.sanitizer.diagnose.place import tensor_of
from kerncap.sanitizer.launch import Launch, Unwritten

# The runs of the launch that was asked about last: every access asks, and a storage can be large.
_last: tuple[weakref.ref[Launch], dict[int, Unwritten | None]] | None = None


def unwritten(launch: Launch, storage: int) -> Unwritten | None:
    """The unwritten runs of one storage, in order; None where freshness is not known."""
    global _last
    if _last is None or _last[0]() is not launch:
        _last = (weakref.ref(launch), {})
    known = _last[1]
    if storage not in known:
        known[storage] = launch.contents.unwritten(storage)
    return known[storage]


def argument_storage(launch: Launch, index: int | None) -> tuple[int, int] | None:
    """The storage behind an argument, and where in it (bytes) the argument's address is; None without one."""
    tensor = tensor_of(launch, index)
    if tensor is None:
        return None
    return tensor.storage, tensor.address - launch.storages[tensor.storage].address

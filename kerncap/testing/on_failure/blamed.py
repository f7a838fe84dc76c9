"""Of the launches of a failed test: those that wrote, last, the tensors that were at hand where it failed."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

from kerncap.format.reader import Reproducer
from kerncap.testing.on_failure.notes import Tensor

_PIECE_BYTES = 16 << 20


def writers(reproducers: Sequence[Path], tensors: Sequence[Tensor]) -> dict[Path, list[str]]:
    """Names of the tensors that each reproducer's launch was the last to write; empty if none wrote any.

    Those that the failed statement names, or all if no launch wrote one of these. ``reproducers`` are in the
    order of their launches, and of the process that had the tensors. Raises FormatError.
    """
    named = [tensor for tensor in tensors if tensor.is_named]
    return _writers(reproducers, named) or _writers(reproducers, tensors)


def _writers(reproducers: Sequence[Path], tensors: Sequence[Tensor]) -> dict[Path, list[str]]:
    left = list(tensors)
    found: dict[Path, list[str]] = {}
    for path in reversed(reproducers):
        if not left:
            break
        with Reproducer.open(path) as reproducer:
            written = [tensor for tensor in left if _wrote(reproducer, tensor)]
        left = [tensor for tensor in left if tensor not in written]
        if written:
            found[path] = [tensor.name for tensor in written]
    return {path: found[path] for path in reproducers if path in found}


def _wrote(reproducer: Reproducer, tensor: Tensor) -> bool:
    """Whether a byte of the tensor's storage is another one after the launch."""
    for number, region in enumerate(reproducer.manifest.regions):
        first = max(tensor.address, region.base)
        last = min(tensor.address + tensor.size_bytes, region.base + region.size)
        for address in range(first, last, _PIECE_BYTES):
            size = min(_PIECE_BYTES, last - address)
            before, after = (
                reproducer.read(state, number, address - region.base, size) for state in ("pre", "post")
            )
            if before != after:
                return True
    return False

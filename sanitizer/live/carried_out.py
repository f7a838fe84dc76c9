"""Carries a launch on CPU tensors out, by evaluating its TTIR."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import replace

import numpy as np
import numpy.typing as npt

from kerncap.errors import KerncapError
from kerncap.sanitizer.launch import Launch
from kerncap.sanitizer.max_memory import LimitedContents
from kerncap.sanitizer.options import Options
from kerncap.sanitizer.paged_bytes import Bytes
from kerncap.sanitizer.pointer_origins import written_storages
from kerncap.sanitizer.ttir import read_module

_AT_ONCE = 16 << 20  # bytes that are compared at once; whole blocks
BLOCK = 4096  # bytes; what did not change is not written back, for another thread of the target may


class CarryOutError(KerncapError):
    """A launch that can't be evaluated; ``lost`` are the storages that it would have written.

    Nothing in memory is changed; what those storages hold from here on is not what the program made.
    ``needs_bytes``: the limit of memory that would be enough, if the given one was not.
    """

    def __init__(self, reason: str, lost: frozenset[int] = frozenset(), needs_bytes: int = 0) -> None:
        super().__init__(reason)
        self.lost = lost
        self.needs_bytes = needs_bytes


def carry_out(
    launch: Launch, options: Options | None = None, ended: Callable[[], bool] | None = None
) -> dict[int, list[tuple[int, Bytes]]]:
    """What the launch changes: by storage, the offset (bytes) and the new bytes of each changed stretch.

    Elements outside of their storage read as zero, and stores to them are dropped. Of ``options`` the limit
    of memory counts. ``ended``: whether the program has, which needs it no more. Raises CarryOutError with
    the reason; nothing is changed then.
    """
    options, limited = options or Options(), None
    if options.max_memory_bytes is not None:
        limited = LimitedContents(launch, options.max_memory_bytes)
        launch = replace(launch, contents=limited)
    try:
        return _changes(launch, options, ended)
    except CarryOutError as error:
        told = None if limited is None else limited.told
        if limited is None or told is None:
            raise CarryOutError(str(error), _written(launch)) from error
        raise CarryOutError(told, _written(launch), limited.needs_bytes) from error


def _written(launch: Launch) -> frozenset[int]:
    try:
        module = read_module(launch.ttir)
        found = written_storages(module, module.kernel, launch)
    except Exception:  # what can't be read may write anything
        found = None
    return frozenset(range(len(launch.storages))) if found is None else found


def _changes(
    launch: Launch, options: Options, ended: Callable[[], bool] | None
) -> dict[int, list[tuple[int, Bytes]]]:
    from kerncap.sanitizer.concrete.memory import Memory
    from kerncap.sanitizer.concrete.run import Limits, evaluate

    if launch.program_count == 0:
        return {}
    try:
        module = read_module(launch.ttir)
        memory = Memory(launch)
        reached = options.progress and options.progress(f"{launch.kernel}: carried out")
        limits = Limits(LIMIT_OPERATIONS, LIMIT_S, reached, ended)
        outcome = evaluate(module, module.kernel, launch, memory, limits=limits)
    except KerncapError as error:
        raise CarryOutError(str(error)) from error
    except Exception as error:  # an evaluator that fails must not take the user's program with it
        raise CarryOutError(f"{type(error).__name__}: {error}") from error
    if not outcome.complete:
        raise CarryOutError(outcome.reason or "the evaluation did not come to its end")
    if memory.stored_nowhere:
        raise CarryOutError("it stores to an address in no memory that is known")
    for storage, reason in outcome.unknown_contents:
        raise CarryOutError(f"what it stores in {launch.storages[storage].name} is not known: {reason}")
    found: dict[int, list[tuple[int, Bytes]]] = {}
    for storage, runs in memory.changed().items():
        for offset, before, after in runs:
            if before is None:
                raise CarryOutError(f"contents of {launch.storages[storage].name} are not available")
            stretches = [(offset + low, after[low:high]) for low, high in changed_stretches(before, after)]
            if stretches:
                found.setdefault(storage, []).extend(stretches)
    return found


LIMIT_OPERATIONS = 1 << 42
LIMIT_S = 3600.0  # a program that hangs in a kernel ends some day; the user can stop it before


def changed_stretches(before: Bytes, after: Bytes) -> Iterator[tuple[int, int]]:
    """[start, end) of the runs of blocks that differ, narrowed to the first and last byte that do."""
    size = min(before.size, after.size)
    whole = size // BLOCK * BLOCK
    differs = np.concatenate([np.zeros(0, np.bool_), *_differing(before[:whole], after[:whole])])
    edges = np.flatnonzero(np.diff(np.concatenate(([0], differs.view(np.int8), [0]))))
    runs = [
        (int(start) * BLOCK, int(end) * BLOCK) for start, end in zip(edges[::2], edges[1::2], strict=True)
    ]
    if whole < size:
        runs.append((whole, size))
    for start, end in runs:
        first = np.flatnonzero(before[start : start + BLOCK] != after[start : start + BLOCK])
        if first.size:
            at = max(start, end - BLOCK)
            last = np.flatnonzero(before[at:end] != after[at:end])
            yield start + int(first[0]), at + int(last[-1]) + 1


def _differing(before: Bytes, after: Bytes) -> Iterator[npt.NDArray[np.bool_]]:
    """For each block whether it differs, a piece of the blocks at a time."""
    for at in range(0, before.size, _AT_ONCE):
        then, now = (
            one[at : at + _AT_ONCE].view(np.uint64).reshape(-1, BLOCK // 8) for one in (before, after)
        )
        yield (then != now).any(axis=1)

"""Which processes of two runs are compared: those of one rank, or two ranks that are asked for."""

from __future__ import annotations

from collections import deque

import msgspec

from kerncap.capture.trace_file import Trace, TracedProcess
from kerncap.errors import UsageError


def matched(a: Trace, b: Trace) -> tuple[Trace, Trace]:
    """Both with as many processes: those at one place have one rank, and are in order among its processes.

    The processes of ``a`` keep their places. One that the other run lacks stands beside an empty one.
    """
    left: dict[int | None, deque[TracedProcess]] = {}
    for process in b.processes:
        left.setdefault(process.rank, deque()).append(process)
    first, second = [], []
    for process in a.processes:
        others = left.get(process.rank)
        first.append(process)
        second.append(others.popleft() if others else TracedProcess(pid=1, rank=process.rank))
    for rank, others in left.items():
        first += [TracedProcess(pid=1, rank=rank) for _ in others]
        second += others
    return (
        msgspec.structs.replace(a, processes=tuple(first)),
        msgspec.structs.replace(b, processes=tuple(second)),
    )


def of_rank(run: Trace, rank: int, name: str) -> Trace:
    """Only the processes of ``rank``. Raises UsageError if none was traced; ``name`` is that of the side."""
    chosen = tuple(process for process in run.processes if process.rank == rank)
    if not chosen:
        ranks = sorted({process.rank for process in run.processes if process.rank is not None})
        known = f"ranks {', '.join(map(str, ranks))} did" if ranks else "no process has a rank"
        raise UsageError(f"{name}: rank {rank} launched nothing that was traced; {known}")
    return msgspec.structs.replace(run, processes=chosen)

"""What one side does differently when it is run again: nondeterminism, which is not counted."""

from __future__ import annotations

from kerncap.api.diverge.judge import is_certain
from kerncap.api.diverge.launch_differences import Pair, pairs_of
from kerncap.api.diverge.ranks import matched
from kerncap.capture.trace_file import Trace


class Noise:
    """``which`` of the sides (0 is A) was run ``again``."""

    def __init__(self, which: int, run: Trace, again: Trace) -> None:
        self._which = which
        self._by_launch: dict[tuple[int, int], Pair] = {}
        self._extra: set[tuple[int, str]] = set()  # kernels of launches that the first run had not
        for pair in pairs_of(*matched(run, again)):
            if pair.a is not None:
                self._by_launch[pair.process, pair.a] = pair
            else:
                self._extra.add((pair.process, pair.launch.kernel.name))

    def explains(self, pair: Pair) -> bool:
        """Whether the side that was run again differs from itself in this launch too."""
        own = self._own(pair)
        if own is None:  # the other side's alone
            return (pair.process, pair.launch.kernel.name) in self._extra
        return own.differs

    def begins_at(self, pair: Pair) -> bool:
        """Whether it comes in here, rather than with this launch's inputs."""
        own = self._own(pair)
        return own is None or not own.is_matched or is_certain(own)

    def _own(self, pair: Pair) -> Pair | None:
        index = (pair.a, pair.b)[self._which]
        return None if index is None else self._by_launch.get((pair.process, index))

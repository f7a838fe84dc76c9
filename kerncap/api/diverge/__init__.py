"""`diverge`: the first launch in which two runs of a program differ.

Both runs are traced: digests of each Triton launch's memory, before and after it. The launches are aligned,
and each that left other memory is captured on both sides, in order, until one is found that differs in bytes
that it reads or writes. What another run of the same side differs in too is nondeterminism, and not named.
"""

from __future__ import annotations

import time
from dataclasses import dataclass, replace
from pathlib import Path

from kerncap.api.diverge.diverge_result import Divergence
from kerncap.api.diverge.judge import Tolerance
from kerncap.api.diverge.ranks import matched
from kerncap.api.diverge.search import Bounds, Search
from kerncap.api.diverge.two_runs import Side
from kerncap.capture.options import DEFAULT_OUTPUT, Selection
from kerncap.capture.trace_file import Trace
from kerncap.errors import UsageError

__all__ = ["Divergence", "DivergeOptions", "Side", "Tolerance", "diverge"]


ROUNDS = 4


@dataclass(frozen=True)
class DivergeOptions:
    """``selection``: kernels by name and ordinals. ``rounds``: launches that are captured to judge them.

    ``noise``: run a side that differs once more, to tell nondeterminism. ``native``: launches that the CUDA
    shim sees are compared, too. ``budget``: of the search's time, as a multiple of what the programs
    take without kerncap; a round that would take longer is not begun. Raises UsageError.
    """

    a: Side
    b: Side
    output: Path = DEFAULT_OUTPUT
    selection: Selection = Selection()
    tolerance: Tolerance = Tolerance()
    rounds: int = ROUNDS
    noise: bool = True
    native: bool = False
    budget: float | None = None

    @property
    def once(self) -> bool:
        """Whether both sides are the same command, so that any difference is nondeterminism."""
        return self.a.recorded is None and replace(self.a, name=self.b.name) == self.b


def diverge(options: DivergeOptions) -> Divergence:
    """Run both sides, and those that differ again. Raises UsageError, FormatError, CaptureError."""
    started = time.monotonic()
    runs = _runs(options)
    for side, run in zip((options.a, options.b), runs, strict=True):
        if side.recorded is not None and (run.kernels, run.launch) != _filters(options.selection):
            raise UsageError(
                f"{side.recorded}: recorded with other -k and --launch; give the same ones, or record again"
            )
        if side.recorded is not None and run.native != options.native:
            said = "without" if options.native else "with"
            raise UsageError(f"{side.recorded}: recorded {said} --native; do the same here, or record again")
    two_ranks = options.a.rank != options.b.rank
    search = Search(
        (options.a, options.b),
        runs if two_ranks else matched(*runs),
        selection=options.selection,
        output=options.output,
        tolerance=options.tolerance,
        bounds=Bounds(options.rounds, options.budget, started),
        once=options.once,
        noise=options.noise,
        native=options.native,
    )
    return search.run()


def _runs(options: DivergeOptions) -> tuple[Trace, Trace]:
    """Of both sides; one run has both if they are two ranks of one program."""
    a, b = options.a, options.b
    selection = options.selection
    if a.rank is not None and b.rank is not None:  # the others need not be hashed
        selection = replace(selection, ranks=tuple(sorted({a.rank, b.rank})))
    if a.rank != b.rank and a.recorded is None and replace(a, name=b.name, rank=b.rank) == b:
        whole = a.whole(selection, options.native)
        return a.part_of(whole), b.part_of(whole)
    return a.trace(selection, options.native), b.trace(selection, options.native)


def _filters(selection: Selection) -> tuple[str | None, tuple[int, int] | None]:
    return selection.kernel, selection.launch

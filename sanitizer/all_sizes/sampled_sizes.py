"""Launches of some sizes, checked as any launch is: what fails there is wrong, even if it seemed proved."""

from __future__ import annotations

import itertools
from collections.abc import Iterator
from dataclasses import replace

from kerncap.errors import UsageError
from kerncap.sanitizer.all_sizes.launches import AllSizes
from kerncap.sanitizer.engine import sanitize
from kerncap.sanitizer.findings import Check, Violated
from kerncap.sanitizer.options import Options
from kerncap.sanitizer.symbolic.expr import Variable

MOST = 24
# Of one launch; large ones are only looked at by their expressions.
EVALUATION_LIMIT, EVALUATION_TIMEOUT_S = 20_000_000, 2.0
_NEAR = (0, 1, 2, 15, 16, 17, 31, 63, 64, 127, 128, 1000, 1023, 1024)  # above the least


class Samples:
    """Evaluated when they are first asked for, all checks at once."""

    def __init__(self, problem: AllSizes, options: Options) -> None:
        self._problem = problem
        self._options = replace(
            options, evaluation_limit=EVALUATION_LIMIT, evaluation_timeout_s=EVALUATION_TIMEOUT_S
        )
        self._found: dict[tuple[int, Check], tuple[Violated, dict[str, int]]] | None = None

    def violated(self, order: int, check: Check) -> tuple[Violated, dict[str, int]] | None:
        """What a check of an operation met, and at which sizes; None if it met nothing."""
        if self._found is None:
            self._found = {}
            for assignment in itertools.islice(self._points(), MOST):
                self._look(assignment)
        return self._found.get((order, check))

    def _look(self, assignment: dict[Variable, int]) -> None:
        assert self._found is not None
        if not self._problem.holds_at(assignment):
            return
        try:
            launch = self._problem.launch_at(assignment)
        except UsageError:
            return  # no such launch
        sizes = self._problem.values_at(assignment)
        for one in sanitize(launch, self._options).settled:
            if isinstance(one.verdict, Violated) and any(not each.note for each in one.verdict.findings):
                self._found.setdefault((one.order, one.check), (one.verdict, sizes))

    def _points(self) -> Iterator[dict[Variable, int]]:
        """Each size small, each size small beside others at their least, all at their most."""
        free = [v for size in self._problem.sizes.values() for v in size.variables]
        seen: set[tuple[int, ...]] = set()
        for above in _NEAR:
            point = {v: min(v.low + above, v.high) for v in free}
            if seen.isdisjoint({tuple(point.values())}):
                seen.add(tuple(point.values()))
                yield point
        for one in free:
            yield {v: v.high if v is one else v.low for v in free}
        yield {v: v.high for v in free}

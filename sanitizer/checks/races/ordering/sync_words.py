"""The words of memory that programs synchronise on: where they are, who else writes them, what they hold."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, field, replace

import numpy as np
import numpy.typing as npt

from kerncap.sanitizer.analysis import Analysis
from kerncap.sanitizer.checks.races.shared_bytes import Points, count_of, full_domain, points_of, ranges_of
from kerncap.sanitizer.checks.races.sides import Side, program_axes, sides_of
from kerncap.sanitizer.diagnose.place import tensor_of
from kerncap.sanitizer.paged_bytes import NotReadable
from kerncap.sanitizer.symbolic.expr import Expr, Unevaluable, conjuncts, land
from kerncap.sanitizer.ttir.ir import Location, Operation
from kerncap.sanitizer.walk.access import Access

Ints = npt.NDArray[np.int64]

# Programs (times iterations) whose words are counted one by one.
MAX_POINTS = 1 << 22


@dataclass
class Words:
    """Looks up accesses by operation. A word is what one scalar access touches."""

    analysis: Analysis
    _sides: dict[Operation, list[Side]] = field(default_factory=dict)

    def __post_init__(self) -> None:
        for access in self.analysis.walked.accesses:
            self._sides.setdefault(access.operation, []).extend(sides_of(self.analysis, access))

    def side(self, operation: Operation) -> Side | None:
        """The one place of a scalar access that the walk found once; None for anything else."""
        found = self._sides.get(operation, [])
        if len(found) != 1 or found[0].access.shape or found[0].storage is None:
            return None
        return found[0]

    def writers(self, word: Side, known: Iterable[Operation]) -> list[Access]:
        """Accesses other than the known ones that may write where ``word`` is."""
        excluded = set(known)
        low, high = self._range(word)
        found = []
        for operation, sides in self._sides.items():
            if operation in excluded:
                continue
            for side in sides:
                if side.access.kind == "load" or side.storage not in (word.storage, None):
                    continue
                first, last = self._range(side)
                apart = (last is not None and low is not None and last < low) or (
                    first is not None and high is not None and first > high
                )
                if not apart:
                    found.append(side.access)
                    break
        return found

    def _range(self, side: Side) -> tuple[int | None, int | None]:
        low, high = self.analysis.solver.bounds(side.address, side.condition)
        return low, None if high is None else high + side.width - 1

    def points(self, side: Side, *more: Expr, condition: Expr | None = None) -> Points | None:
        """All executions of a scalar access; None if they are too many or rest on something unknown."""
        if condition is not None:
            side = replace(side, condition=condition)
        axes = program_axes(self.analysis)
        solver = self.analysis.solver
        ranges = ranges_of(side, solver, axes, every_program=True, more=more)
        if count_of(ranges) > MAX_POINTS:
            return None
        try:
            return points_of(side, full_domain(ranges), axes, solver.memory, more)
        except (Unevaluable, OverflowError):
            return None

    def initial(self, word: Side, addresses: Ints) -> Ints | None:
        """What the words held before the launch; None where contents are not available."""
        launch = self.analysis.launch
        if word.storage is None:
            return None
        tensor = tensor_of(launch, word.target.argument)
        if tensor is None or word.width not in (1, 2, 4, 8):
            return None
        contents = launch.contents.read(tensor.storage)
        offsets = addresses - launch.storages[tensor.storage].address
        if contents is None or not len(offsets):
            return None if contents is None else np.zeros(0, dtype=np.int64)
        if offsets.min() < 0 or offsets.max() + word.width > contents.size:
            return None
        try:
            contents.need(offsets, word.width)
        except NotReadable:
            return None
        cells = contents.data[offsets[:, None] + np.arange(word.width)]
        values = np.ascontiguousarray(cells).view(np.dtype(f"<i{word.width}")).reshape(-1)
        return values.astype(np.int64)


def known_part(condition: Expr) -> Expr:
    """The condition less what rests on something unknown: it holds in at least as many points."""
    return land(*(part for part in conjuncts(condition) if not part.unknown_reasons))


def line_of(location: Location) -> str:
    """``kernel.py:12``, or what stands for a place that is not known."""
    if not location.frames:
        return "an unknown line"
    frame = location.frames[0]
    return f"{frame.file.rsplit('/', 1)[-1]}:{frame.line}"

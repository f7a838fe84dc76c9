"""The words that programs synchronised on in an evaluation, and what follows for two that met."""

from __future__ import annotations

import numpy as np
import numpy.typing as npt

from kerncap.sanitizer.checks.races.evaluated.cell_tables import MIXED, Cells, Conflict
from kerncap.sanitizer.checks.races.ordering.pair_order import PairOrder
from kerncap.sanitizer.checks.races.ordering.synchronisation import Synchronisation
from kerncap.sanitizer.concrete.events import AccessEvent

Ints = npt.NDArray[np.int64]


class ProgramWords:
    """The words that each program holds, waited for, or arrived at, as the evaluation goes on."""

    def __init__(self, synchronisation: Synchronisation) -> None:
        self._constructs = synchronisation.constructs()
        self._seen: list[dict[int, int]] = [{} for _ in self._constructs]
        self._arrived: list[dict[int, int]] = [{} for _ in self._constructs]

    def access(self, event: AccessEvent, addresses: Ints, rows: Ints) -> None:
        for number, construct in enumerate(self._constructs):
            if event.operation in construct.entered_by:
                for program, address in zip(event.programs[rows].tolist(), addresses.tolist(), strict=True):
                    self._seen[number][program] = address
            if event.operation is construct.arrive:
                arrived = self._arrived[number]
                for program, address in zip(event.programs[rows].tolist(), addresses.tolist(), strict=True):
                    arrived[program] = address if arrived.get(program, address) == address else int(MIXED)

    def tags(self, event: AccessEvent, programs: Ints, addresses: Ints) -> dict[int, Ints]:
        """For operations inside a construct: the word that each program entered it by."""
        found: dict[int, Ints] = {}
        for number, construct in enumerate(self._constructs):
            if event.operation is construct.arrive:
                found[number] = addresses
            elif construct.inside(event.operation):
                seen = self._seen[number]
                found[number] = np.array([seen.get(p, int(MIXED)) for p in programs.tolist()], dtype=np.int64)
        return found

    def ordered(self, order: PairOrder, left: Cells, right: Cells, met: Conflict) -> npt.NDArray[np.bool_]:
        """For each cell of a conflict, whether a construct orders the two programs."""
        result = np.zeros(len(met.cells), dtype=np.bool_)
        for construct in order.constructs:
            number = next(i for i, one in enumerate(self._constructs) if one is construct)
            words = [
                self._words_of(number, cells, met.cells, second)
                for cells, second in ((left, met.left_second), (right, met.right_second))
            ]
            result |= (words[0] == words[1]) & (words[0] > 0)
        return result

    def _words_of(self, number: int, cells: Cells, where: Ints, second: npt.NDArray[np.bool_]) -> Ints:
        tags = cells.tags.get(number)
        if tags is not None:
            return tags[where]
        arrived = self._arrived[number]
        words = np.array(
            [arrived.get(p - 1, -2) for p in cells.first.program[where].tolist()], dtype=np.int64
        )
        if cells.second is not None:
            words[cells.second.program[where] != 0] = -2  # several programs: whose word is not kept
        return words

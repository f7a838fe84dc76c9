"""Programs of one launch that read what another one stores, where nothing can have put them in order."""

from __future__ import annotations

import numpy as np

from kerncap.sanitizer.concrete.dataflow import LOADS, WRITERS, Dataflow, alias, pointer_operand
from kerncap.sanitizer.equality.numbers import Ints, NotModelled
from kerncap.sanitizer.ttir.any_order import users
from kerncap.sanitizer.ttir.ir import Operation

_NOBODY, _SEVERAL = 0, -1  # in place of a program's number and 1


class ProgramRaces:
    """``watched``: operations on memory that the launch both loads from and stores to.

    None if the launch has one program, or an atomic that may order programs.
    """

    def __init__(self, flow: Dataflow) -> None:
        self.watched: set[Operation] = set()
        self._readers: dict[tuple[int, int], Ints] = {}
        self._writers: dict[tuple[int, int], Ints] = {}
        if flow.launch.program_count == 1 or any(map(_may_order, flow.operations)):
            return
        loads = [(one, flow.roots(pointer_operand(one))) for one in flow.operations if one.name in LOADS]
        stores = [(one, flow.roots(pointer_operand(one))) for one in flow.operations if one.name in WRITERS]
        for load, of_load in loads:
            for store, of_store in stores:
                if alias(of_load, of_store):
                    self.watched |= {load, store}

    def note(self, loads: bool, storage: int, width: int, size: int, places: Ints, programs: Ints) -> None:
        """Elements of one width, of ``size`` in a storage. Raise NotModelled where two programs meet."""
        mine = programs + 1
        empty = np.zeros(0, dtype=np.int64)
        table, against = (self._readers, self._writers) if loads else (self._writers, self._readers)
        other = against.get((storage, width), empty)
        if other.size and ((other[places] != _NOBODY) & (other[places] != mine)).any():
            what = "reads what another program stores" if loads else "stores to what another program reads"
            raise NotModelled(f"it {what}, in no order")
        held = table.setdefault((storage, width), empty)
        if not held.size:
            held = table[storage, width] = np.zeros(size, dtype=np.int64)
        before = held[places]
        held[places] = mine
        met = (held[places] != mine) | ((before != _NOBODY) & (before != mine))
        held[places[met]] = _SEVERAL


def _may_order(operation: Operation) -> bool:
    """Whether a program may know by it what another one did."""
    if operation.name == "tt.atomic_rmw":
        return bool(users(operation))
    return operation.name.startswith("tt.atomic")

"""What the evaluator reports to an observer: each memory operation as it happens, many programs at once."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, Literal, Protocol

import numpy as np
import numpy.typing as npt

from kerncap.sanitizer.ttir.ir import Operation

Ints = npt.NDArray[np.int64]
Bools = npt.NDArray[np.bool_]


@dataclass(frozen=True)
class AccessEvent:
    """One execution of one memory operation by P programs.

    Tile axes follow the program axis: ``offsets`` has shape (P, *tile), a scalar access (P,).
    A descriptor access is given by its lanes that lie inside the descriptor's shape.
    """

    operation: Operation
    kind: Literal["load", "store", "atomic"]
    programs: Ints  # linear ids, x fastest: x + grid_x * (y + grid_y * z)
    # Which argument the pointer comes from: one index, or one per element; -1: none, offsets are absolute.
    argument: int | Ints
    offsets: Ints  # bytes from the argument's address
    mask: Bools  # really accessed: the operation's mask and the program being here
    width_bytes: int
    iterations: tuple[
        tuple[str, Ints], ...
    ]  # enclosing loops: source name, value of the variable per program
    trips: tuple[Ints, ...]  # the same loops, counted from 0
    # Elements of the value that are undefined (a masked lane of an `other`-less load got into it).
    undefined: Bools | None = None
    steered_by_undefined: Bools | None = None  # address or mask depends on such an element
    overflowed: Bools | None = None  # an integer operation of the address wrapped around on its way
    old: npt.NDArray[Any] | None = None  # the bytes' content before, as the element type, where known
    new: npt.NDArray[Any] | None = None  # stored or atomically combined value
    unknown: str | None = None  # why ``new`` of a store is not known
    # The mask itself is undefined there: what `mask` says of such an element is a guess.
    mask_undefined: Bools | None = None
    in_order: int = 0  # counts the events of one evaluation


class Observer(Protocol):
    def access(self, event: AccessEvent) -> None:
        """Called before the access takes effect; raising `StopEvaluation` ends the evaluation."""


class Results(Protocol):
    """What atomics that read, modify and write give back in an evaluation, in place of what they find."""

    def given(
        self, operation: Operation, places: Ints, old: npt.NDArray[Any], operand: npt.NDArray[Any]
    ) -> npt.NDArray[Any]:
        """Of the elements that are accessed, at these addresses; ``old`` is what is found there."""
        ...

    def missing(self, operation: Operation) -> int:
        """Of an element that the mask leaves out."""
        ...


class Reads(Protocol):
    """Which of the values that a load finds in memory are undefined."""

    def undefined(self, event: AccessEvent) -> Bools | None:
        """Of the elements that are read; None: all are defined."""


class StopEvaluation(Exception):
    """The observer has seen what it wanted."""

"""What orders two accesses, and what a construct that orders programs can be asked."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Protocol

from kerncap.sanitizer.symbolic.expr import Expr
from kerncap.sanitizer.ttir.ir import Operation
from kerncap.sanitizer.walk.access import Access


class Construct(Protocol):
    """A lock, or a counter of arrivals."""

    @property
    def entered_by(self) -> frozenset[Operation]:
        """The operations by which a program comes in."""
        ...

    @property
    def releases(self) -> Sequence[Operation]:
        """The operations by which a program lets others in."""
        ...

    @property
    def arrive(self) -> Operation | None:
        """The operation that says a program is done; None for a lock."""
        ...

    def inside(self, operation: Operation) -> bool:
        """Whether it orders this operation."""
        ...

    def order(self, left: Access, right: Access, found: PairOrder) -> None:
        """Add what it says of the two to ``found``."""
        ...


@dataclass
class PairOrder:
    """What orders two accesses of different programs.

    ``words``: the accesses are ordered at all points where the two expressions (of the left, of the
    right) are equal. ``defects``: an order was meant and is not there. ``unclear``: why it isn't known.
    """

    words: list[tuple[Expr, Expr]] = field(default_factory=list)
    defects: list[str] = field(default_factory=list)
    unclear: list[str] = field(default_factory=list)
    contents: bool = False
    constructs: list[Construct] = field(default_factory=list)  # what the words are of

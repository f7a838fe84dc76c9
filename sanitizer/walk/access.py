"""What the walk hands to the checks: every memory operation with its address, mask and path.

Expressions are over variables (`symbolic.expr.Variable`): program ids, one lane per axis of the
operation's tile, the counters of the enclosing loops. A check asks the solver for one point.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal

from kerncap.sanitizer.symbolic.expr import FALSE, Expr, Variable
from kerncap.sanitizer.ttir.ir import Location, Operation, Value
from kerncap.sanitizer.walk.symbols import Symbols


@dataclass(frozen=True)
class Target:
    """One place that a pointer may lead to: ``offset_bytes`` from an argument, where ``guard`` holds.

    ``argument`` is an index into Launch.arguments; None: the offset is an absolute address, which
    the kernel got from memory or from an integer.
    """

    guard: Expr
    argument: int | None
    offset_bytes: Expr


@dataclass(frozen=True)
class Loop:
    """An enclosing loop. ``counter`` counts its iterations from 0; ``induction`` is the source's variable."""

    counter: Variable
    name: str
    induction: Expr
    location: Location
    bits: int = 64  # that the source's variable is counted in


@dataclass(frozen=True)
class DescriptorUse:
    """An access through a tensor descriptor: it touches only what its shape allows.

    ``shape`` and ``strides`` (elements) and ``indices`` (of this lane, one per axis) may be any expression.
    """

    base: Target
    shape: tuple[Expr, ...]
    strides: tuple[Expr, ...]
    indices: tuple[Expr, ...]
    block_shape: tuple[int, ...]
    element_bytes: int
    host: bool


@dataclass(frozen=True)
class Access:
    """One memory operation in one context (a function that is called twice gives two).

    It touches bytes [offset, offset + width_bytes) of each target whose guard holds, for every
    point at which ``path``, ``mask`` and the variables' ranges hold.
    """

    operation: Operation
    kind: Literal["load", "store", "atomic"]
    location: Location
    lanes: tuple[Variable | None, ...]  # one per axis; None where the extent is 1
    shape: tuple[int, ...]  # of the tile; () for a scalar access
    targets: tuple[Target, ...]
    width_bytes: int
    mask: Expr  # TRUE where the operation has none
    path: Expr  # program ids, early returns, branches, loop ranges; without the mask
    loops: tuple[Loop, ...]
    # Where the value that is stored (load: nothing; atomic: its operand) is undefined, or comes from a lane
    # that a load left out and is not right all the same (`left_out`). May have variables of its own (lanes of
    # a reduction).
    undefined: Expr
    # The same for the address and the mask.
    steered_by_undefined: Expr
    # What is stored, if it is an integer or boolean expression; None: not known symbolically.
    value: Expr | None
    atomic: str | None = None  # "add", "cas", "exch", "fadd", "and", …
    semantics: str | None = None  # "acquire", "release", "acq_rel", "relaxed"
    descriptor: DescriptorUse | None = None
    # Reasons why address, mask or path hold something unknown; empty: all of it is known exactly.
    unknowns: tuple[str, ...] = ()
    pointer_operand: Value | None = None  # for rendering
    mask_operand: Value | None = None
    result: Expr | None = None  # of a load or atomic: the expression (read or unknown) that it gives
    # The mask's part of `steered_by_undefined`: it matters whatever the mask's undefined value is.
    mask_undefined: Expr = FALSE
    # Where value, address or mask are right only by what the target puts into left-out lanes.
    by_habit: Expr = FALSE


@dataclass(frozen=True)
class Promise:
    """``tl.multiple_of``, ``tl.max_contiguous``, ``tl.max_constancy``, ``tl.assume``, a specialisation, a
    comment."""

    operation: Operation | None  # None: of an argument
    kind: Literal["divisibility", "contiguity", "constancy", "assume"]
    location: Location
    path: Expr
    loops: tuple[Loop, ...]
    lanes: tuple[Variable | None, ...]
    shape: tuple[int, ...]
    # assume: one boolean. The others: the integer (or the pointer's absolute address, in bytes) that the
    # promise is about, and per axis what is promised.
    value: Expr
    amounts: tuple[int, ...]
    contiguity: tuple[int, ...]  # what else is promised of the same value; 1 per axis if nothing
    subject: str  # its source name
    comment: str = ""  # of what a comment says: its text, and the number that it is about
    about: Expr | None = None


@dataclass(frozen=True)
class Walked:
    """All that one walk of a kernel found."""

    programs: tuple[Variable, Variable, Variable]
    accesses: tuple[Access, ...]
    promises: tuple[Promise, ...]
    notes: tuple[str, ...]  # operations without semantics here, by name and place
    symbols: Symbols  # what the launch's integers and its grid are

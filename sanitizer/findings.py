"""What the sanitizer says: findings, and per memory operation and check how it was settled."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Literal

from kerncap.sanitizer.ttir.ir import Location

CHECKS = ("oob", "race", "uninit", "overflow", "promise", "alignment", "descriptor", "shared")
Check = Literal["oob", "race", "uninit", "overflow", "promise", "alignment", "descriptor", "shared"]
NOT_SANITISED = "could not be sanitised"  # how a note begins that says so of a launch
# A front end does not track allocations: reported once for a launch.
NOT_KNOWN = "whether this memory was written before is not known here"
# "same-value": a race that stores equal values; "portability": right by what this target puts into the lanes
# that a load leaves out, which Triton's text does not say, or because it makes nothing of a false promise.
Note = Literal["same-value", "portability"]
AccessKind = Literal["load", "store", "atomic", "none"]  # none: a broken promise is no access


@dataclass(frozen=True)
class Place:
    """One program, lane and iteration of a memory operation, evaluated."""

    program_id: tuple[int, int, int]
    lane: tuple[int, ...]  # index into the operation's tile, () for a scalar access
    iterations: tuple[tuple[str, int], ...] = ()  # (loop variable's source name, its value), outermost first
    argument: str | None = None  # the argument that the pointer came from
    offset_bytes: int | None = None  # from that argument's element [0, …, 0]
    element: int | None = None  # offset_bytes over the item size, if it divides
    mask: bool | None = None


@dataclass(frozen=True)
class OtherAccess:
    """The second half of a race."""

    access: AccessKind
    location: Location
    place: Place


@dataclass(frozen=True)
class Finding:
    check: Check
    access: AccessKind
    location: Location  # of the memory operation (of the promise)
    message: str  # one sentence: what, where, how far
    place: Place
    argument: str | None = None
    shape: tuple[int, ...] | None = None  # of the argument's tensor
    strides: tuple[int, ...] | None = None
    width_bytes: int = 0
    beyond_bytes: int | None = None  # how far outside; negative: before the start
    lands_in: str | None = None  # another argument's tensor that the address falls into
    expression: str | None = None  # the address in the kernel's own names
    mask_expression: str | None = None
    suggestion: str | None = None  # a mask that would fix it, if there is one
    other: OtherAccess | None = None
    contents: bool = False  # holds for these contents of memory
    unwritten: bool = False  # reads memory that nobody wrote
    note: Note | None = None  # worth saying, and no finding
    python_stack: tuple[tuple[str, int, str], ...] = ()
    # Of a check for all sizes: those of the witness, and whether it is shown that none smaller have one.
    sizes: tuple[tuple[str, int], ...] = ()
    smallest: bool = False


@dataclass(frozen=True)
class HostRead:
    """An operation of torch, outside of any kernel, that uses memory which nobody wrote."""

    operation: str  # "aten::sum"
    argument: str  # of the operation: "self"
    dtype: str
    shape: tuple[int, ...]
    unwritten: int  # elements
    first: tuple[int, ...]  # index of the first of them
    python_stack: tuple[tuple[str, int, str], ...] = ()  # file, line, function; the innermost last
    allocated: tuple[tuple[str, int, str], ...] = ()


@dataclass(frozen=True)
class Program:
    """What is known of the program that made the launches. ``status``: 128 + n if signal n ended it.

    ``needs_bytes``: what would be enough for a launch that was not carried out for the limit of memory.
    """

    status: int = 0
    host_reads: tuple[HostRead, ...] = ()
    needs_bytes: int = 0


# --- how a check of one memory operation ended -----------------------------------------------------


@dataclass(frozen=True)
class Proved:
    how: str  # "interval", "affine", "z3", "enumerated", "evaluated"
    contents: bool = False  # decided on data from memory: for these contents


@dataclass(frozen=True)
class Violated:
    findings: tuple[Finding, ...]


@dataclass(frozen=True)
class Unproven:
    reason: str


Verdict = Proved | Violated | Unproven


def join(verdicts: Sequence[Verdict]) -> Verdict:
    """One verdict of several about the same operation: the worst, with every finding.

    What is only noted hides nothing that is open.
    """
    if len(verdicts) == 1:
        return verdicts[0]
    found = tuple(dict.fromkeys(f for one in verdicts if isinstance(one, Violated) for f in one.findings))
    if any(finding.note is None for finding in found):
        return Violated(found)
    for one in verdicts:
        if isinstance(one, Unproven):
            return one
    if found:
        return Violated(found)
    proofs = [one for one in verdicts if isinstance(one, Proved)]
    return Proved(proofs[-1].how, any(one.contents for one in proofs))


@dataclass(frozen=True)
class Settled:
    """One check of one memory operation."""

    check: Check
    access: AccessKind
    location: Location
    verdict: Verdict
    order: int = 0  # of the operation in the TTIR


@dataclass(frozen=True)
class ForAll:
    """What a check for all sizes is about: ``sizes`` as intervals, the grid over them, what is assumed."""

    sizes: Mapping[str, str]
    grid: tuple[str, ...]
    assumed: tuple[str, ...]


@dataclass(frozen=True)
class LaunchReport:
    """Everything about one launch. ``unproven`` of the launch as a whole stands in ``notes``."""

    kernel: str
    grid: tuple[int, int, int]
    settled: tuple[Settled, ...]
    notes: tuple[str, ...] = ()
    label: str = ""
    configuration: Mapping[str, str] = field(default_factory=dict)
    python_stack: tuple[tuple[str, int, str], ...] = ()
    seconds: float = 0.0  # of analysis: compilation and imports apart
    repeats: int = 0  # launches after this one that are the same in everything that was looked at
    needs_bytes: int = 0  # that would be enough for the contents that the limit of memory left out
    sources: Mapping[str, str] = field(default_factory=dict, repr=False)  # texts by TTIR's file names
    for_all: ForAll | None = None  # all sizes at once; ``grid`` is then that of the least

    @property
    def grid_text(self) -> str:
        """``8, 1, 1``; over sizes, ``cdiv(n, 1024)``."""
        return ", ".join(map(str, self.grid) if self.for_all is None else self.for_all.grid)

    @property
    def findings(self) -> tuple[Finding, ...]:
        """Violations, without the notes."""
        return tuple(
            finding
            for one in self.settled
            if isinstance(one.verdict, Violated)
            for finding in one.verdict.findings
            if not finding.note
        )

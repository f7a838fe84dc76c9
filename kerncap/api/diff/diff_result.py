"""What a comparison of two reproducers found: plain data, the shape of ``kerncap diff --json``."""

from __future__ import annotations

import dataclasses
from dataclasses import dataclass, field
from typing import Any

from kerncap.answer import Answer
from kerncap.replay.stage_diff import StageDiff

# The word of each answer to "are they equal?", in ``--json`` and, in capitals, in the last line.
WORDS = {Answer.YES: "equal", Answer.NO: "different", Answer.UNDECIDED: "undecided"}
NOT_COMPARED = "not compared: "  # how a `problem` begins that is no difference


@dataclass(frozen=True)
class Change:
    """One fact that is another one in B; None where a side does not have it."""

    what: str
    a: str | None
    b: str | None
    ratio: float | None = None  # b / a, of times and sizes


@dataclass(frozen=True)
class Bin:
    """How many elements err by ``least`` up to ``below``."""

    least: float
    below: float
    count: int


@dataclass(frozen=True)
class Histogram:
    """Errors by decade (``absolute``, ``relative``) or by power of two (``ulps``).

    ``none``: other bits and the same value, as of -0.0 and 0.0 or of two NaN; ``special``: NaN or infinity
    on one side.
    """

    measure: str
    bins: tuple[Bin, ...]
    none: int = 0
    special: int = 0


@dataclass(frozen=True)
class Heat:
    """Where in a tensor: ``different`` and ``elements`` by cell, rows first; the last axis runs to the right.

    A cell is ``row_step`` by ``column_step`` elements. ``rows`` and ``columns`` are the tensor's, all axes
    but the last one folded into rows; of a vector (``wrapped``) each row goes on where the last one ended.
    ``special``: elements that are NaN or infinite on one side only.
    """

    rows: int
    columns: int
    row_step: int
    column_step: int
    wrapped: bool
    different: tuple[tuple[int, ...], ...]
    elements: tuple[tuple[int, ...], ...]
    special: tuple[tuple[int, ...], ...]


@dataclass(frozen=True)
class First:
    index: tuple[int, ...]
    a: str
    b: str


@dataclass(frozen=True)
class StateDiff:
    """The elements of a view (or the bytes of memory that no view has) in one state of both.

    ``complete`` is False where the limit of what is read was reached: the counts are then of what was.
    ``box`` is the smallest that holds all that differ, ``axes`` how many indices of each axis meet one.
    """

    state: str  # "pre", "post"
    elements: int
    different: int
    complete: bool = True
    first: First | None = None
    box: tuple[tuple[int, int], ...] = ()
    axes: tuple[int, ...] = ()
    errors: dict[str, Any] = field(default_factory=dict)
    histograms: tuple[Histogram, ...] = ()
    heat: Heat | None = None
    pointers: int = 0  # words that differ, and point to the same place of corresponding regions
    ignored: int = 0  # elements that differ, and whose contents mean nothing to the launch
    measured: int = 0  # elements that differ, and that `errors` and `histograms` are of

    @property
    def same(self) -> bool:
        return not self.different and self.complete


@dataclass(frozen=True)
class ViewDiff:
    """A tensor of both, or of one alone (``problem`` says so, as it does where shapes do not fit).

    ``states`` has no "post" where neither launch changes the view's region: it is as before.
    """

    name: str
    dtypes: tuple[str | None, str | None]
    shapes: tuple[tuple[int, ...] | None, tuple[int, ...] | None]
    states: tuple[StateDiff, ...] = ()
    problem: str = ""

    @property
    def same(self) -> bool:
        return not self.problem and all(state.same for state in self.states)


@dataclass(frozen=True)
class RegionDiff:
    """Bytes of a pair of regions that no compared view holds; ``how`` says why they are a pair."""

    name: str
    regions: tuple[int | None, int | None]
    sizes: tuple[int | None, int | None]
    how: str
    states: tuple[StateDiff, ...] = ()
    problem: str = ""

    @property
    def same(self) -> bool:
        return not self.problem and all(state.same for state in self.states)


@dataclass(frozen=True)
class CodeDiff:
    """One stage of the compiled kernel; ``how`` tells by what it was judged.

    "bytes": the same file; "text": the same once locations and numbering are out; "binary": not readable.
    """

    stage: str
    same: bool
    how: str
    only_in: str | None = None
    text: StageDiff | None = None
    note: str = ""


@dataclass(frozen=True)
class SourceDiff:
    file: str
    same: bool
    only_in: str | None = None
    lines: tuple[str, ...] = ()
    lines_total: int = 0
    note: str = ""


@dataclass(frozen=True)
class SideInfo:
    path: str
    kernel: str
    manifest_sha256: str
    created: str
    oracle: str


@dataclass(frozen=True)
class ReproducerDiff:
    """Everything that two reproducers differ in. ``environment`` is told and decides nothing."""

    a: SideInfo
    b: SideInfo
    launch: tuple[Change, ...]
    arguments: tuple[Change, ...]
    code: tuple[CodeDiff, ...]
    source: tuple[SourceDiff, ...]
    views: tuple[ViewDiff, ...]
    regions: tuple[RegionDiff, ...]
    environment: tuple[Change, ...]
    notes: tuple[str, ...] = ()
    counts: dict[str, int] = field(default_factory=dict)  # what was compared

    @property
    def differing(self) -> list[str]:
        """The parts that differ, in the order in which they are shown."""
        memory: list[ViewDiff | RegionDiff] = [*self.views, *self.regions]
        parts = {
            "launch": bool(self.launch),
            "arguments": bool(self.arguments),
            "code": any(not one.same for one in self.code),
            "source": any(not one.same for one in self.source),
            "memory before": any(self._differs(one, "pre") for one in memory),
            "memory after": any(self._differs(one, "post") for one in memory),
        }
        return [name for name, differs in parts.items() if differs]

    @property
    def why_open(self) -> str:
        """Why it can't be said that they are equal, and what would tell; empty if nothing was left out."""
        memory: list[ViewDiff | RegionDiff] = [*self.views, *self.regions]
        if any(not state.complete for one in memory for state in one.states):
            return "not all memory was read; a larger --max-read would decide it"
        left = next((one for one in memory if one.problem.startswith(NOT_COMPARED)), None)
        return f"{left.name}: {left.problem}" if left is not None else ""

    @property
    def answer(self) -> Answer:
        """No for any difference; yes if everything was compared."""
        if self.differing:
            return Answer.NO
        return Answer.UNDECIDED if self.why_open else Answer.YES

    @property
    def equal(self) -> bool:
        return self.answer is Answer.YES

    @staticmethod
    def _differs(one: ViewDiff | RegionDiff, state: str) -> bool:
        if one.problem:
            return not one.problem.startswith(NOT_COMPARED)
        return any(each.different for each in one.states if each.state == state)

    def as_dict(self) -> dict[str, Any]:
        """The document of ``--json``."""
        plain = dataclasses.asdict(self)
        plain["code"] = [
            {**dataclasses.asdict(one), "text": None if one.text is None else one.text.as_dict()}
            for one in self.code
        ]
        return {
            "result": WORDS[self.answer],
            "kind": "reproducers",
            "differing": self.differing,
            **plain,
        }

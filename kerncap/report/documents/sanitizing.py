"""``sanitize``: what was proved, what is violated, and what stays open."""

from __future__ import annotations

from typing import Annotated, Literal

from kerncap.report.documents.basics import Count, Document, Names, Notes, Part, Path, Stack, Word, says

Check = Annotated[
    Literal["oob", "race", "uninit", "overflow", "promise", "alignment", "descriptor"], says("Which check.")
]


class Where(Part, frozen=True, kw_only=True):
    """A place of the source; null where it is not known."""

    file: Path | None
    line: Annotated[int | None, says("From 1.")]
    column: Annotated[int | None, says("From 1.")]


class Witness(Where, frozen=True, kw_only=True):
    """A program and lane that does it."""

    access: Annotated[str | None, says("load, store, atomic, …")]
    argument: Annotated[str | None, says("The tensor that the address comes from.")]
    program_id: tuple[int, ...]
    lane: tuple[int, ...]
    iterations: Annotated[tuple[tuple[str, int], ...], says("Of loops, the outermost first: name, value.")]
    offset_bytes: Annotated[int | None, says("Bytes from the argument's pointer.")]
    element: Annotated[int | None, says("The same in elements.")]
    mask: Annotated[bool | None, says("What the mask is there.")]


class SanitizeFinding(Witness, frozen=True, kw_only=True):
    """A violation, with a witness that was run again before it is told."""

    check: Check
    callers: Annotated[tuple[tuple[str, int, int], ...], says("Inside of the kernel: file, line, column.")]
    message: str
    shape: Annotated[tuple[int, ...] | None, says("Elements.")]
    strides: Annotated[tuple[int, ...] | None, says("Elements.")]
    width_bytes: int | None
    beyond_bytes: Annotated[int | None, says("Bytes past the end; negative: before the start.")]
    lands_in: str | None
    address_expression: str | None
    mask_expression: str | None
    suggestion: Annotated[str | None, says("A mask or bound that would mend it.")]
    for_these_contents: Annotated[bool, says("It was decided on data from memory.")]
    other: Annotated[Witness | None, says("The second access of a race.")]


class OpenQuestion(Where, frozen=True, kw_only=True):
    """What was not decided, and why. Never to be taken as safe."""

    check: Check
    reason: str


class SanitizedLaunch(Part, frozen=True, kw_only=True):
    """One of the different launches. ``proved`` and so on count memory operations."""

    kernel: str
    grid: tuple[int, ...]
    result: Annotated[
        Literal["pass", "fail", "undecided"],
        says("pass: there are memory operations, and all is proved; undecided: not all, and no finding."),
    ]
    label: str
    configuration: Annotated[dict[str, str], says("Constexprs and options, by name.")]
    repeats: Annotated[Count, says("How many more launches were like this one.")]
    findings: tuple[SanitizeFinding, ...]
    noted: Annotated[tuple[SanitizeFinding, ...], says("No findings: races that store equal values.")]
    proved: Count
    proved_for_these_contents: Annotated[Count, says("Of the proved ones.")]
    violated: Count
    unproven: tuple[OpenQuestion, ...]
    notes: Notes
    python_stack: Stack
    seconds: float


class SanitizeHostRead(Part, frozen=True, kw_only=True):
    """An operation of torch, outside of any kernel, that uses memory which nobody wrote."""

    operation: Annotated[str, says("Its name in ATen.")]
    argument: Annotated[str, says("Which of its arguments.")]
    dtype: str
    shape: tuple[int, ...]
    unwritten: Annotated[Count, says("Elements that nobody wrote.")]
    first: Annotated[tuple[int, ...], says("Index of the first of them.")]
    message: str
    python_stack: Stack
    allocated: Annotated[Stack, says("Where the memory was allocated; the innermost frame last.")]


class SanitizeDocument(Document, frozen=True, kw_only=True):
    """Every launch that was looked at. fail: a finding. pass: there is something, and all is proved."""

    result: Word
    launches: tuple[SanitizedLaunch, ...]
    host_reads: Annotated[tuple[SanitizeHostRead, ...], says("Findings of the program's own operations.")]
    notes: Names
    target_status: Annotated[int | None, says("The program's exit status, where one was run.")]

"""``sanitize``: proofs, violations and open questions."""

from __future__ import annotations

from typing import Annotated, Literal

from kerncap.format.document_types import Count, Document, Names, Notes, Part, Path, Stack, Word, says
from kerncap.sanitizer import findings

Check = Annotated[findings.Check, says("Name of the check.")]
FromOne = Annotated[int | None, says("From 1.")]
Access = Annotated[str | None, says("load, store, atomic, …")]
Argument = Annotated[str | None, says("Tensor that the address is based on.")]
Iterations = Annotated[tuple[tuple[str, int], ...], says("Loop iterations, outermost first: name, value.")]
OffsetBytes = Annotated[int | None, says("Offset from the argument's pointer in bytes.")]
Element = Annotated[int | None, says("The same offset in elements.")]
Mask = Annotated[bool | None, says("Value of the mask at this point.")]


class Where(Part, frozen=True, kw_only=True):
    """A place in the source; null if unknown."""

    file: Path | None
    line: FromOne
    column: FromOne


class Witness(Part, frozen=True, kw_only=True):
    """A program and lane that make the access."""

    access: Access
    file: Path | None
    line: FromOne
    column: FromOne
    argument: Argument
    program_id: tuple[int, ...]
    lane: tuple[int, ...]
    iterations: Iterations
    offset_bytes: OffsetBytes
    element: Element
    mask: Mask


class SanitizeFinding(Part, frozen=True, kw_only=True):
    """A violation, with a witness that was re-run before it is reported."""

    check: Check
    access: Access
    file: Path | None
    line: FromOne
    column: FromOne
    callers: Annotated[tuple[tuple[str, int, int], ...], says("Calls inside the kernel: file, line, column.")]
    argument: Argument
    program_id: tuple[int, ...]
    lane: tuple[int, ...]
    iterations: Iterations
    offset_bytes: OffsetBytes
    element: Element
    mask: Mask
    message: str
    shape: Annotated[tuple[int, ...] | None, says("Elements.")]
    strides: Annotated[tuple[int, ...] | None, says("Elements.")]
    width_bytes: int | None
    beyond_bytes: Annotated[int | None, says("Bytes past the end; negative: before the start.")]
    lands_in: str | None
    address_expression: str | None
    mask_expression: str | None
    suggestion: Annotated[str | None, says("A mask or bound that repairs the access.")]
    for_these_contents: Annotated[bool, says("True if data from memory decided it.")]
    at: Annotated[
        dict[str, int], says("With --for-all: the numbers that the witness has, by name; else empty.")
    ]
    smallest: Annotated[bool, says("Whether it is shown that no smaller sizes have one.")]
    other: Annotated[Witness | None, says("The second access of a race.")]


class SanitizeNote(SanitizeFinding, frozen=True, kw_only=True):
    """Something worth knowing that is not a finding, in the form of one."""

    note: Annotated[
        findings.Note,
        says(
            "same-value: a race that stores equal values. portability: right only by the zeros that this "
            "target puts into lanes that a load leaves out, or a promise of more divisibility than its "
            "widest access needs."
        ),
    ]


class OpenQuestion(Where, frozen=True, kw_only=True):
    """An open question and its reason. It is never to be taken as safe."""

    check: Check
    reason: str


class SanitizeForAll(Part, frozen=True, kw_only=True):
    """What an answer for all sizes is about."""

    intervals: Annotated[dict[str, str], says("By name, as in 1..8192 or 16..4096:16.")]
    grid: Annotated[tuple[str, ...], says("Extents as arithmetic over the sizes.")]
    assumed: Annotated[tuple[str, ...], says("What else the answer rests on.")]


class SanitizedLaunch(Part, frozen=True, kw_only=True):
    """One distinct launch. ``proved`` and so on count memory operations."""

    kernel: str
    grid: Annotated[tuple[int, ...], says("With --for-all: one program; see for_all.")]
    for_all: Annotated[SanitizeForAll | None, says("All sizes at once; null for one launch.")]
    result: Annotated[
        Literal["pass", "fail", "undecided"],
        says("pass: all memory operations are proved. undecided: some are not, and there is no finding."),
    ]
    label: str
    configuration: Annotated[dict[str, str], says("Constexprs and options by name.")]
    repeats: Annotated[Count, says("Number of further equal launches.")]
    findings: tuple[SanitizeFinding, ...]
    noted: Annotated[tuple[SanitizeNote, ...], says("What is worth knowing and is not a finding.")]
    proved: Count
    proved_for_these_contents: Annotated[
        Count, says("Number of proved operations that hold for these contents.")
    ]
    violated: Count
    unproven: tuple[OpenQuestion, ...]
    notes: Notes
    python_stack: Stack
    seconds: float


class SanitizeCause(Part, frozen=True, kw_only=True):
    """Findings of one check, line and tensor, over configurations and launches; by the strongest witness."""

    check: Check
    kernel: str
    file: Path | None
    line: FromOne
    column: FromOne
    argument: str | None
    message: str
    launches: Annotated[Count, says("Launches that have it, equal ones too.")]
    accesses: Annotated[Count, says("Findings of all launches that are different.")]
    configurations: Annotated[Count, says("Configurations that have it.")]
    of_configurations: Annotated[Count, says("Configurations of the kernel.")]
    fingerprint: Annotated[str, says("That of the SARIF result; lines and grids don't change it.")]
    baseline_state: Annotated[
        Literal["new", "unchanged"] | None, says("Whether --baseline has it; null without one.")
    ]


class SanitizeHostRead(Part, frozen=True, kw_only=True):
    """An operation of torch, outside any kernel, that uses unwritten memory."""

    operation: Annotated[str, says("Name of the operation in ATen.")]
    argument: Annotated[str, says("Argument that holds the memory.")]
    dtype: str
    shape: tuple[int, ...]
    unwritten: Annotated[Count, says("Number of unwritten elements.")]
    first: Annotated[tuple[int, ...], says("Index of the first unwritten element.")]
    message: str
    python_stack: Stack
    allocated: Annotated[Stack, says("Where the memory was allocated; the innermost frame last.")]


class SanitizeDocument(Document, frozen=True, kw_only=True):
    """Every launch that was checked. fail: a finding. pass: there are launches, and all is proved."""

    result: Word
    causes: Annotated[tuple[SanitizeCause, ...], says("The findings, grouped; the worst kind first.")]
    launches: tuple[SanitizedLaunch, ...]
    host_reads: Annotated[tuple[SanitizeHostRead, ...], says("Findings of the program's own operations.")]
    notes: Names
    target_status: Annotated[int | None, says("Exit status of the program, if one was run.")]

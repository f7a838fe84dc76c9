"""Documents that other commands printed with ``--json``, those that a report shows; all are checked."""

from __future__ import annotations

import json
from collections.abc import Mapping
from typing import Annotated, Any

import msgspec
from msgspec import Meta, Struct

from kerncap.answer import Answer
from kerncap.errors import UsageError
from kerncap.report.html.material import Document, plain
from kerncap.report.html.timeline_lanes import Trace

Many = Meta(max_length=200_000)
Texts = Annotated[tuple[str, ...], Many]
Scalar = str | int | float | bool | None


class _Base(Struct, frozen=True, kw_only=True):
    """Other keys are ignored: documents grow."""


class Stage(_Base, frozen=True, kw_only=True):
    name: str
    result: str
    reasons: Texts = ()
    shown: Texts = ()
    not_shown: Texts = ()


class Timing(_Base, frozen=True, kw_only=True):
    runs: int
    median_ms: float
    low_ms: float
    high_ms: float
    clock: str = ""
    warm_ms: float | None = None
    cold_ms: float | None = None
    replays_per_s: float | None = None


class Verdict(_Base, frozen=True, kw_only=True):
    """Of `verify` and of `replay`."""

    result: str
    kernel: str
    judged_by: str
    engine: str = ""
    device: str = ""
    reasons: Texts = ()
    summary: str = ""
    notes: Texts = ()
    timing: Timing | None = None
    stages: Annotated[tuple[Stage, ...], Many] = ()


class Bound(_Base, frozen=True, kw_only=True):
    name: str
    unit: str = ""
    amount: float = 0.0
    measured_per_s: float | None = None
    warm_floor_ms: float | None = None
    cold_floor_ms: float | None = None
    warm_fraction: float | None = None
    cold_fraction: float | None = None


class Times(_Base, frozen=True, kw_only=True):
    warm: float | None = None
    cold: float | None = None
    timed: float | None = None


class Limits(_Base, frozen=True, kw_only=True):
    kernel: str
    times_ms: Times
    bounds: Annotated[tuple[Bound, ...], Many]
    engine: str = ""
    device: str = ""
    binding: str | None = None
    achieved: float | None = None
    headroom: float | None = None
    notes: Texts = ()


class Trial(_Base, frozen=True, kw_only=True):
    point: dict[str, Scalar]
    state: str
    digest: str = ""
    ms: float | None = None
    reason: str = ""
    registers: int | None = None
    spilled_bytes: int | None = None
    shared_bytes: int | None = None


class Best(_Base, frozen=True, kw_only=True):
    config: dict[str, Scalar]
    ms: float
    speedup: dict[str, float] | None = None


class Shape(_Base, frozen=True, kw_only=True):
    digest: str
    captured_ms: float
    captured: dict[str, Scalar] = {}
    best: Best | None = None


class Tune(_Base, frozen=True, kw_only=True):
    kernel: str
    result: str
    shapes: Annotated[tuple[Shape, ...], Many]
    trials: Annotated[tuple[Trial, ...], Many]
    space: dict[str, Any]
    engine: str = ""
    device: str = ""
    sampler: str = ""
    ended: str = ""
    seconds: float = 0.0
    autotune: str | None = None
    notes: Texts = ()


class Spot(_Base, frozen=True, kw_only=True):
    file: str | None = None
    line: int | None = None
    column: int | None = None


class Other(Spot, frozen=True, kw_only=True):
    access: str = ""
    argument: str | None = None
    program_id: tuple[int, ...] = ()


class Finding(Spot, frozen=True, kw_only=True):
    check: str
    message: str
    access: str = ""
    argument: str | None = None
    program_id: tuple[int, ...] = ()
    lane: tuple[int, ...] = ()
    iterations: tuple[tuple[str, int], ...] = ()
    offset_bytes: int | None = None
    element: int | None = None
    shape: tuple[int, ...] | None = None
    strides: tuple[int, ...] | None = None
    lands_in: str | None = None
    address_expression: str | None = None
    mask_expression: str | None = None
    suggestion: str | None = None
    for_these_contents: bool = False
    other: Other | None = None


class Unproven(Spot, frozen=True, kw_only=True):
    check: str
    reason: str = ""


class SanitizedLaunch(_Base, frozen=True, kw_only=True):
    kernel: str
    result: str = Answer.UNDECIDED.value
    findings: Annotated[tuple[Finding, ...], Many] = ()
    noted: Annotated[tuple[Finding, ...], Many] = ()
    unproven: Annotated[tuple[Unproven, ...], Many] = ()
    proved: int = 0
    proved_for_these_contents: int = 0
    violated: int = 0
    notes: Texts = ()


class Sanitized(_Base, frozen=True, kw_only=True):
    result: str
    launches: Annotated[tuple[SanitizedLaunch, ...], Many]


class Evidence(_Base, frozen=True, kw_only=True):
    metric: str
    value: float


class Claim(_Base, frozen=True, kw_only=True):
    topic: str
    severity: str
    text: str
    evidence: Annotated[tuple[Evidence, ...], Many] = ()


class Profile(_Base, frozen=True, kw_only=True):
    kernel: str
    device: str
    claims: Annotated[tuple[Claim, ...], Many]
    metrics: dict[str, Any] = {}


# kind -> the keys that identify it, its type, the command that prints it
KINDS: Mapping[str, tuple[frozenset[str], Any, str]] = {
    "verify": (frozenset({"judged_by", "stages"}), Verdict, "verify --json"),
    "replay": (frozenset({"judged_by"}), Verdict, "replay --json"),
    "limits": (frozenset({"bounds", "times_ms"}), Limits, "replay --limits --json"),
    "tune": (frozenset({"trials", "space"}), Tune, "tune --json"),
    "sanitize": (frozenset({"launches"}), Sanitized, "sanitize --json"),
    "profile": (frozenset({"claims", "metrics"}), Profile, "profile --json"),
    "list": (frozenset({"traceEvents"}), Trace, "list --timeline FILE"),
}


def told(name: str, data: bytes) -> tuple[str, Document]:
    """Kind and content of a document; ``name`` is the file's. Raises UsageError."""
    try:
        document = json.loads(data)
    except (ValueError, RecursionError) as error:
        raise UsageError(f"{name}: not JSON: {plain(error)}") from error
    if isinstance(document, dict):
        for kind, (keys, _, _) in KINDS.items():
            if keys <= document.keys():
                checked(kind, document, name)
                return kind, document
    commands = ", ".join(command for _, _, command in KINDS.values())
    raise UsageError(f"{name}: not a document for a report; give the output of {commands}")


def checked(kind: str, document: Document, name: str = "") -> Any:
    """The document as its type. Raises UsageError."""
    _, expected, command = KINDS[kind]
    try:
        return msgspec.convert(document, expected, strict=True)
    except (msgspec.ValidationError, RecursionError) as error:
        raise UsageError(f"{name}: not what `kerncap {command}` writes: {plain(error)}") from error

"""``doctor``: what works here."""

from __future__ import annotations

from typing import Annotated, Any, Literal

from kerncap.report.documents.basics import Count, Document, Names, Part, Path, says


class MachineCheck(Part, frozen=True, kw_only=True):
    name: str
    status: Annotated[Literal["ok", "missing", "note"], says("missing: it stands in some way's way.")]
    detail: str
    next_step: str | None


class MachineWay(Part, frozen=True, kw_only=True):
    """A way to capture and replay here, or the first reason why not."""

    name: str
    works: bool
    reason: str | None
    next_step: str | None


class SelfTestStep(Part, frozen=True, kw_only=True):
    name: str
    seconds: float


class SelfTest(Part, frozen=True, kw_only=True):
    """A small launch, captured and replayed by one way."""

    way: str
    result: Literal["pass", "fail", "skipped"]
    step: Annotated[str | None, says("The step that failed.")]
    reason: str | None
    steps: tuple[SelfTestStep, ...]


class DoctorDocument(Document, frozen=True, kw_only=True):
    """What works on this machine and what is missing."""

    result: Annotated[Literal["ok", "missing"], says("ok: at least one way works.")]
    kerncap: Annotated[str, says("Its version.")]
    python: Annotated[Path, says("The interpreter that was asked about.")]
    ways: tuple[MachineWay, ...]
    checks: tuple[MachineCheck, ...]
    facts: Annotated[dict[str, Any], says("For a bug report: versions, drivers, GPUs; nothing private.")]
    self_test: Annotated[tuple[SelfTest, ...], says("With --self-test.")]


class SeenProcess(Part, frozen=True, kw_only=True):
    """One process of the program."""

    pid: int
    parent: int
    name: str
    argv: Names
    libraries: Annotated[Names, says("Of GPU runtimes, that it has loaded.")]
    live: Annotated[Names, says("What of kerncap ran in it.")]
    launches: Count
    kernels: Count
    routes: Annotated[dict[str, int], says("Launches by the call that made them.")]
    missed: Names


class DoctorProgramDocument(Document, frozen=True, kw_only=True):
    """What kerncap can see of a program, and what it misses."""

    result: Literal["ok", "missing"]
    command: Names
    target_status: Annotated[int | None, says("Its exit status; null: it could not be started.")]
    kernels: Count
    launches: Count
    processes: tuple[SeenProcess, ...]
    missed: Annotated[Names, says("One sentence each, with process and cause.")]
    next_steps: Names
    notes: Names
    routes: Annotated[dict[str, int], says("Launches of all processes by the call that made them.")]

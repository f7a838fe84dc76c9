"""``doctor``: what works here."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Annotated, Any, Literal

from kerncap.format.document_types import Count, Document, Names, Part, Path, says

Status = Literal["ok", "missing", "note"]


@dataclass(frozen=True, kw_only=True)
class Check:
    # `note` is worth knowing and harmless.
    name: str
    status: Annotated[Status, says("missing: blocks at least one way to capture and replay.")]
    detail: str
    next_step: str | None = None


@dataclass(frozen=True, kw_only=True)
class Way:
    """A way to capture and replay, or the first reason why it doesn't work here."""

    name: str
    works: bool
    reason: str | None = None
    next_step: str | None = None


@dataclass(frozen=True, kw_only=True)
class Step:
    name: str
    seconds: float


@dataclass(frozen=True, kw_only=True)
class SelfTest:
    """A small launch, captured and replayed in one way."""

    way: str
    result: Literal["pass", "fail", "skipped"]
    step: Annotated[str | None, says("The step that failed.")] = None
    reason: str | None = None
    steps: tuple[Step, ...] = ()


class DoctorDocument(Document, frozen=True, kw_only=True):
    """What works on this machine, and what is missing."""

    result: Annotated[Literal["ok", "missing"], says("ok: at least one way works.")]
    kerncap: Annotated[str, says("Version of kerncap.")]
    python: Annotated[Path, says("Python interpreter that the report is about.")]
    ways: tuple[Way, ...]
    checks: tuple[Check, ...]
    facts: Annotated[dict[str, Any], says("For a bug report: versions, drivers, GPUs; nothing private.")]
    self_test: Annotated[tuple[SelfTest, ...], says("With --self-test.")]


@dataclass(frozen=True, kw_only=True)
class ProgramProcess:
    """One process of the program."""

    pid: int
    parent: int
    name: str
    argv: Names
    libraries: Annotated[Names, says("GPU libraries that the process has loaded.")]
    live: Annotated[Names, says("Shims and hooks of kerncap that were live in it.")]
    launches: Count
    kernels: Count
    routes: Annotated[dict[str, int], says("Launches by the call that made them.")] = field(
        default_factory=dict
    )
    missed: Names = ()


class DoctorProgramDocument(Document, frozen=True, kw_only=True):
    """What kerncap can see of a program, and what it misses."""

    result: Literal["ok", "missing"]
    command: Names
    target_status: Annotated[int | None, says("Exit status; null if it could not be started.")]
    kernels: Count
    launches: Count
    processes: tuple[ProgramProcess, ...]
    missed: Annotated[Names, says("Missed launches, one sentence each, with process and cause.")]
    next_steps: Names
    notes: Names
    routes: Annotated[dict[str, int], says("Launches of all processes by the call that made them.")]


class SettingInForce(Part, frozen=True, kw_only=True):
    name: Annotated[str, says("Command and option, such as capture.max-size.")]
    value: Annotated[str | None, says("Value as text; null if the option has no default.")]
    origin: Annotated[str, says("Path of the file, or 'default'.")]


class IgnoredSetting(Part, frozen=True, kw_only=True):
    """A key that no file can set."""

    name: str
    file: Path


class ConfigDocument(Document, frozen=True, kw_only=True):
    """The options that a configuration file may set."""

    settings: tuple[SettingInForce, ...]
    ignored: tuple[IgnoredSetting, ...]

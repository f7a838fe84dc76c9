"""``doctor``: what works here."""

from __future__ import annotations

from typing import Annotated, Any, Literal

from kerncap.api.doctor.doctor_result import Check, SelfTest, Way
from kerncap.api.doctor.watched_program import ProgramProcess
from kerncap.format.document_types import Count, Document, Names, Part, Path, says


class DoctorDocument(Document, frozen=True, kw_only=True):
    """What works on this machine, and what is missing."""

    result: Annotated[Literal["ok", "missing"], says("ok: at least one way works.")]
    kerncap: Annotated[str, says("Version of kerncap.")]
    python: Annotated[Path, says("Python interpreter that the report is about.")]
    ways: tuple[Way, ...]
    checks: tuple[Check, ...]
    facts: Annotated[dict[str, Any], says("For a bug report: versions, drivers, GPUs; nothing private.")]
    self_test: Annotated[tuple[SelfTest, ...], says("With --self-test.")]


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

"""What a capture or a listing came to: data for the reports and for `--json`."""

from __future__ import annotations

import signal
from dataclasses import dataclass, field
from pathlib import Path

from kerncap.capture import kernel_spellings
from kerncap.capture.listed import Listing, Row
from kerncap.capture.options import DEFAULT_OUTPUT, CaptureOptions
from kerncap.capture.payloads import Frame, KernelCounts, LastRecord, SeenRecord
from kerncap.capture.seal import SealedLaunch
from kerncap.capture.target import TargetResult
from kerncap.capture.timeline import Timeline
from kerncap.capture.trace_file import TracedProcess
from kerncap.format.checks_file import CheckResult


@dataclass(frozen=True)
class KernelSummary:
    """One kernel over all processes of the session."""

    qualified_name: str
    counts: KernelCounts
    seen: SeenRecord | None = None
    rows: tuple[Row, ...] = ()  # of `kerncap list`
    stack: tuple[Frame, ...] = ()  # where it was launched from at first, likewise

    @property
    def is_native(self) -> bool:
        """Whether a native shim saw it; then its names are C++'s."""
        return self.seen is not None and self.seen.mangled is not None

    @property
    def name(self) -> str:
        """As people call it: without module, namespaces, template arguments and parameters."""
        if self.seen is None:
            return self.qualified_name.rpartition(".")[2]
        return self.spellings[-1] if self.is_native else self.seen.kernel

    @property
    def spellings(self) -> tuple[str, ...]:
        """What ``-k`` is searched in, the shortest last."""
        if self.seen is not None and self.seen.mangled is not None:
            return kernel_spellings.spellings(self.seen.mangled, self.seen.qualified_name)
        return self.qualified_name, self.name


@dataclass(frozen=True)
class SelfCheck:
    """One replay right after the capture."""

    result: CheckResult
    reason: str = ""


@dataclass
class CaptureResult:
    """Everything that a report needs; ``exit_status`` is what the command line ends with."""

    options: CaptureOptions
    target: TargetResult
    captured: list[SealedLaunch] = field(default_factory=list)
    kernels: list[KernelSummary] = field(default_factory=list)
    failed: list[str] = field(default_factory=list)  # one sentence each
    reason: str | None = None  # why nothing was captured
    notes: list[str] = field(default_factory=list)
    self_checks: dict[Path, SelfCheck] = field(default_factory=dict)
    last: LastRecord | None = None  # the last launches before the first fault that a shim saw
    launches: int = 0
    overhead_ns: int = 0
    target_python: str | None = None  # the interpreter of the first hooked process
    kept_session: Path | None = None
    listing: Listing = field(default_factory=Listing)  # with list_only
    timeline: Timeline | None = None  # with timeline
    traced: tuple[TracedProcess, ...] = ()  # with trace
    wall_ns: int = 0  # of the target, from its start to its end
    is_left_behind: bool = False  # sealed later, by `kerncap seal`

    @property
    def output_words(self) -> list[str]:
        """What ready-made commands repeat of where reproducers go."""
        run = self.options.run
        return [] if run.list_only or run.output == DEFAULT_OUTPUT else ["-o", str(run.output)]

    @property
    def shows_rest(self) -> bool:
        """Whether the kernels that were not captured are of interest: nothing was chosen."""
        chosen = self.is_left_behind or self.options.run.dormant or not self.options.selection.is_default
        return not chosen

    @property
    def stopped_as_asked(self) -> bool:
        """``--stop`` ends the target by SIGTERM once everything chosen is captured: no failure."""
        return (
            self.options.selection.stop and bool(self.captured) and self.target.status == 128 + signal.SIGTERM
        )

    @property
    def exit_status(self) -> int:
        """The target's own status if it failed, else 0 when something was captured (or listed), else 1."""
        if self.target.status != 0 and not self.stopped_as_asked:
            return self.target.status
        found = self.kernels if self.options.run.list_only else self.captured
        return 0 if found else 1


@dataclass(frozen=True)
class ArmedCapture:
    """A reproducer that was captured while `arm` waited."""

    path: Path
    kernel: str
    launch: int
    pid: int
    rank: int | None


@dataclass
class ArmResult:
    """``generation`` counts the selections of a session; ``reason`` is why nothing was captured."""

    session: Path
    generation: int
    waited: bool
    no_values: bool = False  # as the capture was started: there is nothing to replay
    captured: list[ArmedCapture] = field(default_factory=list)
    failed: list[str] = field(default_factory=list)
    reason: str | None = None

    @property
    def exit_status(self) -> int:
        return 0 if self.captured or not self.waited else 1

"""What a capture or a listing came to: data for the reports and for `--json`."""

from __future__ import annotations

import signal
from dataclasses import dataclass, field
from pathlib import Path

from kerncap.capture.payloads import KernelCounts, SeenRecord
from kerncap.capture.seal import SealedLaunch
from kerncap.capture.target import TargetResult


@dataclass(frozen=True)
class KernelSummary:
    """One kernel over all processes of the session."""

    qualified_name: str
    counts: KernelCounts
    seen: SeenRecord | None = None

    @property
    def name(self) -> str:
        return self.seen.kernel if self.seen is not None else self.qualified_name.rpartition(".")[2]


@dataclass(frozen=True)
class SelfCheck:
    """One replay right after the capture: ``pass``, ``fail`` or ``skipped`` with a reason."""

    result: str
    reason: str = ""


@dataclass
class CaptureResult:
    """Everything that a report needs; ``exit_status`` is what the command line ends with."""

    command: tuple[str, ...]
    target: TargetResult
    captured: list[SealedLaunch] = field(default_factory=list)
    kernels: list[KernelSummary] = field(default_factory=list)
    failed: list[str] = field(default_factory=list)  # one sentence each
    reason: str | None = None  # why nothing was captured
    notes: list[str] = field(default_factory=list)
    self_checks: dict[Path, SelfCheck] = field(default_factory=dict)
    launches: int = 0
    overhead_ns: int = 0
    hooked_processes: int = 0
    target_python: str | None = None  # the interpreter of the first hooked process
    output: Path | None = None  # where -o was given; ready-made commands repeat it
    kept_session: Path | None = None
    default_selection: bool = False
    list_only: bool = False
    stop: bool = False
    no_values: bool = False

    @property
    def stopped_as_asked(self) -> bool:
        """``--stop`` ends the target by SIGTERM once everything chosen is captured: no failure."""
        return self.stop and bool(self.captured) and self.target.status == 128 + signal.SIGTERM

    @property
    def exit_status(self) -> int:
        """The target's own status if it failed, else 0 when something was captured (or listed), else 1."""
        if self.target.status != 0 and not self.stopped_as_asked:
            return self.target.status
        found = self.kernels if self.list_only else self.captured
        return 0 if found else 1

"""What an engine reports: how a launch ended, what was compiled to what, why a candidate can't be run."""

from __future__ import annotations

from dataclasses import dataclass, field
from pathlib import Path

from kerncap.errors import ReplayError
from kerncap.exit_status import ExitStatus
from kerncap.format.schema import Manifest
from kerncap.replay.worker.protocol import Compiled, Config, Image, Scalar, Variation

KILLED = "the worker was killed, probably for memory"
__all__ = [
    "CandidateError", "Compiled", "Config", "Facts", "Loaded", "NotHeld", "Outcome", "Repeated", "Scalar",
]  # fmt: skip


class CandidateError(ReplayError):
    """The candidate can't be run at all, and why.

    ``detail`` is the traceback or the compiler's log, if there is one. ``line`` and ``column`` (from 1) are
    where in ``file`` the compiler points to; None if it does not say.
    """

    exit_status = ExitStatus.NO  # it is the answer to what was asked of the candidate

    def __init__(
        self,
        message: str,
        detail: str = "",
        *,
        file: str | None = None,
        line: int | None = None,
        column: int | None = None,
    ) -> None:
        super().__init__(message)
        self.detail = detail
        self.file = file
        self.line = line
        self.column = column


class ConfinedError(CandidateError):
    """The same, if that may be for what a compiler that is confined may not do: open a file, load one."""


class NotHeld(ReplayError):
    """A launch that needs more than any reproducer can hold: nothing was run. ``needs`` has it by name."""

    def __init__(self, path: Path, manifest: Manifest) -> None:
        self.path, self.kernel, self.needs = path, manifest.kernel.name, list(manifest.closure.not_held)
        self.why = manifest.closure.why_without_values
        super().__init__(f"{path}: {self.why}; run its application")


@dataclass(frozen=True)
class Outcome:
    """How one launch ended: ``ok``, ``error`` (it raised), ``fault``, ``timeout`` or ``killed`` (SIGKILL).

    ``line`` of the source (from 1) is where an error was raised, if that is known. ``doubt`` is what
    else than the kernel may have led to a bad end, if anything may.
    """

    status: str
    message: str = ""
    detail: str = ""
    ns: int = 0
    line: int | None = None
    doubt: str = ""
    signals: int = 0  # of one rank, answered by what stands for the others

    @property
    def ok(self) -> bool:
        return self.status == "ok"

    @property
    def ending(self) -> str:
        """How it ended, for people; empty if it ended well."""
        if self.status == "killed":
            return KILLED
        return f"the kernel raised: {self.message}" if self.status == "error" else self.message


@dataclass
class Facts:
    """What the worker said about itself.

    ``relocated`` are regions that lie elsewhere than they were captured, and variables of the module that
    captured pointers point to; ``pointers`` how many words were changed for that (of a native launch).
    """

    device: str = ""
    torch: str = ""
    triton: str = ""
    driver: str = ""
    arch: str = ""
    at_once: int = 0  # as `protocol.Opened`
    unconfined: list[str] = field(default_factory=list)  # what the system lacks for `confine.py`
    relocated: list[int] = field(default_factory=list)
    pointers: int | None = None
    notes: list[str] = field(default_factory=list)


@dataclass(frozen=True)
class Loaded:
    """What a launcher in the worker is made of, so that another worker can have it too."""

    path: str
    variation: Variation = field(default_factory=Variation)
    image: Image | None = None  # what its compiler said of it, or what of it is launched


@dataclass(frozen=True)
class Repeated:
    """Replays in a row: how many ran, how many differed, the first of those (-1: none), or how it all ended.

    ``times_ms`` of each launch and the ``seconds`` of all, if they were asked for.
    """

    runs: int = 0
    different: int = 0
    first: int = -1
    ended: Outcome | None = None  # None: well
    times_ms: list[float] = field(default_factory=list)
    seconds: float = 0.0

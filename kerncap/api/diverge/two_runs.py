"""The two runs: a command, or what `kerncap trace` recorded of one."""

from __future__ import annotations

import re
import shlex
import shutil
from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from pathlib import Path

from kerncap import log
from kerncap.api.capture import capture, check_captured
from kerncap.api.diverge.ranks import of_rank
from kerncap.api.trace import trace
from kerncap.capture import trace_file
from kerncap.capture.options import CaptureOptions, Run, Selection
from kerncap.capture.outcome import CaptureResult
from kerncap.capture.payloads import TracedRecord
from kerncap.capture.trace_file import Trace
from kerncap.errors import KerncapError, UsageError
from kerncap.interrupts import Interrupted

SELF_CHECK_S = 300.0  # the answer depends on it, so a busy machine gets more time than after `capture`


@dataclass(frozen=True)
class Side:
    """``command`` with its whole environment (None: this process's), or ``recorded``, a file of `trace`.

    ``rank``: of a distributed program. Raises UsageError for neither and for both.
    """

    name: str  # "A", "B"
    command: tuple[str, ...] = ()
    environment: Mapping[str, str] | None = None
    recorded: Path | None = None
    rank: int | None = None  # only its processes are compared

    def __post_init__(self) -> None:
        if bool(self.command) == (self.recorded is not None):
            problem = "a command and a recorded run" if self.command else "no command"
            raise UsageError(
                f"{self.name}: {problem}; give a program after --, or --{self.name.lower()} FILE"
            )

    def trace(self, selection: Selection, native: bool = False) -> Trace:
        """Run it once, or read what was recorded. Raises CaptureError if the program can't be started."""
        return self.part_of(self.whole(selection, native))

    def part_of(self, run: Trace) -> Trace:
        """What of a run is this side. Raises UsageError if its rank launched nothing."""
        return run if self.rank is None else of_rank(run, self.rank, self.name)

    def whole(self, selection: Selection, native: bool) -> Trace:
        """All ranks that were traced; otherwise as `trace`."""
        if self.recorded is not None:
            return trace_file.read(self.recorded)
        log.line(f"{self.name}: tracing {' '.join(self.command)}")
        found, result = trace(
            self.command, selection, environment=self.environment, stdout_to_stderr=True, native=native
        )  # fmt: skip
        _end_if_interrupted(result)
        if result.target.pid is None:
            raise UsageError(f"{self.name}: {result.target.error}; give a program that can be started")
        if not found.launches:
            log.line(f"{self.name}: no launch was traced{f': {result.reason}' if result.reason else ''}")
        return found


@dataclass(frozen=True)
class Captured:
    """The reproducer of one launch, or the reason that it has not been captured.

    ``unchecked``: why its self-check, which measures what it reads and writes, did not pass.
    ``unmeasured``: what is left to check.
    """

    path: Path | None = None
    problem: str = ""
    unchecked: str = ""
    unmeasured: CaptureResult | None = field(default=None, repr=False, compare=False)

    @property
    def _checked(self) -> Captured:
        if self.path is None or self.unmeasured is None:
            return self
        check = self.unmeasured.self_checks[self.path]
        return replace(self, unchecked=check.reason, unmeasured=None)

    def remove(self) -> None:
        if self.path is not None:
            shutil.rmtree(self.path, ignore_errors=True)


def checked(both: tuple[Captured, Captured]) -> tuple[Captured, Captured]:
    """After the self-checks that were left out."""
    unmeasured = [one.unmeasured for one in both if one.path is not None and one.unmeasured is not None]
    check_captured(*unmeasured, timeout_s=SELF_CHECK_S)
    return both[0]._checked, both[1]._checked


def capture_launch(side: Side, run: Trace, process: int, launch: TracedRecord, output: Path) -> Captured:
    """Run ``side`` again, and capture the launch that ``run`` has in this process into ``output``."""
    if side.recorded is not None:
        return Captured(problem=f"{side.name} is a recorded run: {capture_command(run, launch)}")
    name, ordinal = launch.kernel.qualified_name, launch.ordinal
    log.line(f"{side.name}: capturing {launch.kernel.name}, launch {ordinal}")
    rank = run.processes[process].rank
    try:
        result = capture(
            CaptureOptions(
                Run(
                    side.command,
                    output=output,
                    stdout_to_stderr=True,
                    environment=None if side.environment is None else dict(side.environment),
                    self_check=False,
                ),
                Selection(
                    kernel=f"^{re.escape(name)}$",
                    launch=(ordinal, ordinal + 1),
                    ranks=None if rank is None else (rank,),
                ),
            )
        )
    except KerncapError as error:
        return Captured(problem=f"{side.name}: {log.one_line(error)}")
    _end_if_interrupted(result)
    sealed = sorted(result.captured, key=lambda one: one.pid)
    # Of several processes without ranks: the one with the same place among those that launched this.
    alike = [
        number
        for number, one in enumerate(run.processes)
        if one.rank == rank
        and any((x.kernel.qualified_name, x.ordinal) == (name, ordinal) for x in one.launches)
    ]
    place = alike.index(process)
    for number, other in enumerate(sealed):
        if number != place:
            Captured(other.path).remove()
    if place >= len(sealed):
        why = result.reason or "; ".join(result.failed) or "the program did not launch it this time"
        return Captured(problem=f"{side.name}: {log.one_line(why)}")
    return Captured(sealed[place].path, unmeasured=replace(result, captured=[sealed[place]]))


def _end_if_interrupted(result: CaptureResult) -> None:
    """A signal that was passed on to the program was meant for all of this."""
    if result.target.forwarded is not None:
        raise Interrupted(result.target.forwarded)


def capture_command(run: Trace, launch: TracedRecord) -> str:
    """What captures the launch elsewhere."""
    pattern = f"^{re.escape(launch.kernel.qualified_name)}$"
    words = ("kerncap", "capture", "-k", pattern, "--launch", str(launch.ordinal))
    return shlex.join((*words, "--", *(run.command or ("CMD",))))

"""Arm a program that runs under ``kerncap capture --dormant``, and wait for what it captures."""

from __future__ import annotations

import os
import re
import time
from pathlib import Path

from kerncap import log
from kerncap.capture import armed
from kerncap.capture.options import Selection
from kerncap.capture.outcome import ArmedCapture, ArmResult, KernelSummary
from kerncap.capture.payloads import FailedRecord, KernelCounts, LaunchRecord
from kerncap.capture.process_log import FOLDER, ProcessLog
from kerncap.errors import CaptureError

POLL_S = 0.1
MAX_NAMES = 5
QUIET_S = 0.5  # after a capture: how long no other process of the session may have one under way


def arm(place: Path, selection: Selection, wait_s: float | None = None) -> ArmResult:
    """Make ``selection`` that of the session in ``place``; with ``wait_s`` wait for a capture.

    ``place`` is the session's folder, or the output folder with one dormant session. What a selection
    does not say (memory, backend, sizes) is as the capture was started. Raises UsageError for no such
    session, CaptureError for one that is over, and where another `arm` is at work.
    """
    session = armed.DormantSession.open(armed.find_session(place))
    keep = session.file.keep
    keep.check(selection)
    if wait_s is None:
        return ArmResult(session.folder, session.arm(selection), False, keep.no_values)
    with armed.waiting(session.folder):
        result = ArmResult(session.folder, session.arm(selection), True, keep.no_values)
        log.line(f"armed (generation {result.generation}); waiting up to {wait_s:g} s for a capture")
        _wait(result, wait_s, selection)
    return result


class _Watcher:
    """Reads along in the session what one generation has captured."""

    def __init__(self, result: ArmResult) -> None:
        self._result = result
        self._processes: dict[str, ProcessLog] = {}
        self._told: set[tuple[str, int]] = set()

    def poll(self) -> bool:
        """Take in what is new; gives whether a capture is under way that is not sealed yet."""
        for folder in sorted(self._result.session.glob("*-*")):
            match = FOLDER.match(folder.name)
            if match and folder.name not in self._processes and folder.is_dir() and not folder.is_symlink():
                self._processes[folder.name] = ProcessLog(folder, int(match[1]))
        under_way = False
        for process in self._processes.values():
            process.read_new()
            self._take_failures(process.failed)
            for number, pending in process.pending.items():
                if pending.record.generation == self._result.generation:
                    under_way |= not self._is_told(process, number, pending.record)
        return under_way

    def _is_told(self, process: ProcessLog, number: int, record: LaunchRecord) -> bool:
        if (process.name, number) in self._told:
            return True
        try:
            path = Path(os.fsdecode(process.read_file(f"{number}.sealed", 1 << 16)))
        except CaptureError:
            return False
        self._told.add((process.name, number))
        # The folder's name has the kernel's as people call it; a native launch's record has its long one.
        name = path.name.rpartition("-")[0] or record.kernel.name
        self._result.captured.append(ArmedCapture(path, name, record.ordinal, process.pid, process.rank))
        return True

    def unmatched(self, pattern: str | None) -> str:
        """What was launched so far, if ``-k`` fits none of it."""
        kernels = {
            name: KernelSummary(name, KernelCounts(), seen)
            for process in self._processes.values()
            for name, seen in process.seen.items()
        }
        spellings = [name for kernel in kernels.values() for name in kernel.spellings]
        if pattern is None or not kernels or any(re.search(pattern, name) for name in spellings):
            return ""
        names = sorted({log.one_line(kernel.name, 80) for kernel in kernels.values()})
        more = ", …" if len(names) > MAX_NAMES else ""
        return (
            f"; -k {pattern!r} matches none of what was launched so far: {', '.join(names[:MAX_NAMES])}{more}"
        )

    def _take_failures(self, failed: list[FailedRecord]) -> None:
        for failure in failed:
            if failure.generation != self._result.generation:
                continue
            kernel = f"{failure.kernel}: " if failure.kernel else ""
            line = log.one_line(kernel + failure.reason)
            if line not in self._result.failed:
                self._result.failed.append(line)


def _wait(result: ArmResult, wait_s: float, selection: Selection) -> None:
    """Until something is captured and nothing more is under way, or it can't come any more."""
    watcher = _Watcher(result)
    deadline = time.monotonic() + wait_s
    quiet_since: float | None = None
    while True:
        over = armed.has_ended(result.session)  # asked before the look: what came before it is seen
        generation = armed.generation_of(result.session)
        under_way = watcher.poll()
        now = time.monotonic()
        quiet_since = None if under_way or not result.captured else quiet_since or now
        if quiet_since is not None and (now - quiet_since > QUIET_S or over):
            return
        if over:
            result.reason = "the program has ended"
        elif generation not in (0, result.generation):
            result.reason = f"another kerncap arm took its place (generation {generation})"
        elif now > deadline:
            kept = (
                ""
                if selection.last is None
                else "; --last is written when another selection is armed or the program ends"
            )
            result.reason = f"within {wait_s:g} s; it stays armed{kept}{watcher.unmatched(selection.kernel)}"
        if result.reason is not None:
            if result.captured:
                result.reason = None
            return
        time.sleep(POLL_S)

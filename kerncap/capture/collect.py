"""Reads what the hooks write while the target runs, and has each launch sealed once it is complete."""

from __future__ import annotations

import os
import threading
import time
from pathlib import Path

from kerncap import log
from kerncap.capture import annotation, armed, lost_records, manifest
from kerncap.capture.payloads import CompleteRecord, CountsRecord, KernelCounts, LaunchRecord
from kerncap.capture.process_log import FOLDER, Annotation, PendingLaunch, ProcessLog
from kerncap.capture.seal import SealedLaunch, Sealer
from kerncap.capture.target import TargetResult, block_signals_in_this_thread, signal_name
from kerncap.errors import CaptureError
from kerncap.format import schema
from kerncap.format.contract import word

POLL_S = 0.1
LINGER_S = 30.0  # how long children that outlive the target are waited for
SAY_LINGER_AFTER_S = 0.5
SAY_BEHIND_S = 2.0
MAX_PROCESSES = 100_000


class Collector:
    """Follows one session folder. Use from one thread at a time; `follow` starts one of its own."""

    def __init__(self, folder: Path, sealer: Sealer, *, at_the_end: bool = False, say: bool = False) -> None:
        """``at_the_end``: a launch may still be dropped after COMPLETE (``--last``), so seal late.

        ``say``: a line for each reproducer as soon as it is there, for a job that takes long.
        """
        self.processes: dict[str, ProcessLog] = {}
        self.sealed: list[SealedLaunch] = []
        self.failed: list[str] = []
        self.unsealed = 0  # launches whose bytes are still in the session only
        self._folder = folder
        self._sealer = sealer
        self._at_the_end = at_the_end
        self._late: dict[int, bool] = {0: at_the_end}  # by the generation of `kerncap arm`
        self._say = say
        self._stop = threading.Event()
        self._thread: threading.Thread | None = None
        self._crash: BaseException | None = None
        self._unread: str | None = None  # why the last look at the session was in vain
        self._together: dict[str, set[int]] = {}  # ranks that are done, by the id of their collective launch
        self._told: set[int] = set()  # processes whose missing records are among what failed

    def follow(self) -> None:
        """Poll in a thread until `finish`."""
        self._thread = threading.Thread(target=self._run, name="kerncap-collect", daemon=True)
        self._thread.start()

    def finish(self, target: TargetResult | None, wait_for_children: bool = True) -> list[ProcessLog]:
        """Take in the rest after the target's end; gives the processes that are still running.

        Waits up to LINGER_S for children that outlive the target. ``target`` is None if its end
        is not known (a session left behind).
        """
        self._stop.set()
        if self._thread is not None:
            self._thread.join()
            self._thread = None
        if self._crash is not None:
            raise self._crash
        alive = self._wait_for_children() if wait_for_children else self._alive()
        self.poll()
        for unread in (self._unread, *(process.unread for process in self.processes.values())):
            if unread is not None:  # what is in there is not lost: the session stays
                self.failed.append(unread)
                self.unsealed += 1
        unwritten = lost_records.unwritten(self._folder)
        for process in self.processes.values():
            if process not in alive:
                self._settle(process, target, unwritten.get(process.pid))
        told = {process.pid for process in self.processes.values() if process.failed}
        for pid in sorted(unwritten.keys() - told - self._told):
            why = lost_records.because(unwritten[pid])
            self.failed.append(f"process {pid}: not all of what it launched could be recorded: {why}")
        return alive

    def poll(self) -> None:
        """Take in what is new; seal what is complete."""
        try:
            names = sorted(os.listdir(self._folder))
        except FileNotFoundError:
            return
        except OSError as error:
            self._unread = f"{self._folder}: {error.strerror}"
            return
        self._unread = None
        for name in names:
            match = FOLDER.match(name)
            if match and name not in self.processes and len(self.processes) < MAX_PROCESSES:
                path = self._folder / name
                if path.is_dir() and not path.is_symlink():
                    self.processes[name] = ProcessLog(path, int(match[1]))
        for process in self.processes.values():
            process.read_new()
            self._show_progress(process)
            for pending in process.pending.values():
                if pending.record.collective is not None and pending.complete is not None:
                    launch = pending.record.collective
                    self._together.setdefault(launch.id, set()).add(launch.rank)
        for process in self.processes.values():
            self._seal_complete(process, in_time=True)

    def counts(self) -> tuple[dict[str, KernelCounts], CountsRecord]:
        """Launches by kernel summed over the processes, and the totals.

        A Triton kernel that both the hook and the shim of a process have counted is the hook's.
        """
        kernels: dict[str, KernelCounts] = {}
        overhead = launches = 0
        for process in self.processes.values():
            if process.counts is None:
                continue
            hooked = self.hooked_names(process)
            overhead += process.counts.overhead_ns
            launches += process.counts.launches
            for name, counts in process.counts.kernels.items():
                if name in hooked:
                    launches -= counts.launches
                    continue
                kernels[name] = kernels[name] + counts if name in kernels else counts
        return kernels, CountsRecord(overhead_ns=overhead, launches=launches)

    def hooked_names(self, process: ProcessLog) -> set[str]:
        """Names of the Triton kernels that the hook of the same process knows, if this is a shim's log."""
        if not process.is_native:
            return set()
        hooks = [
            other for other in self.processes.values() if other.pid == process.pid and not other.is_native
        ]
        return {seen.kernel for hook in hooks for seen in hook.seen.values()}

    def _show_progress(self, process: ProcessLog) -> None:
        step, process.progress = process.progress, None
        if step is not None and self._thread is not None:  # else it is long past
            copied = f"{log.size(step.done)} of {log.size(step.total)} copied"
            log.line(f"{log.one_line(step.kernel, 80)} (launch {step.launch}): {copied}")

    def _run(self) -> None:
        block_signals_in_this_thread()
        try:
            while not self._stop.wait(POLL_S):
                self.poll()
        except BaseException as error:  # handed to the main thread, which reports it
            self._crash = error

    def _alive(self) -> list[ProcessLog]:
        return [process for process in self.processes.values() if process.alive()]

    def _wait_for_children(self) -> list[ProcessLog]:
        start = time.monotonic()
        said = False
        while True:
            self.poll()
            alive = self._alive()
            waited = time.monotonic() - start
            if not alive or waited > LINGER_S:
                return alive
            if not said and waited > SAY_LINGER_AFTER_S:
                said = True
                pids = ", ".join(str(process.pid) for process in alive[:5])
                log.line(f"the target has ended; waiting up to {LINGER_S:.0f} s for its process {pids}")
            threading.Event().wait(POLL_S)

    def _is_late(self, pending: PendingLaunch) -> bool:
        """Whether it may still be dropped: its selection keeps the last few, and is not replaced yet."""
        if self._at_the_end:
            return True
        generation = pending.record.generation
        late = self._late.get(generation)
        if late is None:
            try:
                late = armed.session_file_of(self._folder, generation).selection.last is not None
            except CaptureError:  # the target may have written any number there
                late = False
            self._late[generation] = late
        return late and armed.generation_of(self._folder) == generation

    def _seal_complete(self, process: ProcessLog, in_time: bool = False) -> None:
        """``in_time``: the process still runs, so what its hooks may take back has to wait."""
        ready: list[tuple[PendingLaunch, CompleteRecord]] = []
        for number, pending in list(process.pending.items()):
            if pending.complete is None or (in_time and self._is_late(pending)):
                continue
            if self._waits_for_ranks(pending):
                continue
            if not self._waits_for_hook(pending):
                del process.pending[number]
                if pending.complete.keep:
                    ready.append((pending, pending.complete))
        said = time.monotonic()
        for number, (pending, complete) in enumerate(ready):
            if number and time.monotonic() - said >= SAY_BEHIND_S:
                said = time.monotonic()
                _say_behind([waiting.record for waiting, _ in ready[number:]])
            self._seal(process, pending, complete, manifest.oracle_of(complete))

    def _annotated_by(self, pending: PendingLaunch) -> tuple[ProcessLog, Annotation] | None:
        """Who said more about a native launch, and what; None if nobody did."""
        if pending.record.annotation is None:
            return None
        folder, _, token = pending.record.annotation.partition("/")
        hook = self.processes.get(folder)
        said = hook.annotations.get(int(token)) if hook is not None else None
        return (hook, said) if hook is not None and said is not None else None

    def _waits_for_hook(self, pending: PendingLaunch) -> bool:
        """Whether the hook still has something to say about it: it does so after the launch."""
        if pending.record.annotation is None:
            return False
        found = self._annotated_by(pending)
        if found is not None and found[1].after is not None:
            return False
        hook = self.processes.get(pending.record.annotation.partition("/")[0])
        return hook is not None and hook.alive()

    def _waits_for_ranks(self, pending: PendingLaunch) -> bool:
        """Whether it was made together with ranks that have not recorded their part of it."""
        launch = pending.record.collective
        return launch is not None and len(self._together.get(launch.id, ())) < launch.ranks

    def _settle(self, process: ProcessLog, target: TargetResult | None, unwritten: int | None) -> None:
        """Everything of a process that has ended: what is complete, and what was cut short.

        ``unwritten`` is the number of the error that kept records of it from the session, if any.
        """
        self._seal_complete(process)
        for pending in list(process.pending.values()):
            record = pending.record
            ending = _ending(process, target)
            if record.condition == word.condition.on_fault:
                interrupted = target is not None and target.pid == process.pid and target.forwarded
                oracle = schema.Oracle(kind="timeout" if interrupted else "fault", error=ending)
                self._seal(process, pending, None, oracle)
            elif unwritten is not None:
                self._told.add(process.pid)
                self.failed.append(
                    f"{log.one_line(record.kernel.name)} (launch {record.ordinal}) could not be recorded: "
                    f"{lost_records.because(unwritten)}"
                )
            elif pending.complete is not None and record.collective is not None:
                whole = range(record.collective.ranks)
                missing = sorted({*whole} - self._together.get(record.collective.id, set()))
                self.failed.append(
                    f"{log.one_line(record.kernel.name)} (launch {record.ordinal}) is a part of a collective "
                    f"launch, of which rank {', '.join(map(str, missing))} recorded nothing: no reproducer"
                )
            else:
                self.failed.append(
                    f"{log.one_line(record.kernel.name)} (launch {record.ordinal}) was cut short, "
                    f"{ending} before its output was recorded: no reproducer (--on-fault keeps such a launch)"
                )
        process.pending.clear()

    def _seal(
        self,
        process: ProcessLog,
        pending: PendingLaunch,
        complete: CompleteRecord | None,
        oracle: schema.Oracle,
    ) -> None:
        if (process.folder / f"{pending.record.launch}.sealed").exists():
            return  # by the kerncap that made this session
        record, hook = pending.record, None
        try:
            found = self._annotated_by(pending)
            if found is not None and found[1].before is not None:
                hook = found[0]
                record, complete = annotation.join(record, complete, found[1].before, found[1].after)
            sealed = self._sealer.seal(process, record, complete, oracle, annotated_by=hook)
            self.sealed.append(sealed)
            if self._say:
                log.line(f"captured {log.one_line(sealed.kernel)} -> {sealed.path}")
        except CaptureError as error:
            self.unsealed += not self._sealer.is_lost(process, pending.record)
            self.failed.append(log.one_line(error))


def _ending(process: ProcessLog, target: TargetResult | None) -> str:
    """How a process ended, as far as the command line can know it."""
    if target is None or target.pid != process.pid:
        return f"process {process.pid} ended (status unknown)"
    if target.signal is not None:
        return f"killed by {signal_name(target.signal)}"
    return f"exited with status {target.status}"


def collect_left_behind(folder: Path, sealer: Sealer) -> Collector:
    """Seal everything of a session whose command line is gone; CaptureError if its target still runs."""
    collector = Collector(folder, sealer, at_the_end=True)
    collector.poll()
    if any(process.alive() for process in collector.processes.values()):
        raise CaptureError(f"{folder}: processes of this session are still running; wait for them to end")
    collector.finish(None, wait_for_children=False)
    return collector


def _say_behind(waiting: list[LaunchRecord]) -> None:
    """What is in the session's folder until it is written."""
    count, size = len(waiting), sum(region.size for one in waiting for region in one.regions)
    launches = "launch waits" if count == 1 else "launches wait"
    log.line(f"{count} captured {launches} to be written, {log.size(size)}")

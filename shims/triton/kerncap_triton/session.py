"""One process's part of a session: its folder, records, counters; fork and exit."""

from __future__ import annotations

import atexit
import contextlib
import fcntl
import json
import os
import signal
import sys
import threading
import time
import weakref
from typing import Any, Dict, List, Optional, Tuple

from . import (
    arming,
    listing_rows,
    native_run,
    native_shims,
    nvtx_ranges,
    ranks,
    record_writer,
    session_marks,
    timeline,
)
from .contract import Options, RecordKind, key, word
from .kernels import MAX_STEP, Counters, Kernel
from .selection import Selection

COUNTS_EVERY_S = 5.0
COUNTS_COST = 100  # a listing's counts are large: the time to write them is at most 1/100 of all


class ThreadState(threading.local):
    """What this thread is doing inside Triton and inside us."""

    tuning = 0  # depth of an autotuner's own measuring
    busy = False  # we are at work: launches from here are nobody's
    autotuners: Tuple[Any, ...] = ()  # running Autotuner objects, innermost last
    interception: Any = None  # of a wanted run of Inductor's


class Session:
    def __init__(self, path: str) -> None:
        with open(path, encoding="utf-8") as file:
            self.options = Options(json.load(file))
        self.folder = os.path.dirname(os.path.abspath(path))
        self.page = arming.Page.of(self.folder, self.options)
        self.lookups = native_run.find() if self.page is None else None
        timeline.is_on = self.options.timeline
        self.generation = 0
        self.thread = ThreadState()
        self.fork_count = 0
        self._parent_folder: Optional[str] = None
        self._start_afresh()
        os.register_at_fork(after_in_child=self._after_fork)

    def _start_afresh(self) -> None:
        """The state of a process that has launched nothing; a forked child counts from zero again."""
        self.lock = threading.RLock()
        self.selection = Selection(self.options)
        self.by_object: Dict[int, Counters] = {} if self.lookups is None else native_run.Counted(self.lookups)
        self._references: Dict[int, Any] = {}
        self._by_key: Dict[Tuple[Any, ...], Counters] = {}
        self.process_folder: Optional[str] = None
        self._records: Optional[record_writer.RecordFile] = None
        self._held: Optional[record_writer.OwnDescriptor] = None  # locked for as long as this process lives
        self._refused: Optional[OSError] = None  # why there is no folder, and will be none
        self._next_launch = 0
        self._next_counts_s = time.monotonic() + COUNTS_EVERY_S
        self.overhead_ns = 0
        self.at_exit: List[Any] = []  # called before the last counts
        self._rank: Any = None  # asked at the first launch
        self._room = listing_rows.Room()
        self.resources: Dict[str, Any] = {}  # other modules' state of this process: memfds, rings
        timeline.start_afresh()

    def _after_fork(self) -> None:
        if self._records is not None:
            # Only our copies of the descriptors: the parent's lock must end with the parent.
            self._parent_folder = os.path.basename(self.process_folder or "")
            self._records.close()
            if self._held is not None:
                self._held.close()
        self.fork_count += 1
        self.thread = ThreadState()
        by_object = self.by_object  # the wrappers hold this very dictionary
        self._start_afresh()
        by_object.clear()
        self.by_object = by_object

    # --- kernels ---------------------------------------------------------------------------------

    def counters_of(self, fn: Any, make: Any) -> Counters:
        """The counters of a kernel object; ``make`` builds its Kernel the first time it is seen."""
        counters = self.by_object.get(id(fn))
        if counters is not None:
            return counters
        kernel = make(fn)
        with self.lock:
            counters = self._by_key.get(kernel.key)
            if counters is None:
                listed = listing_rows.Rows(self._room) if self.selection.list_only else None
                kind = Counters if self.lookups is None else native_run.CountersOfShim
                counters = kind(kernel, self.selection.name_matches(kernel), listed)
                self._close(counters)
                self._by_key[kernel.key] = counters
                if kernel.mode != word.mode.interpreter:
                    native_shims.own(str(getattr(fn, "__name__", kernel.name)))
                try:
                    self.write(
                        RecordKind.SEEN,
                        {**_seen(kernel), key.mode: kernel.mode, key.source_known: kernel.source_known},
                    )
                except OSError:  # nothing of it can be recorded
                    counters.finish(word.filter.no_space)
            number = id(fn)
            # The number may be used again when the object is gone, so it goes with it.
            self._references[number] = weakref.ref(fn, lambda _: self._forget(number))
            self.by_object[number] = counters
        return counters

    def _close(self, counters: Counters) -> None:
        """Leave a kernel alone if nothing at all is wanted of this process."""
        closed = self.selection.closed(self.rank)
        if closed is not None:
            counters.done, counters.reason = True, closed

    @property
    def rank(self) -> Optional[int]:
        if self._rank is None:
            self._rank = (ranks.rank(),)
        return self._rank[0]

    def rearm(self) -> None:
        """Take the selection of the page's generation; a selection that can't be read changes nothing."""
        assert self.page is not None
        with self.lock:
            generation = self.page.generation
            if generation == self.generation:
                return
            self.generation = generation
            try:
                options = arming.options_of(self.folder, generation)
                selection = Selection(options)
            except Exception as error:
                return self.failed("", f"generation {generation} could not be armed: {error}")
            selection.reserved = self.selection.reserved  # launches that are being captured just now
            self.options, self.selection = options, selection
            self.resources.pop("last", None)  # what is in it stays kept
            for counters in self._by_key.values():
                counters.rearm(selection.name_matches(counters.kernel))
                self._close(counters)

    def _forget(self, number: int) -> None:
        self.by_object.pop(number, None)
        self._references.pop(number, None)

    def all_counters(self) -> List[Counters]:
        return list(self._by_key.values())

    def tick(self, counters: Counters) -> None:
        """Called now and then by the unmatched path: refill it, and write counts when they are due."""
        most = MAX_STEP if counters.done else self.selection.skippable(counters)
        if most > 0:
            counters.refill(time.monotonic(), most)
        self.tick_counts()

    def tick_counts(self) -> None:
        if time.monotonic() >= self._next_counts_s:
            self.write_counts()
        if timeline.is_due():
            self._write_timeline()

    def _write_timeline(self) -> None:
        taken = timeline.take()
        if taken is not None:
            self.write(RecordKind.TIMELINE, taken)

    # --- records ---------------------------------------------------------------------------------

    def write(self, kind: RecordKind, payload: Dict[str, Any]) -> None:
        """Raises OSError; an empty file says to the command line that a record is missing."""
        with self.lock:
            try:
                if self._records is None:
                    self._open()
                elif self._held is None or not self._held.is_ours:  # the target closed it: a daemon does
                    with contextlib.suppress(OSError):  # the next record tries again
                        self._hold(self.process_folder or "")
                assert self._records is not None
                self._records.append(kind, payload)
            except OSError as error:
                session_marks.mark(os.path.join(self.folder, "session.json"), f"unwritten-{error.errno}")
                raise

    def path(self, name: str) -> str:
        """A file in this process's folder."""
        with self.lock:
            if self.process_folder is None:
                self._open()
            assert self.process_folder is not None
            return os.path.join(self.process_folder, name)

    def next_launch(self) -> int:
        with self.lock:
            self._next_launch += 1
            return self._next_launch - 1

    def failed(self, kernel: str, reason: str, launch: Optional[int] = None) -> None:
        failed = {key.launch: launch, key.kernel: kernel, key.reason: reason[:4000]}
        self.write(RecordKind.FAILED, {**failed, **self.armed()})

    def armed(self) -> Dict[str, Any]:
        """What a record of an armed session says besides."""
        return {key.generation: self.generation} if self.generation else {}

    def write_counts(self) -> None:
        with self.lock:
            started_s = time.monotonic()
            kernels: Dict[str, Dict[str, Any]] = {}
            launches = 0
            for counters in self._by_key.values():
                counters.fold()
                launches += counters.launches
                name = counters.kernel.qualified_name
                record = counters.as_record()
                kernels[name] = _sum(kernels[name], record) if name in kernels else record
            counts = {key.kernels: kernels, key.overhead_ns: self.overhead_ns, key.launches: launches}
            self.write(RecordKind.COUNTS, {**counts, **self.resources.get("clock", {})})
            now_s = time.monotonic()
            self._next_counts_s = now_s + max(COUNTS_EVERY_S, COUNTS_COST * (now_s - started_s))

    def _open(self) -> None:
        """Make this process's folder. OSError if that failed once: no launch pays for it again."""
        if self._refused is not None:
            raise OSError(*self._refused.args)
        number = self.fork_count
        while True:
            folder = os.path.join(self.folder, f"{os.getpid()}-{number}")
            try:
                os.mkdir(folder, 0o700)
                break
            except FileExistsError:  # a process id used twice, or an exec in the same process
                number += 1
            except OSError as error:
                self._refused = error
                raise
        try:
            os.mkdir(os.path.join(folder, "code"), 0o700)
            self._hold(folder)
            records = record_writer.RecordFile(os.path.join(folder, "records"))
            records.append(RecordKind.PROCESS, self._describe())
        except OSError as error:
            self._refused = error
            _remove(folder)
            raise
        self.process_folder, self._records = folder, records
        atexit.register(self._at_exit, os.getpid())
        self._flush_when_multiprocessing_ends()

    def _hold(self, folder: str) -> None:
        fd = os.open(os.path.join(folder, "lock"), os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o600)
        try:
            fcntl.flock(fd, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except OSError:  # the command line has it for a moment, to see whether we live
            os.close(fd)
            raise
        self._held = record_writer.OwnDescriptor(fd)

    def _describe(self) -> Dict[str, Any]:
        return {
            key.pid: os.getpid(),
            key.parent_folder: self._parent_folder,
            key.argv: [str(a) for a in getattr(sys, "orig_argv", None) or getattr(sys, "argv", [])],
            key.executable: sys.executable,
            key.python: sys.version.split()[0],
            key.cwd: _cwd(),
            key.time_ns: time.time_ns(),
            key.packages: _packages(),
            key.rank: self.rank,
            key.local_rank: ranks.local_rank(),
        }

    # --- the end ---------------------------------------------------------------------------------

    def flush(self) -> None:
        for call in self.at_exit:
            try:
                call()
            except Exception as error:
                self.failed("", f"at exit: {type(error).__name__}: {error}")
        nvtx_ranges.close_all()
        self.write_counts()
        self._write_timeline()
        self.write(RecordKind.END, {key.time_ns: time.time_ns()})

    def _at_exit(self, pid: int) -> None:
        try:
            if pid == os.getpid() and self._records is not None:
                self.flush()
        except Exception:
            pass

    def _flush_when_multiprocessing_ends(self) -> None:
        """A forked multiprocessing worker leaves with os._exit, which runs its finalizers but no atexit."""
        util = sys.modules.get("multiprocessing.util")
        process = sys.modules.get("multiprocessing.process")
        if util is None or process is None or process.parent_process() is None:
            return
        util.Finalize(None, self._at_exit, args=(os.getpid(),), exitpriority=-100)

    def stop(self) -> None:
        """``--stop``: end the target as an operator would. Its own SIGTERM handler still runs."""
        self.flush()
        os.kill(os.getpid(), signal.SIGTERM)


def _remove(folder: str) -> None:
    """A process's folder in which nothing is recorded yet."""
    with contextlib.suppress(OSError):
        for name in ("lock", "records"):
            with contextlib.suppress(FileNotFoundError):
                os.unlink(os.path.join(folder, name))
        os.rmdir(os.path.join(folder, "code"))
        os.rmdir(folder)


def _cwd() -> Optional[str]:
    try:
        return os.getcwd()
    except OSError:  # deleted
        return None


def _seen(kernel: Kernel) -> Dict[str, Any]:
    described = kernel.describe()
    described[key.kernel] = described.pop(key.name)
    return described


def _packages() -> Dict[str, Any]:
    found = {}
    for name in ("torch", "triton", "numpy"):
        version = getattr(sys.modules.get(name), "__version__", None)
        if version is not None:
            found[name] = str(version)
    return found


def _sum(one: Dict[str, Any], other: Dict[str, Any]) -> Dict[str, Any]:
    """Two kernels of one name (defined again, or one per closure) are one line of the counts."""
    apart = listing_rows.joined(one, other) if key.rows in one else {}
    total = {name: one[name] + other[name] for name in one if name != key.filtered and name not in apart}
    total.update(apart)
    total[key.filtered] = dict(one[key.filtered])
    for reason, count in other[key.filtered].items():
        total[key.filtered][reason] = total[key.filtered].get(reason, 0) + count
    return total

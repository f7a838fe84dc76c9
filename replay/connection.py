"""The worker of an engine: started where its regions can be placed, asked, replaced when a run kills it."""

from __future__ import annotations

import contextlib
import itertools
from collections.abc import Callable, Iterator
from typing import Concatenate, ParamSpec, TypeVar

import numpy as np

from kerncap.errors import BackendUnavailable, ReplayError
from kerncap.replay.choose_engine import Choice
from kerncap.replay.staging import Job
from kerncap.replay.worker.common import bitmap
from kerncap.replay.worker.common.bitmap import Bits
from kerncap.replay.worker.protocol import Backend, Opened
from kerncap.replay.worker_environment import environment_of
from kerncap.replay.worker_process import Ahead, Refusal, TargetError, Worker, WorkerDied, WorkerTimeout
from kerncap.time_limits import START_S

_OPERATION_TIMEOUT_S = 600.0
_PLACEMENT_TRIES = 3

# What leaves the launch's memory as it is.
_READING = frozenset({
    Backend.snapshot, Backend.amend, Backend.drop, Backend.differing, Backend.diff, Backend.untouched,
    Backend.gap_writes, Backend.infer, Backend.compare, Backend.within, Backend.nonfinite, Backend.errors,
    Backend.boxes, Backend.export,
})  # fmt: skip

P = ParamSpec("P")
R = TypeVar("R")


def started_as(choice: Choice) -> tuple[str, dict[str, str], tuple[str, ...]]:
    """What a worker is started by: its Python, its environment, and what is put before the Python."""
    environment = environment_of(choice.launcher)
    if choice.memory == "hip":
        from kerncap.replay import amd_devices

        return choice.python, amd_devices.environment(environment, choice.emulator), choice.prefix
    return choice.python, environment, ()


class Connection:
    """One worker at a time for a job; ``generation`` grows with every one.

    ``changes`` grows with every operation that may change the launch's memory, and with every worker.
    ``opened`` is called with a new worker's reply to ``open``, and gives it what the one before had.
    """

    def __init__(
        self, choice: Choice, job: Job, opened: Callable[[Opened], None],
        ahead: Ahead | None = None,
    ) -> None:  # fmt: skip
        """``ahead`` becomes a worker as often as it fits."""
        self.choice = choice
        self._ahead = ahead
        self.job = job
        self.generation = 0
        self.changes = 0
        self._opened = opened
        self._worker: Worker | None = None
        self._names = itertools.count()

    def start(self) -> None:
        """Start a worker, in place of the one that there is.

        Raises BackendUnavailable for what this machine lacks, ReplayError for a worker that does not start,
        UsageError and FormatError of `Job.add_memory`.
        """
        if self._worker is not None:
            self._worker.close()
        self.generation += 1
        self.changes += 1
        ahead = self._fitting()
        for attempt in range(-1 if ahead else 0, _PLACEMENT_TRIES + 1):
            # A fresh process has another layout; only when that does not help do pointers move.
            worker = self._spawn(relocate=attempt == _PLACEMENT_TRIES, ahead=ahead)
            ahead = None
            if worker.refused is not None:
                worker.close()
                raise BackendUnavailable(f"the {self.choice.name} engine", worker.refused)
            if not worker.taken or attempt == _PLACEMENT_TRIES:
                self._worker = worker
                break
            worker.close()
        self._opened(self.call_within(START_S, Backend.open))

    @property
    def is_idle(self) -> bool:
        """Whether a worker has answered all that it was asked."""
        return self._worker is not None and self._worker.is_idle

    def let_end(self) -> None:
        """Ask nothing more of the worker. `close` waits for its end."""
        if self._worker is not None:
            self._worker.let_end()

    def close(self) -> None:
        """End the worker; nothing happens the second time."""
        if self._worker is not None:
            self._worker.close()
            self._worker = None

    @property
    def is_alive(self) -> bool:
        return self._worker is not None and self._worker.alive

    def request(
        self, timeout_s: float, operation: Callable[Concatenate[Backend, P], R], *args: P.args,
        **kwargs: P.kwargs,
    ) -> R:  # fmt: skip
        """The result of an operation that may kill the worker: WorkerDied and WorkerTimeout come through."""
        if self._worker is None or not self._worker.alive:
            self.start()
        assert self._worker is not None
        if operation not in _READING:
            self.changes += 1
        return self._worker.request(timeout_s, operation, *args, **kwargs)

    def call(self, operation: Callable[Concatenate[Backend, P], R], *args: P.args, **kwargs: P.kwargs) -> R:
        """The result of an operation that is not expected to kill the worker, or to take long."""
        return self.call_within(_OPERATION_TIMEOUT_S, operation, *args, **kwargs)

    def call_within(
        self, timeout_s: float, operation: Callable[Concatenate[Backend, P], R], *args: P.args,
        **kwargs: P.kwargs,
    ) -> R:  # fmt: skip
        """The result of an operation that is not expected to kill the worker.

        Raises BackendUnavailable for what is refused, ReplayError for all else that goes wrong.
        """
        try:
            return self.request(timeout_s, operation, *args, **kwargs)
        except Refusal as refusal:
            raise BackendUnavailable(f"the {self.choice.name} engine", str(refusal)) from refusal
        except TargetError as error:
            raise ReplayError(f"{error}\n{error.detail}".strip()) from error
        except (WorkerDied, WorkerTimeout) as error:
            lost = f"the replay worker was lost in {operation.__name__}: {error}"
            raise ReplayError(f"{lost}\n{self._log_text()}") from error

    def log_tail(self) -> str:
        """The end of what kernel and worker printed."""
        return self._worker.log_tail() if self._worker is not None else ""

    def log_size(self) -> int:
        """How much kernel and worker have printed, in bytes."""
        return self.job.log.stat().st_size if self.job.log.exists() else 0

    def log_from(self, start: int, limit: int) -> bytes:
        """What they printed from ``start`` on, up to ``limit`` bytes."""
        with self.job.log.open("rb") as file:
            file.seek(start)
            return file.read(limit)

    # --- masks, which go through files -----------------------------------------------------------------

    def save(self, name: str, mask: Bits) -> None:
        """Write a mask for the worker."""
        try:
            np.save(self.job.folder / name, mask.encoded())
        except OSError as error:
            raise ReplayError(
                f"{self.job.folder}: the files of the replay can't be written: {error}"
            ) from error

    def load(self, name: str) -> Bits:
        """A mask that the worker has written."""
        return bitmap.decoded(np.load(self.job.folder / name, allow_pickle=False))

    @contextlib.contextmanager
    def file(self, kind: str) -> Iterator[str]:
        """The name of a file in the job folder for one exchange."""
        name = f"{kind}-{next(self._names)}.npy"
        try:
            yield name
        finally:
            (self.job.folder / name).unlink(missing_ok=True)

    @contextlib.contextmanager
    def mask_files(self, masks: dict[int, Bits]) -> Iterator[dict[int, str]]:
        """The names of files with the regions' masks for one exchange."""
        with contextlib.ExitStack() as files:
            names = {}
            for region, bits in masks.items():
                names[region] = files.enter_context(self.file("mask"))
                self.save(names[region], bits)
            yield names

    # --- starting --------------------------------------------------------------------------------------

    def _fitting(self) -> Ahead | None:
        """What was started ahead, if it is as a process that is started now would be."""
        ahead = self._ahead
        return ahead if ahead is not None and ahead.fits(*started_as(self.choice)) else None

    def _spawn(self, relocate: bool, ahead: Ahead | None = None) -> Worker:
        _, environment, prefix = started_as(self.choice)
        try:
            return Worker(
                self.choice.python, self.job.path, self.job.log, environment, relocate, prefix, ahead,
                self.job.add_memory,
            )  # fmt: skip
        except (WorkerDied, WorkerTimeout) as error:
            raise ReplayError(f"the replay worker did not start: {error}\n{self._log_text()}") from error

    def _log_text(self) -> str:
        try:
            return self.job.log.read_text(errors="replace")[-2000:].strip()
        except OSError:
            return ""

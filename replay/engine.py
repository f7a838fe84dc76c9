"""The replay engine: one reproducer in one worker, restarted when a run kills it."""

from __future__ import annotations

import contextlib
import itertools
import os
from collections.abc import Iterator
from dataclasses import dataclass, field
from pathlib import Path
from types import TracebackType
from typing import Any

import numpy as np
import numpy.typing as npt

from kerncap.errors import BackendUnavailable, ReplayError, UsageError
from kerncap.format import Reproducer
from kerncap.replay.choose import Choice, choose
from kerncap.replay.process import Refusal, TargetError, Worker, WorkerDied, WorkerTimeout
from kerncap.replay.staging import Job, stage

Bits = npt.NDArray[np.uint8]

ORIGINAL = "original"
CANDIDATE = "candidate"

_PLACEMENT_TRIES = 3
_START_TIMEOUT_S = 300.0  # torch and Triton from a cold disk
_OPERATION_TIMEOUT_S = 600.0
_GRACE_S = 15.0  # beyond a launch's own limit, for what the worker does around it


class CandidateError(ReplayError):
    """The candidate can't be run at all, and why; ``detail`` is the traceback, if there is one."""

    def __init__(self, message: str, detail: str = "") -> None:
        super().__init__(message)
        self.detail = detail


@dataclass(frozen=True)
class Outcome:
    """How one launch ended: ``ok``, ``error`` (it raised), ``fault`` or ``timeout``."""

    status: str
    message: str = ""
    detail: str = ""
    ns: int = 0

    @property
    def ok(self) -> bool:
        return self.status == "ok"


@dataclass
class Facts:
    """What the worker said about itself."""

    device: str = ""
    torch: str = ""
    triton: str = ""
    relocated: list[int] = field(default_factory=list)


class Engine:
    """Runs launches of one reproducer; a context manager.

    The operations work on the worker's memory: restore a state, poison, launch, compare. ``generation``
    grows with every restart: snapshots made before are gone.
    """

    def __init__(
        self,
        reproducer: Reproducer,
        engine: str = "auto",
        device: str = "auto",
        python: str | None = None,
        timeout_s: float = 60.0,
        target_python: str | None = None,
    ) -> None:
        self.reproducer = reproducer
        self.manifest = reproducer.manifest
        self.choice: Choice = choose(self.manifest, engine, device, python, target_python)
        self.timeout_s = timeout_s
        self.generation = 0
        self.facts = Facts()
        self._job: Job = stage(reproducer, self.choice.launcher, self.choice.memory, self.choice.device)
        self._worker: Worker | None = None
        self._loaded: dict[str, tuple[str, dict[str, str]]] = {}
        self._names = itertools.count()
        try:
            self._start()
        except BaseException:
            self.close()
            raise

    def __enter__(self) -> Engine:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()

    def close(self) -> None:
        if self._worker is not None:
            self._worker.close()
            self._worker = None
        self._job.close()

    # --- running -----------------------------------------------------------------------------------

    def load_candidate(self, path: Path) -> None:
        """Make ``path`` the candidate: an edited source module, or an image for the binary engine.

        Raises CandidateError with the reason: it does not import, its signature is another one.
        """
        if not path.is_file():
            raise ReplayError(f"{path}: no such candidate file")
        wanted = ".cubin" if self.choice.launcher == "binary" else ".py"
        if path.suffix != wanted:
            raise UsageError(f"{path}: the {self.choice.launcher} engine takes a {wanted} file as candidate")
        for variant in [name for name in self._loaded if name.startswith(f"{CANDIDATE} ")]:
            del self._loaded[variant]
        try:
            self._load(CANDIDATE, str(path.resolve()))
        except (BackendUnavailable, ReplayError) as error:
            cause = error.__cause__
            detail = cause.detail if isinstance(cause, TargetError) else ""
            raise CandidateError(
                str(cause if isinstance(cause, Refusal | TargetError) else error), detail
            ) from error

    def variant(self, which: str, scalars: dict[str, str]) -> str:
        """``which`` with other values of numeric arguments, loaded under the name that this gives."""
        if not scalars:
            return which
        name = f"{which} with {', '.join(f'{key}={value}' for key, value in scalars.items())}"
        if name not in self._loaded:
            self._load(name, self._loaded[which][0], scalars)
        return name

    def launch(self, which: str = ORIGINAL, timeout_s: float | None = None) -> Outcome:
        """Run one launch in memory as it is. A dead worker is an outcome too, and is replaced."""
        limit = self.timeout_s if timeout_s is None else timeout_s
        try:
            reply = self._request(
                limit + max(limit, _GRACE_S) + _GRACE_S, "launch", which=which, limit_s=limit
            )
        except WorkerTimeout:
            self._start()
            return Outcome("timeout", f"the kernel did not end within {limit:g} s")
        except WorkerDied as death:
            self._start()
            return Outcome("fault", str(death))
        return Outcome(**{"status": "ok", **reply["outcome"]})

    def time(self, which: str, warmup: int, n: int, dirty: list[int]) -> list[float]:
        """Milliseconds of ``n`` launches after a warm-up; ``dirty`` regions are restored before each."""
        limit = self.timeout_s * (warmup + n)
        reply = self._call(
            "time", limit + _GRACE_S, which=which, warmup=warmup, n=n, limit_s=limit, dirty=dirty
        )
        return [float(t) for t in reply["times_ms"]]

    # --- memory ------------------------------------------------------------------------------------

    def restore(self, state: str = "pre") -> None:
        self._call("restore", state=state)

    def snapshot(self, name: str) -> None:
        self._call("snapshot", name=name)

    def drop(self, name: str) -> None:
        self._call("drop", name=name)

    def fill(self, region: int, start: int, stop: int, seed: int, mask: Bits | None = None) -> None:
        """Poison bytes [start, stop) of a region, or those of them that ``mask`` (packed bits) names."""
        if mask is None:
            self._call("fill", region=region, start=start, stop=stop, seed=seed)
            return
        with self._file("mask") as name:
            self._save(name, mask)
            self._call("fill", region=region, start=start, stop=stop, seed=seed, mask=name)

    def put(self, state: str, region: int, mask: Bits) -> None:
        """Put the bytes of ``mask`` as a state has them."""
        with self._file("mask") as name:
            self._save(name, mask)
            self._call("put", state=state, region=region, mask=name)

    def perturb(self, views: list[int], masks: dict[int, Bits]) -> int:
        """Give other contents, the same each time, to the elements of ``views`` in the regions' masks.

        How many elements were changed.
        """
        with self._mask_files(masks) as files:
            return int(self._call("perturb", views=views, masks=files)["changed"])

    def differing(self, state: str) -> list[int]:
        """The regions that differ from a state anywhere."""
        return [int(region) for region in self._call("differing", state=state)["regions"]]

    def diff(self, region: int, against: str, seed: int = 0) -> Bits:
        """Packed bitmap of the bytes that differ from a state, or from ``poison`` of a seed."""
        with self._file("diff") as name:
            self._call("diff", region=region, against=against, out=name, seed=seed)
            bits: Bits = np.load(self._job.folder / name, allow_pickle=False)
            return bits

    def gap_writes(self) -> list[tuple[int, int, int]]:
        """(first address, last address, bytes) written in each stretch of memory that is in no region."""
        return [(a, b, n) for a, b, n in self._call("gap_writes")["writes"]]

    def compare(self, views: list[tuple[int, float, float]], against: str) -> list[dict[str, Any]]:
        """Statistics of each ``(view, rtol, atol)`` against a state or ``reference``."""
        wanted = [{"view": v, "rtol": rtol, "atol": atol} for v, rtol, atol in views]
        return list(self._call("compare", views=wanted, against=against)["views"])

    def nonfinite(self, views: list[int], written: dict[int, Bits]) -> list[dict[str, Any]]:
        """NaN and infinities among the written elements of ``views``."""
        with self._mask_files(written) as masks:
            return list(self._call("nonfinite", views=views, masks=masks)["views"])

    def reference(self, path: Path) -> list[int]:
        """Run the user's reference on the pre-state; the views that it gives values for."""
        return list(self._call("reference", path=str(path.resolve()))["views"])

    def log_tail(self) -> str:
        """The end of what kernel and worker printed."""
        return self._worker.log_tail() if self._worker is not None else ""

    # --- the process -------------------------------------------------------------------------------

    def _start(self) -> None:
        if self._worker is not None:
            self._worker.close()
        self.generation += 1
        for attempt in range(_PLACEMENT_TRIES + 1):
            # A fresh process has another layout; only when that does not help do pointers move.
            worker = self._spawn(relocate=attempt == _PLACEMENT_TRIES)
            if worker.refused is not None:
                worker.close()
                raise BackendUnavailable(f"the {self.choice.launcher} engine", worker.refused)
            if not worker.taken or attempt == _PLACEMENT_TRIES:
                self._worker = worker
                break
            worker.close()
        reply = self._call("open", _START_TIMEOUT_S)
        self.facts = Facts(
            str(reply["device"]),
            str(reply["torch"]),
            str(reply["triton"]),
            sorted(int(r) for r in reply["relocated"]),
        )
        path = (
            self._job.content["code"].get("cubin")
            if self.choice.launcher == "binary"
            else self._job.content["source"]
        )
        self._loaded.setdefault(ORIGINAL, (str(self._job.folder / path), {}))
        for which, (file, scalars) in list(self._loaded.items()):
            self._load(which, file, scalars)

    def _spawn(self, relocate: bool) -> Worker:
        environment = {
            k: v for k, v in os.environ.items() if k not in ("TRITON_INTERPRET", "KERNCAP_SESSION")
        }
        if self.choice.launcher == "interpreter":
            environment["TRITON_INTERPRET"] = "1"
        try:
            return Worker(self.choice.python, self._job.path, self._job.log, environment, relocate)
        except (WorkerDied, WorkerTimeout) as error:
            raise ReplayError(f"the replay worker did not start: {error}\n{self._log_text()}") from error

    def _load(self, which: str, path: str, scalars: dict[str, str] | None = None) -> None:
        self._call(
            "load", _START_TIMEOUT_S + self.timeout_s,
            which=which, path=path, scalars=scalars or {}, limit_s=self.timeout_s,
        )  # fmt: skip
        self._loaded[which] = (path, scalars or {})

    def _request(self, timeout_s: float, op: str, **arguments: Any) -> dict[str, Any]:
        if self._worker is None or not self._worker.alive:
            self._start()
        assert self._worker is not None
        return self._worker.request(timeout_s, op, **arguments)

    def _call(self, op: str, timeout_s: float = _OPERATION_TIMEOUT_S, **arguments: Any) -> dict[str, Any]:
        """An operation that is not expected to kill the worker."""
        assert self._worker is not None
        try:
            return self._worker.request(timeout_s, op, **arguments)
        except Refusal as refusal:
            raise BackendUnavailable(f"the {self.choice.launcher} engine", str(refusal)) from refusal
        except TargetError as error:
            raise ReplayError(f"{error}\n{error.detail}".strip()) from error
        except (WorkerDied, WorkerTimeout) as error:
            raise ReplayError(f"the replay worker was lost in {op}: {error}\n{self._log_text()}") from error

    def _log_text(self) -> str:
        try:
            return self._job.log.read_text(errors="replace")[-2000:].strip()
        except OSError:
            return ""

    def _save(self, name: str, mask: Bits) -> None:
        try:
            np.save(self._job.folder / name, mask)
        except OSError as error:
            raise ReplayError(
                f"{self._job.folder}: the files of the replay can't be written: {error}"
            ) from error

    @contextlib.contextmanager
    def _mask_files(self, masks: dict[int, Bits]) -> Iterator[dict[str, str]]:
        """The names of files with the regions' masks for one exchange."""
        with contextlib.ExitStack() as files:
            names = {}
            for region, bits in masks.items():
                names[str(region)] = files.enter_context(self._file("mask"))
                self._save(names[str(region)], bits)
            yield names

    @contextlib.contextmanager
    def _file(self, kind: str) -> Any:
        """The name of a file in the job folder for one exchange."""
        name = f"{kind}-{next(self._names)}.npy"
        try:
            yield name
        finally:
            (self._job.folder / name).unlink(missing_ok=True)

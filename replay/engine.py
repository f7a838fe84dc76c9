"""The replay engine: one reproducer in one worker, restarted when a run kills it."""

from __future__ import annotations

import contextlib
import dataclasses
import itertools
import os
from collections.abc import Iterator, Sequence
from pathlib import Path
from types import TracebackType
from typing import Any

import numpy as np
import numpy.typing as npt

from kerncap.errors import BackendUnavailable, ReplayError, UsageError
from kerncap.format import Reproducer
from kerncap.replay import bitmap
from kerncap.replay.choose import Choice, choose
from kerncap.replay.outcome import CandidateError, Facts, Loaded, Outcome, Repeated
from kerncap.replay.process import Refusal, TargetError, Worker, WorkerDied, WorkerTimeout
from kerncap.replay.staging import Job, stage

Bits = npt.NDArray[np.uint8]

ORIGINAL = "original"
CANDIDATE = "candidate"

_IMAGES = (".cubin", ".fatbin", ".ptx")
_PLACEMENT_TRIES = 3
_START_TIMEOUT_S = 300.0  # torch and Triton from a cold disk
_OPERATION_TIMEOUT_S = 600.0
_LONGEST_REPEAT_S = 24 * 3600.0
_GRACE_S = 15.0  # beyond a launch's own limit, for what the worker does around it


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
        self._loaded: dict[str, Loaded] = {}
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
        """Make ``path`` the candidate: an edited source, or an image for the binary engine.

        Raises CandidateError with the reason: it does not import or compile, its signature is another one.
        """
        if not path.is_file():
            raise ReplayError(f"{path}: no such candidate file")
        native = self.choice.launcher == "native"
        wanted = ".cubin" if self.choice.launcher == "binary" else ".py"
        if path.suffix != wanted and not native:
            raise UsageError(f"{path}: the {self.choice.launcher} engine takes a {wanted} file as candidate")
        for variant in [name for name in self._loaded if name.startswith(f"{CANDIDATE} ")]:
            del self._loaded[variant]
        if native:
            path = self._native_image(path.resolve())  # no compiler here: that says nothing of the candidate
        try:
            self._load(CANDIDATE, Loaded(str(path.resolve())))
        except (BackendUnavailable, ReplayError) as error:
            cause = error.__cause__
            detail = cause.detail if isinstance(cause, TargetError) else ""
            raise CandidateError(
                str(cause if isinstance(cause, Refusal | TargetError) else error), detail
            ) from error

    def _native_image(self, path: Path) -> Path:
        """An image that the driver takes: the file itself, or what is built of it."""
        from kerncap.replay import candidates

        if path.suffix in _IMAGES:  # the driver assembles PTX, and says best what is wrong with it
            return path
        if path.suffix not in candidates.SUFFIXES:
            known = ", ".join(sorted({*_IMAGES, *candidates.SUFFIXES}))
            raise UsageError(f"{path}: the binary engine takes one of {known} as candidate")
        out = self._job.folder / f"candidate-{next(self._names)}"
        out.mkdir()
        try:
            return candidates.build(self.reproducer, path, self.facts.arch, out, self.choice.python)
        except ReplayError as error:
            raise CandidateError(str(error), getattr(error, "detail", "")) from error

    def variant(self, which: str, scalars: dict[str, str]) -> str:
        """``which`` with other values of numeric arguments, loaded under the name that this gives."""
        if not scalars:
            return which
        name = f"{which} with {', '.join(f'{key}={value}' for key, value in scalars.items())}"
        if name not in self._loaded:
            self._load(name, dataclasses.replace(self._loaded[which], scalars=scalars))
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

    def repeat(self, which: str, n: int, state: str, ranges: list[tuple[int, int, int]]) -> Repeated:
        """``n`` native replays, queued without waiting, each from ``ranges`` (region, start, stop).

        The ranges are taken from ``state``; memory is as the last replay left it. One that does not end
        well ends them all.
        """
        return self._repeated("repeat", which=which, n=n, state=state, ranges=ranges)

    def until(self, which: str, n: int, state: str, expected: str) -> Repeated:
        """Up to ``n`` native replays, until one differs from a state; memory is as the first such left it."""
        return self._repeated("until", which=which, n=n, state=state, expected=expected)

    def timings(
        self, which: str, ranges: list[tuple[int, int, int]], dirty: list[int], again: bool
    ) -> dict[str, float | None]:
        """``warm_ms`` and ``cold_ms`` of a launch, None where they can't be had.

        ``ranges`` are what it dirties, ``dirty`` the regions of these; ``again``: it may follow itself.
        """
        limit = 2 * self.timeout_s
        native = self.choice.launcher == "native"
        arguments: dict[str, Any] = {"ranges": ranges} if native else {"dirty": dirty}
        reply = self._call("timings", limit + _GRACE_S, which=which, again=again, limit_s=limit, **arguments)
        return {name: reply[name] for name in ("warm_ms", "cold_ms")}

    def _repeated(self, op: str, *, n: int, **arguments: Any) -> Repeated:
        limit = min(self.timeout_s * n, _LONGEST_REPEAT_S)
        try:
            reply = self._request(limit + _GRACE_S, op, n=n, limit_s=limit, **arguments)
        except WorkerTimeout:
            self._start()
            return Repeated(ended=f"{n} replays did not end within {limit:g} s")
        except WorkerDied as death:
            self._start()
            return Repeated(ended=str(death))
        except TargetError as error:
            return Repeated(ended=f"the kernel raised: {error}")
        return Repeated(**{key: value for key, value in reply.items() if key != "ok"})

    # --- memory ------------------------------------------------------------------------------------

    def restore(self, state: str = "pre") -> None:
        self._call("restore", state=state)

    def snapshot(self, name: str) -> None:
        self._call("snapshot", name=name)

    def reload(self) -> None:
        """Take the captured states from their files again, where the worker keeps copies on the device."""
        if self.choice.launcher == "native":
            self._call("reload")

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
            reply = self._call("diff", region=region, against=against, out=name, seed=seed)
            if reply.get("none"):
                return bitmap.empty(self.manifest.regions[region].size)
            bits: Bits = np.load(self._job.folder / name, allow_pickle=False)
            return bits

    def gap_writes(self) -> list[tuple[int, int, int]]:
        """(first address, last address, bytes) written in each stretch of memory that is in no region."""
        return [(a, b, n) for a, b, n in self._call("gap_writes")["writes"]]

    def infer(self, region: int, start: int, stop: int, mask: Bits, against: str) -> dict[str, Any] | None:
        """The view of bytes [start, stop) as the floating type that explains how they differ from a state at
        the bytes of ``mask``; None where none does, and for engines of which all arguments are typed."""
        if self.choice.launcher != "native" or not mask.any():
            return None
        hint = self.manifest.kernel.qualified_name
        with self._file("mask") as name:
            self._save(name, mask)
            found = self._call(
                "infer", region=region, start=start, stop=stop, mask=name, against=against, hint=hint
            )
        if found["dtype"] is None:
            return None
        return {
            "region": region, "offset": start + found["offset"], "dtype": found["dtype"],
            "itemsize": found["itemsize"], "shape": [found["elements"]], "strides": [1],
            "name": f"region {region} as {found['dtype']} (inferred)",
        }  # fmt: skip

    def compare(
        self, views: Sequence[tuple[int | dict[str, Any], float, float]], against: str
    ) -> list[dict[str, Any]]:
        """Statistics of each ``(view, rtol, atol)`` against a state or ``reference``.

        A view is the number of one, or (for native launches) one as `infer` makes it.
        """
        wanted = [{"view": v, "rtol": rtol, "atol": atol} for v, rtol, atol in views]
        return list(self._call("compare", views=wanted, against=against)["views"])

    def nonfinite(self, views: list[int], written: dict[int, Bits]) -> list[dict[str, Any]]:
        """NaN and infinities among the written elements of ``views``."""
        with self._mask_files(written) as masks:
            return list(self._call("nonfinite", views=views, masks=masks)["views"])

    def reference(self, path: Path) -> list[int]:
        """Run the user's reference on the pre-state; the views that it gives values for."""
        return list(self._call("reference", path=str(path.resolve()))["views"])

    def pre_files(self) -> list[Path]:
        """The regions' bytes before the launch, one file each."""
        return [self._job.folder / str(region["pre"]) for region in self._job.content["regions"]]

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
                raise BackendUnavailable(f"the {self.choice.name} engine", worker.refused)
            if not worker.taken or attempt == _PLACEMENT_TRIES:
                self._worker = worker
                break
            worker.close()
        reply = self._call("open", _START_TIMEOUT_S)
        self.facts = Facts(
            device=str(reply["device"]),
            torch=str(reply["torch"]),
            triton=str(reply["triton"]),
            driver=str(reply.get("driver", "")),
            arch=str(reply.get("arch", "")),
            relocated=sorted(int(r) for r in reply["relocated"]),
            notes=list(reply.get("notes", [])),
        )
        path = {
            "native": self._job.content["images"][0] if self._job.content["images"] else None,
            "binary": self._job.content["code"].get("cubin"),
        }.get(self.choice.launcher, self._job.content["source"])
        self._loaded.setdefault(ORIGINAL, Loaded(str(self._job.folder / path)))
        for which, loaded in list(self._loaded.items()):
            self._load(which, loaded)

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

    def _load(self, which: str, loaded: Loaded) -> None:
        reply = self._call(
            "load", _START_TIMEOUT_S + self.timeout_s,
            which=which, path=loaded.path, scalars=loaded.scalars, limit_s=self.timeout_s,
        )  # fmt: skip
        self._loaded[which] = loaded
        if which in (ORIGINAL, CANDIDATE) and "pointers" in reply:
            facts = self.facts
            facts.pointers = int(reply["pointers"])
            facts.relocated = sorted({*facts.relocated, *map(int, reply["moved_variables"])})
            facts.notes += [note for note in reply["notes"] if note not in facts.notes]

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
            raise BackendUnavailable(f"the {self.choice.name} engine", str(refusal)) from refusal
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

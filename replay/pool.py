"""What verdicts that follow each other share: processes that fork workers, and engines that are kept.

An engine is kept if what ran in it can't reach what is judged in it next: see `_may_be_kept`. All else is
a fork of a process in which nothing of a reproducer, and no candidate, ever ran.
"""

from __future__ import annotations

import contextlib
import functools
import os
import sys
import threading
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from types import TracebackType

from kerncap.errors import BackendUnavailable, ReplayError
from kerncap.format import Reproducer
from kerncap.format.schema import Manifest
from kerncap.replay import worker_process
from kerncap.replay.choose_engine import Choice, own_python_has, without_torch
from kerncap.replay.connection import started_as
from kerncap.replay.engine import Engine
from kerncap.replay.nursery import Kind, Nursery
from kerncap.replay.running_worker import Process
from kerncap.replay.worker.cuda_bindings import has_driver
from kerncap.replay.worker_environment import compilers_environment, environment_of
from kerncap.time_limits import LAUNCH_S

_NURSERIES = 4  # each holds torch, or numpy
_KFD = Path("/dev/kfd")


@dataclass(frozen=True, kw_only=True)
class Asked:
    """How an engine is wanted: see `choose_engine.choose`. ``timeout_s`` is the limit of one launch."""

    engine: str = "auto"
    device: str = "auto"
    python: str | None = None
    emulator: Path | None = None
    timeout_s: float = LAUNCH_S
    hostile: bool = False
    torch_free: bool = False  # if it can be: see `choose_engine.without_torch`


@dataclass(frozen=True)
class _Place:
    """Where an engine was made: the same reproducer, asked for in the same way, in the same environment."""

    path: Path
    manifest_sha256: str
    asked: Asked
    environment: tuple[tuple[str, str], ...]


@dataclass(frozen=True)
class _Started:
    """How a nursery is started; the environment is sorted."""

    kind: Kind
    python: str
    environment: tuple[tuple[str, str], ...]
    prefix: tuple[str, ...]

    @classmethod
    def of(cls, kind: Kind, python: str, environment: Mapping[str, str], prefix: tuple[str, ...]) -> _Started:
        return cls(kind, python, tuple(sorted(environment.items())), prefix)


class Pool:
    """Engines for one reproducer after the other; a context manager.

    ``keep``: how many stay open. ``lasting``: more verdicts follow, so that compilers are forks too.
    ``apart``: candidates are compiled there, so that engines can be kept after them too. ``begun``: a
    nursery that was started ahead, which is the pool's from now on.
    """

    def __init__(
        self, keep: int = 0, lasting: bool = False, apart: bool = False, begun: Nursery | None = None
    ) -> None:
        self._keep = keep
        self._apart = apart
        self._lasting = lasting or keep > 0
        self._kept: dict[_Place, tuple[Reproducer, Engine]] = {}  # the one used last is the last
        self._nurseries: dict[_Started, Nursery] = {}
        self._begun = begun
        if begun is not None:
            started = _Started.of(begun.kind, begun.python, begun.environment, begun.prefix)
            self._nurseries[started] = begun
        self._lock = threading.Lock()

    def __enter__(self) -> Pool:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()

    def close(self) -> None:
        """End all of it; nothing happens the second time."""
        while self._kept:
            _close(*self._kept.popitem()[1])
        with self._lock:
            for nursery in self._nurseries.values():
                nursery.close()
            self._nurseries.clear()

    @contextlib.contextmanager
    def opened(
        self, reproducer: Reproducer, asked: Asked, candidate: Path | None = None
    ) -> Iterator[tuple[Reproducer, Engine]]:
        """An engine for a reproducer that somebody agreed to run; it is closed here, sooner or later.

        ``candidate``: what will be judged in it, so that compiling it can begin. The reproducer that comes
        with the engine is the same, opened before or now.
        """
        environment = tuple(sorted(environment_of("").items()))
        place = _Place(reproducer.path.absolute(), reproducer.manifest_sha256, asked, environment)
        had = self._kept.pop(place, None)
        if had is not None and not _renewed(had[1]):
            _close(*had)
            had = None
        if had is not None:
            reproducer.close()
            reproducer, engine = had
        else:
            self.begin(reproducer.manifest, asked)
            try:
                engine = Engine(
                    reproducer, asked.engine, asked.device, asked.python, asked.timeout_s,
                    emulator=asked.emulator, hostile=asked.hostile, shared=self, apart=self._apart,
                    torch_free=asked.torch_free, candidate=candidate,
                )  # fmt: skip
            except BaseException:
                reproducer.close()
                raise
        try:
            yield reproducer, engine
        except BaseException:
            _close(reproducer, engine)
            raise
        if self._keep and _may_be_kept(engine):
            self._kept[place] = reproducer, engine
            while len(self._kept) > self._keep:
                _close(*self._kept.pop(next(iter(self._kept))))
        else:
            _close(reproducer, engine)

    def nursery(self, choice: Choice) -> Nursery | None:
        """What forks workers for a choice; None if this system can't."""
        return self._nursery(_Started.of(_kind(choice), *started_as(choice)))

    def program(
        self, python: str, words: Sequence[str], environment: Mapping[str, str], log: Path, module: Path
    ) -> Process:
        """As `worker_process.program`, by a fork if one is at hand or will be wanted again."""
        kind = _Started.of(_compilers(module), python, environment, ())
        if self._lasting or kind in self._nurseries:
            nursery = self._nursery(kind)
            with contextlib.suppress(ReplayError):
                if nursery is not None:
                    return nursery.program(words, log)
        return worker_process.program(python, words, environment, log, module)

    def begin(self, manifest: Manifest, asked: Asked) -> None:
        """Begin with what a worker will need, most likely, before it is found out what there is."""
        python = asked.python or sys.executable
        needed = () if asked.python is not None or manifest.launch.mode == "native" else ("torch", "triton")
        if not own_python_has(needed):
            return
        with contextlib.suppress(BackendUnavailable):
            emulator = None
            if manifest.device.kind == "hip":
                from kerncap.replay import amd_devices

                emulator = amd_devices.emulator(asked.emulator, manifest)
            launcher, memory = _guess(manifest, asked, emulator is not None)
            choice = Choice(python, launcher, memory, 0, emulator)
            instead = without_torch(choice, manifest) if asked.torch_free else None
            if instead is not None:
                self._nursery(_Started.of("compiler", python, compilers_environment(), ()))
            wanted = self.nursery(instead or choice)
            if self._begun is not None and self._begun is not wanted:
                self._end_begun()

    def _end_begun(self) -> None:
        """Of another kind than what is wanted: its fork may hold a context, and some memory of the device."""
        with self._lock:
            self._nurseries = {key: each for key, each in self._nurseries.items() if each is not self._begun}
            assert self._begun is not None
            self._begun.close()
            self._begun = None

    def _nursery(self, started: _Started) -> Nursery | None:
        if not _has_pidfd():
            return None
        with self._lock:
            found = self._nurseries.pop(started, None)
            if found is not None and not found.is_alive:
                found.close()
                found = None
            try:
                found = found or Nursery(
                    started.python, dict(started.environment), started.kind, started.prefix
                )
            except ReplayError:  # the start of a worker reports why it can't be
                return None
            self._nurseries[started] = found
            if len(self._nurseries) > _NURSERIES:
                self._nurseries.pop(next(iter(self._nurseries))).close()
            return found


def _kind(choice: Choice) -> Kind:
    if choice.launcher == "native":
        return "hip" if choice.memory == "hip" else "cuda"
    return "interpreter" if choice.launcher == "interpreter" else "compiled"


def _compilers(module: Path) -> Kind:
    """What compiles a module: torch is loaded for one that may import it."""
    try:
        return "compiled" if b"torch" in module.read_bytes() else "compiler"
    except OSError:  # its compilation reports that
        return "compiler"


def _guess(manifest: Manifest, asked: Asked, emulated: bool) -> tuple[str, str]:
    """Launcher and memory, as `choose` finds them if nothing is missing."""
    on_host = asked.engine == "interpreter" or asked.device == "cpu"
    if manifest.device.kind == "hip" and (emulated or _KFD.exists() or manifest.source is None):
        if not on_host:
            return "native", "hip"
    elif manifest.launch.mode == "native":
        return "native", "cuda"
    elif manifest.device.kind == "cuda" and not on_host and has_driver():
        return "jit", "cuda"
    return "interpreter", "host"


def _may_be_kept(engine: Engine) -> bool:
    """Whether what ran in an engine is gone with what `_renewed` takes away.

    Its worker is the first one still, all memory is at its captured place, and nothing that may attack a
    judge was asked for. Of candidates none of their Python ran in the worker: it ran nowhere (an image that a
    driver launches), or in a child that was kept from all else (the interpreter).
    """
    choice = engine.choice
    return (
        engine.generation == 1
        and engine.connection.is_alive
        and not (choice.hostile or choice.stranger or engine.facts.relocated or engine.ran_python)
    )


def _renewed(engine: Engine) -> bool:
    """Put an engine back to what it was when it was opened; whether that could be done."""
    try:
        engine.renew()
    except (ReplayError, BackendUnavailable):
        return False
    return engine.generation == 1


def _close(reproducer: Reproducer, engine: Engine) -> None:
    engine.close()
    reproducer.close()


@functools.cache
def _has_pidfd() -> bool:
    """Whether the end of a process that is not our child can be waited for (Linux 5.3)."""
    try:
        os.close(os.pidfd_open(os.getpid()))
    except (OSError, AttributeError):
        return False
    return True

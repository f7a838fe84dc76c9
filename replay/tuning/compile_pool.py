"""Configurations compiled ahead, many at a time, so that the process that times them only loads.

A pool speaks to one process of the target's Python (`torch_backend/compile_ahead.py`), which forks one for
each compilation. Launches that specialise alike (same types, alignments, constants) are compiled once.
"""

from __future__ import annotations

import contextlib
import os
import subprocess
import threading
from collections.abc import Mapping
from concurrent.futures import Future
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import msgspec

from kerncap import scratch
from kerncap.errors import BackendUnavailable
from kerncap.format import Reproducer
from kerncap.replay.outcome import Config
from kerncap.replay.running_worker import Running
from kerncap.replay.tuning.grid import has_value, plain
from kerncap.replay.worker import typed_json
from kerncap.replay.worker.compile_messages import Compilation, CompilerReply, Compiling, Target
from kerncap.replay.worker.protocol import Failure
from kerncap.replay.worker_environment import environment_of
from kerncap.replay.worker_process import Ahead, Started

_MOST_PROCESSES = 32


@dataclass(frozen=True)
class Built:
    """How a compilation ended. ``error`` is empty if it went well; ``lost``: it was never tried."""

    error: str = ""
    detail: str = ""
    shared_bytes: int = 0
    ms: float = 0.0
    lost: bool = False


class CompilePool:
    """Compiles configurations of several reproducers; a context manager.

    ``capability`` is asked of CUDA device ``device`` if it isn't given. `target` waits for the start.
    ``nursery``: what forks the process that compiles, if it fits.
    """

    def __init__(
        self,
        reproducers: Mapping[str, Reproducer],
        python: str,
        device: int = 0,
        capability: int | None = None,
        processes: int | None = None,
        limit_s: float = 120.0,
        nursery: Ahead | None = None,
    ) -> None:
        self.limit_s = limit_s
        self._jobs = {digest: number for number, digest in enumerate(reproducers)}
        self._prints = {digest: _fingerprint(each) for digest, each in reproducers.items()}
        self._by_key: dict[str, Future[Built]] = {}
        self._by_id: dict[int, Future[Built]] = {}
        self._lock = threading.Lock()
        self._target: Future[Compiling] = Future()
        self._closed = False
        self._ended = ""  # why nobody answers any more
        self._made = scratch.folder("compile")
        self._folder = self._made.path
        count = min(_MOST_PROCESSES, processes or _cores())
        try:
            self._start(reproducers, python, Target(device, capability), count, nursery)
        except BaseException:
            self._made.remove()
            raise

    def __enter__(self) -> CompilePool:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    @property
    def target(self) -> Compiling:
        """What is compiled for. Raises BackendUnavailable if the pool can't work."""
        return self._target.result()

    def submit(self, digest: str, config: Config) -> Future[Built]:
        """The compilation of a configuration, started if it was not yet."""
        key = self._prints[digest] + _constants(config)
        with self._lock:
            found = self._by_key.get(key)
            if found is not None:
                return found
            found = self._by_key[key] = Future()
            if self._ended:  # another process may keep the pipe open: sending would not fail
                self._fail(found, self._ended)
                return found
            number = len(self._by_id)
            self._by_id[number] = found
            wanted = replace(config, grid=config.grid or (1, 1, 1))
            asked = Compilation(number, self._jobs[digest], wanted, self.limit_s)
            try:
                typed_json.send(self._requests, typed_json.line(asked))
            except OSError as error:
                self._fail(found, f"the compile processes are gone: {error}")
        return found

    def close(self) -> None:
        """End what still compiles; nothing happens the second time."""
        if self._closed:
            return
        self._closed = True
        with contextlib.suppress(OSError):
            os.close(self._requests)
        try:
            self._process.wait(timeout=2.0)
        except subprocess.TimeoutExpired:
            self._process.end()
        self._reader.join(timeout=5.0)
        self._made.remove()

    def _start(
        self, reproducers: Mapping[str, Reproducer], python: str, target: Target, count: int,
        nursery: Ahead | None,
    ) -> None:  # fmt: skip
        jobs = []
        for number, reproducer in enumerate(reproducers.values()):
            source = reproducer.manifest.source
            assert source is not None
            folder = self._folder / str(number)
            folder.mkdir()
            path = folder / Path(source.file.path).name
            path.write_text(reproducer.source_text() or "", encoding="utf-8")
            job = msgspec.to_builtins(reproducer.manifest)
            job["launch"].setdefault("options", {})
            jobs.append({
                "path": str(path), "folder": str(folder), "source": path.name, "entry": source.entry,
                **{name: job[name] for name in ("arguments", "views", "regions", "launch")},
            })  # fmt: skip
        (self._folder / "jobs.json").write_bytes(typed_json.line({"target": target, "jobs": jobs}))
        arguments = ["compile", str(self._folder / "jobs.json"), str(count)]
        log, environment = self._folder / "log", environment_of("jit")
        started: Running
        if nursery is not None and nursery.fits(python, environment):
            started = nursery.become(log, arguments)
        else:
            started = Started(python, environment, arguments, log)
        self._process, self._requests = started.process, started.requests
        self._reader = threading.Thread(target=self._read, args=(started.replies, log), daemon=True)
        self._reader.start()

    def _read(self, fd: int, log: Path) -> None:
        problem = ""
        try:
            self._read_lines(typed_json.Lines(fd))
        except typed_json.Unreadable as error:
            problem = f"its answer can't be read: {error}"
        os.close(fd)
        try:
            last = log.read_text(errors="replace").strip().splitlines()[-1:]
        except OSError:
            last = []
        said = problem or (last[0] if last else "")
        why = f"the compile process ended{said and ': ' + said}"
        self._refuse(why)
        with self._lock:
            self._ended = why
            for future in self._by_id.values():
                self._fail(future, why)

    def _read_lines(self, lines: typed_json.Lines) -> None:
        """Raises Unreadable."""
        while (line := lines.next()) is not None:
            reply: CompilerReply = typed_json.fit(CompilerReply, typed_json.parse(line))
            if isinstance(reply, Failure):
                self._refuse(reply.message)
            elif isinstance(reply, Compiling):
                self._target.set_result(reply)
            else:
                with self._lock:
                    future = self._by_id.get(reply.id)
                if future is None or future.done():
                    raise typed_json.Unreadable(f"id: {reply.id} was not asked for")
                future.set_result(Built(reply.error, reply.detail, reply.shared_bytes, reply.ms))

    def _refuse(self, why: str) -> None:
        if not self._target.done():
            self._target.set_exception(BackendUnavailable("compiling ahead", why))

    @staticmethod
    def _fail(future: Future[Built], why: str) -> None:
        if not future.done():
            future.set_result(Built(why, lost=True))


def _cores() -> int:
    try:
        return len(os.sched_getaffinity(0))
    except (AttributeError, OSError):
        return os.cpu_count() or 1


def _fingerprint(reproducer: Reproducer) -> str:
    """What of a launch decides what its source compiles to: as Triton specialises, or finer."""
    manifest = reproducer.manifest
    parts: list[Any] = [manifest.source.file.sha256 if manifest.source else ""]
    for argument in manifest.arguments:
        value = plain(argument.value, manifest)
        view = getattr(argument.value, "view", None)
        if view is not None:
            stored = manifest.views[view]
            address = manifest.regions[stored.region].base + stored.offset
            extra = msgspec.json.encode(argument.value).decode() if not has_value(value) else ""
            described: Any = (stored.dtype, address % 16 == 0, extra.replace(f'"view":{view}', ""))
        elif argument.role == "runtime" and isinstance(value, int) and not isinstance(value, bool):
            described = ("int", value == 1, value % 16 == 0, -(2**31) <= value < 2**31, value < 2**63)
        elif argument.role == "runtime" and isinstance(value, float):
            described = "float"
        else:
            described = msgspec.json.encode(argument.value).decode()
        parts.append((argument.name, described))
    parts.append(msgspec.json.encode(manifest.launch.options).decode())
    return repr(parts)


def _constants(config: Config) -> str:
    return repr((sorted(config.arguments.items()), sorted(config.options.items())))

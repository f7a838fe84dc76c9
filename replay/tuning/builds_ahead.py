"""Configurations that are compiled ahead, in other processes."""

from __future__ import annotations

import contextlib
import threading
from collections.abc import Mapping, Sequence
from concurrent.futures import Future, ThreadPoolExecutor
from dataclasses import replace
from pathlib import Path

from kerncap.errors import KerncapError
from kerncap.format import Reproducer
from kerncap.replay import candidates
from kerncap.replay.candidates.unit import private_folder
from kerncap.replay.choose_engine import Choice
from kerncap.replay.engine import CANDIDATE
from kerncap.replay.outcome import CandidateError, Compiled
from kerncap.replay.pool import Pool
from kerncap.replay.tuning import cuda_text, point
from kerncap.replay.tuning.builds import Builds
from kerncap.replay.tuning.compile_pool import Built, CompilePool
from kerncap.replay.tuning.formula import Unknown
from kerncap.replay.tuning.grid import GridUnknown
from kerncap.replay.tuning.point import Point
from kerncap.replay.tuning.prune import Budget, Pruner, budget_of
from kerncap.replay.tuning.space import LaunchSpace
from kerncap.replay.tuning.trial_launch import BenchOptions, OpenLaunch

_MOST_AHEAD = 64  # compiled while the engines still start
_BUILDERS = 8


class BuildsAhead(Builds):
    """What compiles the configurations of several launches; started before their engines are there.

    ``ahead``: configurations of the application's own list, compiled from the start. ``pool``: what the
    process that compiles is a fork of. Native images are compiled by threads, which wait for nvcc, and so
    is Triton's source for an AMD GPU or of a stranger, by a confined process for each configuration.
    """

    def __init__(
        self, opened: Mapping[str, Reproducer], choice: Choice, options: BenchOptions,
        ahead: Sequence[Point], pool: Pool,
    ) -> None:  # fmt: skip
        super().__init__(opened, Budget(choice.launcher != "interpreter"))
        self._choice = choice
        self._pool: CompilePool | None = None
        self._builders: ThreadPoolExecutor | None = None
        self._images: dict[tuple[str, str], Future[Path]] = {}
        self._lock = threading.Lock()
        self._announced: set[tuple[str, str]] = set()
        self._stack = contextlib.ExitStack()
        self._apart = choice.source or (options.hostile and choice.launcher == "jit")
        if self._apart:
            self._builders = ThreadPoolExecutor(options.processes or _BUILDERS)
            self._stack.callback(self._builders.shutdown, cancel_futures=True)
        elif choice.launcher == "jit":
            limit_s = max(60.0, options.timeout_s)
            self._pool = CompilePool(
                opened, choice.python, choice.device, processes=options.processes, limit_s=limit_s,
                nursery=pool.nursery(choice),
            )  # fmt: skip
            self._stack.callback(self._pool.close)
            self._compile_first(self._pool, ahead[:_MOST_AHEAD])
        elif choice.launcher == "native":
            self._folder = Path(self._stack.enter_context(private_folder()))
            self._builders = ThreadPoolExecutor(options.processes or _BUILDERS)
            self._stack.callback(self._builders.shutdown, cancel_futures=True)

    def close(self) -> None:
        """End what still compiles."""
        self._stack.close()

    def await_target(self) -> None:
        """Wait for what is compiled for, by which configurations are pruned."""
        if self._choice.launcher == "interpreter":
            return
        budget = budget_of(next(iter(self._opened.values())).manifest.device.arch)
        if self._pool is not None and (limit := self._pool.target.shared_bytes) is not None:
            budget = replace(budget, shared_bytes=limit)
        self.prune_by(budget)

    def announce(self, launch: OpenLaunch, digest: str, given: Point) -> None:
        key = (digest, point.key(given))
        if key in self._announced:
            return
        self._announced.add(key)
        with contextlib.suppress(GridUnknown, Unknown, KerncapError):
            if self.refused(launch, digest, given, listed=True) is not None:
                return
            config = launch.space.config(given)
            if self._pool is not None:
                self._pool.submit(digest, config)
            elif self._builders is not None and self._apart:
                self._builders.submit(launch.engine.build_ahead, config)
            elif self._builders is not None:
                self._image(launch, digest, given)

    def compiled(self, launch: OpenLaunch, digest: str, given: Point) -> Built:
        if self._pool is None:
            return Built()
        return self._pool.submit(digest, launch.space.config(given)).result()

    def load(self, launch: OpenLaunch, digest: str, given: Point, name: str) -> Compiled:
        if not launch.is_native:
            return launch.engine.load_configured(name, launch.space.config(given))
        try:
            image = self._image(launch, digest, given).result()
        except KerncapError as error:
            raise CandidateError(str(error), getattr(error, "detail", "")) from error
        launch.engine.load_candidate(image)
        return launch.engine.compiled(CANDIDATE)

    def _compile_first(self, pool: CompilePool, points: Sequence[Point]) -> None:
        for digest, reproducer in self._opened.items():
            space, pruner = LaunchSpace(reproducer), Pruner(reproducer, Budget(compiled=True))
            for given in points:
                with contextlib.suppress(GridUnknown, Unknown, KerncapError):
                    config = space.config(given)
                    if pruner.refuse(config.arguments, config.options, listed=True) is None:
                        pool.submit(digest, config)

    def _image(self, launch: OpenLaunch, digest: str, given: Point) -> Future[Path]:
        """The kernel's file with other numbers, built once. The future raises BuildError."""
        assert self._builders is not None
        key = (digest, repr(sorted(given.items())))
        with self._lock:
            if key not in self._images:
                folder = self._folder / str(len(self._images))
                self._images[key] = self._builders.submit(_build, launch, given, folder)
            return self._images[key]


def _build(launch: OpenLaunch, given: Point, folder: Path) -> Path:
    source = launch.reproducer.manifest.source
    assert source is not None
    folder.mkdir()
    path = folder / Path(source.file.path).name
    path.write_text(cuda_text.edited(launch.reproducer, given), encoding="utf-8")
    engine, job = launch.engine, launch.engine.connection.job.folder
    hidden = (job / "regions", launch.reproducer.path) if launch.hostile else None
    return candidates.compile_candidate(
        launch.reproducer, path, engine.facts.arch, folder, engine.choice.python, hidden, engine.choice.prefix
    ).path

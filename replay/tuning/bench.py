"""One process's part of tuning: resident engines, compilation ahead, trials one at a time.

The same in kerncap's own process and in a worker of a cluster. A trial is loaded, verified, timed cheaply,
and timed well only if it is not clearly slow. What goes wrong in it is its result. Times of Triton kernels
are those with other data in the device's cache, as Triton's own autotuner takes them.
"""

from __future__ import annotations

import contextlib
import itertools
import math
import threading
from collections.abc import Mapping, Sequence
from concurrent.futures import Future, ThreadPoolExecutor
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from kerncap.errors import KerncapError
from kerncap.format import Reproducer
from kerncap.replay import candidates, in_place
from kerncap.replay.candidates.unit import private_folder
from kerncap.replay.choose import Choice, choose
from kerncap.replay.engine import CANDIDATE, ORIGINAL, Engine
from kerncap.replay.measured import SEED_B, Measured, load
from kerncap.replay.outcome import CandidateError, Compiled, Config
from kerncap.replay.process import Standby
from kerncap.replay.statistics import median
from kerncap.replay.tuning import cuda_text, point
from kerncap.replay.tuning.check import Checker
from kerncap.replay.tuning.compile_pool import Built, CompilePool
from kerncap.replay.tuning.formula import Unknown
from kerncap.replay.tuning.grid import GridUnknown
from kerncap.replay.tuning.point import Point
from kerncap.replay.tuning.prune import Budget, Pruner, over_budget, shared_limit
from kerncap.replay.tuning.space import OPTIONS, LaunchSpace
from kerncap.replay.tuning.standbys import Standbys
from kerncap.replay.tuning.trial import WITHIN, Final, State, Trial
from kerncap.replay.verdict import judge
from kerncap.replay.wording import BY_DTYPE, Tolerance, Verdict
from kerncap.replay.write_set import measure

_CHEAP_RUNS = 3
_FULL_MS = 10.0  # of timed launches in a trial
_FULL_RUNS = (10, 16)  # at least, at most: filling the cache costs more than most launches, and finals decide
_HOST_RUNS = 2
_SLOWEST = 50.0  # times the captured: a candidate that takes longer is ended
_LEAST_LIMIT_S = 5.0
_MOST_AHEAD = 64  # compiled while the engines still start


@dataclass(frozen=True)
class BenchOptions:
    """How trials are run; ``slow``: the factor to the best at which one is given up after a cheap timing."""

    engine: str = "auto"
    device: str = "auto"
    python: str | None = None
    timeout_s: float = 60.0
    tolerance: Tolerance = BY_DTYPE
    slow: float = 1.5
    processes: int | None = None  # that compile


class _Launch:
    """One reproducer: its engine, what was measured of it, how its configurations look."""

    def __init__(
        self, reproducer: Reproducer, options: BenchOptions, choice: Choice | None, standby: Standby | None
    ) -> None:
        self.reproducer = reproducer
        self.space = LaunchSpace(reproducer)
        self.engine = Engine(
            reproducer, options.engine, options.device, options.python, options.timeout_s, choice=choice,
            standby=standby,
        )  # fmt: skip
        try:
            kept = load(reproducer)
            self.measured: Measured = kept if kept is not None else measure(self.engine)
            self.checker = Checker(self.engine, self.measured, options.tolerance)
            self.dirty = sorted(self.measured.written)
            self.on_device = self.engine.choice.memory == "cuda"
            times = self.engine.time(ORIGINAL, *self._runs(), self.dirty)
            self.original_ms = median(times)
            self.engine.timeout_s = min(
                options.timeout_s, max(_LEAST_LIMIT_S, _SLOWEST * self.original_ms / 1e3)
            )
        except BaseException:
            self.engine.close()
            raise

    def _runs(self) -> tuple[int, int]:
        return (2, 10) if self.on_device else (0, _HOST_RUNS)


@dataclass(frozen=True)
class _Ready:
    """A configuration that is loaded and right, to be timed; ``facts`` of what it was compiled to."""

    launch: _Launch
    digest: str
    point: Point
    name: str
    facts: dict[str, Any]
    built_ms: float


class Bench:
    """Runs trials of several reproducers, which are trusted by whoever made it; a context manager.

    Trials of several threads wait for each other: one measurement at a time. ``choice``: the engine's,
    where it is known; ``ahead``: configurations of the application's own list, compiled from the start;
    ``standbys``: processes that were started already.
    """

    def __init__(
        self, reproducers: Mapping[str, Path], options: BenchOptions, choice: Choice | None = None,
        ahead: Sequence[Point] = (), standbys: Standbys | None = None,
    ) -> None:  # fmt: skip
        self.options = options
        self._opened = {digest: Reproducer.open(path) for digest, path in reproducers.items()}
        self._launches: dict[str, _Launch] = {}
        self._names = itertools.count()
        self._lock = threading.Lock()
        self._building = threading.Lock()
        self._announced: set[tuple[str, str]] = set()
        self._pool: CompilePool | None = None
        self._builders: ThreadPoolExecutor | None = None
        self._images: dict[tuple[str, str], Future[Built | Path]] = {}
        self._stack = contextlib.ExitStack()
        try:
            self._threads = self._stack.enter_context(ThreadPoolExecutor(len(self._opened)))
            first = next(iter(self._opened.values())).manifest
            self._standbys = standbys or Standbys(
                first, options.engine, options.device, options.python, len(self._opened)
            )
            self._stack.callback(self._standbys.close)
            self._open(choice, ahead)
            self._standbys.close()
        except BaseException:
            self.close()
            raise

    def __enter__(self) -> Bench:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def close(self) -> None:
        """End the engines and what still compiles."""
        if self._builders is not None:
            self._builders.shutdown(cancel_futures=True)
        ends = [launch.engine.close for launch in self._launches.values()]
        if self._pool is not None:
            ends.append(self._pool.close)
        if ends:
            with ThreadPoolExecutor(len(ends)) as ending:  # each waits for a process that ends
                for end in [ending.submit(each) for each in ends]:
                    end.result()
        self._launches.clear()
        for reproducer in self._opened.values():
            reproducer.close()
        self._stack.close()

    def facts(self) -> dict[str, Any]:
        """What runs where: ``device``, ``engine``, ``triton``, ``python``, ``original_ms`` by digest."""
        first = next(iter(self._launches.values())).engine
        return {
            "device": first.facts.device or "cpu",
            "engine": first.choice.name,
            "triton": first.facts.triton,
            "torch": first.facts.torch,
            "python": first.choice.python,
            "compiled": first.choice.launcher != "interpreter",
            "original_ms": {digest: each.original_ms for digest, each in self._launches.items()},
        }

    def announce(self, digest: str, points: Sequence[Point]) -> None:
        """These will be tried: compile them meanwhile."""
        for given in points:
            key = (digest, point.key(given))
            if key in self._announced:
                continue
            self._announced.add(key)
            with contextlib.suppress(GridUnknown, Unknown, KerncapError):
                self._ahead(digest, given)

    def trials(
        self, digests: Sequence[str], given: Point, best_ms: Mapping[str, float], listed: bool = False
    ) -> list[Trial]:
        """Try one configuration on each launch. ``best_ms``: the fastest so far, by digest, to give up early
        what is clearly slower.

        Loading and verifying go on side by side; what is timed has the device for itself.
        """
        with self._lock:
            ready = list(self._threads.map(lambda digest: self._ready(digest, given, listed), digests))
            return [
                each if isinstance(each, Trial) else self._timed(each, best_ms.get(each.digest))
                for each in ready
            ]

    def finals(self, points: Mapping[str, Sequence[Point]], rounds: int) -> list[Final]:
        """Time each launch's ``points`` in turns with the original; what may be chosen is verified again."""
        with self._lock:
            if any(_is_native(self._launches[digest]) for digest in points):
                return [
                    each
                    for digest, some in points.items()
                    for each in self._native_finals(self._launches[digest], digest, some, rounds)
                ]
            return self._jit_finals(points, rounds)

    # --- opening -------------------------------------------------------------------------------------

    def _open(self, choice: Choice | None, ahead: Sequence[Point]) -> None:
        """Engines start at once, and the compile processes with them: most of it is the import of torch."""
        first = next(iter(self._opened.values()))
        options = self.options
        if choice is None:
            choice = choose(first.manifest, options.engine, options.device, options.python)
        self._standbys.keep(choice)
        if choice.launcher == "jit":
            self._pool = CompilePool(
                self._opened,
                choice.python,
                choice.device,
                processes=options.processes,
                limit_s=max(60.0, options.timeout_s),
                standby=self._standbys.pool,
            )
            self._compile_first(self._pool, ahead[:_MOST_AHEAD])
        with ThreadPoolExecutor(len(self._opened)) as starting:
            waiting = {
                digest: starting.submit(
                    _Launch,
                    reproducer,
                    options,
                    choice if _are_alike(reproducer, first) else None,
                    self._standbys.engine(),
                )  # fmt: skip
                for digest, reproducer in self._opened.items()
            }
            problem: BaseException | None = None
            for digest, future in waiting.items():
                try:
                    self._launches[digest] = future.result()
                except BaseException as error:
                    problem = problem or error
            if problem is not None:
                raise problem
        if choice.launcher == "native":
            self._builders = ThreadPoolExecutor(options.processes or 8)
            self._folder = Path(self._stack.enter_context(private_folder()))
        limit = self._pool.target.shared_bytes if self._pool is not None else None
        if limit is None and choice.launcher != "interpreter":
            limit = shared_limit(first.manifest.device.arch)
        self.budget = Budget(choice.launcher != "interpreter", limit)
        self._pruners = {digest: Pruner(each, self.budget) for digest, each in self._opened.items()}

    def _compile_first(self, pool: CompilePool, points: Sequence[Point]) -> None:
        for digest, reproducer in self._opened.items():
            space, pruner = LaunchSpace(reproducer), Pruner(reproducer, Budget(compiled=True))
            for given in points:
                with contextlib.suppress(GridUnknown, Unknown, KerncapError):
                    config = space.config(given)
                    if pruner.refuse(config.arguments, config.options, listed=True) is None:
                        pool.submit(digest, config)

    # --- building ------------------------------------------------------------------------------------

    def _ahead(self, digest: str, given: Point, listed: bool = True) -> Future[Any] | None:
        launch = self._launches[digest]
        config = launch.space.config(given)
        if self._refused(digest, config, listed) is not None:
            return None
        if self._pool is not None:
            return self._pool.submit(digest, config)
        if self._builders is not None:
            key = (digest, repr(sorted(given.items())))
            with self._building:
                if key not in self._images:
                    self._images[key] = self._builders.submit(self._image, launch, given, len(self._images))
                return self._images[key]
        return None

    def _refused(self, digest: str, config: Config, listed: bool) -> str | None:
        return self._pruners[digest].refuse(config.arguments, config.options, listed)

    def _image(self, launch: _Launch, given: Point, number: int) -> Path:
        """The kernel's file with other numbers, built. Raises BuildError."""
        source = launch.reproducer.manifest.source
        assert source is not None
        folder = self._folder / str(number)
        folder.mkdir()
        path = folder / Path(source.file.path).name
        path.write_text(cuda_text.edited(launch.reproducer, given), encoding="utf-8")
        built = candidates.compile_candidate(
            launch.reproducer, path, launch.engine.facts.arch, folder, launch.engine.choice.python
        )
        return built.path

    def _load(self, launch: _Launch, digest: str, given: Point, name: str) -> Compiled:
        """Make a configuration ready to run. Raises CandidateError."""
        if _is_native(launch):
            future = self._ahead(digest, given)
            assert future is not None
            try:
                image = future.result()
            except KerncapError as error:
                raise CandidateError(str(error), getattr(error, "detail", "")) from error
            launch.engine.load_candidate(image)
            return launch.engine.compiled(CANDIDATE)
        return launch.engine.load_configured(name, launch.space.config(given))

    # --- trials --------------------------------------------------------------------------------------

    def _ready(self, digest: str, given: Point, listed: bool) -> Trial | _Ready:
        """Compile, load and verify a configuration; a trial where that is its end."""
        launch = self._launches[digest]
        name = CANDIDATE if _is_native(launch) else f"trial {next(self._names)}"
        try:
            config = launch.space.config(given)
        except (GridUnknown, Unknown) as error:
            return Trial(given, digest, "pruned", f"the grid can't be recomputed: {error}")
        if 0 in (config.grid or (1,)):
            return Trial(given, digest, "pruned", f"a grid of {config.grid}")
        reason = self._refused(digest, config, listed)
        if reason is not None:
            return Trial(given, digest, "pruned", reason)
        built_ms = 0.0
        if self._pool is not None:
            built = self._pool.submit(digest, config).result()
            built_ms = built.ms
            if built.error and not built.lost:  # what was lost is compiled where it is run
                return Trial(given, digest, "pruned", f"does not compile: {built.error}", compile_ms=built_ms)
            reason = over_budget(Compiled(shared_bytes=built.shared_bytes), self.budget)
            if reason is not None:
                return Trial(given, digest, "pruned", reason, compile_ms=built_ms)
        try:
            found = self._verified(launch, digest, given, name, built_ms)
        except CandidateError as error:
            found = Trial(given, digest, "pruned", f"does not load: {_first(error)}", compile_ms=built_ms)
        except KerncapError as error:
            found = Trial(given, digest, "failed", _first(error), compile_ms=built_ms)
        if isinstance(found, Trial):
            self._unload(launch, [name])
        return found

    def _verified(
        self, launch: _Launch, digest: str, given: Point, name: str, built_ms: float
    ) -> Trial | _Ready:
        compiled = self._load(launch, digest, given, name)
        facts: dict[str, Any] = {
            "registers": compiled.registers, "spilled_bytes": compiled.spilled_bytes,
            "shared_bytes": compiled.shared_bytes, "occupancy": compiled.occupancy,
            "compile_ms": built_ms or compiled.compile_ms,
            "cached": compiled.cached if self.budget.compiled else None,
        }  # fmt: skip
        reason = over_budget(compiled, self.budget)
        if reason is not None:
            return Trial(given, digest, "pruned", reason, **facts)
        generation = launch.engine.generation
        problem = launch.checker.problem(name)
        if problem is not None:
            state: State = "failed" if launch.engine.generation != generation else "wrong"
            return Trial(given, digest, state, problem, **facts)
        return _Ready(launch, digest, given, name, facts, built_ms)

    def _timed(self, ready: _Ready, best_ms: float | None) -> Trial:
        launch, given, digest, name, facts = (
            ready.launch, ready.point, ready.digest, ready.name, ready.facts
        )  # fmt: skip
        engine, dirty = launch.engine, launch.dirty
        try:
            warmup, runs = (1, _CHEAP_RUNS) if launch.on_device else (0, 1)
            cheap = engine.time(name, warmup, runs, dirty, cold=True)
            quick = min(cheap)
            if best_ms is not None and quick > self.options.slow * best_ms:
                return Trial(given, digest, "slow", ms=quick, runs=len(cheap), **facts)
            if launch.on_device:
                runs = max(_FULL_RUNS[0], min(_FULL_RUNS[1], math.ceil(_FULL_MS / max(quick, 1e-4))))
                times = engine.time(name, 0, runs, dirty, cold=True)
            else:
                times = cheap + engine.time(name, 0, _HOST_RUNS - 1, dirty)
            return Trial(given, digest, "timed", ms=median(times), runs=len(times), **facts)
        except KerncapError as error:
            return Trial(given, digest, "failed", _first(error), compile_ms=ready.built_ms)
        finally:
            self._unload(launch, [name])

    def _unload(self, launch: _Launch, names: Sequence[str]) -> None:
        for name in names:
            with contextlib.suppress(KerncapError):
                launch.engine.unload(name)

    # --- finals --------------------------------------------------------------------------------------

    def _jit_finals(self, points: Mapping[str, Sequence[Point]], rounds: int) -> list[Final]:
        digests = list(points)
        loaded = list(self._threads.map(lambda digest: self._finalists(digest, points[digest]), digests))
        try:
            times: dict[str, dict[str, list[float]]] = {}
            for digest, (names, _) in zip(digests, loaded, strict=True):  # one has the device for itself
                launch = self._launches[digest]
                times[digest] = (
                    launch.engine.interleaved([ORIGINAL, *names], rounds, launch.dirty, cold=True)
                    if names
                    else {}
                )
            judged = self._threads.map(
                lambda digest, held: self._verified_finals(digest, held[0], times[digest]), digests, loaded
            )
            return [
                each
                for (_, problems), finals in zip(loaded, judged, strict=True)
                for each in (*problems, *finals)
            ]
        finally:
            for digest, (names, _) in zip(digests, loaded, strict=True):
                self._unload(self._launches[digest], [CANDIDATE, *names])

    def _finalists(self, digest: str, points: Sequence[Point]) -> tuple[dict[str, Point], list[Final]]:
        """Loaded under these names; what does not load."""
        launch = self._launches[digest]
        names: dict[str, Point] = {}
        problems = []
        for number, given in enumerate(points):
            try:
                launch.engine.load_configured(f"final {number}", launch.space.config(given))
                names[f"final {number}"] = given
            except KerncapError as error:
                problems.append(Final(given, digest, problem=_first(error)))
        return names, problems

    def _verified_finals(
        self, digest: str, names: Mapping[str, Point], times: Mapping[str, list[float]]
    ) -> list[Final]:
        launch = self._launches[digest]
        in_place_too = _has_in_place(launch)
        found: list[Final] = []
        best: float | None = None
        for name in sorted(names, key=lambda each: median(times[each])):
            given, ms = names[name], median(times[name])
            # All were verified before they were timed. What is in place may not have shown anything then.
            if best is None or (in_place_too and ms <= WITHIN * best):
                problem = self._judged(launch, name, given)
                if problem:
                    found.append(Final(given, digest, problem=problem))
                    continue
                best = ms if best is None else best
            found.append(Final(given, digest, times[name], times[ORIGINAL]))
        return found

    def _judged(self, launch: _Launch, name: str, given: Point) -> str:
        """What another poison, and for results in place other contents, have against a configuration."""
        try:
            problem = launch.checker.problem(name, SEED_B)
            if problem is not None:
                return problem
            measured = launch.measured
            if not _has_in_place(launch):
                return ""
            launch.engine.load_configured(CANDIDATE, launch.space.config(given))
            launch.checker.problem(CANDIDATE)
            verdict = in_place.judge(launch.engine, measured, Verdict(True, ""), self.options.tolerance)
        except KerncapError as error:
            return _first(error)
        return "" if verdict.passed else verdict.summary

    def _native_finals(
        self, launch: _Launch, digest: str, points: Sequence[Point], rounds: int
    ) -> list[Final]:
        found = []
        for given in points:
            try:
                self._load(launch, digest, given, CANDIDATE)
                verdict = judge(launch.engine, launch.measured, CANDIDATE, self.options.tolerance)
                if not verdict.passed:
                    found.append(Final(given, digest, problem=verdict.summary))
                    continue
                times = launch.engine.interleaved([ORIGINAL, CANDIDATE], rounds, launch.dirty)
                found.append(Final(given, digest, times[CANDIDATE], times[ORIGINAL]))
            except KerncapError as error:
                found.append(Final(given, digest, problem=_first(error)))
        return found


def _are_alike(one: Reproducer, other: Reproducer) -> bool:
    """Whether the same engine is chosen for both."""
    a, b = one.manifest, other.manifest
    return (a.launch.mode, a.device) == (b.launch.mode, b.device)


def _has_in_place(launch: _Launch) -> bool:
    return any(launch.measured.in_place(region).any() for region in launch.measured.written)


def _is_native(launch: _Launch) -> bool:
    return launch.engine.choice.launcher == "native"


def _first(error: BaseException) -> str:
    lines = [line for line in str(error).splitlines() if line.strip()]
    return (lines[0].strip() if lines else type(error).__name__)[:500]


__all__ = ["OPTIONS", "Bench", "BenchOptions"]

"""One configuration on one launch: loaded, verified, timed cheaply, and well only if it is not clearly slow.

What goes wrong in it is its result. Times of Triton kernels are those with other data in the device's cache,
as Triton's own autotuner takes them.
"""

from __future__ import annotations

import itertools
import math
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from kerncap.errors import KerncapError
from kerncap.replay.engine import CANDIDATE
from kerncap.replay.outcome import CandidateError, Compiled
from kerncap.replay.paired_times import median
from kerncap.replay.tuning.builds import Builds
from kerncap.replay.tuning.point import Point
from kerncap.replay.tuning.trial import State, Trial
from kerncap.replay.tuning.trial_launch import HOST_RUNS, OpenLaunch, first_line

_CHEAP_RUNS = 3
_FULL_MS = 10.0  # of timed launches in a trial
_FULL_RUNS = (10, 16)  # at least, at most: filling the cache costs more than most launches, and finals decide


@dataclass(frozen=True)
class Ready:
    """A configuration that is loaded and right, to be timed; ``facts`` of what it was compiled to."""

    launch: OpenLaunch
    digest: str
    point: Point
    name: str
    facts: dict[str, Any]
    built_ms: float


class Attempts:
    """Tries configurations; ``slow``: the factor to the best at which one is given up."""

    def __init__(self, launches: Mapping[str, OpenLaunch], builds: Builds, slow: float) -> None:
        self._launches = launches
        self._builds = builds
        self._slow = slow
        self._names = itertools.count()

    def ready(self, digest: str, given: Point, listed: bool) -> Trial | Ready:
        """Compile, load and verify a configuration; a trial if that is its end."""
        launch, builds = self._launches[digest], self._builds
        name = CANDIDATE if launch.is_native else f"trial {next(self._names)}"
        reason = builds.refused(launch, digest, given, listed)
        if reason is not None:
            return Trial(given, digest, "pruned", reason)
        built = builds.compiled(launch, digest, given)
        if built.error and not built.lost:  # what was lost is compiled where it is run
            return Trial(given, digest, "pruned", f"does not compile: {built.error}", compile_ms=built.ms)
        reason = builds.over_budget(Compiled(shared_bytes=built.shared_bytes))
        if reason is not None:
            return Trial(given, digest, "pruned", reason, compile_ms=built.ms)
        try:
            found = self._verified(launch, digest, given, name, built.ms)
        except CandidateError as error:
            found = Trial(given, digest, "pruned", f"does not load: {first_line(error)}", compile_ms=built.ms)
        except KerncapError as error:
            found = Trial(given, digest, "failed", first_line(error), compile_ms=built.ms)
        if isinstance(found, Trial):
            launch.unload([name])
        return found

    def timed(self, ready: Ready, best_ms: float | None) -> Trial:
        """Time what is ready; ``best_ms``: the fastest so far on this launch."""
        launch, given, digest, name = ready.launch, ready.point, ready.digest, ready.name
        engine, dirty = launch.engine, launch.dirty
        try:
            warmup, runs = (1, _CHEAP_RUNS) if launch.on_device else (0, 1)
            cheap = engine.time(name, warmup, runs, dirty, cold=True)
            quick = min(cheap)
            if best_ms is not None and quick > self._slow * best_ms:
                return Trial(given, digest, "slow", ms=quick, runs=len(cheap), **ready.facts)
            if launch.on_device:
                runs = max(_FULL_RUNS[0], min(_FULL_RUNS[1], math.ceil(_FULL_MS / max(quick, 1e-4))))
                times = engine.time(name, 0, runs, dirty, cold=True)
            else:
                times = cheap + engine.time(name, 0, HOST_RUNS - 1, dirty)
            return Trial(given, digest, "timed", ms=median(times), runs=len(times), **ready.facts)
        except KerncapError as error:
            return Trial(given, digest, "failed", first_line(error), compile_ms=ready.built_ms)
        finally:
            launch.unload([name])

    def _verified(
        self, launch: OpenLaunch, digest: str, given: Point, name: str, built_ms: float
    ) -> Trial | Ready:
        compiled = self._builds.load(launch, digest, given, name)
        facts: dict[str, Any] = {
            "registers": compiled.registers, "spilled_bytes": compiled.spilled_bytes,
            "shared_bytes": compiled.shared_bytes, "occupancy": compiled.occupancy,
            "compile_ms": built_ms or compiled.compile_ms,
            "cached": compiled.cached if self._builds.budget.compiled else None,
        }  # fmt: skip
        reason = self._builds.over_budget(compiled)
        if reason is not None:
            return Trial(given, digest, "pruned", reason, **facts)
        generation = launch.engine.generation
        problem = launch.checker.problem(name)
        if problem is not None:
            state: State = "failed" if launch.engine.generation != generation else "wrong"
            return Trial(given, digest, state, problem, **facts)
        return Ready(launch, digest, given, name, facts, built_ms)

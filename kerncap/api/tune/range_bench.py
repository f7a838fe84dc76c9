"""Tuning a module that replaces launches of a range: a bench of one engine, which has them in a row."""

from __future__ import annotations

import ast
import contextlib
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import msgspec

from kerncap.format.schema import Manifest
from kerncap.replay.outcome import Compiled, Config
from kerncap.replay.ranges.as_one import MeasuredAsOne, RangeAsOne, RangeEngine
from kerncap.replay.ranges.candidate import CandidateLaunch
from kerncap.replay.ranges.whole import LaunchInWhole
from kerncap.replay.tuning import tiles
from kerncap.replay.tuning.attempts import Attempts
from kerncap.replay.tuning.bench import Bench
from kerncap.replay.tuning.builds import Builds
from kerncap.replay.tuning.finals import Finals
from kerncap.replay.tuning.point import Point
from kerncap.replay.tuning.prune import Budget, Pruner, shared_limit
from kerncap.replay.tuning.trial_launch import BenchOptions, OpenLaunch


class LaunchOfModule(LaunchInWhole):
    """The one launch of a candidate, as the search of a single launch takes one: with its source."""

    def __init__(self, whole: RangeAsOne, asked: CandidateLaunch, path: Path) -> None:
        [of_candidate] = whole.in_range[whole.own :]
        self._text = path.read_text(encoding="utf-8", errors="replace")
        super().__init__(of_candidate, self._searched(of_candidate.manifest, asked, whole), [])
        self.path = path

    def source_text(self) -> str | None:
        return self._text

    @property
    def variables(self) -> list[int]:
        return []

    def _searched(self, manifest: Manifest, asked: CandidateLaunch, whole: RangeAsOne) -> Manifest:
        """What the kernel takes as constexpr and the module gives as a number may be another one."""
        entry = tiles.entry_of(self._text, manifest.kernel.name)
        parameters = (
            [] if entry is None else [*entry.args.posonlyargs, *entry.args.args, *entry.args.kwonlyargs]
        )
        given = {name for name, value in asked.arguments.items() if not isinstance(value, str)}
        named = given & {
            each.arg
            for each in parameters
            if each.annotation is not None and ast.unparse(each.annotation).endswith("constexpr")
        }
        arguments = tuple(
            msgspec.structs.replace(each, role="constexpr" if each.name in named else "runtime")
            for each in manifest.arguments
        )
        return msgspec.structs.replace(
            manifest,
            arguments=arguments,
            views=whole.manifest.views,
            regions=whole.manifest.regions,
            autotune=None,
        )


class RangeBench(Bench):
    """The bench of ``launch``, under ``digest``; its engine is closed by who opened it."""

    def __init__(
        self, digest: str, launch: LaunchOfModule, engine: RangeEngine, measured: MeasuredAsOne,
        options: BenchOptions,
    ) -> None:  # fmt: skip
        self._opened, self._ends, self._stack = {}, [], contextlib.ExitStack()
        self._threads = self._stack.enter_context(ThreadPoolExecutor(1))
        self._launches = {digest: OpenLaunch(launch, engine, measured, options)}
        self._builds = _Builds(digest, launch, engine)
        self._attempts = Attempts(self._launches, self._builds, options.slow)
        self._finals = Finals(self._launches, self._builds, self._threads, options.tolerance)


class _Builds(Builds):
    """Configurations go to the engine as they come: each is compiled where it is loaded."""

    def __init__(self, digest: str, launch: LaunchOfModule, engine: RangeEngine) -> None:
        self._pool = None
        self._launch, self._engine = launch, engine
        compiled = engine.choice.memory == "cuda"
        self.budget = Budget(compiled, shared_limit(engine.facts.arch) if compiled else None)
        self._pruners = {digest: Pruner(launch, self.budget)}

    def announce(self, launch: OpenLaunch, digest: str, given: Point) -> None:
        pass

    def load(self, launch: OpenLaunch, digest: str, given: Point, name: str) -> Compiled:
        config: Config = launch.space.config(given)
        return self._engine.load_one(self._launch.path, config)

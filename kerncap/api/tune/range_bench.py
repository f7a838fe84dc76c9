"""Tuning what replaces launches of a range: a bench of one engine, which has them in a row."""

from __future__ import annotations

import ast
from collections.abc import Sequence
from typing import Literal

import msgspec

from kerncap.api.tune import module_text
from kerncap.errors import UsageError
from kerncap.format import schema
from kerncap.format.schema import Manifest
from kerncap.replay.outcome import CandidateError, Compiled
from kerncap.replay.ranges.as_one import MeasuredAsOne, RangeAsOne, RangeEngine
from kerncap.replay.ranges.candidate import CandidateLaunch, RangeCandidate, of_source
from kerncap.replay.ranges.whole import LaunchInWhole
from kerncap.replay.tuning import cuda_text, tiles
from kerncap.replay.tuning.bench import Bench
from kerncap.replay.tuning.builds import Builds
from kerncap.replay.tuning.point import Point
from kerncap.replay.tuning.prune import Budget, budget_of
from kerncap.replay.tuning.space import LaunchSpace
from kerncap.replay.tuning.trial_launch import BenchOptions, OpenLaunch


class Searched(LaunchInWhole):
    """A candidate as the search of a single launch takes one: its first launch, with its source."""

    def __init__(self, whole: RangeAsOne, candidate: RangeCandidate) -> None:
        of_candidate = whole.in_range[whole.own]
        super().__init__(of_candidate, of_candidate.manifest, [])
        self.path = candidate.path
        self._launches = whole.own
        self._text = candidate.path.read_text(encoding="utf-8", errors="replace")
        self.manifest = self._searched(candidate.launches, whole)

    def source_text(self) -> str | None:
        return self._text

    @property
    def variables(self) -> list[int]:
        return []

    def edited(self, given: Point) -> str:
        """The file with other numbers."""
        raise NotImplementedError

    def load(self, engine: RangeEngine, space: LaunchSpace, given: Point) -> Compiled:
        """Raises CandidateError."""
        raise NotImplementedError

    def _searched(self, launches: Sequence[CandidateLaunch], whole: RangeAsOne) -> Manifest:
        raise NotImplementedError


class SearchedModule(Searched):
    """A module of Triton kernels with one launch."""

    def edited(self, given: Point) -> str:
        return module_text.edited(self._text, given)

    def load(self, engine: RangeEngine, space: LaunchSpace, given: Point) -> Compiled:
        return engine.load_one(self.path, space.config(given))

    def _searched(self, launches: Sequence[CandidateLaunch], whole: RangeAsOne) -> Manifest:
        """What the kernel takes as constexpr and the module gives as a number may be another one."""
        if len(launches) != 1:
            raise UsageError(f"{self.path}: it has {len(launches)} launches; tune takes a module with one")
        manifest = self.manifest
        entry = tiles.entry_of(self._text, manifest.kernel.name)
        parameters = (
            [] if entry is None else [*entry.args.posonlyargs, *entry.args.args, *entry.args.kwonlyargs]
        )
        given = {name for name, value in launches[0].arguments.items() if not isinstance(value, str)}
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


class SearchedSource(Searched):
    """A source of CUDA C++ or HIP, whose launch lines follow the numbers that it defines."""

    def edited(self, given: Point) -> str:
        return cuda_text.edited(self, given)

    def load(self, engine: RangeEngine, space: LaunchSpace, given: Point) -> Compiled:
        try:
            asked = of_source(self.path, self.edited(given).encode(), self._launches)
        except UsageError as error:
            raise CandidateError(str(error)) from error
        return engine.load_source(self.path, asked)

    def _searched(self, launches: Sequence[CandidateLaunch], whole: RangeAsOne) -> Manifest:
        on_hip = whole.manifest.device.kind == "hip"
        name = f"source/candidate.{'hip' if on_hip else 'cu'}"  # nothing is stored
        file = schema.StoredFile(path=name, size=0, sha256="0" * 64)
        build = schema.SourceBuild(tool="hipcc" if on_hip else "nvcc", unit=name)
        language: Literal["hip", "cuda"] = "hip" if on_hip else "cuda"
        source = schema.Source(file=file, entry=launches[0].kernel, language=language, build=build)
        return msgspec.structs.replace(
            self.manifest, source=source, views=whole.manifest.views, regions=whole.manifest.regions
        )


class RangeBench(Bench):
    """The bench of a candidate, under ``digest``; its engine is closed by who opened it."""

    def __init__(
        self, digest: str, searched: Searched, engine: RangeEngine, measured: MeasuredAsOne,
        options: BenchOptions,
    ) -> None:  # fmt: skip
        launches = {digest: OpenLaunch(searched, engine, measured, options)}
        super().__init__(launches, _BuildsInEngine(digest, searched, engine), options)


class _BuildsInEngine(Builds):
    """Configurations go to the engine as they come."""

    def __init__(self, digest: str, searched: Searched, engine: RangeEngine) -> None:
        on_host = engine.choice.memory == "host"
        super().__init__({digest: searched}, Budget(False) if on_host else budget_of(engine.facts.arch))
        self._searched, self._engine = searched, engine

    def load(self, launch: OpenLaunch, digest: str, given: Point, name: str) -> Compiled:
        return self._searched.load(self._engine, launch.space, given)

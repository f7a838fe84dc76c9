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
from kerncap.replay.tuning.builds import Builds, refusal
from kerncap.replay.tuning.launch_row import LaunchRow
from kerncap.replay.tuning.point import Point
from kerncap.replay.tuning.prune import Budget, Pruner, budget_of
from kerncap.replay.tuning.space import LaunchSpace, Space, Wishes, build
from kerncap.replay.tuning.trial_launch import BenchOptions, OpenLaunch


class _Launch(LaunchInWhole):
    """A launch of the candidate as the search of a single one takes it: with its source."""

    def __init__(self, of_candidate: LaunchInWhole, manifest: Manifest, text: str) -> None:
        super().__init__(of_candidate, manifest, [])
        self._text = text

    def source_text(self) -> str | None:
        return self._text

    @property
    def variables(self) -> list[int]:
        return []


class Searched:
    """A candidate in configurations; ``launches`` are those that have parameters of their own."""

    def __init__(self, whole: RangeAsOne, candidate: RangeCandidate) -> None:
        self.path = candidate.path
        self._text = candidate.path.read_text(encoding="utf-8", errors="replace")
        self._whole = whole
        self.launches = [self._launch(number, one) for number, one in enumerate(candidate.launches)]
        self.spaces = [LaunchSpace(each) for each in self.launches]

    def space(self, wishes: Wishes, compiled: bool) -> Space:
        """What is searched. Raises UsageError for wishes that name nothing."""
        raise NotImplementedError

    def of_launches(self, given: Point) -> dict[str, Point]:
        """A configuration as one for each of ``launches``, by their names."""
        raise NotImplementedError

    def edited(self, given: Point) -> str:
        """The file with other numbers."""
        raise NotImplementedError

    def load(self, engine: RangeEngine, given: Point) -> list[Compiled]:
        """Raises CandidateError."""
        raise NotImplementedError

    def _launch(self, number: int, launch: CandidateLaunch) -> _Launch:
        of_candidate = self._whole.in_range[self._whole.own + number]
        manifest = msgspec.structs.replace(
            self._manifest(of_candidate.manifest, launch),
            views=self._whole.manifest.views,
            regions=self._whole.manifest.regions,
        )
        return _Launch(of_candidate, manifest, self._text)

    def _manifest(self, manifest: Manifest, launch: CandidateLaunch) -> Manifest:
        raise NotImplementedError


class SearchedModule(Searched):
    """A module of Triton kernels."""

    def space(self, wishes: Wishes, compiled: bool) -> Space:
        self._row = LaunchRow(self.spaces, compiled)
        return self._row.space(wishes)

    def of_launches(self, given: Point) -> dict[str, Point]:
        return self._row.split(given)

    def edited(self, given: Point) -> str:
        return module_text.edited(self._text, [*self._row.split(given).values()])

    def load(self, engine: RangeEngine, given: Point) -> list[Compiled]:
        configs = [
            space.config(part)
            for space, part in zip(self.spaces, self._row.split(given).values(), strict=True)
        ]
        return engine.load_module(self.path, configs)

    def _manifest(self, manifest: Manifest, launch: CandidateLaunch) -> Manifest:
        """What the kernel takes as constexpr and the module gives as a number may be another one."""
        entry = tiles.entry_of(self._text, manifest.kernel.name)
        parameters = (
            [] if entry is None else [*entry.args.posonlyargs, *entry.args.args, *entry.args.kwonlyargs]
        )
        given = {name for name, value in launch.arguments.items() if not isinstance(value, str)}
        named = given & {
            each.arg
            for each in parameters
            if each.annotation is not None and ast.unparse(each.annotation).endswith("constexpr")
        }
        arguments = tuple(
            msgspec.structs.replace(each, role="constexpr" if each.name in named else "runtime")
            for each in manifest.arguments
        )
        return msgspec.structs.replace(manifest, arguments=arguments, autotune=None)


class SearchedSource(Searched):
    """A source of CUDA C++ or HIP, whose launch lines follow the numbers that it defines for them all."""

    def __init__(self, whole: RangeAsOne, candidate: RangeCandidate) -> None:
        super().__init__(whole, candidate)
        self._replaced = whole.own
        del self.launches[1:], self.spaces[1:]

    def space(self, wishes: Wishes, compiled: bool) -> Space:
        return build(self.spaces, wishes, compiled)

    def of_launches(self, given: Point) -> dict[str, Point]:
        return {self.launches[0].manifest.kernel.name: given}

    def edited(self, given: Point) -> str:
        return cuda_text.edited(self.launches[0], given)

    def load(self, engine: RangeEngine, given: Point) -> list[Compiled]:
        try:
            asked = of_source(self.path, self.edited(given).encode(), self._replaced)
        except UsageError as error:
            raise CandidateError(str(error)) from error
        return [engine.load_source(self.path, asked)]

    def _manifest(self, manifest: Manifest, launch: CandidateLaunch) -> Manifest:
        on_hip = self._whole.manifest.device.kind == "hip"
        name = f"source/candidate.{'hip' if on_hip else 'cu'}"  # nothing is stored
        file = schema.StoredFile(path=name, size=0, sha256="0" * 64)
        build = schema.SourceBuild(tool="hipcc" if on_hip else "nvcc", unit=name)
        language: Literal["hip", "cuda"] = "hip" if on_hip else "cuda"
        source = schema.Source(file=file, entry=launch.kernel, language=language, build=build)
        return msgspec.structs.replace(manifest, source=source)


class RangeBench(Bench):
    """The bench of a candidate, under ``digest``; its engine is closed by who opened it."""

    def __init__(
        self, digest: str, searched: Searched, engine: RangeEngine, measured: MeasuredAsOne,
        options: BenchOptions,
    ) -> None:  # fmt: skip
        launches = {digest: OpenLaunch(searched.launches[0], engine, measured, options)}
        super().__init__(launches, _BuildsInEngine(searched, engine), options)


class _BuildsInEngine(Builds):
    """Configurations go to the engine as they come."""

    def __init__(self, searched: Searched, engine: RangeEngine) -> None:
        on_host = engine.choice.memory == "host"
        super().__init__({}, Budget(False) if on_host else budget_of(engine.facts.arch))
        self._searched, self._engine = searched, engine
        self._of_launches = [Pruner(each, self.budget) for each in searched.launches]

    def refused(self, launch: OpenLaunch, digest: str, given: Point, listed: bool) -> str | None:
        searched = self._searched
        parts = searched.of_launches(given)
        for name, space, pruner in zip(parts, searched.spaces, self._of_launches, strict=True):
            if reason := refusal(space, pruner, parts[name], listed):
                return reason if len(parts) == 1 else f"{name}: {reason}"
        return None

    def load(self, launch: OpenLaunch, digest: str, given: Point, name: str) -> Compiled:
        return _as_one(self._searched.load(self._engine, given))


def _as_one(launches: Sequence[Compiled]) -> Compiled:
    """Of launches in a row, what bounds them: the most that one of them takes, and the time for all."""
    return Compiled(
        registers=max((each.registers for each in launches if each.registers is not None), default=None),
        spilled_bytes=max(
            (each.spilled_bytes for each in launches if each.spilled_bytes is not None), default=None
        ),
        shared_bytes=max(
            (each.shared_bytes for each in launches if each.shared_bytes is not None), default=None
        ),
        occupancy=min((each.occupancy for each in launches if each.occupancy is not None), default=None),
        compile_ms=sum(each.compile_ms for each in launches),
        cached=all(each.cached for each in launches),
    )

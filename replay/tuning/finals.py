"""The finalists: timed in turns with the captured kernel, and what may be chosen is verified again."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from functools import partial

from kerncap.answer import Answer
from kerncap.errors import KerncapError
from kerncap.replay import boundary_values, extreme_values, in_place, other_contents, wider_values
from kerncap.replay.boundary_values import Steered
from kerncap.replay.engine import CANDIDATE, ORIGINAL
from kerncap.replay.paired_times import median
from kerncap.replay.poisoned_launch import SEED_B
from kerncap.replay.repeated_runs import run_timed
from kerncap.replay.tuning.builds import Builds
from kerncap.replay.tuning.point import Point
from kerncap.replay.tuning.trial import WITHIN, Final
from kerncap.replay.tuning.trial_launch import HOST_RUNS, OpenLaunch, first_line
from kerncap.replay.verdict import judge, judge_timed
from kerncap.replay.verdict_words import Tolerance, Verdict

_TIMED = 10  # launches, of which the last one's memory is judged


class Finals:
    """Re-measures finalists; ``threads``: one for each launch, for what needs no device to itself."""

    def __init__(
        self, launches: Mapping[str, OpenLaunch], builds: Builds, threads: ThreadPoolExecutor,
        tolerance: Tolerance,
    ) -> None:  # fmt: skip
        self._launches = launches
        self._builds = builds
        self._threads = threads
        self._tolerance = tolerance

    def measure(self, points: Mapping[str, Sequence[Point]], rounds: int) -> list[Final]:
        """Each launch's ``points`` by digest, timed in ``rounds`` rounds."""
        if any(self._launches[digest].is_native for digest in points):
            return [
                each for digest, some in points.items() for each in self._images_in_turn(digest, some, rounds)
            ]
        return self._side_by_side(points, rounds)

    def _side_by_side(self, points: Mapping[str, Sequence[Point]], rounds: int) -> list[Final]:
        digests = list(points)
        loaded = list(self._threads.map(lambda digest: self._loaded(digest, points[digest]), digests))
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
                lambda digest, held: self._verified(digest, held[0], times[digest]), digests, loaded
            )
            return [
                each
                for (_, problems), finals in zip(loaded, judged, strict=True)
                for each in (*problems, *finals)
            ]
        finally:
            for digest, (names, _) in zip(digests, loaded, strict=True):
                self._launches[digest].unload([CANDIDATE, *names])

    def _loaded(self, digest: str, points: Sequence[Point]) -> tuple[dict[str, Point], list[Final]]:
        """Loaded under these names; what does not load."""
        launch = self._launches[digest]
        names: dict[str, Point] = {}
        problems = []
        for number, given in enumerate(points):
            name = f"final {number}"
            try:
                self._builds.load(launch, digest, given, name)
                names[name] = given
            except KerncapError as error:
                problems.append(Final(given, digest, problem=first_line(error)))
        return names, problems

    def _verified(
        self, digest: str, names: Mapping[str, Point], times: Mapping[str, list[float]]
    ) -> list[Final]:
        launch = self._launches[digest]
        found: list[Final] = []
        best: float | None = None
        for name in sorted(names, key=lambda each: median(times[each])):
            given, ms = names[name], median(times[name])
            problem = launch.impossible(ms)
            if problem:
                found.append(Final(given, digest, problem=problem))
                continue
            # All were verified before they were timed. What is in place may not have shown anything then.
            if best is None or ((launch.has_in_place or launch.hostile) and ms <= WITHIN * best):
                problem = self._judged(launch, digest, name, given)
                if problem:
                    found.append(Final(given, digest, problem=problem))
                    continue
                best = ms if best is None else best
            found.append(Final(given, digest, times[name], times[ORIGINAL]))
        return found

    def _judged(self, launch: OpenLaunch, digest: str, name: str, given: Point) -> str:
        """What another poison, and for results in place other contents, have against a configuration."""
        try:
            problem = launch.checker.problem(name, SEED_B)
            if problem is not None:
                return problem
            if not launch.has_in_place and not launch.hostile:
                return ""
            self._builds.load(launch, digest, given, CANDIDATE)
            if launch.hostile and (problem := self._as_a_candidate(launch)):
                return problem
            if not launch.has_in_place:
                return ""
            launch.checker.problem(CANDIDATE)
            verdict = in_place.judge(launch.engine, launch.measured, Verdict(Answer.YES, ""), self._tolerance)
        except KerncapError as error:
            return first_line(error)
        return "" if verdict.passed else verdict.summary

    def _as_a_candidate(self, launch: OpenLaunch) -> str:
        """What is wrong with the variant CANDIDATE, judged as a candidate of verify is: on other values too,
        as far as no TTIR is needed, and by the memory that timed launches leave."""
        engine, measured, tolerance = launch.engine, launch.measured, self._tolerance
        verdict = judge(engine, measured, CANDIDATE, tolerance)
        if not verdict.passed:
            return verdict.summary
        floats_only = Steered(why="what they decide is not known here")
        on_boundaries = partial(boundary_values.on_boundary_values, steered=floats_only)
        for tried in (
            other_contents.on_other_values,
            other_contents.on_other_counts,
            partial(wider_values.on_wider_values, coarse=True),
            partial(extreme_values.on_extreme_values, coarse=True),
            on_boundaries,
        ):
            if tried is on_boundaries and not engine.one_launch:  # as in verify
                continue
            shown = tried(engine, measured, tolerance)
            if shown.reasons or shown.open:
                return (shown.reasons or shown.open)[0]
        run_timed(engine, measured, CANDIDATE, _TIMED if launch.on_device else HOST_RUNS)
        verdict = judge_timed(engine, measured, CANDIDATE, tolerance)
        return "" if verdict.passed else verdict.summary

    def _images_in_turn(self, digest: str, points: Sequence[Point], rounds: int) -> list[Final]:
        launch = self._launches[digest]
        found = []
        for given in points:
            try:
                self._builds.load(launch, digest, given, CANDIDATE)
                verdict = judge(launch.engine, launch.measured, CANDIDATE, self._tolerance)
                problem = "" if verdict.passed else verdict.summary
                if problem := problem or (self._as_a_candidate(launch) if launch.hostile else ""):
                    found.append(Final(given, digest, problem=problem))
                    continue
                times = launch.engine.interleaved([ORIGINAL, CANDIDATE], rounds, launch.dirty)
                if problem := launch.impossible(median(times[CANDIDATE])):
                    found.append(Final(given, digest, problem=problem))
                    continue
                found.append(Final(given, digest, times[CANDIDATE], times[ORIGINAL]))
            except KerncapError as error:
                found.append(Final(given, digest, problem=first_line(error)))
        return found

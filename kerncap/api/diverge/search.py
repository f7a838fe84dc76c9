"""Goes through the launches that differ in their digests, in order, until one is named."""

from __future__ import annotations

import time
from collections import Counter
from collections.abc import Collection, Iterator, Sequence
from dataclasses import dataclass, replace
from pathlib import Path

from kerncap.api.diverge.align import by_shape
from kerncap.api.diverge.diverge_result import MOVED, ONLY, RAISED, Divergence, Named
from kerncap.api.diverge.judge import (
    Captures,
    Judged,
    Tolerance,
    Verdict,
    judge,
    kind_of,
    named_of,
    sanitized,
)
from kerncap.api.diverge.launch_differences import Pair, pairs_of
from kerncap.api.diverge.noise import Noise
from kerncap.api.diverge.repeated import can_be_compared, did_the_same
from kerncap.api.diverge.two_runs import Captured, Side
from kerncap.capture.options import Selection
from kerncap.capture.payloads import TracedRecord
from kerncap.capture.trace_file import Trace
from kerncap.format.contract import word
from kerncap.report.documents.diverge import Place, RunInfo


@dataclass(frozen=True)
class Bounds:
    """How much a search may cost.

    ``rounds``: launches that are captured. ``budget``: of its time, as a multiple of what the programs
    take without kerncap; ``started`` is its beginning on the monotonic clock.
    """

    rounds: int
    budget: float | None
    started: float

    @property
    def spent_ns(self) -> int:
        return int((time.monotonic() - self.started) * 1e9)

    def has_time(self, plain_ns: int, round_ns: int) -> bool:
        """Whether a round of ``round_ns`` is within the budget, if both programs take ``plain_ns``."""
        return self.budget is None or self.spent_ns + round_ns <= self.budget * plain_ns


class Search:
    """One comparison. ``once``: both sides are one command, so that any difference is nondeterminism."""

    def __init__(
        self,
        sides: tuple[Side, Side],
        runs: tuple[Trace, Trace],
        *,
        selection: Selection,
        output: Path,
        tolerance: Tolerance,
        bounds: Bounds,
        once: bool,
        noise: bool,
        native: bool,
    ) -> None:
        self._sides, self._runs = sides, runs
        self._selection, self._tolerance = selection, tolerance
        self._captures = Captures(sides, runs, output)
        self._bounds, self._once, self._wants_noise = bounds, once, noise and not once
        # Two ranks may be those of one run.
        self._plain_ns = sum({(run.time_ns, run.wall_ns): run.plain_ns for run in runs}.values())
        # The side that is run again to tell nondeterminism.
        self._again = next((which for which, side in enumerate(sides) if side.recorded is None), None)
        self._pairs = pairs_of(*runs)
        self._native = native
        self._noise: Noise | None = None
        self._nondeterministic: list[Named] = []
        self._within: list[Place] = []
        self._harmless: list[Place] = []
        self._open: Counter[str] = Counter(_uncompared(self._pairs, runs))
        self._notes: list[str] = []

    def run(self) -> Divergence:
        differing = [pair for pair in self._pairs if pair.differs]
        if differing and self._wants_noise and self._again is None:
            self._notes.append("both runs are recordings: the difference may be nondeterminism")
        named = self._first(differing)
        matched = [pair for pair in self._pairs if pair.is_matched]
        changed = tuple(
            Place.of(pair.launch, pair.process) for pair in matched if pair.changed and not pair.differs
        )
        for name, run in zip("AB", self._runs, strict=True):
            if run.status:
                self._notes.append(f"{name} ended with status {run.status}")
        infos = [
            RunInfo(
                side.name, side.command or run.command, None if side.recorded is None else str(side.recorded),
                side.rank, run.launches, run.status, run.wall_ns, run.hashing_ns,
            )
            for side, run in zip(self._sides, self._runs, strict=True)
        ]  # fmt: skip
        return Divergence(
            a=infos[0],
            b=infos[1],
            once=self._once,
            aligned=len(matched),
            only=(sum(pair.b is None for pair in self._pairs), sum(pair.a is None for pair in self._pairs)),
            changed=changed,
            search_ns=self._bounds.spent_ns,
            plain_ns=self._plain_ns,
            named=named,
            nondeterministic=tuple(self._nondeterministic),
            within=tuple(self._within),
            harmless=tuple(self._harmless),
            uncompared=tuple(
                text if count == 1 else f"{text} ({count:,} times)" for text, count in self._open.items()
            ),
            notes=tuple(self._notes),
        )

    def _is_noise(self, pair: Pair) -> bool:
        """Whether the side that is run again differs from itself in this launch, too."""
        if not self._wants_noise or self._again is None:
            return False
        if self._noise is None:
            side = self._sides[self._again]
            again = replace(side, name=f"{side.name} again").trace(self._selection, self._native)
            self._noise = Noise(self._again, self._runs[self._again], again)
        return self._noise.explains(pair)

    def _captured_again(self, pair: Pair) -> dict[int, Captured] | None:
        """The reproducer of the side that is run again, by side; None if that differs from itself here.

        If the run that captures it repeats what was traced, it is the run that says so.
        """
        if not self._wants_noise or self._again is None:
            return {}
        launch = (pair.first, pair.second)[self._again]
        if self._noise is not None or launch is None or not can_be_compared(launch):
            return None if self._is_noise(pair) else {}
        one = self._captures.of(pair, self._again)
        if (one.path is None or not did_the_same(launch, one.path)) and self._is_noise(pair):
            one.remove()
            return None
        return {self._again: one}

    def _first(self, differing: Sequence[Pair]) -> Named | None:
        rounds = self._bounds.rounds
        for number, pair in enumerate(differing):
            if not self._has_time():
                self._leave(pair, len(differing) - number - 1, "--budget")
                return None
            is_judged = pair.is_matched and not any(pair.raised) and rounds > 0
            known = self._captured_again(pair) if is_judged else None
            if known is None and self._is_noise(pair):
                self._take_nondeterministic(pair)
                continue
            if not pair.is_matched or any(pair.raised):
                return self._unjudged(pair)
            if not rounds:
                self._leave(pair, len(differing) - number - 1, "--rounds")
                return None
            rounds -= 1
            judged = judge(pair, self._captures.both(pair, known), self._tolerance)
            if judged.verdict is Verdict.UNREPEATED and self._once:
                said = "in the runs that captured it, both sides agreed"
                return replace(judged.named, problems=(*judged.named.problems, said))
            if judged.verdict is Verdict.DIFFERENT:
                return self._finished(judged.named, pair)
            self._take(judged, pair)
        return None

    def _has_time(self) -> bool:
        """To run both sides once more, as far as they can be."""
        sides = zip(self._sides, self._runs, strict=True)
        return self._bounds.has_time(
            self._plain_ns, sum(run.plain_ns for side, run in sides if side.recorded is None)
        )

    def _leave(self, pair: Pair, more: int, remedy: str) -> None:
        said = f"and {more:,} more differ and were" if more else "differs and was"
        self._open[f"{_text(pair)} {said} not captured; a larger {remedy} captures more"] += 1

    def _take(self, judged: Judged, pair: Pair) -> None:
        judged.discard()
        place = Place.of(pair.launch, pair.process)
        if judged.verdict is Verdict.HARMLESS:
            self._harmless.append(place)
        elif judged.verdict is Verdict.WITHIN:
            self._within.append(place)
        elif judged.verdict is Verdict.UNREPEATED:
            self._nondeterministic.append(named_of(judged.named.kind, pair))
        else:
            self._open[f"{_text(pair)}: its digests differ; {judged.said}"] += 1

    def _take_nondeterministic(self, pair: Pair) -> None:
        """Only where it comes in; what follows from it is not compared."""
        assert self._noise is not None
        if self._noise.begins_at(pair):
            self._nondeterministic.append(named_of(_kind_of(pair, self._pairs), pair))
        else:
            self._open["launches that differ between runs of one side too"] += 1

    def _unjudged(self, pair: Pair) -> Named:
        """A launch that one side lacks, or that raised: its digests are no question."""
        kind = _kind_of(pair, self._pairs)
        if kind == RAISED:
            return named_of(kind, pair)
        if kind == MOVED:
            pair = _joined(pair, self._pairs)
        return named_of(kind, pair, self._captures.both(pair))

    def _finished(self, named: Named, pair: Pair) -> Named:
        is_native = pair.launch.mode == word.mode.native  # whose arguments the trace has by their number
        before = pair.before if is_native and named.before else named.before
        since = _last_agreed(pair, before, self._pairs) if before else None
        named = replace(named, since=since)
        return named if is_native else sanitized(named)


def _kind_of(pair: Pair, pairs: Sequence[Pair]) -> str:
    if any(pair.raised):
        return RAISED
    if pair.is_matched:
        return kind_of(pair, bool(pair.before))
    return MOVED if _joined(pair, pairs) is not pair else ONLY


def _joined(pair: Pair, pairs: Sequence[Pair]) -> Pair:
    """With the launch of the other side that is the same one in another place."""
    for other in pairs:
        if other.process != pair.process or other.is_matched or (other.a is None) == (pair.a is None):
            continue
        if by_shape(pair.launch) == by_shape(other.launch):
            a, b = (pair, other) if pair.b is None else (other, pair)
            return replace(pair, a=a.a, b=b.b, first=a.first, second=b.second)
    return pair


def _last_agreed(pair: Pair, before: Collection[str], pairs: Sequence[Pair]) -> Place | None:
    """The last launch before it that left the memory equal which differs before it."""
    assert pair.first is not None and pair.second is not None
    memory = [_places(launch, before) for launch in (pair.first, pair.second)]
    found = None
    for other in pairs:
        if other is pair:
            break
        if other.process != pair.process or other.first is None or other.second is None or other.differs:
            continue
        sides = zip(memory, (other.first, other.second), strict=True)
        if all(places & {(region.base, region.size) for region in launch.hashed} for places, launch in sides):
            found = Place.of(other.first, other.process)
    return found


def _places(launch: TracedRecord, names: Collection[str]) -> set[tuple[int, int]]:
    regions = [launch.hashed[view.region] for view in launch.views if view.name in names]
    return {(region.base, region.size) for region in regions}


def _text(pair: Pair) -> str:
    launch = pair.launch
    return f"{launch.kernel.name}, launch {launch.ordinal}"


def _uncompared(pairs: Sequence[Pair], runs: tuple[Trace, Trace]) -> Iterator[str]:
    for pair in pairs:
        if pair.uncompared:
            yield f"{pair.launch.kernel.name}: {pair.uncompared}"
    for name, run in zip("AB", runs, strict=True):
        for process in run.processes:
            for kernel, count in process.native.items():
                yield f"{name}: {count:,} native launches of {kernel}: not hashed"
            for failed in process.failed:
                yield f"{name}: {failed}"
            if not process.complete:
                yield f"{name}: process {process.pid} was killed or still runs; launches may be missing"
    counts = [sum(bool(one.launches or one.native or one.failed) for one in run.processes) for run in runs]
    if counts[0] != counts[1]:
        yield f"A has {counts[0]} processes that launch kernels, B has {counts[1]}"

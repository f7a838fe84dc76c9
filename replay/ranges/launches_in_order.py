"""The launches of a range, one after the other in one worker, each compared with the application's."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field

from kerncap.answer import Answer
from kerncap.format import LaunchOfRange
from kerncap.replay.byte_effects import Measured
from kerncap.replay.engine import ORIGINAL, Engine
from kerncap.replay.poisoned_launch import SEED_A
from kerncap.replay.ranges.joined_memory import placed
from kerncap.replay.ranges.memory_between_launches import Change, Timeline, by_region, different
from kerncap.replay.ranges.whole import WholeRange
from kerncap.replay.stray_writes import gap_reasons
from kerncap.replay.tolerance import view_tolerance
from kerncap.replay.verdict_words import Verdict, badly_ended, fail, mismatch, undecided
from kerncap.replay.worker.common import bitmap
from kerncap.replay.worker.common.bitmap import Bits
from kerncap.replay.worker.protocol import Difference
from kerncap.replay.write_set_units import extent

_EXPECTED = "expected"  # the state that has what the application had


@dataclass
class Step:
    """One launch of the range, as it ran; ``verdict`` is None for one that did not run."""

    number: int
    position: int
    kernel: str
    changed_regions: int = 0  # since the launch before, by what is not in the range
    changed_bytes: int = 0
    poisoned_bytes: int = 0
    compared_bytes: int = 0  # that the application's launch changed
    ns: int = 0  # by the clock of the process that launches
    verdict: Verdict | None = None
    differences: list[Difference] = field(default_factory=list)


Alone = Callable[[LaunchOfRange], Verdict]  # the judge of one launch on its captured memory


class Chain:
    """Runs a range in an engine that has it as a `WholeRange`, from the state before its first launch.

    ``measured``: what is known of what each launch writes; what it does not read first is poisoned. ``alone``
    is asked about a launch that differs, for it may differ from itself.
    """

    def __init__(
        self, engine: Engine, whole: WholeRange, timeline: Timeline, measured: Sequence[Measured | None],
        alone: Alone,
    ) -> None:  # fmt: skip
        self._engine = engine
        self._whole = whole
        self._timeline = timeline
        self._measured = measured
        self._alone = alone
        self._places = timeline.places

    def run(self, launches: Sequence[LaunchOfRange]) -> list[Step]:
        """Run these, which are the first of the range, in order, up to one that does not do as it did."""
        engine = self._engine
        for launch in launches[1:]:
            engine.load_launch(name_of(launch.number), launch.number)
        engine.restore()
        engine.snapshot(_EXPECTED)
        steps = []
        for launch in launches:
            step = Step(launch.number, launch.position, launch.manifest.kernel.name)
            steps.append(step)
            step.verdict = self._step(launch, step)
            if not step.verdict.passed:
                break
        engine.drop(_EXPECTED)
        return steps

    def _step(self, launch: LaunchOfRange, step: Step) -> Verdict:
        engine = self._engine
        for region, changes in by_region(self._timeline.before(launch.number)).items():
            step.changed_regions += 1
            bits = self._amend(region, changes)
            step.changed_bytes += bitmap.count(bits)
            engine.put(_EXPECTED, region, bits)
        step.poisoned_bytes = self._poison(launch)
        generation = engine.generation
        outcome = engine.launch(name_of(launch.number))
        step.ns = outcome.ns
        if not outcome.ok or engine.generation != generation:
            return badly_ended(outcome)
        for region, changes in by_region(self._timeline.after(launch.number)).items():
            step.compared_bytes += bitmap.count(self._amend(region, changes))
        if reasons := gap_reasons(engine):
            return fail(reasons[0], *reasons)
        differing = engine.differing(_EXPECTED)
        if not differing:
            return Verdict(Answer.YES, "bit by bit", exact=True)
        return self._differs(launch, step, {region: engine.diff(region, _EXPECTED) for region in differing})

    def _amend(self, region: int, changes: Sequence[Change]) -> Bits:
        """Give the expected state what has changed; which bytes that are."""
        self._engine.amend(
            _EXPECTED,
            [(region, change.start, change.stop) for change in changes],
            [change.data for change in changes],
        )
        return different(changes, self._engine.manifest.regions[region].size)

    def _poison(self, launch: LaunchOfRange) -> int:
        """Poison what the launch writes and does not read first, so that nothing that was there passes."""
        measured, poisoned = self._measured[launch.number], 0
        for index in measured.written if measured is not None else ():
            assert measured is not None
            bits, place = measured.output(index), self._places[launch.number][index]
            if not bits.any():
                continue
            size = self._engine.manifest.regions[place.region].size
            bits = placed(bits, measured.sizes[index], place, size)
            self._engine.fill(place.region, 0, size, SEED_A, bits)
            poisoned += bitmap.count(bits)
        return poisoned

    def _differs(self, launch: LaunchOfRange, step: Step, bits: dict[int, Bits]) -> Verdict:
        """On a launch after which memory is not what it was, though all before it was."""
        engine = self._engine
        step.differences = self._differences(launch, bits)
        said = [mismatch(stats) for stats in step.differences]
        said += [] if said else [f"{sum(map(bitmap.count, bits.values())):,} bytes differ"]
        if engine.facts.relocated and engine.choice.launcher == "native":
            why = (
                "memory is at other addresses than in the application, and not all pointers in it could be "
                "rewritten"
            )
            return undecided(f"{said[0]}; {why}", *said)
        verdict = self._alone(launch)
        if verdict.answer is Answer.NO:
            return fail(verdict.summary, *verdict.reasons)
        if verdict.answer is Answer.UNDECIDED:
            return undecided(verdict.summary, *verdict.reasons)
        if verdict.exact:
            why = "replayed separately, it gives the application's result"
            return undecided(f"{said[0]}; {why}: it reads something that the range does not have", *said)
        if not self._is_noise(launch, verdict, bits):
            why = "it differs from run to run, and by more than separate replays of it do"
            return undecided(f"{said[0]}; {why}", *said)
        for region, here in bits.items():
            engine.put(_EXPECTED, region, here)
        noted = Verdict(Answer.YES, verdict.summary)
        noted.notes.append(
            f"launch {launch.number} ({launch.manifest.kernel.name}) differs from run to run: "
            "the launches after it start from the application's values"
        )
        return noted

    def _differences(self, launch: LaunchOfRange, bits: dict[int, Bits]) -> list[Difference]:
        """Statistics of the launch's views that have bytes which differ."""
        wanted = [
            (number, 0.0, 0.0)
            for number, region, span in self._views(launch)
            if region in bits and (bits[region] & span).any()
        ]
        found = self._engine.compare(wanted, _EXPECTED) if wanted else []
        return [stats for stats in found if stats.different]

    def _views(self, launch: LaunchOfRange) -> Iterator[tuple[int, int, Bits]]:
        """(number, region, bytes that it spans) of each view of a launch, as the range has them."""
        manifest, first = self._engine.manifest, self._whole.first_views[launch.number]
        for number in range(first, first + len(launch.manifest.views)):
            view = manifest.views[number]
            yield number, view.region, bitmap.span(manifest.regions[view.region].size, *extent(view))

    def _is_noise(self, launch: LaunchOfRange, alone: Verdict, bits: dict[int, Bits]) -> bool:
        """Whether what differs is no more than what the launch's own replays differ by."""
        first = self._whole.first_views[launch.number]
        noise = {first + stats.view: stats.max_abs for stats in alone.views if stats.view >= 0}
        left, wanted = dict(bits), []
        for number, region, span in self._views(launch):
            if region in left and (bits[region] & span).any():
                left[region] = left[region] & ~span
                dtype = self._engine.manifest.views[number].dtype
                wanted.append((number, *view_tolerance(dtype, noise.get(number, 0.0))))
        return not any(each.any() for each in left.values()) and self._engine.within(wanted, _EXPECTED)


def name_of(number: int) -> str:
    """The variant that a launch of a range is in an engine."""
    return ORIGINAL if number == 0 else f"launch {number}"

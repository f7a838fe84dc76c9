"""Launches of a range in a row as one, so that what replaces them is judged as one launch's candidate is.

Memory is that before the first of them and that after the last; what flows between them is no result, unless
it is left there at the end.
"""

from __future__ import annotations

import functools
import itertools
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path

import msgspec

from kerncap.errors import UsageError
from kerncap.format import LaunchRange, Reproducer
from kerncap.format.checks_file import Checks
from kerncap.format.memory_index import State
from kerncap.replay.byte_effects import Measured
from kerncap.replay.candidates import symbols
from kerncap.replay.choose_engine import Choice
from kerncap.replay.engine import CANDIDATE, ORIGINAL, Engine
from kerncap.replay.outcome import CandidateError, Compiled, Config, Outcome
from kerncap.replay.ranges.candidate import LAUNCHES, RangeCandidate, manifest_of
from kerncap.replay.ranges.joined_memory import SharedMemory, placed
from kerncap.replay.ranges.launches_in_order import name_of
from kerncap.replay.ranges.memory_between_launches import Change, Timeline
from kerncap.replay.ranges.whole import LaunchInWhole, WholeRange, copy_data
from kerncap.replay.side_inputs import SideInputs, of_reproducer
from kerncap.replay.worker.common import bitmap
from kerncap.replay.worker.common.bitmap import Bits
from kerncap.replay.worker.protocol import KernelOfSource
from kerncap.replay.worker_process import Shared
from kerncap.scratch import Scratch

Masks = dict[int, Bits]  # by region of the range
# (name, type) of each parameter of a kernel of the candidate's source; see `KernelOfSource`.
Declared = Callable[[str], list[tuple[str, str]] | None]


class _OfCandidate(LaunchInWhole):
    """A launch of the candidate: its kernel is in the candidate's file, and nothing of it is stored."""

    def source_text(self) -> str | None:
        return None

    @property
    def variables(self) -> list[int]:
        return []


class RangeAsOne(WholeRange):
    """The launches ``first`` to ``last`` as one reproducer, with those of a candidate after the range's own.

    ``kernels`` are the names of their kernels, ``between`` the launches (in the range) before which something
    that is not in it changed memory.
    """

    def __init__(
        self, opened: LaunchRange, shared: SharedMemory, timeline: Timeline, candidate: RangeCandidate,
        made: Scratch,
    ) -> None:  # fmt: skip
        super().__init__(opened, shared, timeline)
        self.replaced = self.in_range[candidate.first : candidate.last + 1]
        self.places = shared.places
        self._before = made.path
        self._changed: dict[int, set[int]] = {}
        self.between: list[int] = []
        self._follow(candidate.first, candidate.last)
        captured = [launch.manifest for launch in self.in_range]
        added = [
            _OfCandidate(opened.launches[0], manifest_of(one, captured, candidate.path), shared.places[0])
            for one in candidate.launches
        ]
        self.own = len(self.in_range)
        self.in_range = (*self.in_range, *added)
        views = tuple(
            msgspec.structs.replace(view, name=f"{number}.{view.name}" if view.name else "")
            for number, (start, stop) in enumerate(itertools.pairwise(self.first_views))
            for view in self.manifest.views[start:stop]
        )
        kinds = [
            launch.manifest.oracle for launch in self.replaced if launch.manifest.oracle.kind != "trusted"
        ]
        self.kernels = ", ".join(launch.manifest.kernel.name for launch in self.replaced)
        oracle = kinds[0] if kinds else self.replaced[0].manifest.oracle
        self.manifest = msgspec.structs.replace(
            self.manifest, views=views, oracle=oracle, closure=self.replaced[0].manifest.closure
        )

    def _follow(self, first: int, last: int) -> None:
        """Move the timeline past the launches that are replaced; keep what was there before."""
        for number in range(last + 1):
            changes = self._timeline.before(number)
            if number == first:
                for region in range(len(self.manifest.regions)):
                    with self._timeline.file(region).open("rb") as now, self._file(region).open("wb") as kept:
                        copy_data(now.fileno(), kept.fileno(), self.manifest.regions[region].size)
            elif number > first and changes:
                self.between.append(number)
                self._note(changes)
            changes = self._timeline.after(number)
            if number >= first:
                self._note(changes)

    def _note(self, changes: Sequence[Change]) -> None:
        for change in changes:
            self._changed.setdefault(change.region, set()).add(change.start // self.index.chunk_bytes)

    def _file(self, region: int) -> Path:
        return self._before / f"{region}.before"

    def stage(self, state: State, region: int, targets: Sequence[Path], only_changed: bool = False) -> None:
        if state == "post":
            return super().stage(state, region, targets)
        [target] = targets
        with self._file(region).open("rb") as file, open(target, "wb") as copy:
            copy_data(file.fileno(), copy.fileno(), self.manifest.regions[region].size)

    def chunks_changed(self, region: int) -> list[int]:
        return sorted(self._changed.get(region, ()))

    def read_before(self, region: int, offset: int, target: memoryview) -> None:
        """Fill ``target`` with what was in a region before the first of the launches that are replaced."""
        with self._file(region).open("rb", buffering=0) as file:
            file.seek(offset)
            at = 0
            while at < len(target) and (count := file.readinto(target[at:])):
                at += count

    # What is found of it is found of these launches and this candidate, and belongs to no file.

    def checks(self) -> Checks | None:
        return None

    def write_checks(self, checks: Checks) -> None:
        pass


@dataclass
class MeasuredAsOne(Measured):
    """What launches in a row do to each byte of the range's memory. ``dead``: written, and no result."""

    dead: Masks = field(default_factory=dict)
    read_inside: Masks = field(default_factory=dict)  # what they read of what they have written

    @property
    def compared_bytes(self) -> int:
        return super().compared_bytes - sum(map(bitmap.count, self.dead.values()))

    def results(self) -> Masks:
        return {
            region: bits & ~self.dead[region] if region in self.dead else bits
            for region, bits in self.written.items()
        }

    def perhaps_dead(self) -> Masks:
        """Of the bytes that are judged those that a launch has read again: no others need to know them."""
        nothing = {region: bitmap.empty(size) for region, size in enumerate(self.sizes)}
        return {
            region: bits & {**nothing, **self.read_inside}[region] for region, bits in self.results().items()
        }


def measured_as_one(whole: RangeAsOne, measured: Sequence[Measured]) -> MeasuredAsOne:
    """Of what each of the replaced launches does, in their order, what they all do."""
    found = MeasuredAsOne([region.size for region in whole.manifest.regions])
    inputs: Masks = {}
    for launch, known in zip(whole.replaced, measured, strict=True):
        reads: Masks = {}
        writes: Masks = {}
        for index, place in enumerate(whole.places[launch.number]):
            size = known.sizes[index]
            if size:
                whole_size = found.sizes[place.region]
                _add(reads, place.region, placed(~known.poisonable(index), size, place, whole_size))
                written = known.written.get(index, bitmap.empty(size))
                _add(writes, place.region, placed(written, size, place, whole_size))
        for region, bits in reads.items():
            before = found.written.get(region, bitmap.empty(found.sizes[region]))
            _add(inputs, region, bits & ~before)
            _add(found.read_inside, region, bits & before)
        for region, bits in writes.items():
            if bits.any():
                found.add(region, bits)
                if region in found.read_inside:  # what was read is gone; nothing has read what is there now
                    found.read_inside[region] &= ~bits
    for region, size in enumerate(found.sizes):
        read = inputs.get(region, bitmap.empty(size))
        written = found.written.get(region, bitmap.empty(size))
        if (in_place := written & read).any():
            found.add(region, in_place, also_input=in_place)
        if (idle := ~(written | read)).any():
            found.leave(region, idle)
    return found


def _add(masks: Masks, region: int, bits: Bits) -> None:
    masks[region] = masks[region] | bits if region in masks else bits


class RangeEngine(Engine):
    """An engine in which the captured kernel and the candidate are launches in a row, each under one name."""

    one_launch = False

    def __init__(
        self, whole: RangeAsOne, candidate: RangeCandidate, declared: Declared, dead: Masks, choice: Choice,
        timeout_s: float, hostile: bool, shared: Shared,
    ) -> None:  # fmt: skip
        self.dead = dead
        self._parts = {
            ORIGINAL: [name_of(launch.number) for launch in whole.replaced],
            CANDIDATE: [f"candidate's {one.place}" for one in candidate.launches],
        }
        self._whole = whole
        self._asked = candidate
        self._declared = declared
        super().__init__(whole, timeout_s=timeout_s, choice=choice, hostile=hostile, shared=shared)
        try:
            for launch in whole.replaced:
                if launch.number:
                    self.load_launch(name_of(launch.number), launch.number)
        except BaseException:
            self.close()
            raise

    def row(self, which: str) -> list[str]:
        return self._parts.get(which, [which])

    def time(self, which: str, warmup: int, n: int, dirty: list[int], cold: bool = False) -> list[float]:
        return self.interleaved([which], n, dirty, cold=cold)[which]

    def interleaved(
        self,
        whichs: Sequence[str],
        rounds: int,
        dirty: list[int],
        ranges: Sequence[tuple[int, int, int]] | None = None,
        cold: bool = False,
    ) -> dict[str, list[float]]:
        found = super().interleaved(whichs, rounds, dirty, ranges, cold)
        self._accept_dead()
        return found

    def unload(self, name: str) -> None:
        for each in self.row(name):
            super().unload(each)

    def load_candidate(self, path: Path) -> None:
        if self._asked.text is not None:
            self.load_source(path, self._asked)
        else:
            self.load_module(path, [None] * len(self._parts[CANDIDATE]))

    def load_module(self, path: Path, configs: Sequence[Config | None]) -> list[Compiled]:
        """As `load_candidate`, of a module; ``configs``: in place of those of its launches."""
        names = self._parts[CANDIDATE]
        for number, (name, config) in enumerate(zip(names, configs, strict=True)):
            self.load_launch(name, self._whole.own + number, path, config)
        return [self.compiled(name) for name in names]

    def load_source(self, path: Path, asked: RangeCandidate) -> Compiled:
        """As `load_candidate`, of a source that has the same launches of kernels with other numbers."""
        assert asked.text is not None
        names = self._parts[CANDIDATE]
        image = self.build_new(path, asked.text, self._like)
        kernels = symbols.kernels_of(image.read_bytes())
        for number, (name, one) in enumerate(zip(names, asked.launches, strict=True)):
            found = symbols.named(one.kernel, kernels)
            if len(found) != 1:
                several = f"there are several: {', '.join(found[:4])}" if found else ""
                said = several or f"the source has {symbols.listing(kernels)}"
                raise CandidateError(f"{name}: no one kernel is {one.kernel}; {said}")
            assert one.block is not None and not isinstance(one.grid, str)
            kernel = KernelOfSource(
                found[0], self._declared(one.kernel), one.grid, one.block, one.shared_bytes
            )
            self.load_kernel(name, self._whole.own + number, image, kernel)
        return self.compiled(names[0])

    @property
    def _like(self) -> Reproducer | None:
        """The first of the replaced launches that says how a source for this device is compiled."""
        accepted = ("hipcc", "hiprtc") if self.manifest.device.kind == "hip" else ("nvcc", "nvrtc")
        for launch in self._whole.replaced:
            source = launch.manifest.source
            if source is not None and source.build is not None and source.build.tool in accepted:
                return launch
        return None

    def load_configured(self, name: str, config: object, path: Path | None = None) -> None:  # type: ignore[override]
        raise UsageError(
            f"{path or name}: a `# kerncap:` line is for one launch; {LAUNCHES} say it for several"
        )

    def launch(self, which: str = ORIGINAL, timeout_s: float | None = None) -> Outcome:
        ns = 0
        for name in self._parts.get(which, [which]):
            outcome = super().launch(name, timeout_s)
            if not outcome.ok:
                said = (
                    f"{name}: {outcome.message}" if outcome.message and name != ORIGINAL else outcome.message
                )
                return replace(outcome, message=said)
            ns += outcome.ns
        if which in self._parts:
            self._accept_dead()
        return replace(outcome, ns=ns)

    def _accept_dead(self) -> None:
        """What is no result is as it is now: no comparison finds it."""
        for region, bits in self.dead.items():
            self.put("post", region, bits)

    def variant(self, which: str, scalars: dict[str, str]) -> str:
        if scalars:
            raise UsageError(f"{which}: launches in a row have the numbers that they were captured with")
        return which

    @functools.cached_property
    def side_inputs(self) -> SideInputs:
        if self.choice.memory == "host":
            return SideInputs()
        found = [of_reproducer(launch) for launch in self._whole.replaced]
        clocks = dict.fromkeys(clock for each in found for clock in each.clocks)
        return SideInputs(
            tuple(clocks), any(each.order for each in found), any(each.heap for each in found),
            any(each.prints for each in found),
        )  # fmt: skip

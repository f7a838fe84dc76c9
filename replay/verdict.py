"""The verdict on one replay: everything compared with the oracle, no benefit of the doubt.

Bytes that the launch writes and does not read are poisoned first, so that stale contents can't pass for a
result; so are bytes that it leaves alone, so that a write there shows whatever it writes. Then: all bytes as
the oracle has them, or, if that can't be asked for (a candidate, another device, a kernel that differs
from run to run), every view within its dtype's tolerance.
"""

from __future__ import annotations

from typing import Any

from kerncap.answer import Answer
from kerncap.format.schema import Manifest
from kerncap.replay import doubts, in_place, printed_text, rounding_bias
from kerncap.replay.byte_effects import Measured
from kerncap.replay.engine import CANDIDATE, ORIGINAL, Engine
from kerncap.replay.judge_requests import FLOATS, errors, where
from kerncap.replay.noise import Noise, of_replays
from kerncap.replay.poisoned_launch import SEED_A, SEED_B, launch_poisoned
from kerncap.replay.tolerance import view_tolerance
from kerncap.replay.units import (
    address_name,
    extent,
    outside_views,
    place_name,
    units,
    view_name,
    whole_elements,
)
from kerncap.replay.wording import (
    BY_DTYPE,
    Tolerance,
    Verdict,
    badly_ended,
    fail,
    mismatch,
    undecided,
    within,
)
from kerncap.replay.worker.common import bitmap
from kerncap.replay.worker.common.bitmap import Bits
from kerncap.replay.worker.protocol import Difference

_BASELINE_RUNS = 3
_MORE_RUNS = 17


def differs_from_capture(engine: Engine) -> list[str]:
    """What is another here than where the launch was captured: reasons to allow for rounding."""
    manifest, facts = engine.manifest, engine.facts
    found = []
    interpreted = manifest.launch.mode == "interpreter"
    if interpreted != (engine.choice.launcher == "interpreter"):
        found.append(
            f"captured by Triton's {'interpreter' if interpreted else 'compiler'}, "
            f"replayed by {engine.choice.launcher}"
        )
    elif not interpreted and facts.device != manifest.device.name:
        found.append(f"captured on {manifest.device.name}, replayed on {facts.device}")
    captured = manifest.platform.packages.get("triton")
    compiled_here = engine.choice.name != "binary" and facts.triton  # by no Triton that is known, of HIP
    if captured and captured != facts.triton and compiled_here:
        found.append(f"captured with Triton {captured}, replayed with {facts.triton}")
    return found


def run_poisoned(engine: Engine, measured: Measured, which: str, seed: int) -> Verdict | None:
    """Restore, poison what is not read, launch; a verdict if that does not end well.

    Then `settle`, before anything is compared.
    """
    outcome = launch_poisoned(engine, measured, which, seed)
    return None if outcome.ok else badly_ended(outcome)


def settle(engine: Engine, measured: Measured, seed: int) -> dict[int, Bits]:
    """Put idle bytes as the oracle has them; those that are no poison any more: something wrote there."""
    hit: dict[int, Bits] = {}
    for region in measured.untouched:
        idle = measured.watched(region)
        if idle.any():
            touched = engine.diff(region, "poison", seed, idle)
            if touched.any():
                # A byte that equals poison by chance goes with the element that it belongs to.
                for unit in units(engine.manifest):
                    if unit.region == region:
                        touched |= whole_elements(engine.manifest, unit, touched) & idle
                hit[region] = touched
            engine.put("post", region, idle)
    return hit


def outside_reasons(manifest: Manifest, outside: dict[int, Bits]) -> list[str]:
    """Bytes that were changed although the captured kernel does not write them."""
    return [
        f"{bitmap.count(bits):,} bytes outside the write set were changed "
        f"(first at {place_name(manifest, region, bitmap.first(bits))})"
        for region, bits in outside.items()
        if bits.any()
    ]


def stray_notes(manifest: Manifest, measured: Measured) -> list[str]:
    """What the captured kernel itself writes beside its arguments."""
    found = []
    for region, written in measured.written.items():
        stray = written & outside_views(manifest, region)
        if stray.any():
            where = place_name(manifest, region, bitmap.first(stray))
            found.append(
                f"the captured kernel writes {bitmap.count(stray):,} bytes outside every argument "
                f"(first at {where})"
            )
    return found


def judge(
    engine: Engine, measured: Measured, which: str = ORIGINAL, tolerance: Tolerance = BY_DTYPE
) -> Verdict:
    """Replay ``which`` once under poison and compare all of memory with the oracle."""
    ended = run_poisoned(engine, measured, which, SEED_A)
    if ended is not None:
        return ended
    verdict = _Comparison(engine, measured, which, tolerance).judge()
    if verdict.passed and not measured.written_bytes:
        return printed_text.judge(engine, which)
    if verdict.passed and not verdict.poisoned_bytes and not _changes_anything(engine):
        verdict.notes.append(
            "the launch leaves every byte as it was: its stores are known from its code or other contents"
        )
    if verdict.passed and which == CANDIDATE:
        verdict = in_place.judge(engine, measured, verdict, tolerance)
    if verdict.passed and engine.side_inputs.prints:
        verdict = printed_text.judge_too(engine, which, verdict)
    return verdict


def _changes_anything(engine: Engine) -> bool:
    """Whether any byte is another one after the launch, in the application."""
    return any(map(engine.reproducer.chunks_changed, range(len(engine.manifest.regions))))


def judge_again(
    engine: Engine, measured: Measured, which: str = CANDIDATE, tolerance: Tolerance = BY_DTYPE
) -> Verdict:
    """One more run on the same contents, under other poison: for what does its work the first time only."""
    ended = run_poisoned(engine, measured, which, SEED_B)
    if ended is not None:
        return ended
    return _Comparison(engine, measured, which, tolerance, SEED_B).judge()


def judge_timed(
    engine: Engine, measured: Measured, which: str = CANDIDATE, tolerance: Tolerance = BY_DTYPE
) -> Verdict:
    """The verdict on memory as the last of several timed runs left it, and on one more run, under poison.

    For what works while it is judged, and not while it is timed, or only so often.
    """
    wanted = [
        (v, *view_tolerance(view.dtype, 0.0, tolerance.rtol, tolerance.atol))
        for v, view in enumerate(engine.manifest.views)
        if view.region in measured.written
    ]
    noise: Noise = measured.noise or Noise()
    found = [s for s in engine.compare(wanted, "post") if s.outside and s.view not in noise.views]
    if found:
        reasons = [f"after timed runs: {mismatch(stats)}" for stats in found]
        return fail(reasons[0], *reasons)
    again = judge_again(engine, measured, which, tolerance)
    if not again.passed:
        again.reasons = [f"after timed runs: {reason}" for reason in again.reasons]
        again.summary = again.reasons[0]
    return again


def judge_memory(
    engine: Engine, measured: Measured, which: str = ORIGINAL, tolerance: Tolerance = BY_DTYPE
) -> Verdict:
    """The verdict on memory as a run under poison (of `SEED_A`) left it."""
    return _Comparison(engine, measured, which, tolerance).judge()


class _Comparison:
    """Of memory as it is after a poisoned run."""

    def __init__(
        self, engine: Engine, measured: Measured, which: str, tolerance: Tolerance, seed: int = SEED_A
    ) -> None:
        self.seed, self.other_seed = seed, SEED_B if seed == SEED_A else SEED_A
        self.engine = engine
        self.measured = measured
        self.which = which
        self.tolerance = tolerance
        self.manifest = engine.manifest
        self.sizes = measured.sizes
        self.poisoned = sum(bitmap.count(measured.output(r)) for r in measured.written)
        self.reasons = gap_reasons(engine)
        self.open: list[str] = []  # what can't be judged
        self.hit = settle(engine, measured, seed)
        self.notes: list[str] = []

    def judge(self) -> Verdict:
        different = {region: bitmap.empty(size) for region, size in enumerate(self.sizes)}
        different |= {region: self.engine.diff(region, "post") for region in self.engine.differing("post")}
        count = sum(bitmap.count(bits) for bits in different.values())
        total = self.measured.compared_bytes
        if not self.reasons and not self.hit:
            if not count and self.which == CANDIDATE:
                self._never_written(different)  # few bytes may be as the oracle has them by chance
            if not count and not self.reasons:
                summary = f"{total:,} bytes identical, {self.poisoned:,} written bytes poisoned"
                return self._verdict(summary, exact=True)
        if count or self.hit:
            self._outside(different)
            self._never_written(different)
        if self.reasons:
            self._explain(different)
            return self._verdict("")
        return self._by_view(different)

    def _verdict(self, summary: str, exact: bool = False, views: Any = ()) -> Verdict:
        """A no for any reason, else undecided for anything open; what decides comes first."""
        if self.reasons and self.which == ORIGINAL and (doubt := self.engine.doubt()):
            # The kernel that was captured: another result is no mistake of its own.
            self.open, self.reasons = (
                [f"{each}: {doubt}, not judged" for each in self.reasons] + self.open,
                [],
            )
        elif self.reasons and self.which != ORIGINAL:
            self._excuse()
        answer, reasons = Answer.YES, [*self.reasons, *self.open]
        if self.reasons:
            answer, summary = Answer.NO, self.reasons[0]
        elif self.open:
            verdict = undecided(f"{self.open[0]}; --reference FILE or --expect would decide it")
            answer, summary = verdict.answer, verdict.summary
        compared = self.measured.compared_bytes
        return Verdict(answer, summary, reasons, self.notes, compared, self.poisoned, list(views), exact)

    def _excuse(self) -> None:
        """The reasons of another image are open if it may have called other functions, or if the captured
        kernel's result is not the application's either, whose memory is not only its own."""
        doubt = self.engine.doubt_of_functions(self.which)
        if not doubt:
            doubt = doubts.of_shared(self.manifest)
            if not doubt or judge(self.engine, self.measured, ORIGINAL, self.tolerance).passed:
                return
        self.open += [f"{each}: {doubt}, not judged" for each in self.reasons]
        self.reasons = []

    def _outside(self, different: dict[int, Bits]) -> None:
        """Bytes that changed although the captured kernel does not write them."""
        outside = {}
        for region, bits in different.items():
            none = bitmap.empty(self.sizes[region])
            outside[region] = bits & ~self.measured.written.get(region, none) | self.hit.get(region, none)
        self.reasons += outside_reasons(self.manifest, outside)

    def _never_written(self, different: dict[int, Bits]) -> None:
        """Poison that is still there. A wrong result could look like one poison, but not like two."""
        outputs = {region: self.measured.output(region) for region in different}
        remaining = {
            region: bits & ~self.engine.diff(region, "poison", self.seed, bits)
            for region, bits in outputs.items()
        }
        if not any(
            (bits & different[region]).any() or self._holds_an_element(region, bits)
            for region, bits in remaining.items()
        ):
            return
        self.engine.snapshot("result")
        generation = self.engine.generation
        if run_poisoned(self.engine, self.measured, self.which, self.other_seed) is not None:
            return
        for region in remaining:
            left = remaining[region]
            remaining[region] = left & ~self.engine.diff(region, "poison", self.other_seed, left)
        if self.engine.generation == generation:
            self.engine.restore("result")
            self.engine.drop("result")
        for region, bits in remaining.items():
            for owner, part in self._by_owner(region, bits):
                where = place_name(self.manifest, region, bitmap.first(part))
                self.reasons.append(
                    f"{bitmap.count(part):,} bytes of {owner} were never written (first at {where})"
                )

    def _holds_an_element(self, region: int, bits: Bits) -> bool:
        """Whether any element is poison as a whole; of single bytes one in 256 is, whatever was written."""
        for unit in units(self.manifest):
            if unit.region == region:
                whole = unit.bits(self.sizes[region])
                views = [self.manifest.views[number] for number in unit.views]
                width = min((v.itemsize for v in views if v.offset % v.itemsize == 0), default=1)
                width = width if width in (1, 2, 4, 8) else 1
                if (bits & whole & ~bitmap.widened(whole & ~bits, width)).any():
                    return True
        return False

    def _by_owner(self, region: int, bits: Bits) -> list[tuple[str, Bits]]:
        """The parts of a region's bitmap by the view that they lie in, each byte once."""
        parts = []
        left = bits
        for number, view in enumerate(self.manifest.views):
            if view.region == region and left.any():
                start, stop = extent(view)
                inside = left & bitmap.span(self.sizes[region], max(0, start), min(stop, self.sizes[region]))
                if inside.any():
                    parts.append((view_name(self.manifest, number), inside))
                    left = left & ~inside
        if left.any():
            parts.append((f"region {region}", left))
        return parts

    def _views_of(self, different: dict[int, Bits]) -> list[int]:
        found = []
        for number, view in enumerate(self.manifest.views):
            start, stop = extent(view)
            size = self.sizes[view.region]
            if (different[view.region] & bitmap.span(size, max(0, start), min(stop, size))).any():
                found.append(number)
        return found

    def _explain(self, different: dict[int, Bits]) -> None:
        """One line for each view that differs, for a verdict that has failed anyway."""
        wanted = [
            (v, *view_tolerance(self.manifest.views[v].dtype, 0.0, self.tolerance.rtol, self.tolerance.atol))
            for v in self._views_of(different)
        ]
        places = where(self.engine, wanted, "post")
        for stats in self.engine.compare([(v, 0.0, 0.0) for v, *_ in wanted], "post"):
            if stats.different:
                self.reasons.append(_placed(stats, places))

    def _by_view(self, different: dict[int, Bits]) -> Verdict:
        elsewhere = differs_from_capture(self.engine)
        noise = self._noise()
        if self.which == ORIGINAL and not elsewhere and not noise:
            self._explain(different)
            self.reasons = self.reasons or ["memory differs"]
            if self._is_rounding(different):
                same = f"{_BASELINE_RUNS + _MORE_RUNS} replays agree bit by bit"
                self.open = [f"{reason}: within tolerance, and {same}" for reason in self.reasons]
                self.reasons = []
            return self._verdict("")
        if noise.typed:
            self.notes.append(
                "the kernel's own results differ from run to run: the noise floor was measured and allowed"
            )
        wanted = noise.wanted(self.engine, self._views_of(different), self.tolerance)
        found = self.engine.compare(wanted, "post")
        outside = [stats for stats in found if stats.outside]
        races = noise.races(self.manifest)
        for view in sorted(noise.without_floor(self.manifest)):
            text = (
                f"{view_name(self.manifest, view)} differs from run to run by up to {noise.views[view]:.3g}, "
                "which is more than rounding"
            )
            stats = next((each for each in found if each.view == view), Difference())
            if stats.outside if view in races else stats.different:
                self.open.append(f"{text}: no value of it can be judged")
                outside = [each for each in outside if each is not stats]
            elif view in races:
                self.notes.append(f"{text}: a race")
        if outside:
            places = where(self.engine, [w for w in wanted if isinstance(w[0], int)], "post")  # type: ignore[misc]
            self.reasons += [_placed(stats, places) for stats in outside]
            if self.which == CANDIDATE and self.tolerance == BY_DTYPE:
                self._perhaps_an_order(found)
        elif self.which == CANDIDATE and self.tolerance == BY_DTYPE:
            self._used_up(found, noise)
        self._untyped(different, noise)
        return self._verdict(within(found), views=found)

    def _is_rounding(self, different: dict[int, Bits]) -> bool:
        """Whether all that differs on a device are floats within tolerance: as sums in another order do,
        which no two replays need show."""
        views = self._views_of(different)
        beside = any(o == f"region {r}" for r, bits in different.items() for o, _ in self._by_owner(r, bits))
        dtypes = [self.manifest.views[view].dtype for view in views]
        if self.engine.choice.memory == "host" or beside or not all(d.startswith(FLOATS) for d in dtypes):
            return False
        wanted = Noise().wanted(self.engine, views, self.tolerance)
        return not any(stats.outside for stats in self.engine.compare(wanted, "post"))

    def _perhaps_an_order(self, found: list[Difference]) -> None:
        """Say of errors that are small beside the largest value near them what else can judge them.

        Large numbers that add up to a small one leave more than its own tolerance allows.
        """
        for stats in found:
            if not stats.outside or stats.nan or stats.view < 0:
                continue
            relative, absolute = view_tolerance(self.manifest.views[stats.view].dtype)
            if 0 < stats.max_abs <= absolute + relative * stats.scale:
                share = stats.max_abs / stats.scale
                self.notes.append(
                    f"{stats.name}: off by no more than {share:.2g} of the largest value near, as a sum "
                    "in another order may be: verify --stages smoke,numerics compares with float64, "
                    f"--atol {1.1 * stats.max_abs:.2g} allows for it"
                )

    def _used_up(self, found: list[Difference], noise: Noise) -> None:
        """Errors within the dtypes' own tolerance that are none of rounding."""
        differing = {stats.view for stats in found if stats.different}
        wanted = [
            (v, *view_tolerance(self.manifest.views[v].dtype))
            for v in sorted(differing - noise.views.keys())
            if v >= 0
        ]
        for stats in errors(self.engine, wanted, "post") if wanted else ():
            dtype = self.manifest.views[stats.view].dtype
            if reason := rounding_bias.uses_up(stats, dtype):
                self.reasons.append(reason)
            elif reason := rounding_bias.hidden(stats, dtype):
                self.open.append(reason)

    def _untyped(self, different: dict[int, Bits], noise: Noise) -> None:
        """Bytes of unknown type must agree, but for those that differ between baseline runs."""
        for region, bits in different.items():
            for owner, part in self._by_owner(region, bits):
                if owner != f"region {region}":
                    continue
                part = part & ~noise.inferred_mask(self.engine, region)
                noisy = part & self._unsteady(noise, region)
                part = part & ~noisy
                if noisy.any():
                    self.open.append(
                        f"{bitmap.count(noisy):,} bytes of {owner} are in an output that differs from run to "
                        "run and is of no known type: not judged"
                    )
                if part.any():
                    where = place_name(self.manifest, region, bitmap.first(part))
                    self.reasons.append(f"{bitmap.count(part):,} bytes differ (first at {where})")

    def _unsteady(self, noise: Noise, region: int) -> Bits:
        """The outputs of a region, as stretches that are written, in which anything differed by itself.

        Of a clock's bytes the high ones are the same in all replays, and others than in the application.
        """
        differed = bitmap.widened(noise.byte_mask(self.engine, region), 8)
        written = self.measured.written.get(region, bitmap.empty(self.sizes[region]))
        return bitmap.stretches(bitmap.widened(written, 8), differed) | differed

    def _runs(self) -> int:
        # The host runs one program after the other: what differs there differs at once.
        return 2 if self.engine.choice.memory == "host" else _BASELINE_RUNS

    def _noise(self) -> Noise:
        """How replays of the captured kernel differ from each other; memory is kept."""
        if self.which == CANDIDATE and self.manifest.oracle.kind in ("fault", "timeout"):
            return Noise()
        if self.measured.noise is not None:
            known: Noise = self.measured.noise
            return known
        generation = self.engine.generation
        self.engine.snapshot("result")
        noise = of_replays(self.engine, ORIGINAL, self._runs(), self.measured.written)
        if not noise and self.which == ORIGINAL and self.engine.choice.memory != "host":
            # Before it is called wrong.
            noise = of_replays(self.engine, ORIGINAL, _MORE_RUNS, self.measured.written)
        if self.which != ORIGINAL and noise.ended is None and self.engine.side_inputs.told:
            noise.observe(self.engine, "post")  # a multiprocessor's number may be the same in all replays
        self.measured.noise = noise
        if self.engine.generation == generation:
            self.engine.restore("result")
            self.engine.drop("result")
        return noise


def _placed(stats: Difference, places: dict[int, str]) -> str:
    place = places.get(stats.view)
    return f"{mismatch(stats)}; {place}" if place else mismatch(stats)


def gap_reasons(engine: Engine) -> list[str]:
    """Writes to memory that belongs to no region."""
    moved = set(engine.facts.relocated)
    bases = [region.base for region in engine.manifest.regions]
    found = []
    for start, _last, count in engine.gap_writes():
        if any(zero.base <= start < zero.base + zero.size for zero in engine.manifest.zeros):
            found.append(f"{count:,} bytes were written to memory that the application left zero")
            continue
        where = f"address {start:#x}" if moved else address_name(engine.manifest, start, bases)
        found.append(f"{count:,} bytes outside every captured region were written (first at {where})")
    return found

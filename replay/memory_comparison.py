"""Memory after a poisoned run, compared with the oracle: byte by byte, then view by view.

All bytes as the oracle has them, or, if that can't be asked for (a candidate, another device, a kernel that
differs from run to run), every view within its dtype's tolerance.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from kerncap.answer import Answer
from kerncap.replay import doubts, rank_flags, rounding_bias
from kerncap.replay.byte_effects import Measured
from kerncap.replay.engine import CANDIDATE, ORIGINAL, Engine
from kerncap.replay.judge_requests import FLOATS, errors, where
from kerncap.replay.memory_names import by_view, place_name, view_name
from kerncap.replay.never_written import never_written
from kerncap.replay.noise_floor import Noise, of_replays
from kerncap.replay.poisoned_launch import SEED_A, SEED_B, launch_poisoned
from kerncap.replay.stray_writes import gap_reasons, outside_reasons, settle
from kerncap.replay.tolerance import view_tolerance
from kerncap.replay.verdict_words import BY_DTYPE, Tolerance, Verdict, mismatch, undecided, within
from kerncap.replay.worker.common import bitmap
from kerncap.replay.worker.common.bitmap import Bits
from kerncap.replay.worker.protocol import Difference
from kerncap.replay.write_set_units import views_with

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


class Comparison:
    """Of memory as it is after a poisoned run. ``original``: the verdict on the captured kernel."""

    def __init__(
        self,
        engine: Engine,
        measured: Measured,
        which: str,
        tolerance: Tolerance,
        seed: int,
        original: Callable[[], Verdict],
    ) -> None:
        self.seed = seed
        self.original = original
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
                self.reasons += self._never_written(
                    different
                )  # few bytes may be as the oracle has them by chance
            if not count and not self.reasons:
                summary = f"{total:,} bytes identical, {self.poisoned:,} written bytes poisoned"
                return self._verdict(summary, exact=True)
        if count or self.hit:
            outside = {}
            for region, bits in different.items():
                none = bitmap.empty(self.sizes[region])
                outside[region] = bits & ~self.measured.written.get(region, none) | self.hit.get(region, none)
            self.reasons += outside_reasons(self.manifest, outside)
            self.reasons += self._never_written(different)
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
        kernel's result is not the application's either, whose memory is not only its own, or not all here."""
        doubt = self.engine.doubt_of_functions(self.which)
        if not doubt:
            shared, missing = doubts.of_shared(self.manifest), doubts.of_missing(self.manifest)
            if not shared and not missing:
                return
            original, doubt = self.original(), shared or missing
            if original.passed or (not shared and not any(missing in each for each in original.reasons)):
                return
        self.open += [f"{each}: {doubt}, not judged" for each in self.reasons]
        self.reasons = []

    def _never_written(self, different: dict[int, Bits]) -> list[str]:
        other_seed = SEED_B if self.seed == SEED_A else SEED_A

        def again() -> int | None:
            ended = launch_poisoned(self.engine, self.measured, self.which, other_seed)
            return other_seed if ended.ok else None

        return never_written(self.engine, self.measured, different, self.seed, again)

    def _explain(self, different: dict[int, Bits]) -> None:
        """One line for each view that differs, for a verdict that has failed anyway."""
        wanted = [
            (v, *view_tolerance(self.manifest.views[v].dtype, 0.0, self.tolerance.rtol, self.tolerance.atol))
            for v in views_with(self.manifest, different)
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
        wanted = noise.wanted(self.engine, views_with(self.manifest, different), self.tolerance)
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
        self.open += rank_flags.differing(self.engine, different)
        return self._verdict(within(found), views=found)

    def _is_rounding(self, different: dict[int, Bits]) -> bool:
        """Whether all that differs on a device are floats within tolerance: as sums in another order do,
        which no two replays need show."""
        views = views_with(self.manifest, different)
        beside = any(v is None for r, bits in different.items() for v, _ in by_view(self.manifest, r, bits))
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
            elif reason := rounding_bias.hidden(stats, dtype) or rounding_bias.as_of_float32(stats, dtype):
                self.open.append(reason)

    def _untyped(self, different: dict[int, Bits], noise: Noise) -> None:
        """Bytes of unknown type must agree, but for those that differ between baseline runs."""
        for region, bits in different.items():
            for view, part in by_view(self.manifest, region, bits):
                if view is not None:
                    continue
                part = part & ~noise.inferred_mask(self.engine, region)
                noisy = part & self._unsteady(noise, region)
                part = part & ~noisy
                if noisy.any():
                    self.open.append(
                        f"{bitmap.count(noisy):,} bytes of region {region} are in an output that differs "
                        "from run to run and is of no known type: not judged"
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

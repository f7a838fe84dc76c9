"""A candidate for a kernel whose in-place result was there before: an oracle that shows no work.

The second launch of an in-place relu changes nothing, and neither does a candidate that does nothing. So the
captured kernel and the candidate both run on other contents, and are compared.
"""

from __future__ import annotations

from dataclasses import dataclass

from kerncap.errors import KerncapError
from kerncap.replay.byte_effects import Measured
from kerncap.replay.engine import CANDIDATE, ORIGINAL, Engine
from kerncap.replay.memory_names import view_name
from kerncap.replay.other_scalars import described, scalar_variants
from kerncap.replay.poisoned_launch import SEED_A, poison
from kerncap.replay.tolerance import view_tolerance
from kerncap.replay.verdict_words import Tolerance, Verdict, fail, mismatch, undecided
from kerncap.replay.worker.common import bitmap
from kerncap.replay.worker.common.bitmap import Bits
from kerncap.replay.worker.protocol import Difference
from kerncap.replay.write_set_units import Unit, units

_BEFORE, _EXPECTED = "perturbed", "expected on perturbed contents"
_FLOATS = ("float", "bfloat")


def judge(engine: Engine, measured: Measured, verdict: Verdict, tolerance: Tolerance) -> Verdict:
    """The verdict on a candidate that passed so far, with what other contents say."""
    silent = _silent(engine, measured)
    alike: list[Unit] = []  # what does nothing there can't be told from the captured kernel
    for unit, bits in silent:
        differential = _Differential(engine, measured, unit, bits, tolerance)
        told_apart, reasons = differential.judge()
        engine.drop(_BEFORE)
        engine.drop(_EXPECTED)
        verdict.notes += differential.notes
        if reasons:
            failed = fail(reasons[0], *reasons)
            failed.notes = verdict.notes
            return failed
        if not told_apart:
            alike.append(unit)
    # Whatever else is written was compared under poison, or has changed.
    in_doubt = sum(bitmap.count(bits) for unit, bits in silent if unit in alike)
    if alike and in_doubt == measured.written_bytes:
        why = "nothing that was tried distinguishes the captured kernel from one that does nothing"
        open_ = undecided(
            f"nothing to compare: {why}; a launch that changes its outputs would decide it", why
        )
        open_.notes = verdict.notes
        return open_
    return verdict


def _silent(engine: Engine, measured: Measured) -> list[tuple[Unit, Bits]]:
    """Units that are written in place, with these bytes, of which the oracle changed none."""
    changed: dict[int, Bits] = {}
    for region in range(len(measured.sizes)):
        if region not in engine.never_poisoned and measured.in_place(region).any():
            if not changed:
                engine.restore("pre")
            changed[region] = engine.diff(region, "post")
    found = []
    for unit in units(engine.manifest):
        if unit.region in changed:
            bits = measured.in_place(unit.region) & unit.bits(measured.sizes[unit.region])
            if bits.any() and not (bits & changed[unit.region]).any():
                found.append((unit, bits))
    return found


@dataclass
class _Differential:
    """One unit: captured kernel and candidate on the same other contents of it."""

    engine: Engine
    measured: Measured
    unit: Unit
    bits: Bits
    tolerance: Tolerance

    def __post_init__(self) -> None:
        self.notes: list[str] = []
        manifest = self.engine.manifest
        floats = [v for v in self.unit.views if manifest.views[v].dtype.startswith(_FLOATS)]
        self.views = floats or list(self.unit.views)  # integers may be indices: only if there is nothing else
        self.name = ", ".join(dict.fromkeys(view_name(manifest, v) for v in self.unit.views))
        self.name = self.name or f"region {self.unit.region}"

    def judge(self) -> tuple[bool, list[str]]:
        """Whether the captured kernel does anything there that can be seen; why the candidate fails."""
        on_host = self.engine.choice.memory == "host"
        for scalars in ({}, *scalar_variants(self.engine.manifest, on_host)):
            shown = self._captured(scalars)
            if shown is None:
                return False, []
            if shown:
                where = f"perturbed contents of {self.name}"
                if scalars:
                    where += f" with {described(self.engine.manifest, scalars)}"
                reasons = self._candidate(scalars, where)
                if not reasons:
                    self.notes.append(
                        f"as the captured kernel on {where}, for the oracle shows no work there"
                    )
                return True, reasons
        self.notes.append(
            f"the captured kernel leaves {self.name} as it is in every try: "
            "a candidate that does nothing there can't be distinguished from it"
        )
        return False, []

    def _captured(self, scalars: dict[str, str]) -> bool | None:
        """Whether the captured kernel changes the perturbed contents; None if it can't be run on them."""
        problem = self._run(ORIGINAL, scalars, remember=True)
        if not problem and self.engine.gap_writes():
            problem = "writes outside every captured region"
        if problem and scalars:
            return False
        if problem:
            self.notes.append(
                f"a candidate that does nothing to {self.name} could not be excluded: "
                f"the captured kernel fails on other contents of it ({problem})"
            )
            return None
        if not (self.engine.diff(self.unit.region, _BEFORE) & self.bits).any():
            return False
        self.engine.snapshot(_EXPECTED)
        return True

    def _run(self, which: str, scalars: dict[str, str], remember: bool = False) -> str:
        """Run on the perturbed contents; what went wrong, if anything."""
        engine = self.engine
        try:
            name = engine.variant(which, scalars)
        except KerncapError as error:
            return str(error)
        generation = engine.generation
        engine.restore()
        poison(engine, self.measured, SEED_A)
        engine.perturb(self.views, {self.unit.region: self.bits})
        if remember:
            engine.snapshot(_BEFORE)
        outcome = engine.launch(name)
        if outcome.ok and engine.generation == generation:
            return ""
        return outcome.message or "the worker was lost"

    def _candidate(self, scalars: dict[str, str], where: str) -> list[str]:
        found = self._compared(CANDIDATE, scalars, {})
        if isinstance(found, list) and any(stats.outside for stats in found):
            # Only now is it worth knowing how far the captured kernel differs from itself.
            again = self._compared(ORIGINAL, scalars, {})
            if isinstance(again, list):
                noise = {stats.view: stats.max_abs for stats in again if stats.different}
                if noise:
                    found = self._compared(CANDIDATE, scalars, noise)
        if isinstance(found, str):
            return [f"fails on {where}: {found}"]
        return [
            f"differs from the captured kernel on {where}: {mismatch(stats)}"
            for stats in found
            if stats.outside
        ]

    def _compared(
        self, which: str, scalars: dict[str, str], noise: dict[int, float]
    ) -> list[Difference] | str:
        """Statistics of each written view against the captured kernel's; or why there are none."""
        problem = self._run(which, scalars)
        if problem:
            return problem
        manifest = self.engine.manifest
        wanted = [
            (
                number,
                *view_tolerance(view.dtype, noise.get(number, 0.0), self.tolerance.rtol, self.tolerance.atol),
            )
            for number, view in enumerate(manifest.views)
            if view.region in self.measured.written
        ]
        return self.engine.compare(wanted, _EXPECTED)

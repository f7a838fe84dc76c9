"""One plain run of a launch, and whether memory after another run differs from it by more than noise."""

from __future__ import annotations

import time

from kerncap.errors import KerncapError, ReplayError
from kerncap.replay.engine import ORIGINAL, Engine
from kerncap.replay.noise_floor import Noise
from kerncap.replay.outcome import Outcome
from kerncap.replay.tolerance import exceeds
from kerncap.replay.worker.common import bitmap
from kerncap.replay.worker.common.bitmap import Bits
from kerncap.replay.write_set_units import units

_SLOWER = 10.0  # a run on other contents may take this much longer than a plain one
_LEAST_TIMEOUT_S = 5.0
_STATE = "plain run"


class OutOfTime(KerncapError):
    """A measurement did not end before its deadline."""


class EndedBadly(ReplayError):
    """The launch as it was captured did not end well here; ``outcome`` says how."""

    def __init__(self, outcome: Outcome) -> None:
        super().__init__(f"the plain replay failed: {outcome.message}")
        self.outcome = outcome


class PlainRun:
    """The pre-state, run as it is: the reference of runs on other contents.

    ``deadline`` is a `time.monotonic` moment; past it every launch raises OutOfTime with ``what`` in it.
    """

    def __init__(self, engine: Engine, which: str, deadline: float | None, what: str) -> None:
        self._engine = engine
        self._which = which
        self._deadline = deadline
        self._what = what
        self._sizes = [region.size for region in engine.manifest.regions]
        self._generation = -1
        self._noise: Noise | None = None
        self.state = _STATE  # that has what it left in memory
        self.limit_s = engine.timeout_s

    def run(self) -> None:
        """Raises EndedBadly when even this run does not end well."""
        engine = self._engine
        begin = time.monotonic()
        outcome = engine.plain(self._which, self._within(engine.timeout_s), shared=True)
        if not outcome.ok:
            raise EndedBadly(outcome)
        took = max(time.monotonic() - begin, outcome.ns / 1e9)
        self.limit_s = min(engine.timeout_s, max(_LEAST_TIMEOUT_S, took * _SLOWER))
        self._generation = engine.generation
        if self._is_as_captured():
            self._noise = Noise()
            self.state = "post"
        else:
            self.state = _STATE
            engine.snapshot(_STATE)

    def _is_as_captured(self) -> bool:
        """Whether the interpreter gave the application the same bytes: two runs, and no noise."""
        engine = self._engine
        manifest = engine.manifest
        two_runs = self._which == ORIGINAL and manifest.oracle.kind == "trusted"
        alike = engine.choice.memory == "host" and manifest.launch.mode == "interpreter"
        return two_runs and alike and not engine.differing("post")

    def launch(self, limit_s: float | None = None, which: str | None = None) -> Outcome:
        """One launch in memory as it is."""
        within_s = self._within(self.limit_s if limit_s is None else limit_s)
        return self._engine.launch(which or self._which, within_s)

    def _within(self, limit_s: float) -> float:
        """The limit, or less if the deadline is nearer. Raises OutOfTime past it."""
        if self._deadline is None:
            return limit_s
        left = self._deadline - time.monotonic()
        if left <= 0:
            raise OutOfTime(f"{self._what} in the time given")
        return min(limit_s, left)

    @property
    def is_lost(self) -> bool:
        """Whether the worker was replaced since, and the run's result went with it."""
        return self._engine.generation != self._generation

    def keep(self) -> None:
        """Run again if the result is lost."""
        if self.is_lost:
            self.run()

    def ready(self) -> Engine:
        """The engine, with the pre-state in memory and the plain run's result at hand."""
        self.keep()
        self._engine.restore()
        return self._engine

    def is_unlike(self) -> bool:
        """Whether memory differs from the plain run's by more than runs of the kernel differ anyway."""
        engine = self._engine
        regions = engine.differing(self.state)
        if not regions:
            return False
        if self._noise is None:
            engine.snapshot("poisoned run")
            self.noise_floor()
            if self.is_lost:
                return True
            engine.restore("poisoned run")
            engine.drop("poisoned run")
        noise = self.noise_floor()
        if not noise:
            return True
        different = {region: engine.diff(region, self.state) for region in regions}
        for region, bits in different.items():
            # Where the type is known its tolerance decides; elsewhere, bytes that were seen to differ.
            allowed = bitmap.widened(noise.byte_mask(engine, region), 8)
            allowed = allowed | noise.inferred_mask(engine, region)
            for unit in units(engine.manifest):
                if unit.region == region and any(view in noise.views for view in unit.views):
                    allowed = allowed | unit.bits(self._sizes[region])
            left: Bits = bits & ~allowed
            if left.any():
                return True
        wanted = noise.wanted(engine, sorted(noise.views), races=True)
        return any(exceeds(stats) for stats in engine.compare(wanted, self.state))

    def noise_floor(self) -> Noise:
        """How one plain run differs from the next."""
        if self._noise is None:
            noise = Noise()
            # The host runs one program after the other: what differs there differs at once.
            for _ in range(1 if self._engine.choice.memory == "host" else 2):
                self._engine.restore()
                if not self.launch().ok:
                    break
                noise.observe(self._engine, self.state)
            self._noise = noise
        return self._noise

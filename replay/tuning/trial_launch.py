"""A launch that is open for trials: its engine, what was measured of it, how its configurations look."""

from __future__ import annotations

import contextlib
from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property

from kerncap.errors import KerncapError, ReplayError
from kerncap.format import Reproducer
from kerncap.replay.byte_effects import Measured, load
from kerncap.replay.choose_engine import Choice
from kerncap.replay.engine import ORIGINAL, Engine
from kerncap.replay.limits.impossible_times import Floor, of_launch
from kerncap.replay.measure_write_set import measure
from kerncap.replay.paired_times import median
from kerncap.replay.pool import Pool
from kerncap.replay.tuning.check import Checker
from kerncap.replay.tuning.space import LaunchSpace
from kerncap.replay.verdict_words import BY_DTYPE, Tolerance, nothing_written
from kerncap.time_limits import LAUNCH_S

HOST_RUNS = 2
_SLOWEST = 50.0  # times the captured: a candidate that takes longer is ended
_LEAST_LIMIT_S = 5.0


@dataclass(frozen=True)
class BenchOptions:
    """How trials are run; ``slow``: the factor to the best at which one is given up after a cheap timing.

    ``hostile``: the source is a stranger's, and attacks what judges its configurations.
    """

    engine: str = "auto"
    device: str = "auto"
    python: str | None = None
    timeout_s: float = LAUNCH_S
    tolerance: Tolerance = BY_DTYPE
    slow: float = 1.5
    processes: int | None = None  # that compile
    hostile: bool = False


def open_launch(
    reproducer: Reproducer, options: BenchOptions, choice: Choice | None, pool: Pool
) -> OpenLaunch:
    """One reproducer with its own engine, whose workers are forks of a process of ``pool``."""
    engine = Engine(
        reproducer, options.engine, options.device, options.python, options.timeout_s, choice=choice,
        stranger=options.hostile, shared=pool,
    )  # fmt: skip
    try:
        measured = load(reproducer) or measure(engine)
        return OpenLaunch(reproducer, engine, measured, options)
    except BaseException:
        engine.close()
        raise


class OpenLaunch:
    """A launch and the engine that has it, which its opener closes.

    Raises ReplayError or BackendUnavailable if the captured kernel itself does not run, or writes nothing;
    the engine is closed then.
    """

    def __init__(
        self, reproducer: Reproducer, engine: Engine, measured: Measured, options: BenchOptions
    ) -> None:
        self.reproducer = reproducer
        self.space = LaunchSpace(reproducer)
        self.engine = engine
        self.measured = measured
        self.hostile = options.hostile
        try:
            if not self.measured.written_bytes:
                raise ReplayError(f"{reproducer.path}: {nothing_written().summary}")
            self.checker = Checker(self.engine, self.measured, options.tolerance)
            self.dirty = sorted(self.measured.written)
            self.on_device = self.engine.choice.memory != "host"
            if self.on_device:
                # The first use of what poisons and compares loads it: engines that start wait side by side.
                self.checker.problem(ORIGINAL)
            times = self.engine.time(ORIGINAL, *self._runs(), self.dirty, cold=True)  # as its configurations
            self.original_ms = median(times)
            self.engine.timeout_s = min(
                options.timeout_s, max(_LEAST_LIMIT_S, _SLOWEST * self.original_ms / 1e3)
            )
        except BaseException:
            self.engine.close()
            raise

    @property
    def is_native(self) -> bool:
        """Whether its configurations are one at a time: images, or in place of several launches."""
        choice = self.engine.choice
        return (choice.launcher == "native" and not choice.source) or not self.engine.one_launch

    @cached_property
    def has_in_place(self) -> bool:
        """Whether it reads anything that it writes."""
        return any(self.measured.in_place(region).any() for region in self.measured.written)

    @cached_property
    def _floor(self) -> Floor | None:
        return of_launch(self.engine, self.measured)

    def impossible(self, ms: float) -> str:
        """Why no launch can have taken this time; nothing if one can."""
        return "" if self._floor is None else self._floor.problem(ms)

    def unload(self, names: Sequence[str]) -> None:
        """Forget these configurations, whatever became of them."""
        for name in names:
            with contextlib.suppress(KerncapError):
                self.engine.unload(name)

    def _runs(self) -> tuple[int, int]:
        return (2, 10) if self.on_device else (0, HOST_RUNS)


def first_line(error: BaseException) -> str:
    """What an error says, short enough for a table."""
    lines = [line for line in str(error).splitlines() if line.strip()]
    return (lines[0].strip() if lines else type(error).__name__)[:500]

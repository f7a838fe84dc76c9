"""A launch that stays in one engine, for all that is judged on it."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

from kerncap.format import Reproducer
from kerncap.replay.byte_effects import Measured
from kerncap.replay.engine import CANDIDATE, Engine
from kerncap.replay.measure_write_set import measure
from kerncap.replay.verdict import judge
from kerncap.replay.verdict_words import BY_DTYPE, Tolerance, Verdict
from tests.shared_nurseries import pool

from .build import HEADER, Launch


def candidate(folder: Path, source: str, name: str = "candidate.py") -> Path:
    path = folder / name
    path.write_text(HEADER + source)
    return path


@dataclass
class Resident:
    """A launch in a resident engine: whatever is judged on it starts no worker anew (torch takes seconds)."""

    engine: Engine
    measured: Measured
    folder: Path

    def judge(
        self, source: str | None = None, tolerance: Tolerance = BY_DTYPE, timeout_s: float = 20.0
    ) -> Verdict:
        """The verdict on a candidate's source, or on the captured kernel."""
        self.engine.timeout_s = timeout_s
        if source is None:
            return judge(self.engine, self.measured)
        self.engine.load_candidate(candidate(self.folder, source))
        return judge(self.engine, self.measured, CANDIDATE, tolerance)


@contextmanager
def resident(launch: Launch, folder: Path) -> Iterator[Resident]:
    path = launch.seal(folder)
    with Reproducer.open(path) as reproducer, Engine(reproducer, shared=pool()) as engine:
        yield Resident(engine, measure(engine), folder)

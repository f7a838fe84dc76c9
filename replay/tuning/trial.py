"""What became of a configuration on one launch."""

from __future__ import annotations

import dataclasses
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any, Literal

from kerncap.replay.tuning import point
from kerncap.replay.tuning.point import Point

WITHIN = 1.03  # as good as the best

# timed: right, and measured well; slow: right, given up after a cheap timing; wrong: another result;
# failed: it faulted, hung or raised; pruned: never run; lost: the process that ran it died, twice.
State = Literal["timed", "slow", "wrong", "failed", "pruned", "lost"]


@dataclass(frozen=True)
class Trial:
    """``ms`` is the median of ``runs`` launches (of a cheap timing the least)."""

    point: Point
    digest: str
    state: State
    reason: str = ""
    ms: float | None = None
    runs: int = 0
    registers: int | None = None
    spilled_bytes: int | None = None
    shared_bytes: int | None = None
    occupancy: float | None = None
    compile_ms: float = 0.0
    cached: bool | None = None  # whether loading found what was compiled ahead
    worker: str = ""

    def as_dict(self) -> dict[str, Any]:
        found = dataclasses.asdict(self)
        found["point"] = dict(self.point)
        return {name: value for name, value in found.items() if value not in (None, "")}

    @staticmethod
    def from_dict(found: Mapping[str, Any]) -> Trial:
        """The trial that `as_dict` wrote. Raises TypeError, ValueError or KeyError for anything else."""
        known = {each.name for each in dataclasses.fields(Trial)}
        values = {name: value for name, value in found.items() if name in known}
        values["point"] = point.from_json(values["point"])
        return Trial(**values)


@dataclass(frozen=True)
class Final:
    """A finalist: its times and the original's, in pairs; ``problem``: why it has no times."""

    point: Point
    digest: str
    times_ms: list[float] = field(default_factory=list)
    original_ms: list[float] = field(default_factory=list)
    problem: str = ""

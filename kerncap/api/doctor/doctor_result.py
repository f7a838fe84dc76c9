"""What a doctor's report is made of."""

from __future__ import annotations

from dataclasses import asdict, dataclass, field
from typing import Any, Literal

Status = Literal["ok", "missing", "note"]


@dataclass(frozen=True, kw_only=True)
class Check:
    """One fact. ``missing`` stands in some way's way; ``note`` is worth knowing and harmless."""

    name: str
    status: Status
    detail: str
    next_step: str | None = None


@dataclass(frozen=True, kw_only=True)
class Way:
    """One way to capture and replay here: it works, or the first reason why not."""

    name: str
    works: bool
    reason: str | None = None
    next_step: str | None = None


@dataclass(frozen=True, kw_only=True)
class Step:
    """One step of a self-test that was taken."""

    name: str
    seconds: float


@dataclass(frozen=True, kw_only=True)
class SelfTest:
    """A small launch by one way; ``step`` is the one that failed, ``reason`` what it said."""

    way: str
    result: Literal["pass", "fail", "skipped"]
    step: str | None = None
    reason: str | None = None
    steps: tuple[Step, ...] = ()


@dataclass(frozen=True, kw_only=True)
class Report:
    kerncap: str
    python: str  # the interpreter that was asked about
    ways: tuple[Way, ...]
    checks: tuple[Check, ...]
    facts: dict[str, Any] = field(default_factory=dict)  # for a bug report
    self_test: tuple[SelfTest, ...] = ()

    @property
    def works(self) -> bool:
        """Whether any way works, and none that was tried failed."""
        return any(way.works for way in self.ways) and not any(one.result == "fail" for one in self.self_test)

    def as_dict(self) -> dict[str, Any]:
        """The document of ``kerncap doctor --json``."""
        return {"result": "ok" if self.works else "missing", **asdict(self)}

"""What a doctor's report is made of."""

from __future__ import annotations

from dataclasses import asdict, dataclass, field
from typing import Annotated, Any, Literal

from kerncap.format.document_types import says

Status = Literal["ok", "missing", "note"]


@dataclass(frozen=True, kw_only=True)
class Check:
    # `note` is worth knowing and harmless.
    name: str
    status: Annotated[Status, says("missing: blocks at least one way to capture and replay.")]
    detail: str
    next_step: str | None = None


@dataclass(frozen=True, kw_only=True)
class Way:
    """A way to capture and replay, or the first reason why it doesn't work here."""

    name: str
    works: bool
    reason: str | None = None
    next_step: str | None = None


@dataclass(frozen=True, kw_only=True)
class Step:
    name: str
    seconds: float


@dataclass(frozen=True, kw_only=True)
class SelfTest:
    """A small launch, captured and replayed in one way."""

    way: str
    result: Literal["pass", "fail", "skipped"]
    step: Annotated[str | None, says("The step that failed.")] = None
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

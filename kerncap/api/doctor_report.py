"""What a doctor's report is made of."""

from __future__ import annotations

from dataclasses import asdict, dataclass
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
class Report:
    kerncap: str
    python: str  # the interpreter that was asked about
    ways: tuple[Way, ...]
    checks: tuple[Check, ...]

    @property
    def works(self) -> bool:
        return any(way.works for way in self.ways)

    def as_dict(self) -> dict[str, Any]:
        """The document of ``kerncap doctor --json``."""
        return {"result": "ok" if self.works else "missing", **asdict(self)}

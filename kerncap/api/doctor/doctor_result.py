"""What a doctor's report is made of."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any

from kerncap.report.documents.doctor import Check, DoctorDocument, SelfTest, Way


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
        return DoctorDocument(result="ok" if self.works else "missing", **vars(self)).as_dict()

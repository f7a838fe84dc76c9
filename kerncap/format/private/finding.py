"""One private place of a reproducer, told without what is private."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, Literal

Kind = Literal["secret", "user", "host", "variable"]
KEPT = "kept"


@dataclass(frozen=True)
class Finding:
    """Something private was at a place of a file; ``became`` is what is there now."""

    file: str
    kind: Kind
    what: str
    line: int | None  # 1-based; None in the manifest and in a file that is no text
    key: str | None  # of the manifest: "command[3]"
    shown: str  # enough to find it, not enough to use it
    became: str  # "REDACTED", "USER", "HOST", "x" as often, or "kept"

    def __str__(self) -> str:
        """``source/kernel.py:12: a home folder (alice) -> USER``."""
        where = self.file
        if self.key is not None:
            where += f": {self.key}"
        elif self.line is not None:
            where += f":{self.line}"
        return f"{where}: {self.what} ({self.shown}) -> {self.became}"

    def as_dict(self) -> dict[str, Any]:
        """For JSON; the private text itself is not in it."""
        return {
            "kind": self.kind, "what": self.what, "file": self.file, "line": self.line, "key": self.key,
            "shown": self.shown, "became": self.became,
        }  # fmt: skip


def hint(value: str, kind: Kind) -> str:
    """What of a private text may be shown to who owns it: names in full, of a secret next to nothing."""
    text = value if value.isprintable() else "".join(c if c.isprintable() else "." for c in value)
    if kind in ("user", "host"):
        return text[:80]
    return f"{text[:2] if len(text) >= 12 else ''}… ({len(text)} characters)"

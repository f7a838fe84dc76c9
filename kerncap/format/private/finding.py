"""One private place of a reproducer, described without what is private."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Annotated, Literal

from kerncap.format.document_types import says

Kind = Literal["secret", "user", "host", "variable"]
KEPT = "kept"


@dataclass(frozen=True)
class Finding:
    """A place with private data; the text itself is not included."""

    file: Annotated[str, says("Path in the reproducer.")]
    kind: Kind
    what: str
    line: Annotated[int | None, says("From 1; null in the manifest and in binary files.")]
    key: Annotated[str | None, says("Key in the manifest.")]
    shown: Annotated[str, says("Excerpt that helps to find the place.")]  # not enough to use it
    became: Annotated[str, says("The replacement; 'kept' if it stays.")]

    def __str__(self) -> str:
        """``source/kernel.py:12: a home folder (alice) -> USER``."""
        where = self.file
        if self.key is not None:
            where += f": {self.key}"
        elif self.line is not None:
            where += f":{self.line}"
        return f"{where}: {self.what} ({self.shown}) -> {self.became}"


def hint(value: str, kind: Kind) -> str:
    """What of a private text may be shown to who owns it: names in full, of a secret next to nothing."""
    text = value if value.isprintable() else "".join(c if c.isprintable() else "." for c in value)
    if kind in ("user", "host"):
        return text[:80]
    return f"{text[:2] if len(text) >= 12 else ''}… ({len(text)} characters)"

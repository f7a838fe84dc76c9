"""What a page is made of: an open reproducer, and everything in it and next to it that may be shown."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from kerncap.format import Reproducer, schema
from kerncap.printable import visible

Document = dict[str, Any]

MAX_TEXT = 400


@dataclass(frozen=True)
class Material:
    """``facts`` is `api.inspect`'s document, ``results`` those of other commands by kind, all as they may be
    shown. ``clean`` makes a stored file's bytes so. ``left_out`` collects what the page has no room for.
    """

    reproducer: Reproducer
    facts: Document
    clean: Callable[[str, bytes], bytes]
    results: Mapping[str, Sequence[Document]] = field(default_factory=dict)
    not_sanitized: str = ""  # why there is no answer of the sanitizer
    left_out: list[str] = field(default_factory=list)

    @property
    def manifest(self) -> Document:
        found: Document = self.facts["manifest"]
        return found

    @property
    def truth(self) -> schema.Manifest:
        """For numbers and for reading; its texts may be private."""
        return self.reproducer.manifest

    @property
    def has_values(self) -> bool:
        """False if the capture left all contents out: memory is then zeros or missing."""
        return not self.truth.closure.without_values

    def read(self, stored: schema.StoredFile) -> bytes:
        """A stored file's bytes, as they may be shown. Raises FormatError."""
        return self.clean(stored.path, self.reproducer.file(stored))

    def of(self, kind: str) -> Sequence[Document]:
        return self.results.get(kind, ())


def plain(text: object, limit: int = MAX_TEXT) -> str:
    """``text`` on one line, nothing in it that steers the rest (controls, bidirectional marks)."""
    return visible(text, limit)

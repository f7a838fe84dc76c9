"""What of a file should not leave the machine: tokens, keys, passwords, home folders.

Works on bytes, so that debug paths inside an image are found as a line of source is. What looks like a secret
is told by the shapes that the issuers publish, or by a name such as ``api_key`` before it. Memory is not
looked at: a reproducer's data is what it is about.
"""

from __future__ import annotations

import math
import re
from collections import Counter
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Literal

Kind = Literal["secret", "path"]

_TOKENS = {
    "an AWS access key": rb"\b(?:AKIA|ASIA)[0-9A-Z]{16}\b",
    "a GitHub token": rb"\b(?:gh[pousr]_[A-Za-z0-9]{36,255}|github_pat_[A-Za-z0-9_]{22,255})\b",
    "a GitLab token": rb"\bglpat-[A-Za-z0-9_-]{20,255}",
    "a Slack token": rb"\bxox[abeoprs]-[A-Za-z0-9-]{10,255}",
    "a Hugging Face token": rb"\bhf_[A-Za-z0-9]{30,255}\b",
    "an API key": rb"\bsk-[A-Za-z0-9_-]{20,255}",
    "a Google API key": rb"\bAIza[0-9A-Za-z_-]{35}",
    "a PyPI token": rb"\bpypi-AgEI[A-Za-z0-9_-]{50,255}",
    "an npm token": rb"\bnpm_[A-Za-z0-9]{36}\b",
    "a JSON web token": rb"\beyJ[A-Za-z0-9_-]{10,4096}\.eyJ[A-Za-z0-9_-]{10,4096}\.[A-Za-z0-9_-]{10,4096}",
    "a private key": rb"-----BEGIN (?:[A-Z]{2,12} )?PRIVATE KEY-----"
    rb"(?:(?:\s|\\n|\\r){1,4}[A-Za-z0-9+/=]{16,80}){0,400}"
    rb"(?:(?:(?:\s|\\n|\\r){1,4}[A-Za-z0-9+/=]{1,80})?(?:\s|\\n|\\r){1,4}-----END [A-Z ]{1,40}-----)?",
}
_PASSWORD_IN_URL = rb"\b[a-z][a-z0-9+.-]{1,20}://[^/\s:@\"'\\\0]{1,128}:([^/\s@\"'\\\0]{1,256})@"
_NAME = rb"(?:api_?-?key|secret|token|passw(?:or)?d|credential)"
# A quoted value after a name that tells, or one right behind the sign, as in an environment.
_QUOTED = rb"(?i)" + _NAME + rb"[\w-]{0,64}[\"']?\s{0,8}[:=]\s{0,8}[\"']([^\"'\s\\\0]{8,256})[\"']"
_BARE = rb"(?i)" + _NAME + rb"[\w-]{0,64}=([A-Za-z0-9_./+=~-]{8,256})"
# In a list of words: `"--token", "value"`.
_OPTION = rb"(?i)" + _NAME + rb"[\w-]{0,64}\",\s{0,64}\"([^\"\s\\]{4,256})\""
_LEAST_BITS = 2.8  # of a character: words and repeated letters have less

_HOME = (
    rb"(?:/(?:home|Users)/|\b[A-Za-z]:\\{1,2}Users\\{1,2})([^/\\\s\"'<>:;,|?*\0]{1,64})(?=[/\\\"'\s:;,\0]|$)"
)
_IN_URL = re.compile(rb"[a-z]://[^\s\"'<>]*$")
_OPTION_BEGINS = re.compile(rb"\"--?[\w-]*$")
_FILLER = b"x"


@dataclass(frozen=True)
class Finding:
    """One place in a file: the bytes from ``start`` to ``stop`` are private."""

    file: str
    kind: Kind
    what: str
    start: int
    stop: int
    line: int | None  # 1-based; None in a file that is no text
    shown: str  # enough to find it, not enough to use it

    def __str__(self) -> str:
        """``source/kernel.py:12: a home folder (alice)``."""
        where = f"{self.file}:{self.line}" if self.line is not None else f"{self.file}: byte {self.start}"
        return f"{where}: {self.what} ({self.shown})"

    def as_dict(self) -> dict[str, Any]:
        """For JSON; the private text itself is not in it."""
        where = {"file": self.file, "line": self.line, "byte": self.start}
        return {"kind": self.kind, "what": self.what, **where, "shown": self.shown}


class Scanner:
    """Looks for what is private; ``homes`` belong to a person though their names don't say so."""

    def __init__(self, homes: Iterable[Path | str] = ()) -> None:
        self._secrets = [(what, re.compile(text)) for what, text in _TOKENS.items()]
        self._secrets.append(("a password in a URL", re.compile(_PASSWORD_IN_URL)))
        self._assigned = [re.compile(text) for text in (_QUOTED, _BARE, _OPTION)]
        self._option = self._assigned[-1]
        self._homes = [re.compile(_HOME)]
        for home in homes:
            name = str(home).rstrip("/").encode("utf-8", "surrogateescape")
            if name.count(b"/") >= 2:  # not /root, which is nobody's own
                self._homes.append(re.compile(rb"(?<![\w.-])" + re.escape(name) + rb"(?=[/\"'\s:;,\0]|$)"))

    def scan(self, file: str, data: bytes) -> list[Finding]:
        """Every private place of ``data``, by position; each byte belongs to one of them at the most."""
        found = sorted(self._matches(data), key=lambda one: (one[0], -one[1]))
        text = b"\0" not in data
        findings: list[Finding] = []
        line, counted, end = 1, 0, 0
        for start, stop, kind, what in found:
            if start < end:
                continue
            line, counted, end = line + data.count(b"\n", counted, start), start, stop
            shown = _shown(data[start:stop], kind)
            findings.append(Finding(file, kind, what, start, stop, line if text else None, shown))
        return findings

    def _matches(self, data: bytes) -> Iterator[tuple[int, int, Kind, str]]:
        for what, pattern in self._secrets:
            for match in pattern.finditer(data):
                yield (*match.span(pattern.groups), "secret", what)
        for pattern in self._assigned:
            for match in pattern.finditer(data):
                if pattern is self._option and not _OPTION_BEGINS.search(data, *_before(match.start())):
                    continue
                if _looks_random(match[1]):
                    yield (*match.span(1), "secret", "a value that its name calls secret")
        for pattern in self._homes:
            for match in pattern.finditer(data):
                # Filled up before, or the page of a site.
                if match[pattern.groups].strip(_FILLER) and not _IN_URL.search(data, *_before(match.start())):
                    yield (*match.span(pattern.groups), "path", "a home folder")


def _before(place: int) -> tuple[int, int]:
    """The bytes in front of a place that can tell what it belongs to."""
    return max(0, place - 200), place


def redacted(data: bytes, findings: Iterable[Finding]) -> bytes:
    """``data`` with every place filled up: as long as before, so that images stay images."""
    out = bytearray(data)
    for one in findings:
        out[one.start : one.stop] = bytes(
            byte if byte in b"/\n" else _FILLER[0] for byte in data[one.start : one.stop]
        )
    return bytes(out)


def _looks_random(value: bytes) -> bool:
    if not value.strip(b"x*.") or not any(48 <= byte <= 57 for byte in value):
        return False
    counts = Counter(value).values()
    bits = -sum(n / len(value) * math.log2(n / len(value)) for n in counts)
    return bits >= _LEAST_BITS


def _shown(value: bytes, kind: Kind) -> str:
    text = value.decode("utf-8", "backslashreplace")
    text = "".join(c if c.isprintable() else "." for c in text)
    if kind == "path":
        return text[:80]
    return f"{text[:4]}… ({len(text)} characters)"

"""Replaces what is private in the texts, images and the manifest of a reproducer, the same everywhere."""

from __future__ import annotations

import base64
import hashlib
import json
import re
import urllib.parse
from collections.abc import Callable, Collection, Iterable, Iterator

from kerncap.format.private.finding import KEPT, Finding, Kind, hint
from kerncap.format.private.people import KnownNames, Names, homes_in
from kerncap.format.private.pieces import Span, merged, secrets_of
from kerncap.format.private.ptx_bytes import PtxBytes
from kerncap.format.private.secret_words import REDACTED, is_placeholder
from kerncap.format.private.source_strings import Code

_BASE64 = re.compile(rb"[A-Za-z0-9+/_-]+={0,2}")
_MOST_KNOWN = 256
Searched = Callable[[int], None]


class Scrubber:
    """First `look` at every file, then `text` and `image` give them without what was found.

    ``keep``: kinds that stay. One object for one reproducer: a name has the same placeholder in all of it.
    """

    def __init__(self, names: Names, keep: Collection[Kind] = ()) -> None:
        self.keep = frozenset(keep)
        self.findings: list[Finding] = []
        self._users = dict.fromkeys(names.users)
        self._hosts = dict.fromkeys(names.hosts)
        self._left: set[str] = set()
        self._looked_at: dict[str, tuple[bytes, list[Span]]] = {}  # by file: digest, and what was found
        self._values: dict[bytes, None] = {}
        self._placeholders: dict[tuple[Kind, bytes], str] = {}
        self._known: tuple[KnownNames, KnownNames, tuple[tuple[bytes, bool], ...]] | None = None

    # --- what is learned before anything is replaced ---------------------------------------

    def look(self, name: str, data: bytes, searched: Searched | None = None) -> None:
        """Learn the people that paths name, the secrets, and what the sources call their own."""
        self._known = None
        for start, stop in homes_in(data):
            self._users.setdefault(data[start:stop].decode("utf-8", "surrogateescape"))
        code = Code.of(name, data)
        if code is not None and name.endswith((".py", ".cu", ".cuh", ".h", ".hpp", ".hip", ".cpp")):
            self._left |= code.identifiers()
        found = self._secrets(name, data, searched)
        self._looked_at[name] = hashlib.sha256(data).digest(), found
        for start, stop, _ in found:
            self.learn(data[start:stop])

    def learn(self, value: bytes) -> None:
        """A secret: wherever else it stands, as it is or encoded, it goes, too."""
        self._known = None
        for part in {value, *re.split(rb"[:\s;&]", value)}:
            text = part.decode("latin-1")
            passed = len(part) < 8 or is_placeholder(text) or _is_scheme(text)
            if not passed and len(self._values) < _MOST_KNOWN:
                self._values.setdefault(part)

    # --- replacing ---------------------------------------------------------------------------

    def text(self, name: str, data: bytes, key: str | None = None) -> bytes:
        """A text without what is private, of whatever length."""
        out, end, line, counted = [], 0, 1, 0
        for start, stop, kind, what in self._places(name, data):
            value = data[start:stop]
            line, counted = line + data.count(b"\n", counted, start), start
            became = self._became(kind, value)
            self._found(name, kind, what, value, became, None if key else line, key)
            out += [data[end:start], value if became == KEPT else became.encode()]
            end = stop
        out.append(data[end:])
        return b"".join(out)

    def image(self, name: str, data: bytes) -> bytes:
        """An image with as many ``x`` in place of what is private: its offsets stay."""
        out = bytearray(data)
        for start, stop, kind, what in self._places(name, data):
            became = KEPT if kind in self.keep else "x"
            self._found(name, kind, what, data[start:stop], became, None, None)
            if became != KEPT:
                out[start:stop] = b"x" * (stop - start)
        return bytes(out)

    def file(self, name: str, data: bytes) -> bytes:
        """A file of a reproducer, by what it is."""
        if b"\0" in data:
            return self.image(name, data)
        if b".b8" in data and name.endswith((".ptx", ".s", ".amdgcn")):
            inner = PtxBytes(data)
            data = inner.replaced(self.image(name, inner.bytes))
        return self.text(name, data)

    def path(self, name: str) -> str:
        """The name of a file in the reproducer."""
        # In front of it stands what a path in a text has.
        data = self._quiet(("/" + name).encode("utf-8", "surrogateescape"))
        return data[1:].decode("utf-8", "surrogateescape")

    def string(self, key: str, value: str) -> str:
        """A string of the manifest."""
        raw = value.encode("utf-8", "surrogatepass")
        return self.text("manifest.json", raw, key=key).decode("utf-8", "surrogatepass")

    def secret(self, key: str, value: str, what: str, kind: Kind = "secret") -> str:
        """A string of the manifest that is one secret."""
        became = KEPT if kind in self.keep else REDACTED
        self._found("manifest.json", kind, what, value.encode("utf-8", "replace"), became, None, key)
        return value if became == KEPT else became

    # --- finding -------------------------------------------------------------------------------

    def _secrets(self, name: str, data: bytes, searched: Searched | None = None) -> list[Span]:
        digest, before = self._looked_at.get(name, (None, []))
        if digest is not None and digest == hashlib.sha256(data).digest():
            return before.copy()  # a search takes twenty times as long as a digest
        image = b"\0" in data
        found = [
            one
            for one in secrets_of(data, by_name=not image, searched=searched)
            if not is_placeholder(data[one[0] : one[1]].decode("latin-1"))
        ]
        code = Code.of(name, data) if found and not image else None
        return [one for one in found if code is None or code.tells(one[0])]

    def _places(self, name: str, data: bytes) -> list[tuple[int, int, Kind, str]]:
        users, hosts, values = self._prepared()
        secrets = self._secrets(name, data)
        secrets += ((*span, "a secret that is elsewhere too") for span in _values_in(data, values))
        found: list[tuple[int, int, Kind, str]] = [(a, b, "secret", what) for a, b, what in merged(secrets)]
        found.extend((a, b, "user", "a home folder") for a, b in homes_in(data))
        found.extend((a, b, "user", "a user name") for a, b in users.find(data))
        found.extend((a, b, "host", "a host name") for a, b in hosts.find(data))
        return list(_apart(found))

    def _prepared(self) -> tuple[KnownNames, KnownNames, tuple[tuple[bytes, bool], ...]]:
        if self._known is None:
            values = tuple(dict.fromkeys(form for value in self._values for form in _forms(value)))
            self._known = KnownNames(self._users, self._left), KnownNames(self._hosts, self._left), values
        return self._known

    def _became(self, kind: Kind, value: bytes) -> str:
        if kind in self.keep:
            return KEPT
        if kind == "secret":
            return REDACTED
        known = self._placeholders
        if (kind, value) not in known:
            count = sum(each == kind for each, _ in known)
            known[kind, value] = f"{kind.upper()}{count + 1 if count else ''}"
        return known[kind, value]

    def _quiet(self, data: bytes) -> bytes:
        before = list(self.findings)
        try:
            return self.text("", data, key="")
        finally:
            self.findings = before

    def _found(
        self, file: str, kind: Kind, what: str, value: bytes, became: str, line: int | None, key: str | None
    ) -> None:
        shown = hint(value.decode("utf-8", "backslashreplace"), kind)
        self.findings.append(Finding(file, kind, what, line, key, shown, became))


def _is_scheme(text: str) -> bool:
    return text.lower() in ("bearer", "basic", "authorization", "password", "access-token", "x-access-token")


def _forms(value: bytes) -> Iterator[tuple[bytes, bool]]:
    """A value as it is, escaped, percent-encoded, in hex and in base64; whether it is base64."""
    yield value, False
    text = value.decode("utf-8", "surrogateescape")
    for form in (
        urllib.parse.quote_from_bytes(value, safe=""), urllib.parse.quote_from_bytes(value), value.hex(),
        json.dumps(text)[1:-1], json.dumps(text, ensure_ascii=False)[1:-1],
    ):  # fmt: skip
        encoded = form.encode("utf-8", "surrogateescape")
        if encoded != value:
            yield encoded, False
    if len(value) < 8:
        return
    for shift in range(3):  # what of it every text around it leaves as it is
        coded = base64.b64encode(b"\0" * shift + value)
        first, last = -(-shift * 8 // 6), (shift + len(value)) * 8 // 6
        yield coded[first:last], True
        if b"+" in coded or b"/" in coded:
            yield base64.urlsafe_b64encode(b"\0" * shift + value)[first:last], True


def _values_in(data: bytes, forms: Iterable[tuple[bytes, bool]]) -> Iterator[tuple[int, int]]:
    for form, coded in forms:
        start = data.find(form)
        while start >= 0:
            stop = start + len(form)
            if coded:  # the rest of the run is of the same secret
                head = data[max(0, start - 256) : start]
                first = start - len(head) + len(head.rstrip(_B64_LETTERS))
                run = _BASE64.match(data, first)
                first, stop = first, max(stop, run.end() if run is not None else stop)
                yield first, min(stop, start + 4096)
            else:
                yield start, stop
            start = data.find(form, max(stop, start + 1))


_B64_LETTERS = b"ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789+/_-"


def _apart(found: Iterable[tuple[int, int, Kind, str]]) -> Iterator[tuple[int, int, Kind, str]]:
    """In order, none in another; a secret goes before a name that lies in it."""
    end = 0
    ordered = sorted(found, key=lambda one: (one[0], one[2] != "secret", -one[1]))
    secrets = [one for one in ordered if one[2] == "secret"]
    number = 0
    for one in ordered:
        while number < len(secrets) and secrets[number][1] <= one[0]:
            number += 1
        hidden = one[2] != "secret" and number < len(secrets) and secrets[number][0] < one[1]
        if one[0] >= end and not hidden:
            end = one[1]
            yield one

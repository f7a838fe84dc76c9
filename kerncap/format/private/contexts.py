"""Secrets that are recognised by the text before them: a name, a header, a URL.

The name is searched for by a few stems in one pass, which is linear; what is around a stem is looked at
in bounded steps.
"""

from __future__ import annotations

import functools
import re
from collections.abc import Iterator
from dataclasses import dataclass

from kerncap.format.private.secret_words import Grade, grade, is_placeholder, looks_random

# In lower case, with what follows up to the sign of an assignment. Longest names have some 48 letters more.
STEMS = (
    rb"pass", rb"pwd", rb"secret", rb"token", rb"key", rb"auth", rb"cred", rb"cookie", rb"sess", rb"sig",
    rb"webhook", rb"jwt", rb"dsn", rb"bearer", rb"basic", rb"_pat", rb"-pat", rb"_pw", rb"-pw", rb"login",
    rb"-pin", rb"_pin", rb"-otp", rb"_otp",
)  # fmt: skip
_TAIL = 32
# The group makes the tail possessive: what follows it is looked at once.
_POSSESSIVE = rb"(?=(?P<tail>[\w-]{0,%d}))(?P=tail)" % _TAIL
_STEM = rb"(?:" + rb"|".join(STEMS) + rb")"
_NAME = re.compile(_STEM + _POSSESSIVE + rb"(?=\\{0,3}[\"'`]?\\?[\"'\])]{0,2}\s{0,4}[=:,])")
# What has its value as the next word: an option, a scheme of a header, a word of .netrc.
_OPTION = re.compile(rb"--?[a-z]" + _POSSESSIVE + rb"(?=\\?[\"'`]?\s)")
_WORD = re.compile(rb"(?:b(?:earer|asic)|passw(?:or)?d|login)(?=\\?[\"'`]?\s)")
_NAME_LETTERS = b"abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789_-."
_LONGEST_NAME = 96
_SIGN = re.compile(
    rb"\\{0,3}(?P<close>[\"'`]?)\\?[\"'\])]{0,2}(?P<sign>\s{0,4}(?::\s?str\s?=|:=|=>|==?|:|,)\s{0,4}|\s{1,4})"
)
_QUOTED = re.compile(
    rb"[rbfuRBFU]{0,2}\\{0,3}(?P<quote>[\"'`])(?P<value>[^\"'`\r\n\0]{1,4096}?)\\{0,3}(?P=quote)"
)
_BEFORE_QUOTED = frozenset(bytes([letter]) for letter in b"rbfuRBFU\\\"'`")
_BARE = re.compile(rb"[^\s\"'`<>,;&|(){}\[\]\0\\]{1,4096}")
_REST = re.compile(rb"\\{0,3}[\"'`]?(?P<value>[^\"'`\r\n\0]{1,8192})")
_WHOLE_LINE = ("authorization", "cookie")
_USERINFO = re.compile(rb"://(?P<all>[^\s/\"'<>@\0]{1,512}@|[^\s/\"'<>@:\0]{0,256}:[^\s/\"'<>\0]{1,512}@)")
_IS_OPTION = re.compile(rb"--?[\w-]{1,64}")
_SCHEMES = ("bearer", "basic")
_NETRC = ("password", "passwd", "login")

_NAMED = "a value that its name calls secret"
_URL = "a user and password of a URL"


def secrets_of_text(text: str) -> list[tuple[int, int, str]]:
    """(start, stop, what) of every secret of one text that its surroundings tell; offsets of characters."""
    data = text.encode("utf-8", "surrogatepass")
    found = [*named(data, 0, len(data)), *of_urls(data, 0, len(data))]
    if len(data) == len(text):
        return found
    return [
        (len(data[:start].decode("utf-8", "replace")), len(data[:stop].decode("utf-8", "replace")), what)
        for start, stop, what in found
    ]


def named(data: bytes, begin: int, end: int) -> Iterator[tuple[int, int, str]]:
    """Values behind names: ``API_KEY=…``, ``"--token", "…"``, ``Authorization: Bearer …``, ``password …``.

    Of the names that begin in a part of ``data``; their values may lie behind it.
    """
    first = max(0, begin - 1)  # a stem may begin with what joins it to the word before
    low = data[first : end + _TAIL + 16].lower()
    for pattern in (_NAME, _OPTION, _WORD):
        for match in pattern.finditer(low):
            start, stop = first + match.start(), first + match.end()
            if start >= end:
                break
            head = data[max(0, start - _LONGEST_NAME) : start]
            start -= len(head) - len(head.rstrip(_NAME_LETTERS))
            name = _name(data[start:stop])
            sign = _SIGN.match(data, stop) if name is not None else None
            if name is None or sign is None:
                continue
            found = _value(data, start, name, sign)
            if found is not None:
                yield found


@dataclass(frozen=True)
class _Name:
    grade: Grade | None
    is_option: bool
    is_scheme: bool
    is_header: bool  # the value is the whole line
    is_of_netrc: bool


@functools.lru_cache(maxsize=4096)
def _name(raw: bytes) -> _Name | None:
    """None for a name that tells nothing."""
    text = raw.decode("latin-1")
    plain, graded = text.lower().strip("-_."), grade(text)
    if graded is None and plain not in _SCHEMES:
        return None
    return _Name(
        graded, text.startswith("-") and _IS_OPTION.fullmatch(raw) is not None, plain in _SCHEMES,
        plain.endswith(_WHOLE_LINE), plain in _NETRC,
    )  # fmt: skip


def _value(data: bytes, start: int, name: _Name, sign: re.Match[bytes]) -> tuple[int, int, str] | None:
    graded, option, begin = name.grade, name.is_option, sign.end()
    told = sign["sign"].strip()
    if name.is_scheme and not told:
        token = _BARE.match(data, sign.end())
        if token is not None and len(token[0]) >= 8 and looks_random(token[0].decode("latin-1")):
            return (*token.span(), "a credential of a header")
        return None
    if graded is None:
        return None
    if name.is_header and told in (b":", b"=", b","):
        rest = _REST.match(data, sign.end())
        if rest is not None and (told == b":" or b" " in rest["value"] or b"=" in rest["value"]):
            return _kept(rest["value"].decode("latin-1"), rest.span("value"), "a header")
    netrc = name.is_of_netrc and not told and b"machine" in data[max(0, start - 512) : start]
    if (not told and not (option or netrc)) or (told == b"," and not option):
        return None
    quoted = _QUOTED.match(data, begin) if data[begin : begin + 1] in _BEFORE_QUOTED else None
    if quoted is not None:
        text = quoted["value"].decode("latin-1")
        if graded == "certain" or option or looks_random(text) or _before_query(data, start):
            return _kept(text, quoted.span("value"), _NAMED)
        return None
    bare = _BARE.match(data, begin)
    if bare is None:
        return None
    text = bare[0].decode("latin-1")
    if option and text.startswith("-"):
        return None
    spaced = told in (b"=", b":=", b"==") and sign["sign"] != told  # as in code: the value is an expression
    certain = graded == "certain" and not spaced or netrc or (option and not told)
    if certain and len(text) >= 3 or looks_random(text) or (_before_query(data, start) and len(text) >= 4):
        return _kept(text, bare.span(), _NAMED)
    return None


def of_urls(data: bytes, begin: int, end: int) -> Iterator[tuple[int, int, str]]:
    """User and password in front of a URL's host, or a token there."""
    for match in _USERINFO.finditer(data, begin, min(len(data), end + 1024)):
        start, stop = match.start("all"), match.end("all") - 1
        user = data[start:stop]
        # A name alone (git@, or somebody's) is no secret.
        if b":" in user or looks_random(user.decode("latin-1")):
            if is_placeholder(user.decode("latin-1")):
                continue
            yield start, stop, _URL


def _before_query(data: bytes, start: int) -> bool:
    return start > 0 and data[start - 1 : start] in (b"?", b"&", b"#")


def _kept(text: str, span: tuple[int, int], what: str) -> tuple[int, int, str] | None:
    text = text.strip()
    return None if not text or is_placeholder(text) else (*span, what)

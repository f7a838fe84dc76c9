"""A command line, split into options before it is judged: which parts of it are secret."""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from dataclasses import dataclass

from kerncap.format.private.contexts import secrets_of_text
from kerncap.format.private.secret_words import REDACTED, grade, is_placeholder, looks_random

# Programs whose `-p WORD` is a password.
_PASSWORD_BY_P = frozenset({"sshpass", "mysql", "mysqldump", "mysqladmin", "mariadb", "mariadb-dump"})
_ATTACHED = re.compile(
    r"-[pP](?=.{4})(?!ath|arallel|assw|edantic|edigree|g$|ipe|lugin|ort|refix|rint|rof|rogress|thread|y)"
)
_USER = frozenset({"-u", "-U", "--user", "--proxy-user"})
_SCHEMES = frozenset({"bearer", "basic", "token", "digest", "negotiate"})
_NAMED = re.compile(r"(?P<name>\+{0,2}-{0,2}[A-Za-z_][\w.@/:-]{0,127})=")
_WORDS = re.compile(r"[^\s\"']+")


@dataclass(frozen=True)
class SecretPart:
    """``words[index][start:stop]`` is a secret."""

    index: int
    start: int
    stop: int
    what: str


def secret_parts(words: Sequence[str]) -> list[SecretPart]:
    """The secrets of a command line: values of options, headers, parts of URLs, what a shell is given.

    In order, none inside another. Rather one too many: a replay needs no word of it.
    """
    merged: list[SecretPart] = []
    for part in sorted(_parts(words), key=lambda part: (part.index, part.start, -part.stop)):
        if is_placeholder(words[part.index][part.start : part.stop]):
            continue
        if merged and merged[-1].index == part.index and part.start < merged[-1].stop:
            last = merged[-1]
            merged[-1] = SecretPart(last.index, last.start, max(last.stop, part.stop), last.what)
        else:
            merged.append(part)
    return merged


def without_secrets(words: Sequence[str]) -> tuple[str, ...]:
    """The command line with a placeholder for each secret."""
    out = list(words)
    for part in reversed(secret_parts(words)):
        out[part.index] = out[part.index][: part.start] + REDACTED + out[part.index][part.stop :]
    return tuple(out)


def _parts(words: Sequence[str]) -> Iterator[SecretPart]:
    by_p = any(word.rsplit("/", 1)[-1] in _PASSWORD_BY_P for word in words[:8])
    for index, word in enumerate(words):
        for start, stop, what in secrets_of_text(word):
            yield SecretPart(index, start, stop, what)
        if any(c.isspace() for c in word):  # what `sh -c` and its like are given
            yield from _inside(index, word)
            continue
        yield from _option(words, index, by_p)


def _inside(index: int, word: str) -> Iterator[SecretPart]:
    spans = [match.span() for match in _WORDS.finditer(word)]
    for part in _parts([word[start:stop] for start, stop in spans]):
        at = spans[part.index][0]
        yield SecretPart(index, at + part.start, at + part.stop, part.what)


def _option(words: Sequence[str], index: int, by_p: bool) -> Iterator[SecretPart]:
    word, following = words[index], words[index + 1] if index + 1 < len(words) else None
    named = _NAMED.match(word)
    if named is not None:
        if _tells(named["name"], word[named.end() :]):
            yield SecretPart(index, named.end(), len(word), "a value that its name calls secret")
        return
    if word.lower().rstrip(":") in _SCHEMES and following is not None and len(following) >= 8:
        yield SecretPart(index + 1, 0, len(following), "a credential of a header")
    attached = _ATTACHED.match(word)
    if attached is not None and (by_p or not word[2:].isdigit()):
        yield SecretPart(index, 2, len(word), "a password behind -p")
    for option in ("-u", "-U"):
        if word.startswith(option) and ":" in word[2:]:
            yield SecretPart(index, 2, len(word), "a user and password")
    if following is None:
        return
    if word in ("-p", "-P", "-a") and (by_p or looks_random(following)):
        yield SecretPart(index + 1, 0, len(following), f"a value behind {word}")
    elif word in _USER and ":" in following:
        yield SecretPart(index + 1, 0, len(following), "a user and password")
    elif word.startswith("-") and not following.startswith("--") and _tells(word, following):
        yield SecretPart(index + 1, 0, len(following), "a value that its name calls secret")


def _tells(name: str, value: str) -> bool:
    """In a command line the name alone will do; only ``key`` and small numbers have other uses."""
    graded = grade(name)
    if graded is None or not value:
        return False
    if graded == "likely":
        if value.isdigit() and len(value) < 7:
            return False
        if name.lower().endswith(("key", "keys")):
            return looks_random(value)
    return True

"""User and host names: whose they are, and where a text has them.

A name is replaced in a path, and as a word of its own; one that is short, or a word of anybody's, only as the
folder below ``/home/`` or its like. What a source uses as an identifier is no person's name there.
"""

from __future__ import annotations

import os
import pwd
import re
import socket
from collections.abc import Collection, Iterator
from dataclasses import dataclass
from pathlib import Path

_COMMON = """
    root user users test tests admin guest ubuntu debian centos fedora ec2-user runner jenkins docker build
    builder dev ci cuda hip rocm gpu cpu torch triton kernel kernels python node host localhost server worker
    work home data default main nobody public shared share common tmp temp project projects src lib bin opt
    local model models train master app web service services conda miniconda app-user sandbox vscode
    linuxbrew container pod job none null true false self name file path line code source memory x
"""
COMMON = frozenset(_COMMON.split())
PLACEHOLDER = re.compile(rb"(?:USER|HOST)\d{0,4}|x+|~|\*+|\.{1,2}|\$\w+|%\w+%|\{\w*\}|<\w+>")
# After these comes somebody's name, whatever it is.
_HOMES = re.compile(
    rb"(?:(?<![\w.-])/?(?:(?<=/)|(?<=source/))(?:home|homes|Users)/|(?:%2[Ff])(?:home|Users)%2[Ff]|"
    rb"\b[A-Za-z]:[\\/]{1,4}Users[\\/]{1,4})([^/\\\s\"'<>:;,|?*%()\[\]{}\0]{1,64})(?=[/\\\"'\s:;,%()\]}<>\0]|$)"
)
_HOME_WORDS = (b"home", b"Users")
_AROUND_WORD, _OFTEN = (8, 128), 64  # bytes before and behind one that a match reaches; bytes for each
_IN_URL = re.compile(rb"(?<!file)://[^\s\"'<>]{0,200}$")
_LETTERS = b"abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789_.@~+=-"
_MOST_ACCOUNTS = 512


@dataclass(frozen=True)
class Names:
    """Names of people and machines that are known, and so are replaced wherever they stand."""

    users: tuple[str, ...] = ()
    hosts: tuple[str, ...] = ()


def of_this_machine() -> Names:
    """Who runs this, whose accounts are here, and what the machine is called."""
    users = [os.environ.get(name, "") for name in ("USER", "LOGNAME", "SUDO_USER")]
    try:
        own = pwd.getpwuid(os.getuid())
        users += [own.pw_name, own.pw_gecos.split(",")[0] if " " in own.pw_gecos else ""]
    except KeyError:
        pass
    try:
        home = Path.home()
        users.append(home.name if len(home.parts) > 2 else "")
    except (OSError, RuntimeError):
        pass
    for account in pwd.getpwall()[:_MOST_ACCOUNTS]:
        if 1000 <= account.pw_uid < 65000:
            users.append(account.pw_name)
    host = socket.gethostname()
    hosts = [host, host.split(".")[0], os.environ.get("HOSTNAME", "")]
    return Names(tuple(filter(None, dict.fromkeys(users))), tuple(filter(None, dict.fromkeys(hosts))))


def is_distinctive(name: str) -> bool:
    """Whether a name is nobody else's word, so that it can be replaced wherever it stands."""
    return len(name) >= 3 and name.lower() not in COMMON and not name.isdigit()


def homes_in(data: bytes) -> Iterator[tuple[int, int]]:
    """The names of people in the paths of home folders."""
    for match in _matches_of_homes(data):
        name = match[1]
        if PLACEHOLDER.fullmatch(name) or _IN_URL.search(data, max(0, match.start() - 220), match.start()):
            continue
        yield match.span(1)


def _matches_of_homes(data: bytes) -> Iterator[re.Match[bytes]]:
    """Of `_HOMES`, which is looked for only around the words that it has: ten times as fast in most texts."""
    if sum(map(data.count, _HOME_WORDS)) * _OFTEN > len(data):
        yield from _HOMES.finditer(data)
        return
    places = sorted(at for word in _HOME_WORDS for at in _places_of(word, data))
    before, behind = _AROUND_WORD
    end = 0
    for at in places:
        match = _HOMES.search(data, max(end, at - before), at + behind) if at >= end else None
        if match is not None and match.start() <= at < match.start(1):  # another's is cut off
            end = match.end()
            yield match


def _places_of(word: bytes, data: bytes) -> Iterator[int]:
    at = data.find(word)
    while at >= 0:
        yield at
        at = data.find(word, at + 1)


class KnownNames:
    """Finds known names in a text; ``left`` are identifiers of the sources, which stay."""

    def __init__(self, names: Collection[str], left: Collection[str] = ()) -> None:
        words = sorted({name for name in names if is_distinctive(name)} - set(left), key=len, reverse=True)
        self._words = tuple(word.encode("utf-8", "surrogateescape") for word in words)
        alternatives = b"|".join(map(re.escape, self._words))
        # Behind %2F, as a path has it in a URL, a name begins, too.
        self._pattern = re.compile(
            rb"(?:(?<![A-Za-z0-9])|(?<=%2[Ff])|(?<=%5[Cc]))(?:" + alternatives + rb")(?![A-Za-z0-9])"
        )

    def find(self, data: bytes) -> Iterator[tuple[int, int]]:
        if not any(word in data for word in self._words):
            return
        for match in self._pattern.finditer(data):
            start, stop = match.span()
            joined = data[start - 1 : start] == b"_" or data[stop : stop + 1] == b"_"
            if joined and not _in_path(data, start):
                continue
            yield start, stop


def _in_path(data: bytes, place: int) -> bool:
    """Whether the word there is part of a path: ``/tmp/torchinductor_ada``."""
    head = data[max(0, place - 256) : place]
    head = head.rstrip(_LETTERS)
    return head.endswith((b"/", b"\\", b"%2F", b"%2f"))

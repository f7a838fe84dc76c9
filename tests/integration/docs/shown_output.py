"""What a page shows and what a command printed are compared up to numbers, hashes and times.

``…`` stands for any lines, and at the end of a line for its rest.
"""

from __future__ import annotations

import re

ANY = "…"
_NUMBER = re.compile(r"(?<![A-Za-z_\d.])-?\d[\d,]*(?:\.\d+)?(?:e[-+]?\d+)?")
_UNIT = re.compile(r"# (?:ns|us|ms|s|B|KiB|MiB|GiB)\b")
_HASH = re.compile(r"-[0-9a-f]{8}\b")


def normal(line: str) -> str:
    """A line without what differs from run to run."""
    plain = _NUMBER.sub("#", _HASH.sub("-#", line))
    return " ".join(_UNIT.sub("# unit", plain).split())


def differs(shown: tuple[str, ...], printed: list[str]) -> str | None:
    """The first line that the page shows and the command did not print; None: all are as they should be."""
    expected = [normal(line) for line in shown]
    found = [normal(line) for line in printed]
    while expected and not expected[-1]:
        expected.pop()
    while found and not found[-1]:
        found.pop()
    if not expected:
        return None
    return _differs(expected, found, shown)


def _differs(expected: list[str], found: list[str], shown: tuple[str, ...]) -> str | None:
    at, skipping = 0, False
    for number, line in enumerate(expected):
        if line == ANY:
            skipping = True
            continue
        if skipping and number == len(expected) - 1:
            at = max(at, len(found) - 1)  # the page's last line is the command's last
        elif skipping:
            while at < len(found) and not _fits(line, found[at]):
                at += 1
        if at >= len(found) or not _fits(line, found[at]):
            return f"shown: {shown[number]!r}, printed: {found[at] if at < len(found) else 'nothing more'!r}"
        at, skipping = at + 1, False
    if at < len(found) and not skipping:
        return f"printed and not shown: {found[at]!r}"
    return None


def _fits(shown: str, printed: str) -> bool:
    """Whether they are the same; a shown line that ends with ``…`` may go on otherwise."""
    return printed.startswith(shown[:-1]) if shown.endswith(ANY) else printed == shown

"""Whatever a reproducer, a path or an error holds, a terminal sees its escape."""

from __future__ import annotations

import re
from collections.abc import Callable
from functools import cache
from pathlib import Path

import pytest

from kerncap.cli import COMMANDS
from kerncap.printable import printable, visible
from tests.hostile.terminal.screen import on_terminal
from tests.hostile.terminal.stranger import ALL, CHARACTERS, GOLDEN, hostile_copy
from tests.parameters import first_of

VERSIONS = ("v1.0", "v1.1", "v1.2", "v1.3")
# Words behind which the reproducer's folder comes.
READING = {
    "inspect": ["inspect"],
    "inspect --json": ["inspect", "--json"],
    "diff": ["diff", GOLDEN / "v1.1"],
    "diff itself": ["diff", "--code", "all", "--lines", "0", GOLDEN / "v1.0"],
    "diff --json": ["diff", "--json", GOLDEN / "v1.1"],
    "prove": ["prove", GOLDEN / "v1.1"],
    "sanitize": ["sanitize"],
    "sanitize --json": ["sanitize", "--json"],
    "replay": ["replay"],
    "replay --limits": ["replay", "--limits"],
    "replay --compare": ["replay", "--compare", "captured,source"],
    "replay --once": ["replay", "--once"],
    "replay --apply": ["replay", "--apply", "-"],
    "verify": ["verify"],
    "tune": ["tune"],
    "profile": ["profile"],
    "minimize": ["minimize"],
    "pack": ["pack", "-o", "made.zip"],
    "pack --dry-run": ["pack", "--dry-run", "--json"],
    "report": ["report", "-o", "made.html"],
    "report --keep-private": ["report", "-o", "made.html", "--keep-private", "users"],
    "export --as script": ["export", "-o", "made", "--as", "script"],
    "export --as cmake": ["export", "-o", "made", "--as", "cmake"],
    "export --as pytest": ["export", "-o", "made", "--as", "pytest"],
    "seal": ["seal"],
    "unpack": ["unpack"],
}  # fmt: skip
# These say something of the reproducer whatever it is.
TALK = ("inspect", "diff", "replay --limits")


@pytest.fixture(scope="module")
def stranger(tmp_path_factory: pytest.TempPathFactory) -> Callable[[str], Path]:
    parent = tmp_path_factory.mktemp("strangers")
    return cache(lambda version: hostile_copy(version, parent))


@first_of("version", VERSIONS)
@pytest.mark.parametrize("name", READING)
def test_nothing_raw(
    name: str, version: str, stranger: Callable[[str], Path], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    seen = on_terminal(monkeypatch, *READING[name], stranger(version))
    assert seen.raw == ""
    assert seen.status in (0, 1, 2, 3, 4), seen.text
    if name in TALK and seen.status in (0, 1):
        assert "\\x1b]0;t\\x07\\x1b[31m" in seen.text


@pytest.mark.parametrize("name", CHARACTERS)
def test_each_character(
    name: str, tmp_path_factory: pytest.TempPathFactory, monkeypatch: pytest.MonkeyPatch
) -> None:
    """One at a time: none is shown, and none is dropped."""
    character = CHARACTERS[name]
    folder = hostile_copy("v1.0", tmp_path_factory.mktemp("one"), f"<{character}>")
    seen = on_terminal(monkeypatch, "inspect", folder)
    assert seen.status == 0
    assert seen.raw == ""
    assert f"<{printable(character)}>" in seen.text
    escape = printable(character)
    assert escape.isascii() and escape.startswith("\\") and printable(escape) == escape


@pytest.mark.parametrize(
    "text", ["\nResult: PASS", "\n\nkerncap: all is well", "\r\nResult: PASS", "\x85Result: PASS"]
)
@first_of(
    "words",
    [["diff", GOLDEN / "v1.0"], ["inspect"], ["replay", "--limits"], ["sanitize"], ["pack", "--dry-run"]],
)
def test_no_line_of_its_own(
    words: list[str], text: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A text with an end of a line in it does not end kerncap's."""
    folder = hostile_copy("v1.0", tmp_path, text)
    seen = on_terminal(monkeypatch, *words, folder)
    last = text.rpartition("\n")[2]
    assert not re.search(f"^{re.escape(last)}", seen.text, re.MULTILINE), seen.text


@pytest.mark.parametrize("command", [name for name in COMMANDS if name not in ("capture", "list", "doctor")])
def test_a_path_or_an_option(command: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Undecodable bytes, too, which are surrogates in Python."""
    monkeypatch.chdir(tmp_path)
    name = ALL.replace("\0", "") + "\udcff"
    paths = [f"a{name}/b", f"c{name}", f"d{name}"]
    for words in (paths[:1], paths[:2], paths, ["--json", *paths], [f"--no-such-{name}"]):
        seen = on_terminal(monkeypatch, command, *words)
        assert seen.raw == ""
        assert seen.status in (1, 2, 4)
    assert "\\x1b[31m" in seen.text


def test_a_command(monkeypatch: pytest.MonkeyPatch) -> None:
    seen = on_terminal(monkeypatch, ALL + "\udcff")
    assert (seen.raw, seen.status) == ("", 2)
    assert "\\x1b[31m" in seen.text and "\\udcff" in seen.text


@pytest.mark.parametrize("command", ["capture", "list", "doctor"])
def test_a_program(command: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """The target's name is kerncap's to say; what the target prints is its own."""
    monkeypatch.chdir(tmp_path)
    name = ALL.replace("\0", "") + "\udcff"
    seen = on_terminal(monkeypatch, command, "--", tmp_path / f"no-such-{name}")
    assert seen.raw == ""
    assert "\\x1b[31m" in seen.text and "command not found" in seen.text


LETTERS = [
    "kernel",
    "ядро",
    "内核",
    "カーネル",
    "커널",
    "πυρήνας",
    "גרעין",
    "نواة",
    "कर्नेल",
    "núcleo",
    "é",
    "ß",
    "ﬁ",
    "😀",
    "½",
    "→",
]


@pytest.mark.parametrize("text", LETTERS)
def test_letters_stay(text: str) -> None:
    assert printable(text) == visible(text) == text
    assert printable(f"a\t{text}\nb") == f"a\t{text}\nb"
    assert visible(f"a\t{text}\nb") == f"a\\t{text}\\nb"


@pytest.mark.parametrize("first", range(0, 0x110000, 0x11000))
def test_every_code_point(first: int) -> None:
    """What is left is what Unicode calls visible, and the space."""
    for code in range(first, first + 0x11000):
        shown = visible(chr(code))
        assert shown.isprintable()
        assert shown == chr(code) or shown.isascii()

"""A file that the user names is regular and bounded: no FIFO is waited for, no device is read."""

from __future__ import annotations

import json
import os
from pathlib import Path

import pytest
from click.testing import CliRunner

from kerncap.cli import group
from kerncap.errors import KerncapError, UsageError
from kerncap.regular_file import open_regular, read_regular, read_regular_text
from tests.unit.format.damage import GOLDEN, GOLDEN_BLOCK

KINDS = (
    "fifo",
    "/dev/zero",
    "/dev/null",
    "folder",
    "socket",
    "missing",
    "link to a fifo",
    "link to /dev/zero",
)


def made(folder: Path, kind: str, suffix: str = "") -> Path:
    path = folder / f"given{suffix}"
    if kind == "folder":
        path.mkdir()
    elif kind == "socket":
        os.mknod(path, 0o140600)
    elif kind == "fifo":
        os.mkfifo(path)
    elif kind == "link to a fifo":
        os.mkfifo(folder / "fifo")
        path.symlink_to(folder / "fifo")
    elif kind.endswith(("/dev/zero", "/dev/null")):
        path.symlink_to(kind.rpartition(" ")[2])
    return path


COMMANDS = {
    "unpack": ("unpack", "{}"),
    "inspect": ("inspect", "{}"),
    "replay": ("replay", "{}", "--trust"),
    "pack": ("pack", "{}"),
    "diff of reproducers": ("diff", "{}", str(GOLDEN)),
    "diff of results": ("diff", "{}", "{}"),
    "report's part": ("report", str(GOLDEN), "--with", "{}", "-o", "{}.html"),
    "ceilings": ("replay", str(GOLDEN_BLOCK), "--limits", "--trust", "--ceilings", "{}"),
    "from-core": ("from-core", "{}"),
    "from-core's program": ("from-core", "/proc/self/exe", "--exe", "{}"),
    "from-recording": ("from-recording", "{}"),
    "prove": ("prove", "{}", str(GOLDEN)),
    "prove of a source": ("prove", "{}.py", str(GOLDEN)),
    "TTIR": ("sanitize", "{}.ttir", "--grid", "1"),
}
TAKES_A_FOLDER = ("inspect", "replay", "pack", "diff of reproducers", "prove")
ENDINGS = {"TTIR": ".ttir", "prove of a source": ".py"}
CASES = [(n, k) for n in COMMANDS for k in KINDS if k != "folder" or n not in TAKES_A_FOLDER]


@pytest.mark.parametrize(("name", "kind"), CASES)
def test_no_command_reads_it(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, name: str, kind: str) -> None:
    monkeypatch.chdir(tmp_path)
    path = made(tmp_path, kind, ENDINGS.get(name, ""))
    path = path.with_suffix("") if name in ENDINGS else path
    words = [word.format(path) for word in COMMANDS[name]]
    done = CliRunner().invoke(group, words)
    assert isinstance(done.exception, KerncapError), (done.exception, done.output)
    assert done.exception.exit_status in (2, 3), done.exception
    assert len(str(done.exception).splitlines()) == 1


@pytest.mark.parametrize("kind", KINDS)
def test_the_helper_refuses(tmp_path: Path, kind: str) -> None:
    path = made(tmp_path, kind)
    with pytest.raises(UsageError, match="give a regular file|No such file"):
        open_regular(path)
    with pytest.raises(UsageError):
        read_regular(path, 10)


def test_the_helper_is_bounded(tmp_path: Path) -> None:
    path = tmp_path / "a"
    path.write_bytes(b"x" * 11)
    with pytest.raises(UsageError, match="11 bytes or more; at most 10 are read"):
        read_regular(path, 10)
    assert read_regular(path, 11) == b"x" * 11
    os.truncate(path, 1 << 40)
    with pytest.raises(UsageError, match="at most"):
        read_regular(path, 1 << 20)
    with pytest.raises(UsageError, match="at most 10 are read"):
        read_regular("/proc/self/maps", 10)  # says that it has no bytes
    path.write_bytes(b"a\xff")
    with pytest.raises(UsageError, match="byte 1: not UTF-8"):
        read_regular_text(path, 10)
    with pytest.raises(UsageError, match="not a path"):
        read_regular("a\0b", 10)


def test_a_document_is_read_still(tmp_path: Path) -> None:
    path = tmp_path / "a.json"
    path.write_text(json.dumps({"a": 1}))
    assert json.loads(read_regular_text(path, 100)) == {"a": 1}

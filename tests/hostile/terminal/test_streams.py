"""Standard streams that are closed, full, or left by their reader; encodings that lack letters."""

from __future__ import annotations

import io
import json
import os
import re
import shutil
import signal
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path

import pytest

from kerncap.cli import main
from tests.hostile.terminal.stranger import GOLDEN, hostile_copy
from tests.parameters import first_of

# What a command prints its answer to stdout for; the reproducer is the last word.
ANSWERING = {
    "inspect": ["inspect", GOLDEN / "v1.0"],
    "inspect --json": ["inspect", "--json", GOLDEN / "v1.1"],
    "diff": ["diff", GOLDEN / "v1.0", GOLDEN / "v1.1"],
    "diff --json": ["diff", "--json", GOLDEN / "v1.0", GOLDEN / "v1.0"],
    "replay --limits": ["replay", "--limits", GOLDEN / "v1.1"],
    "sanitize": ["sanitize", GOLDEN / "v1.2"],
    "sanitize --json": ["sanitize", "--json", GOLDEN / "v1.2"],
    "pack": ["pack", "-o", "made.zip", GOLDEN / "v1.0"],
    "report": ["report", "--no-sanitize", "-o", "made.html", GOLDEN / "v1.2"],
    "schema": ["schema"],
    "schema inspect": ["schema", "inspect"],
    "help": ["--help"],
    "help of a command": ["replay", "--help"],
    "version": ["--version"],
}
_CLOSED = "it is closed"
_QUICK = ("inspect --json", "diff", "schema", "version")
EACH = [
    pytest.param(words, id=name, marks=[] if name in _QUICK else pytest.mark.long)
    for name, words in ANSWERING.items()
]


def _full() -> io.TextIOWrapper:
    return open("/dev/full", "w", encoding="utf-8")


def _left() -> io.TextIOWrapper:
    """A pipe that nobody reads any more."""
    reading, writing = os.pipe()
    os.close(reading)
    return open(writing, "w", encoding="utf-8")


def _ended(words: list[object], monkeypatch: pytest.MonkeyPatch, out: object, err: object) -> int:
    with monkeypatch.context() as patched:
        patched.setattr(sys, "stdout", out)
        patched.setattr(sys, "stderr", err)
        try:
            return main([str(word) for word in words])
        finally:
            for stream in (out, err):
                if isinstance(stream, io.TextIOWrapper):
                    stream.flush() if isinstance(stream.buffer, io.BytesIO) else stream.close()


@pytest.mark.parametrize("words", EACH)
@pytest.mark.parametrize(
    ("made", "reason"), [(_full, "No space left on device"), (lambda: None, _CLOSED)], ids=["full", "closed"]
)
def test_stdout_that_cannot_be_written(
    words: list[object],
    made: Callable[[], object],
    reason: str,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.chdir(tmp_path)
    err = io.StringIO()
    assert _ended(words, monkeypatch, made(), err) == 2
    lines = [line for line in err.getvalue().splitlines() if line.startswith("kerncap: stdout")]
    assert lines == [f"kerncap: stdout: {reason}; the output is incomplete: send it to a file or a pipe"]
    assert "Traceback" not in err.getvalue() and "internal" not in err.getvalue()


@pytest.mark.parametrize("words", EACH)
def test_a_reader_that_left(words: list[object], tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    err = io.StringIO()
    assert _ended(words, monkeypatch, _left(), err) == 128 + signal.SIGPIPE
    assert "Broken" not in err.getvalue() and "stdout" not in err.getvalue()


@pytest.mark.parametrize("words", [*EACH, ["inspect", "/no/such"], ["--no-such"]])
@pytest.mark.parametrize("made", [_full, _left, lambda: None], ids=["full", "left", "closed"])
def test_stderr_changes_nothing(
    words: list[object], made: Callable[[], object], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    found = []
    for err in (made(), io.StringIO()):
        out = io.StringIO()
        status = _ended(words, monkeypatch, out, err)
        found.append((status, re.sub(r"[\d.]+(e-\d+)?", "0", out.getvalue())))  # times differ
        for file in tmp_path.glob("made.*"):
            file.unlink()
    assert found[0] == found[1]


ENCODINGS = first_of("encoding", ["ascii", "latin-1", "cp437", "koi8-r", "utf-8", "utf-16"])


@ENCODINGS
@pytest.mark.parametrize(
    "words", [["inspect"], ["inspect", "--json"], ["diff", GOLDEN / "v1.0"], ["replay", "--limits"]], ids=str
)
def test_letters_that_an_encoding_lacks(
    words: list[object], encoding: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """They are escaped; the other ones are not, and JSON stays JSON."""
    folder = hostile_copy("v1.1", tmp_path, " é я 核 \U0001f600 \x7f")
    out, err = (io.TextIOWrapper(io.BytesIO(), encoding=encoding) for _ in range(2))
    status = _ended([*words, folder], monkeypatch, out, err)
    assert status in (0, 1)
    text = out.buffer.getvalue().decode(encoding)
    assert out.errors == "strict"  # as it was
    assert "\x7f" not in text and "\\u007f" in text
    if "--json" in words:
        assert " é я 核 \U0001f600 \x7f" in str(json.loads(text)["manifest"]["kernel"]["name"])
    else:
        for letter in "éя核\U0001f600":
            can = letter.encode(encoding, "ignore").decode(encoding) == letter
            shown = letter if can else ascii(letter)[1:-1]
            assert shown in text and (can or letter not in text)


def _shell(line: str, folder: Path, **environment: str) -> subprocess.CompletedProcess[bytes]:
    """``K`` is kerncap, as it is started by a user."""
    start = f'K() {{ "{sys.executable}" -m kerncap "$@"; }}; '
    return subprocess.run(
        ["bash", "-c", start + line], cwd=folder, capture_output=True, timeout=120, check=False,
        env={**os.environ, **environment},
    )  # fmt: skip


# A whole process: what the interpreter itself says and does at its end. (line, status, stdout, stderr)
COMPLAINT = "kerncap: stdout: {}; the output is incomplete: send it to a file or a pipe\n"
PROCESSES = {
    "closed": ("K schema >&-", 2, "", COMPLAINT.format(_CLOSED)),
    "full": ("K schema >/dev/full", 2, "", COMPLAINT.format("No space left on device")),
    "left": ("{ sleep 0; K schema --json; echo $? >&2; } | true; exit 0", 0, "", "141\n"),
    "all closed": ("K schema <&- >&- 2>&-", 2, "", ""),
    "stderr full": ("K inspect /no/such 2>/dev/full", 2, "", ""),
    "stderr closed": ("K --no-such 2>&-", 2, "", ""),
    "stdin closed": ("K --version <&-", 0, "kerncap, version", ""),
    "mcp without stdin": ("K mcp <&-", 2, "", COMPLAINT.format("it is closed, or stdin is")),
    "mcp without stdout": ("K mcp </dev/null >&-", 2, "", COMPLAINT.format("it is closed, or stdin is")),
    "a target without stdout": (
        "K capture -- sh -c '[ -e /proc/self/fd/1 ]; echo $? >&2' >&-",
        None,
        "",
        "1\n",
    ),
    "a target without stdin": ("K capture -- sh -c '[ -e /proc/self/fd/0 ]; echo $?' <&-", None, "1\n", ""),
    "a target without stderr": ("K capture -- sh -c '[ -e /proc/self/fd/2 ]; echo $?' 2>&-", None, "1\n", ""),
    "a target's own bytes": (
        "K capture -- printf '\\033[31m\\377\\007' 2>/dev/null",
        None,
        "\x1b[31m\udcff\x07",
        "",
    ),
}
_SLICE = ("full", "left", "all closed")


@pytest.mark.parametrize(
    "name", [name if name in _SLICE else pytest.param(name, marks=pytest.mark.long) for name in PROCESSES]
)
def test_a_process(name: str, tmp_path: Path) -> None:
    line, status, out, err = PROCESSES[name]
    done = _shell(line, tmp_path)
    said = done.stderr.decode(errors="surrogateescape")
    assert status is None or done.returncode == status, said
    assert done.stdout.decode(errors="surrogateescape").startswith(out)
    if err.startswith("kerncap") or not err and status is not None:
        assert said == err
    else:
        assert said.startswith(err)
    assert "Traceback" not in said and "Exception ignored" not in said


# (environment, encoding of what comes out)
LOCALES = {
    "C": ({"LC_ALL": "C"}, "utf-8"),
    "C without UTF-8 mode": ({"LC_ALL": "C", "PYTHONUTF8": "0"}, "ascii"),
    "POSIX, not coerced": ({"LC_ALL": "POSIX", "PYTHONUTF8": "0", "PYTHONCOERCECLOCALE": "0"}, "ascii"),
    "ascii streams": ({"PYTHONIOENCODING": "ascii"}, "ascii"),
    "strict ascii streams": ({"PYTHONIOENCODING": "ascii:strict"}, "ascii"),
    "latin-1 streams": ({"PYTHONIOENCODING": "latin-1"}, "latin-1"),
    "latin-1 streams in C": ({"PYTHONIOENCODING": "latin-1", "LC_ALL": "C", "PYTHONUTF8": "0"}, "latin-1"),
}


@pytest.mark.parametrize(
    "name",
    [name if "not coerced" in name else pytest.param(name, marks=pytest.mark.long) for name in LOCALES],
)
def test_a_locale(name: str, tmp_path: Path) -> None:
    """File names that no locale of the kind can spell are read, and said in what it can."""
    environment, encoding = LOCALES[name]
    folder = tmp_path / "é-я"
    shutil.copytree(GOLDEN / "v1.0", folder)
    done = _shell("K inspect 'é-я' && K inspect $'no-\\xff-é'", tmp_path, **environment)
    out, err = done.stdout.decode(encoding), done.stderr.decode(encoding)
    assert done.returncode == 2, err
    accent, letter = (
        ("é", "я") if encoding == "utf-8" else ("é" if encoding == "latin-1" else "\\xe9", "\\u044f")
    )
    assert f"{accent}-{letter}" in out
    assert err == f"kerncap: no-\\udcff-{accent}: no such reproducer; check the path\n"

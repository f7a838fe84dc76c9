"""Whatever a command raises ends in one line and the status of its kind; never in 1, which is an answer."""

from __future__ import annotations

import errno
import importlib
import os
from pathlib import Path

import pytest

from kerncap.cli import main
from kerncap.errors import BackendUnavailable, CaptureError, FormatError, UsageError
from kerncap.unexpected_error import explained

HOSTILE = "a\x1b[31m\nb"


def system(number: int, *paths: str | None) -> OSError:
    return OSError(number, os.strerror(number), *([paths[0], None, paths[1]] if len(paths) == 2 else paths))


INSPECT = importlib.import_module("kerncap.api.inspect")  # of kerncap.api that is a function
RAISED = [
    (UsageError("x: no"), 2, "x: no"),
    (FormatError("f", 3, "bad"), 3, "f: byte 3: bad"),
    (BackendUnavailable("CUDA", "no driver"), 4, "no driver"),
    (MemoryError(), 4, "memory"),
    (ImportError("/lib/x.so: failed to map segment from shared object"), 4, "memory"),
    (system(errno.ENOMEM), 4, "memory"),
    (system(errno.EAGAIN), 4, "ulimit -u"),
    (RuntimeError("can't start new thread"), 4, "ulimit"),
    (ModuleNotFoundError("No module named 'numpy'", name="numpy"), 4, "numpy"),
    (system(errno.EACCES, "/there"), 2, "/there: Permission denied; change its permissions"),
    (system(errno.EPERM, b"/there"), 2, "/there"),
    (system(errno.ENOENT, "/gone"), 2, "/gone: No such file or directory; check the path; if it was there"),
    (system(errno.ENOTDIR, "/there"), 2, "/there"),
    (system(errno.ELOOP, "/there"), 2, "links"),
    (system(errno.ENAMETOOLONG, "n" * 5000), 2, "shorter"),
    (system(errno.ENOENT, "/a", "/b"), 2, "/a to /b"),
    (system(errno.ENOSPC, "/full"), 2, "/full: No space left on device; make room"),
    (system(errno.ENOSPC), 2, "make room"),
    (system(errno.EDQUOT, "/full"), 2, "quota"),
    (system(errno.EFBIG), 2, "ulimit -f"),
    (system(errno.EIO, "/dev"), 2, "/dev"),
    (system(errno.EROFS, "/ro"), 2, "can be written"),
    (system(errno.EMFILE), 2, "ulimit -n"),
    (system(errno.EACCES, HOSTILE), 2, "Permission denied"),
    (system(errno.ESRCH), 70, "ProcessLookupError"),
    (RecursionError("maximum recursion depth exceeded"), 70, "RecursionError"),
    (AssertionError(), 70, "internal error: AssertionError (kerncap/cli/"),
    (KeyError(HOSTILE), 70, "KeyError"),
    (ValueError("x" * 100_000), 70, "ValueError"),
    (ModuleNotFoundError("No module named 'kerncap.x'", name="kerncap.x"), 70, "kerncap.x"),
    (UnicodeDecodeError("utf-8", b"\xff", 0, 1, "invalid"), 70, "UnicodeDecodeError"),
]


def _id(value: object) -> str:
    return f"{type(value).__name__}-{getattr(value, 'errno', '')}" if isinstance(value, Exception) else ""


@pytest.mark.parametrize(("raised", "status", "said"), RAISED, ids=_id)
def test_one_line_and_a_status(
    raised: Exception,
    status: int,
    said: str,
    monkeypatch: pytest.MonkeyPatch,
    capfd: pytest.CaptureFixture[str],
) -> None:
    def inspect(*_: object, **__: object) -> None:
        raise raised

    monkeypatch.setattr(INSPECT, "inspect", inspect)
    assert main(["inspect", "."]) == status
    out, told = capfd.readouterr()
    assert out == ""
    assert told.startswith("kerncap: ") and told.endswith("\n") and len(told) < 3000
    line = told[:-1]
    assert line.isprintable(), line
    assert said in line
    assert ("internal error" in line) == (status == 70)
    assert "Traceback" not in line


def test_the_traceback_is_told_to_whoever_asks(
    monkeypatch: pytest.MonkeyPatch, capfd: pytest.CaptureFixture[str]
) -> None:
    def inspect(*_: object, **__: object) -> None:
        raise KeyError(HOSTILE)

    monkeypatch.setattr(INSPECT, "inspect", inspect)
    monkeypatch.setenv("KERNCAP_DEBUG", "1")
    assert main(["inspect", "."]) == 70
    lines = capfd.readouterr().err.splitlines()
    assert "kerncap: Traceback (most recent call last):" in lines
    assert all(line.startswith("kerncap: ") and line.isprintable() for line in lines)


def test_the_working_folder_was_deleted(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capfd: pytest.CaptureFixture[str]
) -> None:
    gone = tmp_path / "gone"
    gone.mkdir()
    monkeypatch.chdir(gone)
    gone.rmdir()
    monkeypatch.setattr(INSPECT, "inspect", lambda *_, **__: Path.cwd())
    assert main(["inspect", "."]) == 2
    assert capfd.readouterr().err == (
        "kerncap: the working folder: it was deleted; change to one that exists\n"
    )


def test_what_is_ours_is_left_as_it_is() -> None:
    ours = CaptureError("x")
    assert explained(ours) is ours

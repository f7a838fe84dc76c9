"""A session folder that can't be made: one line, and nothing left behind."""

from __future__ import annotations

import errno
import importlib
import os
import threading
from pathlib import Path

import pytest

from kerncap.api.capture import capture
from kerncap.capture.options import CaptureOptions
from kerncap.capture.session_folder import Session
from kerncap.errors import UsageError
from tests.session_options import capture_options


def starting(output: Path) -> CaptureOptions:
    return capture_options("true", output=output, self_check=False)


@pytest.mark.parametrize("full", ["context.json", "session.json", "arm"])
def test_a_full_disk(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, full: str) -> None:
    write = Session._write

    def until_it_is_full(session: Session, name: str, data: bytes) -> None:
        if name == full:
            raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))
        write(session, name, data)

    monkeypatch.setattr(Session, "_write", until_it_is_full)
    output = tmp_path / "out"
    with pytest.raises(UsageError, match="output folder .*out: can't be written: No space left on device"):
        capture(capture_options("true", output=output, dormant=True))
    assert not output.exists()
    assert "kerncap-socket" not in {thread.name for thread in threading.enumerate()}


def test_a_name_that_no_folder_can_have(tmp_path: Path) -> None:
    with pytest.raises(UsageError, match="output folder .*: can't be written: File name too long"):
        capture(starting(tmp_path / ("a" * 300)))


def test_a_loop_of_links(tmp_path: Path) -> None:
    (tmp_path / "a").symlink_to("b")
    (tmp_path / "b").symlink_to("a")
    with pytest.raises(UsageError, match="output folder .*a: "):
        capture(starting(tmp_path / "a"))


def test_a_working_directory_that_is_gone(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    gone = tmp_path / "gone"
    gone.mkdir()
    monkeypatch.chdir(gone)
    gone.rmdir()
    with pytest.raises(UsageError, match="the working folder: it was deleted"):
        capture(starting(Path("out")))


def test_the_command_that_seals_an_interrupted_session_can_be_pasted(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    def interrupted(session: Session, *_: object) -> None:
        (session.folder / "1-0").mkdir()
        raise KeyboardInterrupt

    module = importlib.import_module("kerncap.api.capture")  # kerncap.api has a function of this name
    monkeypatch.setattr(module, "_run_in", interrupted)
    with pytest.raises(KeyboardInterrupt):
        capture(starting(tmp_path / "an out"))
    [left] = (tmp_path / "an out").iterdir()
    assert f"(kerncap seal '{left}')" in capsys.readouterr().err

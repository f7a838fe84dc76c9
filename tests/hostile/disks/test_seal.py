"""`kerncap seal` onto disks that are too small, or fail in the middle: a whole reproducer or none."""

from __future__ import annotations

import errno
import os
import re
import shutil
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from kerncap.api.capture import seal_session
from kerncap.errors import UsageError
from kerncap.format import Reproducer
from tests.parameters import first_of

from .conftest import Mount
from .targets import Target, captured
from .test_targets_sweep import SIZES, cuda

__all__ = ["cuda"]


pytestmark = pytest.mark.long


@pytest.fixture(scope="session")
def kept(cuda: Target, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A session whose one launch is not sealed yet."""
    folder = tmp_path_factory.mktemp("kept")
    (folder / "out").mkdir()
    run = captured(cuda, folder / "out", folder / "run", "--keep-session")
    assert len(run.captured) == 1, run.said
    [session] = (folder / "out").glob(".kerncap-session-*")
    for mark in session.glob("*/*.sealed"):
        mark.unlink()
    return session


@pytest.fixture
def session(kept: Path, tmp_path: Path) -> Path:
    return Path(shutil.copytree(kept, tmp_path / kept.name, ignore=shutil.ignore_patterns("socket")))


def outcome(session: Path, output: Path, disk: Disk | None = None) -> str:
    """Seals; the promises of it; a word for what became of it."""
    launches = sorted(session.glob("*/*.pre"))
    try:
        result = seal_session(session, output)
    finally:
        if disk is not None:
            disk.rest()
    left = sorted(path.name for path in output.iterdir())
    if result.captured:
        assert left == [result.captured[0].path.name]
        with Reproducer.open(result.captured[0].path) as reproducer:
            reproducer.verify()
        return "sealed"
    assert left == [], "nothing half-written"
    assert result.exit_status == 1 and result.reason and "\n" not in result.reason
    assert result.kept_session == session, result.reason
    assert sorted(session.glob("*/*.pre")) == launches
    return "not sealed"


def test_every_small_disk(
    session: Path, mount: Mount, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    found = []
    for kib in SIZES:
        disk = mount(tmp_path / f"disk-{kib}", kib)
        monkeypatch.setenv("TMPDIR", str(disk))
        found.append(outcome(session, disk))
        if found[-1] == "sealed":
            break
    assert found[0] == "not sealed" and found[-1] == "sealed", found
    assert set(found[:-1]) == {"not sealed"}


class Disk:
    """Makes the n-th call that changes a file fail."""

    CALLS = ("open", "mkdir", "write", "pwrite", "fsync", "rename", "ftruncate")

    def __init__(self, monkeypatch: pytest.MonkeyPatch, error: int) -> None:
        self.left = 0
        self.fired = False
        self._error = error
        for name in self.CALLS:
            monkeypatch.setattr(os, name, self._faulty(getattr(os, name)))

    def rest(self) -> None:
        """No call fails from here on; ``fired`` says whether one did."""
        self.fired, self.left = self.left <= 0, 0

    def _faulty(self, real: Any) -> Any:
        def call(*arguments: Any, **options: Any) -> Any:
            self.left -= 1
            if self.left == 0:
                raise OSError(self._error, os.strerror(self._error), "somewhere")
            return real(*arguments, **options)

        return call


@pytest.fixture
def disk(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> Iterator[Disk]:
    with monkeypatch.context() as patched:
        yield Disk(patched, request.param)


@first_of("disk", [errno.ENOSPC, errno.EIO, errno.EDQUOT, errno.EFBIG, errno.EROFS], indirect=True)
def test_any_call_may_fail(kept: Path, session: Path, disk: Disk, tmp_path: Path) -> None:
    found = []
    for number in range(1, 500):
        if not session.exists():
            shutil.copytree(kept, session, ignore=shutil.ignore_patterns("socket"))
        (tmp_path / f"out-{number}").mkdir()
        disk.left = number
        try:
            found.append(outcome(session, tmp_path / f"out-{number}", disk))
        except OSError as error:  # of the last look at what is there, or reading the session
            assert error.filename == "somewhere"
            found.append("not read")
        except UsageError as error:  # of the look whether the output can be written, before anything else
            disk.rest()
            assert re.fullmatch(rf".*/out-{number}: can't be written: [^\n]+", str(error))
            assert not any((tmp_path / f"out-{number}").iterdir()) and session.exists()
            found.append("refused")
        if found[-1] == "sealed":
            shutil.rmtree(session, ignore_errors=True)  # it may be what could not be removed
        if not disk.fired:
            break
    assert found.count("not sealed") > 5 and found[-1] == "sealed", found

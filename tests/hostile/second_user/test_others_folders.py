"""Reproducers that another user of the machine may change: they are read, and not run."""

from __future__ import annotations

import os
import shutil
import stat
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from kerncap.api.inspect import inspect
from kerncap.api.pack import pack, unpack_file
from kerncap.errors import UsageError
from kerncap.format import Reproducer
from kerncap.replay import trust
from kerncap.writable_by_others import may_change
from tests.unit.format.damage import GOLDEN_BLOCK
from tests.unit.replay.build import add

NOBODY = 65534
needs_root = pytest.mark.skipif(os.geteuid() != 0, reason="only root makes files of another user")


@pytest.fixture
def given(tmp_path: Path) -> Path:
    (tmp_path / "given").mkdir(mode=0o755)
    return Path(shutil.copytree(GOLDEN_BLOCK, tmp_path / "given" / "scale-1a2b3c4d"))


def _writable(name: str) -> Callable[[Path], None]:
    def make(folder: Path) -> None:
        path = folder / name
        path.chmod(stat.S_IMODE(path.stat().st_mode) | 0o002)

    return make


def _of_a_group(name: str) -> Callable[[Path], None]:
    def make(folder: Path) -> None:
        path = folder / name
        os.chown(path, -1, NOBODY)
        path.chmod(stat.S_IMODE(path.stat().st_mode) | 0o020)

    return make


def _of_another(name: str) -> Callable[[Path], None]:
    return lambda folder: os.chown(folder / name, NOBODY, -1)


def _in_a_folder_of_all(folder: Path) -> None:
    folder.parent.chmod(0o777)


def _far_below_a_folder_of_all(folder: Path) -> None:
    folder.parent.parent.chmod(0o777)


NAMES = [".", "source", "memory", "manifest.json", "source/kernel.py", "memory/chunks", "memory/index"]
EXPOSED = {
    **{f"anyone writes {name}": _writable(name) for name in NAMES},
    **{f"a group writes {name}": _of_a_group(name) for name in NAMES},
    **{f"another owns {name}": _of_another(name) for name in NAMES},
    "anyone writes the folder around it": _in_a_folder_of_all,
    "anyone writes a folder far above": _far_below_a_folder_of_all,
}


@needs_root
@pytest.mark.parametrize("how", EXPOSED)
def test_what_others_can_exchange_is_not_run(how: str, given: Path) -> None:
    """Captured here or not, trusted before or now."""
    with Reproducer.open(given) as reproducer:
        trust.remember(reproducer)
    EXPOSED[how](given)
    with Reproducer.open(given) as reproducer:
        for yes in (False, True):
            with pytest.raises(UsageError) as caught:
                trust.require(reproducer, yes)
            message = str(caught.value)
            assert str(given.parents[1]) in message and "cp -r" in message and "\n" not in message
    assert inspect(given)["path"]  # to look at it is safe


@needs_root
def test_the_remedy_works(given: Path, tmp_path: Path) -> None:
    given.chmod(0o777)
    os.chown(given / "source", NOBODY, NOBODY)
    copy = tmp_path / "mine"
    assert os.system(f"cp -r --no-preserve=all {given} {copy}") == 0
    with Reproducer.open(copy) as reproducer:
        trust.require(reproducer, True)


@pytest.fixture
def loose_umask() -> Iterator[None]:
    before = os.umask(0)
    yield
    os.umask(before)


def writable(folder: Path) -> list[Path]:
    return [each for each in (folder, *folder.rglob("*")) if each.stat().st_mode & 0o022]


@pytest.mark.usefixtures("loose_umask")
def test_what_is_captured_is_nobody_else_s_whatever_the_umask(tmp_path: Path) -> None:
    assert writable(add().seal(tmp_path)) == []


@pytest.mark.usefixtures("loose_umask")
def test_what_is_unpacked_is_nobody_else_s_whatever_the_umask(tmp_path: Path, given: Path) -> None:
    archive = tmp_path / "given.zip"
    pack(given, archive)
    (tmp_path / "out").mkdir(mode=0o755)
    assert writable(unpack_file(archive, tmp_path / "out")) == []


def as_nobody(act: Callable[[], None]) -> int:
    """The status of a child that gave up root: 0, or 1 if ``act`` raised OSError."""
    pid = os.fork()
    if not pid:
        status = 70
        try:
            os.setgroups([])
            os.setgid(NOBODY)
            os.setuid(NOBODY)
            act()
            status = 0
        except OSError:
            status = 1
        finally:
            os._exit(status)
    return os.waitstatus_to_exitcode(os.waitpid(pid, 0)[1])


@needs_root
@pytest.mark.parametrize("name", [".", "source", "source/kernel.py", "memory/chunks", "manifest.json"])
def test_another_user_cannot_change_what_was_captured(name: str, tmp_path: Path) -> None:
    for above in (tmp_path, *tmp_path.parents[:2]):
        above.chmod(above.stat().st_mode | 0o011)  # pytest's folders are its user's own
    before = os.umask(0)
    try:
        sealed = add().seal(tmp_path)
    finally:
        os.umask(before)
    target = next(iter((sealed / "source").iterdir())) if name == "source/kernel.py" else sealed / name

    def change() -> None:
        if target.is_dir():
            (target / "conftest.py").write_text("")
        else:
            with target.open("ab") as file:
                file.write(b"x")

    assert as_nobody(change) == 1


@needs_root
def test_sudo_s_user_is_the_user(given: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    os.chown(given, NOBODY, NOBODY)
    assert may_change(given.stat())
    monkeypatch.setenv("SUDO_UID", str(NOBODY))
    assert may_change(given.stat()) is None

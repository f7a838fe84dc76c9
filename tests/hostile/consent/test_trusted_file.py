"""The file of what the user agreed to: nobody else reads, writes or exchanges it."""

from __future__ import annotations

import os
import stat
import threading
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from kerncap.errors import UsageError
from kerncap.format import Reproducer
from kerncap.replay import trust, trusted_file

DIGEST = "ab" * 32


@pytest.fixture
def umask() -> Iterator[Callable[[int], int]]:
    before = os.umask(0o022)
    yield os.umask
    os.umask(before)


def mode(path: Path) -> int:
    return stat.S_IMODE(path.stat().st_mode)


@pytest.mark.parametrize("mask", [0, 0o002, 0o022, 0o077])
@pytest.mark.parametrize("there", ["nothing", "folder", "file"])
def test_nobody_else_reads_or_writes_it(mask: int, there: str, umask: Callable[[int], int]) -> None:
    file = trusted_file.path()
    file.parent.parent.mkdir(parents=True, mode=0o755)
    if there != "nothing":
        file.parent.mkdir(mode=0o700)
    if there == "file":
        file.write_text("cd" * 32 + "\n")
    umask(mask)
    trusted_file.add(DIGEST)
    assert (mode(file), mode(file.parent)) == (0o600, 0o700)
    assert DIGEST in trusted_file.read()
    assert [*file.parent.iterdir()] == [file]


def kept() -> Path:
    trusted_file.add(DIGEST)
    return trusted_file.path()


def _file_of_a_group() -> None:
    file = kept()
    os.chown(file, -1, 65534)
    file.chmod(0o660)


def _file_of_another() -> None:
    os.chown(kept(), 65534, -1)


def _folder_of_another() -> None:
    os.chown(kept().parent, 65534, -1)


EXPOSED = {
    "a file that anyone may write": (lambda: kept().chmod(0o602), "anyone may write it"),
    "a folder that anyone may write": (lambda: kept().parent.chmod(0o703), "anyone may write it"),
    "a sticky folder that anyone may write": (lambda: kept().parent.chmod(0o1777), "anyone may write it"),
    "a folder above": (lambda: kept().parent.parent.chmod(0o777), "anyone may write it"),
    "a file of a group": (_file_of_a_group, "may write it"),
    "a file of another user": (_file_of_another, "it belongs to"),
    "a folder of another user": (_folder_of_another, "it belongs to"),
}


@pytest.mark.skipif(os.geteuid() != 0, reason="only root gives files away")
@pytest.mark.parametrize("how", EXPOSED)
def test_one_that_others_can_change_is_not_believed(how: str, stranger: Path) -> None:
    with Reproducer.open(stranger) as reproducer:
        trusted_file.add(reproducer.manifest_sha256)
        make, why = EXPOSED[how]
        make()
        for act in (lambda: trust.require(reproducer, False), lambda: trust.require(reproducer, True)):
            with pytest.raises(UsageError) as caught:
                act()
            assert why in str(caught.value) and "; " in str(caught.value) and "\n" not in str(caught.value)
        assert not trust.is_remembered(reproducer)
        with pytest.raises(UsageError):
            trust.check(reproducer)


def _fifo(file: Path) -> None:
    os.mkfifo(file)


def _folder(file: Path) -> None:
    file.mkdir()


def _device(file: Path) -> None:
    file.symlink_to("/dev/zero")


@pytest.mark.parametrize("make", [_fifo, _folder, _device])
def test_what_is_no_file_is_not_read(make: Callable[[Path], None], stranger: Path) -> None:
    file = trusted_file.path()
    file.parent.mkdir(parents=True, mode=0o700)
    make(file)
    with Reproducer.open(stranger) as reproducer, pytest.raises(UsageError, match="give a regular file"):
        trust.require(reproducer, False)


@pytest.mark.parametrize(
    "line",
    [
        "x {0}", "{0} x", "{0}{0}", "{0:.63}", " {0}", "{0}\t", "#{0}", "{0}\0", "sha256:{0}",
    ],
)  # fmt: skip
def test_only_a_whole_line_is_a_digest(line: str, stranger: Path) -> None:
    with Reproducer.open(stranger) as reproducer:
        kept().write_text(line.format(reproducer.manifest_sha256) + "\n")
        assert not trust.is_remembered(reproducer)


def test_bytes_that_are_no_text_hide_nothing(stranger: Path) -> None:
    with Reproducer.open(stranger) as reproducer:
        kept().write_bytes(b"\xff\xfe\n" + reproducer.manifest_sha256.encode() + b"\n\x80")
        assert trust.is_remembered(reproducer)


def test_a_link_of_the_user_s_stays_a_link(tmp_path: Path) -> None:
    dotfiles = tmp_path / "dotfiles"
    dotfiles.mkdir(mode=0o700)
    file = trusted_file.path()
    file.parent.mkdir(parents=True, mode=0o700)
    file.symlink_to(dotfiles / "trusted")
    trusted_file.add(DIGEST)
    assert file.is_symlink() and (dotfiles / "trusted").read_text() == f"{DIGEST}\n"


def test_several_at_once_lose_nothing() -> None:
    digests = [f"{number:064x}" for number in range(24)]
    threads = [threading.Thread(target=trusted_file.add, args=(each,)) for each in digests]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert trusted_file.read() == set(digests)


def test_one_that_cannot_be_written_keeps_what_was_there(monkeypatch: pytest.MonkeyPatch) -> None:
    file = kept()

    def full(*_: object) -> None:
        raise OSError(28, "No space left on device")

    monkeypatch.setattr("os.fsync", full)
    with pytest.raises(OSError, match="No space"):
        trusted_file.add("ef" * 32)
    assert file.read_text() == f"{DIGEST}\n" and [*file.parent.iterdir()] == [file]

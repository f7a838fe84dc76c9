"""Swept is what a dead process of this user left under a name of ours; nothing else, and through no link."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest

from kerncap import scratch, whole_files
from kerncap.errors import UsageError

OURS = ".kerncap-unpack-0123456789abcdef"
root_only = pytest.mark.skipif(os.geteuid() != 0, reason="gives files to another user")


def make(place: Path, name: str = OURS) -> Path:
    (place / name / "deep" / "er").mkdir(parents=True)
    (place / name / "deep" / "er" / "file").write_text("x")
    return place / name


def test_a_dead_ones_folder_goes_with_all_in_it(tmp_path: Path) -> None:
    folder = make(tmp_path)
    (folder / "link").symlink_to("/etc")
    (folder / "dangling").symlink_to("nowhere")
    scratch.sweep(tmp_path)
    assert not list(tmp_path.iterdir())
    assert Path("/etc/passwd").exists()


def test_a_file_goes_as_well(tmp_path: Path) -> None:
    (tmp_path / ".kerncap-file-0123456789abcdef").write_text("half")
    scratch.sweep(tmp_path)
    assert not list(tmp_path.iterdir())


def test_a_living_ones_stays(tmp_path: Path) -> None:
    with scratch.folder("unpack", tmp_path, hidden=True) as made, scratch.file("file", tmp_path) as file:
        scratch.sweep(tmp_path)
        assert made.path.is_dir() and file.path.is_file()
        # Another process sees it in the same way.
        words = (
            f"from pathlib import Path; from kerncap import scratch; scratch.sweep(Path({str(tmp_path)!r}))"
        )
        subprocess.run([sys.executable, "-c", words], check=True, timeout=60)
        assert made.path.is_dir() and file.path.is_file()
    assert not list(tmp_path.iterdir())


def test_one_that_is_swept_before_it_is_opened_is_made_again(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    scratch.sweep(tmp_path)
    make, made = os.mkdir, []

    def swept(name: str, mode: int, *, dir_fd: int) -> None:
        make(name, mode, dir_fd=dir_fd)
        made.append(name)
        if len(made) == 1:
            scratch.sweep(tmp_path)

    monkeypatch.setattr(os, "mkdir", swept)
    with scratch.folder("unpack", tmp_path) as found:
        assert found.path.is_dir() and [found.path.name] == made[1:]


@pytest.mark.parametrize(
    "name",
    [
        "kerncap-unpack-0123456789ABCDEF", "kerncap-unpack-0123456789abcde",
        "xkerncap-unpack-0123456789abcdef",
        ".kerncap-session-abcd1234", ".unpack.tmp-1-01234567", "kerncap-unpack-0123456789abcdef.old",
        "kerncap--0123456789abcdef", "reproducer-01234567",
    ],
)  # fmt: skip
def test_other_names_stay(tmp_path: Path, name: str) -> None:
    make(tmp_path, name)
    scratch.sweep(tmp_path)
    assert (tmp_path / name / "deep/er/file").is_file()


def test_a_link_of_our_name_leads_nowhere(tmp_path: Path) -> None:
    place, elsewhere = tmp_path / "place", tmp_path / "elsewhere"
    place.mkdir()
    make(elsewhere, "precious")
    (place / OURS).symlink_to(elsewhere / "precious")
    scratch.sweep(place)
    assert (elsewhere / "precious/deep/er/file").is_file()
    assert (place / OURS).is_symlink()


def test_a_fifo_of_our_name_is_not_waited_for(tmp_path: Path) -> None:
    os.mkfifo(tmp_path / OURS)
    scratch.sweep(tmp_path)
    assert (tmp_path / OURS).exists()


@root_only
def test_another_users_stays(tmp_path: Path) -> None:
    folder = make(tmp_path)
    os.chown(folder, 65534, 65534)
    scratch.sweep(tmp_path)
    assert (folder / "deep/er/file").is_file()


def test_a_fork_removes_nothing_of_its_parents(tmp_path: Path) -> None:
    with scratch.folder("job", tmp_path) as made:
        child = os.fork()
        if child == 0:
            made.remove()
            scratch.remove_all()
            os._exit(0)
        os.waitpid(child, 0)
        assert made.path.is_dir()


def test_what_is_named_stays_and_its_descriptors_are_closed(tmp_path: Path) -> None:
    before = set(os.listdir("/proc/self/fd"))
    made = scratch.folder("seal", tmp_path)
    made.name(tmp_path / "final", replace=False)
    made.remove()
    assert (tmp_path / "final").is_dir()
    assert set(os.listdir("/proc/self/fd")) == before


def test_a_write_goes_through_a_link_and_to_a_device(tmp_path: Path) -> None:
    (tmp_path / "real").write_text("old")
    (tmp_path / "link").symlink_to("real")
    whole_files.write(tmp_path / "link", "new")
    assert (tmp_path / "link").is_symlink() and (tmp_path / "real").read_text() == "new"
    whole_files.write(Path("/dev/null"), "gone")
    assert Path("/dev/null").is_char_device()


@pytest.mark.parametrize("call", ["write", "fsync", "rename"])
@pytest.mark.parametrize("number", [28, 122, 27, 5], ids=["ENOSPC", "EDQUOT", "EFBIG", "EIO"])
def test_a_write_that_fails_leaves_what_was_there(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, call: str, number: int
) -> None:
    target = tmp_path / "there"
    target.write_text("old")

    def fail(*_: object, **__: object) -> None:
        raise OSError(number, os.strerror(number))

    with monkeypatch.context() as patch, pytest.raises(UsageError) as raised:
        if call != "write":
            patch.setattr(os, call, fail)
        with whole_files.new_file(target, replace=True) as file:
            file.write(b"new")
            if call == "write":
                fail()
    assert str(raised.value).startswith(f"{target}: can't be written: {os.strerror(number)}; ")
    assert os.listdir(tmp_path) == ["there"] and target.read_text() == "old"

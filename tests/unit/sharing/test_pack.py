"""One file for a bug report and back: equal bytes, nothing private, nothing that was not listed."""

from __future__ import annotations

import errno
import json
import os
import shutil
import subprocess
import sys
import zipfile
from pathlib import Path

import msgspec
import pytest

from kerncap.api.pack import pack, unpack_file
from kerncap.errors import FormatError, UsageError
from kerncap.format import Reproducer, WriteSet
from kerncap.format.archive.pack import write_archive
from kerncap.report.documents.sharing import TRACKER_BYTES
from kerncap.report.pack_text import render_plan
from tests.unit.format.damage import GOLDEN, GOLDEN_NATIVE, reseal
from tests.unit.format.small import write


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    return Path(shutil.copytree(GOLDEN, tmp_path / "repro"))


@pytest.mark.parametrize("golden", [GOLDEN, GOLDEN_NATIVE])
def test_there_and_back(tmp_path: Path, golden: Path) -> None:
    packed = pack(golden, tmp_path / "a.zip")
    assert packed.size == (tmp_path / "a.zip").stat().st_size
    pack(golden, tmp_path / "b.zip")
    assert (tmp_path / "a.zip").read_bytes() == (tmp_path / "b.zip").read_bytes()
    back = unpack_file(tmp_path / "a.zip", tmp_path / "out")
    with Reproducer.open(golden) as before, Reproducer.open(back) as after:
        after.verify()
        assert after.manifest_bytes == before.manifest_bytes and after.checks() == before.checks()
        assert (WriteSet.load(after) is None) == (WriteSet.load(before) is None)
    assert unpack_file(tmp_path / "a.zip", tmp_path / "out") == back  # the same again is no error


def test_the_bytes_do_not_depend_on_the_copy(folder: Path, tmp_path: Path) -> None:
    other = Path(shutil.copytree(folder, tmp_path / "elsewhere"))
    for path in other.rglob("*"):
        path.chmod(0o700)
    for path, name in ((folder, "a.zip"), (other, "b.zip")):
        pack(path, tmp_path / name)
    assert (tmp_path / "a.zip").read_bytes() == (tmp_path / "b.zip").read_bytes()


def test_any_zip_program_opens_it(folder: Path, tmp_path: Path) -> None:
    pack(folder, tmp_path / "a.zip")
    with zipfile.ZipFile(tmp_path / "a.zip") as archive:
        assert archive.testzip() is None
        tops = {name.split("/")[0] for name in archive.namelist()}
        archive.extractall(tmp_path / "by_hand")
    (top,) = tops
    with Reproducer.open(tmp_path / "by_hand" / top) as reproducer:
        reproducer.verify()


def test_nothing_is_overwritten(folder: Path, tmp_path: Path) -> None:
    (tmp_path / "a.zip").write_text("mine")
    with pytest.raises(UsageError, match="already there"):
        pack(folder, tmp_path / "a.zip")
    assert (tmp_path / "a.zip").read_text() == "mine"


def test_without_hard_links(folder: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def refuse(_from: str, to: Path, **_where: int) -> None:
        raise PermissionError(errno.EPERM, os.strerror(errno.EPERM), str(to))

    monkeypatch.setattr(os, "link", refuse)
    whole, other = tmp_path / "one.zip", tmp_path / "two.zip"
    with Reproducer.open(folder) as reproducer:
        write_archive(reproducer, whole)
        assert zipfile.is_zipfile(whole)

        def meanwhile(_done: int) -> None:
            other.write_text("somebody else's")

        with pytest.raises(UsageError, match="already there"):
            write_archive(reproducer, other, meanwhile)
    assert other.read_text() == "somebody else's"
    assert sorted(path.name for path in tmp_path.glob("*.zip*")) == ["one.zip", "two.zip"]


def test_a_place_that_cannot_be_written_is_a_mistake_of_the_request(folder: Path, tmp_path: Path) -> None:
    """Not status 1, which says that something private is in it."""
    with pytest.raises(UsageError, match="nowhere/a.zip: can't be written: No such file or directory"):
        pack(folder, tmp_path / "nowhere" / "a.zip")


def test_a_damaged_reproducer_is_not_packed(folder: Path, tmp_path: Path) -> None:
    data = bytearray((folder / "memory/chunks").read_bytes())
    data[len(data) // 2] ^= 1
    (folder / "memory/chunks").write_bytes(data)
    with pytest.raises(FormatError):
        pack(folder, tmp_path / "a.zip")
    assert not (tmp_path / "a.zip").exists()


def with_private(folder: Path) -> Path:
    source = next(path for path in folder.glob("source/*") if path.is_file())
    text = source.read_text() + "\nHUB_TOKEN = 'hf_" + "aB3d" * 9 + "'  # /home/alice/notes\n"
    document = json.loads((folder / "manifest.json").read_bytes())
    document["command"] = ["/home/alice/env/bin/python", "train.py", "--api-key", "k9f3Lq02vXb7"]
    reseal(folder, document, {str(source.relative_to(folder)): text.encode()})
    return source


def test_what_is_private_is_replaced(folder: Path, tmp_path: Path) -> None:
    source = with_private(folder)
    packed = pack(folder, tmp_path / "a.zip")
    assert {one.kind for one in packed.findings} == {"user", "secret"}
    assert {one.file for one in packed.findings} >= {"manifest.json", str(source.relative_to(folder))}
    back = unpack_file(tmp_path / "a.zip", tmp_path / "out")
    everything = b"".join(path.read_bytes() for path in back.rglob("*") if path.is_file())
    for private in (b"alice", b"hf_aB3d", b"k9f3Lq02vXb7"):
        assert private not in everything
    with Reproducer.open(folder) as before, Reproducer.open(back) as after:
        after.verify()
        assert after.manifest.command == ("/home/USER/env/bin/python", "train.py", "--api-key", "REDACTED")
        assert any(note.startswith("Replaced before") for note in after.manifest.notes)
        assert after.manifest.regions == before.manifest.regions
        assert after.manifest.memory == before.manifest.memory
        assert (after.source_text() or "").count("\n") == (before.source_text() or "").count("\n")
        # Checks and write set are of the golden manifest: this one was changed by hand, so none come along.
        assert before.checks() is None and after.checks() is None
    assert (folder / "manifest.json").read_bytes().count(b"alice") == 1  # the original is as it was
    assert sorted(path.name for path in tmp_path.iterdir() if "kerncap" in path.name) == []
    again = pack(back, tmp_path / "b.zip")
    assert [one for one in again.findings if one.kind != "user"] == []


def test_what_is_to_stay_stays(folder: Path, tmp_path: Path) -> None:
    with_private(folder)
    packed = pack(folder, tmp_path / "a.zip", keep_private=("users", "secrets"))
    assert {one.became for one in packed.findings} == {"kept"}
    with Reproducer.open(unpack_file(tmp_path / "a.zip", tmp_path / "out")) as after:
        assert (
            after.manifest.command[0].startswith("/home/alice") and "k9f3Lq02vXb7" in after.manifest.command
        )
    assert "KEPT, readable for the recipient" in render_plan(packed)
    only = pack(folder, tmp_path / "b.zip", keep_private=("users",))
    assert {(one.kind, one.became) for one in only.findings} == {("user", "kept"), ("secret", "REDACTED")}


def test_redacting_keeps_checks_and_write_set(folder: Path, tmp_path: Path) -> None:
    with Reproducer.open(folder) as before:
        write_set, checks = WriteSet.load(before), before.checks()
    assert write_set is not None and checks is not None
    with_private(folder)
    with Reproducer.open(folder) as changed_by_hand:  # what belongs to its memory belongs to it again
        stored = write_set.save(changed_by_hand)
        digest = changed_by_hand.manifest_sha256
        changed_by_hand.write_checks(
            msgspec.structs.replace(checks, manifest_sha256=digest, write_set=stored)
        )
    pack(folder, tmp_path / "a.zip")
    with Reproducer.open(unpack_file(tmp_path / "a.zip", tmp_path / "out")) as after:
        found, known = WriteSet.load(after), after.checks()
        assert found is not None and found.regions == write_set.regions
        assert all(found.written_bytes(one) == write_set.written_bytes(one) for one in found.regions)
        assert known is not None and known.self_check == checks.self_check
        assert known.manifest_sha256 == after.manifest_sha256 != digest


def test_kinds_are_checked() -> None:
    with pytest.raises(UsageError, match="expected one of"):
        pack(GOLDEN, keep_private=("everything",))


def test_the_plan_comes_before_the_file(folder: Path, tmp_path: Path) -> None:
    seen = []

    def look(plan: object) -> None:
        seen.append((plan, (tmp_path / "a.zip").exists()))

    packed = pack(folder, tmp_path / "a.zip", before=look)
    assert seen == [(packed, False)] and (tmp_path / "a.zip").exists()
    dry = pack(folder, tmp_path / "b.zip", dry_run=True)
    assert not dry.written and not (tmp_path / "b.zip").exists() and dry.size == packed.size


def test_memory_that_no_argument_speaks_of_is_named(tmp_path: Path) -> None:
    with_regions = write(tmp_path, [(b"\1" * 5000, b"\1" * 5000), (b"\2" * 3000, b"\3" * 3000)])
    packed = pack(with_regions, tmp_path / "a.zip")
    assert [(one.region, one.size) for one in packed.unviewed] == [(0, 5000), (1, 3000)]
    text = render_plan(packed)
    assert "7.8 KiB of memory outside the arguments' views" in text and "region 1: 2.9 KiB device" in text


def test_a_large_one_says_what_to_do(tmp_path: Path) -> None:
    small = pack(write(tmp_path, [(b"\1" * 5000, b"\1" * 5000)]), tmp_path / "a.zip", dry_run=True)
    large = type(small)(**{**vars(small), "size": TRACKER_BYTES + 1})
    assert "25 MB" in render_plan(large) and "25 MB" not in render_plan(small)


def test_the_command_line(folder: Path, tmp_path: Path) -> None:
    def kerncap(*words: object) -> subprocess.CompletedProcess[str]:
        command = [sys.executable, "-m", "kerncap", *map(str, words)]
        return subprocess.run(command, cwd=tmp_path, capture_output=True, text=True, timeout=300, check=False)

    with_private(folder)
    done = kerncap("pack", "repro", "--json", "--show-private")
    document = json.loads(done.stdout)
    assert done.returncode == 0 and document["path"] == "repro.zip" and document["findings"]
    assert (
        "manifest.json: command[3]: a value that its name calls secret (k9… (12 characters)) -> REDACTED"
        in done.stderr
    )
    assert "k9f3" not in done.stdout + done.stderr
    assert document["size_bytes"] == (tmp_path / "repro.zip").stat().st_size
    hint = kerncap("inspect", "repro.zip")
    assert hint.returncode == 2 and "kerncap unpack" in hint.stderr
    back = kerncap("unpack", "repro.zip", "-o", "back")
    assert back.returncode == 0 and kerncap("inspect", back.stdout.strip()).returncode == 0
    small = kerncap("unpack", "repro.zip", "-o", "small", "--max-size", "1KiB")
    assert small.returncode == 2 and "--max-size" in small.stderr and not list((tmp_path / "small").glob("*"))
    (tmp_path / "x.zip").write_bytes((tmp_path / "repro.zip").read_bytes()[:-40])
    cut = kerncap("unpack", "x.zip")
    assert cut.returncode == 3 and len(cut.stderr.splitlines()) == 1

"""What is exchanged between the look and the run is never run: consent is to content, not to a path."""

from __future__ import annotations

import json
import os
import shutil
import stat
from collections.abc import Callable
from pathlib import Path

import pytest

from kerncap.errors import FormatError, KerncapError, UsageError
from kerncap.format import Reproducer
from kerncap.replay import staging, trust
from tests.unit.format.damage import edit_manifest, write_stored

EVIL = b"open('it-ran', 'w')\n"
LISTED = ("source/kernel.py", "code/kernel.ttir", "memory/index", "memory/chunks", "manifest.json")


def lay_out(reproducer: Reproducer) -> None:
    job = staging.stage(reproducer, "interpreter", "host", -1)
    job.add_memory()
    job.close()


def _other_bytes(file: Path) -> None:
    data = bytearray(file.read_bytes())
    data[len(data) // 2] ^= 1
    file.write_bytes(data)


def _longer(file: Path) -> None:
    file.write_bytes(file.read_bytes() + EVIL)


def _gone(file: Path) -> None:
    file.unlink()


def _link(file: Path) -> None:
    elsewhere = file.parents[3] / "elsewhere"
    shutil.copy(file, elsewhere)
    file.unlink()
    file.symlink_to(elsewhere)


def _fifo(file: Path) -> None:
    file.unlink()
    os.mkfifo(file)


def _folder(file: Path) -> None:
    file.unlink()
    file.mkdir()


@pytest.mark.parametrize("swap", [_other_bytes, _longer, _gone, _link, _fifo, _folder])
def test_a_source_exchanged_after_the_look(stranger: Path, swap: Callable[[Path], None]) -> None:
    with Reproducer.open(stranger) as reproducer:
        trust.require(reproducer, True)
        swap(stranger / "source" / "kernel.py")
        with pytest.raises(FormatError, match=r"source/kernel\.py: byte"):
            lay_out(reproducer)


@pytest.mark.parametrize("folder", ["source", "code"])
def test_a_folder_swapped_for_a_link_after_the_look(stranger: Path, tmp_path: Path, folder: str) -> None:
    with Reproducer.open(stranger) as reproducer:
        trust.require(reproducer, True)
        (stranger / folder).rename(tmp_path / "moved")
        (stranger / folder).symlink_to(tmp_path / "moved")
        with pytest.raises(FormatError, match="not a regular file that can be read"):
            lay_out(reproducer)


def test_the_reproducer_swapped_for_another_after_the_look(stranger: Path, tmp_path: Path) -> None:
    """What was opened is what is read, wherever its folder lies by now."""
    with Reproducer.open(stranger) as reproducer:
        trust.require(reproducer, True)
        stranger.rename(tmp_path / "moved")
        other = Path(shutil.copytree(tmp_path / "moved", stranger))
        write_stored(other, ("source", "file"), "source/kernel.py", EVIL)
        job = staging.stage(reproducer, "interpreter", "host", -1)
        try:
            assert EVIL not in (job.folder / "source" / "kernel.py").read_bytes()
        finally:
            job.close()


@pytest.mark.parametrize("change", ["source", "code", "device", "entry", "grid", "argument", "value"])
def test_other_content_is_another_consent(stranger: Path, change: str) -> None:
    """Any part of what runs, or of how: a yes to one is not a yes to the other."""
    with Reproducer.open(stranger) as reproducer:
        trust.require(reproducer, True)
    if change == "source":
        write_stored(stranger, ("source", "file"), "source/kernel.py", EVIL)
    elif change == "code":
        place = json.loads((stranger / "manifest.json").read_bytes())["code"][0]["file"]["path"]
        write_stored(stranger, ("code", 0, "file"), place, b"other")  # type: ignore[arg-type]
    else:

        def edit(manifest: dict) -> None:  # type: ignore[type-arg]
            if change == "device":
                manifest["device"]["arch"] = "sm_80"
            elif change == "entry":
                manifest["source"]["entry"] = "other"
            elif change == "grid":
                manifest["launch"]["grid"] = [1, 1, 2]
            elif change == "argument":
                manifest["arguments"][0]["name"] = "other"
            else:
                manifest["regions"][0]["name"] = "other"

        edit_manifest(stranger, edit)
    with Reproducer.open(stranger) as reproducer:
        with pytest.raises(UsageError, match="repeat with --trust"):
            trust.require(reproducer, False)
        with pytest.raises(UsageError, match="not what was trusted"):
            lay_out(reproducer)


@pytest.mark.parametrize("path", LISTED)
def test_damage_is_no_consent(stranger: Path, path: str) -> None:
    """Files that are not what the manifest lists are refused, with consent as without."""
    if not (stranger / path).exists():
        path = next(str(each.relative_to(stranger)) for each in sorted((stranger / "code").iterdir()))
    with Reproducer.open(stranger) as reproducer:
        trust.remember(reproducer)
    _other_bytes(stranger / path)
    with pytest.raises(KerncapError), Reproducer.open(stranger) as reproducer:
        trust.require(reproducer, True)
        reproducer.verify()


def test_nothing_runs_that_nobody_agreed_to(stranger: Path) -> None:
    """Whoever asks for it, and however: the one place that lays code out asks itself."""
    with Reproducer.open(stranger) as reproducer, pytest.raises(UsageError, match="not what was trusted"):
        lay_out(reproducer)


@pytest.mark.parametrize("mask", [0, 0o022, 0o077])
def test_what_is_laid_out_is_nobody_else_s(stranger: Path, mask: int) -> None:
    before = os.umask(mask)
    try:
        with Reproducer.open(stranger) as reproducer:
            trust.require(reproducer, True)
            job = staging.stage(reproducer, "interpreter", "host", -1)
            try:
                assert stat.S_IMODE(job.folder.stat().st_mode) == 0o700
            finally:
                job.close()
    finally:
        os.umask(before)


def test_consent_names_every_file_that_runs(stranger: Path) -> None:
    with Reproducer.open(stranger) as reproducer, pytest.raises(UsageError) as caught:
        trust.require(reproducer, False)
    assert "would execute: source/kernel.py (" in str(caught.value)
    assert "lines of Python, kernel scale)" in str(caught.value)

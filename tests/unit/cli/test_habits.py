"""Reproducers by the beginning of their names, several on one line, in a table; `kerncap gc`."""

from __future__ import annotations

import json
import os
import shutil
from collections.abc import Iterator
from pathlib import Path

import pytest

from kerncap.cli import main

GOLDEN = Path(__file__).resolve().parents[2] / "golden"
HOUR = 3600


@pytest.fixture
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Path]:
    """Three reproducers in kerncap-out, of ages 1 h, 2 h and 50 h; the working folder is above."""
    out = tmp_path / "kerncap-out"
    for name, hours in (("scale-1111", 1), ("scale-1222", 50), ("rank0/sum-3333", 2)):
        shutil.copytree(GOLDEN / "v1.1", out / name)
        age(out / name, hours)
    monkeypatch.chdir(tmp_path)
    yield out
    for path in tmp_path.rglob("*"):
        if path.is_dir() and not path.is_symlink():
            path.chmod(0o700)


def age(reproducer: Path, hours: float) -> None:
    then = (reproducer / "manifest.json").stat().st_ctime - hours * HOUR
    os.utime(reproducer / "manifest.json", (then, then))


def test_the_beginning_of_a_name_is_enough(folder: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["inspect", "scale-11"]) == 0
    assert "reproducer   kerncap-out/scale-1111" in capsys.readouterr().out
    assert main(["inspect", "sum"]) == 0 and main(["inspect", "kerncap-out/rank0/s"]) == 0
    assert main(["inspect", "last"]) == 0
    found = capsys.readouterr()
    assert "kerncap: last: kerncap-out/scale-1111" in found.err

    assert main(["inspect", "scale"]) == 2
    said = capsys.readouterr().err
    assert "scale: the beginning of kerncap-out/scale-1111, kerncap-out/scale-1222; give more" in said
    assert main(["inspect", "no-such-name"]) == 2
    assert "no such reproducer; check the path" in capsys.readouterr().err
    for misspelt, meant in (
        ("scale-1112", "scale-1111"),
        ("rank0/sum-3334", "rank0/sum-3333"),
        ("sclae", "scale-1"),
    ):
        place = "" if misspelt == "sclae" else "kerncap-out/"
        assert main(["inspect", f"{place}{misspelt}"]) == 2
        assert f"no such reproducer; did you mean kerncap-out/{meant}" in capsys.readouterr().err
    (folder.parent / "scale-11").mkdir()  # what is there is meant
    assert main(["inspect", "scale-11"]) != 0


def test_a_name_leads_through_no_link(folder: Path, tmp_path: Path) -> None:
    shutil.move(folder / "scale-1111", tmp_path / ".elsewhere")
    (folder / "scale-1111").symlink_to(tmp_path / ".elsewhere")
    assert main(["inspect", "scale-11"]) == 2
    assert main(["inspect", "kerncap-out/scale-1111"]) == 0  # that it is given by its name is another matter


def test_kerncap_alone_shows_the_reproducers(folder: Path, capsys: pytest.CaptureFixture[str]) -> None:
    (folder / "scale-1222" / "memory" / "index").write_bytes(b"")
    assert main([]) == 0
    header, *rows = capsys.readouterr().out.splitlines()
    assert header.split() == ["reproducer", "age", "disk", "device", "launch"]
    assert [row.split()[0].removeprefix("kerncap-out/") for row in rows[:3]] == [
        "scale-1111", "rank0/sum-3333", "scale-1222",
    ]  # fmt: skip
    assert "memory/index" in rows[2] and rows[-1] == "kerncap --help lists the commands"
    shutil.rmtree(folder)
    assert main([]) == 2  # as ever
    assert "Usage: kerncap" in capsys.readouterr().err


def test_several_on_one_line(folder: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["inspect", "scale-11", "nowhere", "sum"]) == 2
    found = capsys.readouterr()
    assert [line for line in found.out.splitlines() if line.endswith(":")][:2] != []
    assert found.out.count("\nkernel ") == 2 and "nowhere: no such reproducer" in found.err
    assert main(["inspect", "--json", "scale-11", "sum"]) == 2
    assert "--json: takes one reproducer, not 2" in capsys.readouterr().err
    assert main(["pack", "scale-11", "sum"]) == 0
    assert sorted(path.name for path in folder.parent.glob("*.zip")) == ["scale-1111.zip", "sum-3333.zip"]


def test_replay_takes_several(folder: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """They were not captured here, so each is refused, and the second is still asked about."""
    assert main(["replay", "scale-11", "sum"]) == main(["replay", "sum"]) != 0
    found = capsys.readouterr()
    assert found.out == "kerncap-out/scale-1111:\n\nkerncap-out/rank0/sum-3333:\n"
    assert found.err.count("--trust") >= 3
    for option in ("--edit", "--watch", "--json"):
        assert main(["replay", "scale-11", "sum", option]) == 2
        assert f"{option}: takes one reproducer, not 2" in capsys.readouterr().err
    assert main(["replay"]) == 2 and "missing argument 'REPRO...'" in capsys.readouterr().err


def test_gc_removes_what_is_old_or_too_much(folder: Path, capsys: pytest.CaptureFixture[str]) -> None:
    there = sorted(folder.rglob("manifest.json"))
    assert main(["gc", "--older-than", "24h"]) == 0
    assert "1 reproducer, " in (text := capsys.readouterr().out) and "removed with --delete; 2 kept" in text
    assert sorted(folder.rglob("manifest.json")) == there

    assert main(["gc", "--older-than", "2d", "--delete", "--json"]) == 0
    document = json.loads(capsys.readouterr().out)
    assert [each["path"] for each in document["reproducers"]] == ["kerncap-out/scale-1222"]
    assert document["removed"] and not (folder / "scale-1222").exists() and document["kept"] == 2
    # The newest that fit stay.
    one = document["size_bytes"]
    assert main(["gc", "kerncap-out", "--keep-size", str(one), "--delete"]) == 0
    assert [path.parent.name for path in folder.rglob("manifest.json")] == ["scale-1111"]
    assert (
        main(["gc"]) == 2
        and main(["gc", "--older-than", "soon"]) == 2
        and main(["gc", "x", "--keep-size", "1"]) == 2
    )


def test_gc_leaves_alone_what_is_not_ours(
    folder: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    (folder / "scale-1111" / "mine.txt").write_text("notes")
    (folder / "scale-1222" / "manifest.sha256").write_text("0" * 64)
    (folder / "candidate.py").write_text("")
    (folder / "plain").mkdir()
    (folder / "plain" / "manifest.json").write_text("{}")
    outside = tmp_path / "outside"
    shutil.copytree(GOLDEN / "v1.1", outside / "kept")
    (folder / "link").symlink_to(outside / "kept")
    (folder / "links").symlink_to(outside)
    assert main(["gc", "--keep-size", "1", "--delete"]) == 0
    text = capsys.readouterr().out
    assert text.count("left alone") == 3 and "mine.txt" in text
    assert not (folder / "rank0" / "sum-3333").exists()
    left = {path.name for path in folder.iterdir()}
    assert left == {"scale-1111", "scale-1222", "candidate.py", "plain", "link", "links", "rank0"}
    assert (outside / "kept" / "manifest.json").exists()
    assert main(["gc", "kerncap-out/links", "--keep-size", "1", "--delete"]) == 2

    shutil.copytree(GOLDEN / "v1.1", folder / "theirs")
    monkeypatch.setattr(os, "geteuid", lambda: 12345)
    assert main(["gc", "--keep-size", "1", "--delete"]) == 0
    assert "another user" in capsys.readouterr().out and (folder / "theirs").exists()

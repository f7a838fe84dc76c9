"""`kerncap verify` of several reproducers: one line each, one document, the worst exit status."""

from __future__ import annotations

import json
import struct
from pathlib import Path
from typing import Any

import msgspec
import pytest

from kerncap.api.schemas import document_type
from kerncap.api.verify.corpus import reproducers_of
from kerncap.cli import main

from . import native

pytestmark = pytest.mark.usefixtures("stand_in")


def wrong(folder: Path) -> Path:
    """A launch whose captured result its kernel does not give."""
    launch = native.scale()
    region, before, after = launch.regions[0]
    launch.regions[0] = region, before, struct.pack("<f", 5.0) + after[4:]
    return launch.seal(folder)


def damaged(folder: Path) -> Path:
    path = native.add().seal(folder)
    (path / "manifest.json").write_text("{}")
    return path


def run(capsys: pytest.CaptureFixture[str], *words: str | Path) -> tuple[int, list[str]]:
    status = main(["verify", *map(str, words)])
    return status, capsys.readouterr().out.splitlines()


def test_each_has_a_line_and_the_worst_decides(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    good, bad, broken = native.add().seal(tmp_path / "a"), wrong(tmp_path / "b"), damaged(tmp_path / "c")
    status, lines = run(capsys, good, bad, broken)
    assert status == 1
    assert lines[0] == f"{good}: PASS (12,000 bytes identical, 4,000 written bytes poisoned)"
    assert lines[1].startswith(f"{bad}: FAIL (arg0: 1 of 1,000 elements differ")
    assert lines[2].startswith(f"{broken}: not judged (")
    assert lines[3:] == ["Result: FAIL (3 reproducers: 1 passed, 1 failed, 1 not judged)"]
    assert run(capsys, good, broken)[0] == 3
    assert run(capsys, good, tmp_path / "a")[0] == 2  # given twice


def test_a_folder_stands_for_all_below_it(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    second, first = native.add().seal(tmp_path / "z"), native.scale().seal(tmp_path / "deep" / "a")
    status, lines = run(capsys, tmp_path)
    assert (status, [line.split(": ")[0] for line in lines[:-1]]) == (0, [str(first), str(second)])
    (second / "inner").mkdir()
    (second / "inner" / "manifest.json").write_text("{}")  # nothing in a reproducer is another one
    assert reproducers_of([tmp_path]) == [first, second]
    (tmp_path / "empty").mkdir()
    assert run(capsys, tmp_path / "empty")[0] == 2


@pytest.mark.long
def test_the_document_has_those_of_each(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    good, broken = native.add().seal(tmp_path / "a"), damaged(tmp_path / "b")
    status, lines = run(capsys, "--json", good, broken)
    found: dict[str, Any] = json.loads("\n".join(lines))
    msgspec.convert(found, document_type("verify-corpus"))
    assert (status, found["result"], found["passed"], found["not_judged"]) == (3, "undecided", 1, 1)
    _, lines = run(capsys, "--json", good)
    assert found["reproducers"][0]["verdict"] == json.loads("\n".join(lines))
    assert found["reproducers"][1]["verdict"] is None and found["reproducers"][1]["exit_status"] == 3


def test_one_candidate_for_all(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    small, large = native.add(100), native.add(1000)
    candidate = tmp_path / "idle.ptx"
    candidate.write_bytes(small.image(edition=1))
    paths = small.seal(tmp_path / "small"), large.seal(tmp_path / "large")
    status, lines = run(capsys, *paths, "--candidate", candidate)
    assert status == 1 and lines[-1] == "Result: FAIL (2 reproducers: 2 failed)"

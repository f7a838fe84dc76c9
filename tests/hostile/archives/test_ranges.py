"""Archives of ranges: the manifests of the launches say what is in one, and nothing else is taken."""

from __future__ import annotations

import hashlib
import json
import shutil
import zipfile
from pathlib import Path
from typing import Any

import pytest

from kerncap.errors import FormatError
from kerncap.format import LaunchRange
from kerncap.format.archive import unpack, write_archive
from kerncap.format.documents import canonical_json
from tests.unit.format.damage import GOLDEN, write_manifest

GOLDEN_RANGE = GOLDEN.with_name("v1.10")


def test_a_range_comes_out_as_it_went_in(tmp_path: Path) -> None:
    with LaunchRange.open(GOLDEN_RANGE) as opened:
        write_archive(opened, tmp_path / "a.zip")
    there = unpack(tmp_path / "a.zip", tmp_path / "out", 1 << 30)
    files = [{str(one.relative_to(root)): one.read_bytes() for one in root.rglob("*") if one.is_file()}
             for root in (GOLDEN_RANGE, there)]  # fmt: skip
    assert files[0] == files[1]
    assert unpack(tmp_path / "a.zip", tmp_path / "out", 1 << 30) == there, "the same again"


def _launch_gone(folder: Path) -> None:
    (folder / "launches" / "1.json").unlink()


def _launch_changed(folder: Path) -> None:
    path = folder / "launches" / "1.json"
    path.write_bytes(path.read_bytes().replace(b'"ordinal": 1', b'"ordinal": 7'))


def _launch_is_a_range(folder: Path) -> None:
    _launch_is(folder, (folder / "manifest.json").read_bytes())


def _launch_is_huge(folder: Path) -> None:
    _launch_is(folder, b"[" * (17 << 20))


def _launch_elsewhere(folder: Path) -> None:
    document = json.loads((folder / "manifest.json").read_bytes())
    document["launches"][1]["manifest"]["path"] = "../1.json"
    write_manifest(folder, canonical_json(document))


def _launch_is(folder: Path, data: bytes) -> None:
    (folder / "launches" / "1.json").write_bytes(data)
    document: Any = json.loads((folder / "manifest.json").read_bytes())
    stored = document["launches"][1]["manifest"]
    stored.update(size=len(data), sha256=hashlib.sha256(data).hexdigest())
    write_manifest(folder, canonical_json(document))


def _checks_of_a_reproducer(folder: Path) -> None:
    shutil.copy(folder / "checks-1.json", folder / "checks.json")


def _another_file(folder: Path) -> None:
    (folder / "files" / ("0" * 64)).write_bytes(b"x")


@pytest.mark.parametrize(
    ("damage", "refusal"),
    [
        (_launch_gone, "launches/1.json is missing"),
        (_launch_changed, "launches/1.json: damaged"),
        (_launch_is_a_range, "format 'kerncap-range'"),
        (_launch_is_huge, "at most [0-9]+ are allowed"),
        (_launch_elsewhere, "'../1.json'"),
        (_checks_of_a_reproducer, "checks.json: not a file of a reproducer"),
        (_another_file, "not a file of a reproducer"),
    ],
)
def test_what_is_wrong_is_named(tmp_path: Path, damage: Any, refusal: str) -> None:
    folder = Path(shutil.copytree(GOLDEN_RANGE, tmp_path / "range"))
    damage(folder)
    with zipfile.ZipFile(tmp_path / "a.zip", "w", zipfile.ZIP_DEFLATED) as archive:
        for file in sorted(folder.rglob("*")):
            archive.write(file, f"range/{file.relative_to(folder)}")
    with pytest.raises(FormatError, match=refusal) as refused:
        unpack(tmp_path / "a.zip", tmp_path / "out", 1 << 30)
    assert str(refused.value).isprintable()
    assert not list((tmp_path / "out").glob("*"))

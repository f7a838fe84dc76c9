"""Ranges: what is written is read again, an older one stays readable, and what is damaged is named."""

from __future__ import annotations

import hashlib
import json
import shutil
from collections.abc import Callable
from pathlib import Path
from typing import Any

import msgspec
import pytest

from kerncap.errors import FormatError, UsageError
from kerncap.format import LaunchRange, Reproducer, WriteSet, schema
from kerncap.format.documents import canonical_json
from kerncap.format.folder import is_range
from kerncap.format.memory_index import STATES
from kerncap.format.range_writer import slice_launch, write_range
from tests.golden.contents import CHUNK, RANGE_MISSING, RANGE_POSITIONS, range_contents, range_order
from tests.unit.format.damage import GOLDEN, write_manifest

GOLDEN_RANGE = GOLDEN.with_name("v1.10")
GOLDEN_ORDER = GOLDEN.with_name("v1.13")
Edit = Callable[[dict[str, Any]], None]


@pytest.fixture
def copy(tmp_path: Path) -> Path:
    return Path(shutil.copytree(GOLDEN_RANGE, tmp_path / "range"))


def test_the_golden_one_is_read() -> None:
    with LaunchRange.open(GOLDEN_RANGE) as opened:
        opened.verify()
        assert (opened.manifest.version.major, opened.manifest.version.minor) == (1, 10)
        assert tuple(launch.position for launch in opened.launches) == RANGE_POSITIONS
        assert opened.manifest.missing == (RANGE_MISSING,)
        assert [launch.manifest.launch.ordinal for launch in opened.launches] == [0, 1, 2]
        for launch in opened.launches:
            for state, held in zip(STATES, range_contents(launch.number), strict=True):
                assert launch.read(state, 0, 0, len(held)) == held
        assert opened.launch(0).checks() is None
        checks, write_set = opened.launch(1).checks(), WriteSet.load(opened.launch(1))
        assert checks is not None and checks.self_check is not None and write_set is not None
        assert write_set.written_bytes(0) == 1000
        # Of the twelve that there are, equal ones are stored once.
        assert len(opened.launch(0).index.table) == 7


def test_a_slice_is_what_the_launch_was(tmp_path: Path) -> None:
    with LaunchRange.open(GOLDEN_RANGE) as opened:
        launch = opened.launch(1)
        with Reproducer.open(slice_launch(launch, tmp_path)) as sliced:
            sliced.verify()
            for state, held in zip(STATES, range_contents(1), strict=True):
                assert sliced.read(state, 0, 0, len(held)) == held
            assert sliced.source_text() == launch.source_text() and sliced.code("ttir") == launch.code("ttir")
            checks, write_set = sliced.checks(), WriteSet.load(sliced)
            assert checks is not None and checks.self_check is not None and write_set is not None
            assert write_set.written_bytes(0) == 1000


def test_slices_make_the_range_again(tmp_path: Path) -> None:
    with LaunchRange.open(GOLDEN_RANGE) as opened:
        paths = [slice_launch(launch, tmp_path) for launch in opened.launches]
        positions = [launch.position for launch in opened.launches]
        launches = list(zip(positions, map(Reproducer.open, paths), strict=True))
        again = write_range(tmp_path, launches, opened.manifest.missing, opened.manifest.notes)
        assert write_range(tmp_path, launches, opened.manifest.missing, opened.manifest.notes) == again
        with LaunchRange.open(again) as made:
            # The golden file has the version that it was written by.
            version = opened.manifest.version
            assert msgspec.structs.replace(made.manifest, version=version) == opened.manifest


def test_what_reads_one_launch_says_how_to_get_it(copy: Path) -> None:
    assert is_range(copy) and not is_range(GOLDEN) and not is_range(copy / "memory")
    with pytest.raises(UsageError, match=rf"`kerncap slice {copy} K`"):
        Reproducer.open(copy)
    with pytest.raises(UsageError, match="one launch, not a range"):
        LaunchRange.open(GOLDEN)
    with LaunchRange.open(copy) as opened, pytest.raises(UsageError, match="launches 0 to 2"):
        opened.launch(3)


def edit_launch(folder: Path, number: int, edit: Edit) -> None:
    """Change the manifest of a launch as its maker could: the digests above it are right again."""
    path = folder / "launches" / f"{number}.json"
    manifest = json.loads(path.read_bytes())
    edit(manifest)
    data = canonical_json(manifest)
    path.write_bytes(data)

    def listed(top: dict[str, Any]) -> None:
        entry = top["launches"][number]["manifest"]
        entry.update(sha256=hashlib.sha256(data).hexdigest(), size=len(data))

    edit_top(folder, listed)


def edit_top(folder: Path, edit: Edit) -> None:
    manifest = json.loads((folder / "manifest.json").read_bytes())
    edit(manifest)
    write_manifest(folder, canonical_json(manifest))


def damaged(folder: Path, file: str, message: str) -> None:
    """Open and verify ``folder``; it must fail in ``file`` with one line that has ``message``."""
    with pytest.raises(FormatError, match=message) as caught:
        with LaunchRange.open(folder) as opened:
            opened.verify()
    assert Path(caught.value.path) == folder / file
    assert len(str(caught.value).splitlines()) == 1


@pytest.mark.parametrize(
    ("edit", "message"),
    [
        (lambda top: top["launches"].reverse(), "expected 'launches/0.json'"),
        (lambda top: top["launches"][1].update(position=3), "position 3 after 3"),
        (lambda top: top["launches"].clear(), "length"),
        (lambda top: top["missing"][0].update(position=4), "launch 4 is there"),
        (lambda top: top["memory"]["chunks"].update(path="launches/0.json"), "expected 'memory/chunks'"),
        (lambda top: top["launches"][0]["manifest"].update(path="../x.json"), "expected 'launches/0.json'"),
        (lambda top: top["files"].append({**top["files"][0], "path": "run.py"}), "expected 'README.md'"),
        (lambda top: top.update(format="kerncap-other"), "expected 'kerncap-range'"),
        (lambda top: top["version"].update(major=2), "format version 2 is not known"),
    ],
)
def test_a_rule_of_the_range_that_is_broken(copy: Path, edit: Edit, message: str) -> None:
    edit_top(copy, edit)
    damaged(copy, "manifest.json", message)


@pytest.mark.parametrize(
    ("edit", "message"),
    [
        (lambda order: order["launches"].pop(), "2 places for 3 launches"),
        (lambda order: order["launches"][1].update(stream=3), "stream 3 of 3"),
        (lambda order: order["calls"][2].update(before=0), "launch 0 after 1, of 3"),
        (lambda order: order["calls"][3].update(before=3), "launch 3 after 2, of 3"),
        (lambda order: order["calls"][0].pop("event"), "record without event"),
        (lambda order: order["calls"][1].pop("stream"), "wait without stream"),
        (lambda order: order["calls"][3].update(stream=7), "stream 7 of 3"),
        (lambda order: order["calls"][3].update(call="stop"), "Invalid enum value 'stop'"),
    ],
)
def test_a_rule_of_the_order_that_is_broken(tmp_path: Path, edit: Edit, message: str) -> None:
    ordered = Path(shutil.copytree(GOLDEN_ORDER, tmp_path / "range"))
    with LaunchRange.open(ordered) as opened:
        assert opened.manifest.order == range_order()
    edit_top(ordered, lambda top: edit(top["order"]))
    damaged(ordered, "manifest.json", message)


@pytest.mark.parametrize(
    ("edit", "message"),
    [
        (lambda launch: launch["device"].update(ordinal=3), "its device is not that"),
        (lambda launch: launch["memory"].pop("digest_of"), "its memory is not that of the range"),
        (lambda launch: launch["views"][0].update(offset=1 << 20), "which has 263144"),
        (lambda launch: launch["memory"].update(post_bytes=0), "post_bytes is 0"),
        (lambda launch: launch.update(format="kerncap-range"), "expected 'kerncap-reproducer'"),
    ],
)
def test_a_rule_of_a_launch_that_is_broken(copy: Path, edit: Edit, message: str) -> None:
    edit_launch(copy, 1, edit)
    damaged(copy, "launches/1.json", message)


def test_bytes_that_are_damaged(copy: Path) -> None:
    def flip(name: str, at: int) -> None:
        data = bytearray((copy / name).read_bytes())
        data[at] ^= 1
        (copy / name).write_bytes(data)

    [source] = [path.name for path in (copy / "files").iterdir() if b"import triton" in path.read_bytes()]
    places = {f"files/{source}": 3, "memory/chunks": CHUNK + 100, "launches/2.json": 9, "memory/index": 40}
    for name, at in places.items():
        flip(name, at)
        damaged(copy, name, "damaged")
        flip(name, at)
    (copy / "run.py").write_text("print()")
    damaged(copy, "run.py", "does not list it")
    (copy / "run.py").rename(copy / "checks.json")
    damaged(copy, "checks.json", "does not list it")
    (copy / "checks.json").unlink()
    (copy / "launches" / "0.json").unlink()
    damaged(copy, "launches/0.json", "missing")


def test_an_index_of_other_launches(copy: Path) -> None:
    index = msgspec.msgpack.decode((copy / "memory" / "index").read_bytes())
    index["launches"].pop()
    data = msgspec.msgpack.encode(index)
    (copy / "memory" / "index").write_bytes(data)
    stored = {"path": "memory/index", "size": len(data), "sha256": hashlib.sha256(data).hexdigest()}
    for number in range(3):
        edit_launch(copy, number, lambda launch: launch["memory"].update(index=stored))
    edit_top(copy, lambda top: top["memory"].update(index=stored))
    damaged(copy, "memory/index", "entries of 2 launches; the manifest has 3")


def test_one_launch_is_the_least(tmp_path: Path) -> None:
    with pytest.raises(ValueError, match="at least one"):
        write_range(tmp_path, [])
    assert schema.MAX_RANGE_LAUNCHES == 1024, "shims/common/launch_span.h and launch_span.py have it too"

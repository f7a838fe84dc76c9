"""One chunk that is listed again and again: what it takes written out is said, and refused, before it is."""

from __future__ import annotations

import hashlib
import shutil
from pathlib import Path
from typing import Any

import msgspec
import numpy as np
import pytest

from kerncap.api.export import export
from kerncap.api.replay import ReplayOptions, opened
from kerncap.errors import KerncapError, UsageError
from kerncap.format import Reproducer
from kerncap.format.expanded_size import expanded_bytes, require_expandable
from kerncap.format.memory_index import ENTRY, ROW
from kerncap.replay import trust
from kerncap.replay.staging import stage
from tests.unit.format.damage import GOLDEN_BLOCK, edit_manifest

CHUNK = 16 << 20
GIB = 1 << 30


def claims(folder: Path, size: int, post: bool = False) -> Path:
    """A reproducer with a region of ``size`` bytes, each chunk the same (and after it another)."""
    shutil.copytree(GOLDEN_BLOCK, folder)
    import zstandard

    count, raws = size // CHUNK, [b"\1" * CHUNK, b"\2" * CHUNK][: 2 if post else 1]
    packed = [zstandard.ZstdCompressor().compress(raw) for raw in raws]
    table = np.zeros(len(raws), dtype=ROW)
    for row, (raw, data) in enumerate(zip(raws, packed, strict=True)):
        digest = np.void(hashlib.sha256(raw).digest())
        table[row] = (digest, sum(map(len, packed[:row])), len(data), CHUNK, 1)
    listed = {
        "pre": [(0, chunk, 1) for chunk in range(count)],
        "post": [(0, c, 2) for c in range(count * post)],
    }
    index = msgspec.msgpack.encode({
        "version": 1, "chunk_bytes": CHUNK, "table": table.tobytes(),
        **{name: np.array(rows, dtype=ENTRY).tobytes() for name, rows in listed.items()},
    })  # fmt: skip
    files = {"index": index, "chunks": b"".join(packed)}
    for name, data in files.items():
        (folder / "memory" / name).write_bytes(data)

    def edit(manifest: Any) -> None:
        for name, data in files.items():
            manifest["memory"][name].update(size=len(data), sha256=hashlib.sha256(data).hexdigest())
        manifest["memory"].update(chunk_bytes=CHUNK, pre_bytes=size, post_bytes=size * post)
        manifest["regions"][0].update(size=size)

    edit_manifest(folder, edit)
    return folder


@pytest.fixture(autouse=True)
def _agreed(monkeypatch: pytest.MonkeyPatch) -> None:
    """Consent is not what is looked at here."""
    for name in ("require", "check"):
        monkeypatch.setattr(trust, name, lambda *_: None)


@pytest.mark.parametrize("size", [5 * GIB, 16 * GIB, 400 * GIB])
@pytest.mark.parametrize("post", [False, True])
def test_it_is_said_and_refused(tmp_path: Path, size: int, post: bool) -> None:
    folder = claims(tmp_path / "repro", size, post)
    total = size * (2 if post else 1)
    said = rf"stored claim to be {total // GIB}(\.\d)? GiB written out; .*--max-size"
    with Reproducer.open(folder) as reproducer:
        assert expanded_bytes(reproducer) == total
        with pytest.raises(UsageError, match=said):
            stage(reproducer, "interpreter", "host", -1)
        reproducer.max_expanded = size // 2
        with pytest.raises(UsageError, match="more than .*; --max-size"):
            stage(reproducer, "interpreter", "host", -1)
    with pytest.raises(UsageError, match=said):
        export(folder, "script", tmp_path / "out")
    assert not (tmp_path / "out").exists()


def test_a_disk_has_room_or_not(tmp_path: Path) -> None:
    with Reproducer.open(claims(tmp_path / "repro", 1000 * GIB)) as reproducer:
        reproducer.max_expanded = 2000 * GIB
        with pytest.raises(UsageError, match="are free, the memory of .* takes 1000 GiB .*; set TMPDIR"):
            require_expandable(reproducer, Path("/dev/shm"))


def test_the_option_reaches_the_engine(tmp_path: Path) -> None:
    folder = claims(tmp_path / "repro", 256 << 20)
    with pytest.raises(KerncapError, match="takes 256 MiB written out, more than 1.0 MiB"):
        with opened(folder, ReplayOptions(engine="interpreter", max_size=1 << 20)):
            pass


def test_an_honest_one_is_not_in_the_way() -> None:
    with Reproducer.open(GOLDEN_BLOCK) as reproducer:
        require_expandable(reproducer, Path("/tmp"))

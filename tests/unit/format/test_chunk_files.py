"""Large memory: several files of chunks, by BLAKE3. Here a chunk is large enough."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from kerncap.errors import FormatError
from kerncap.format import LaunchRange, Reproducer, chunks
from kerncap.format.archive import unpack, write_archive
from kerncap.format.packing import UNIT_BYTES
from kerncap.format.range_writer import slice_launch, write_range
from kerncap.format.schema import CHUNK_BYTES
from tests.golden.contents import noise
from tests.unit.format import small
from tests.unit.format.damage import edit_manifest

FILES = ["memory/chunks", "memory/chunks.1", "memory/chunks.2"]


def _states() -> list[tuple[bytes, bytes]]:
    """Units of noise, text and zeros, with a chunk that is there again in another unit."""
    seeds = [noise(CHUNK_BYTES, seed) for seed in range(3)]
    pre = (
        seeds[0]
        + bytes(UNIT_BYTES - CHUNK_BYTES)
        + b"text" * (UNIT_BYTES // 4)
        + seeds[1]
        + seeds[0]
        + seeds[2]
    )
    return [(pre, pre[:-CHUNK_BYTES] + b"after" * 52_428 + b"after the"[: CHUNK_BYTES - 262_140])]


@pytest.fixture
def large(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.setattr(chunks, "LARGE_BYTES", CHUNK_BYTES)
    return small.write(tmp_path, _states())


def _holds(reproducer: Reproducer) -> None:
    [(pre, post)] = _states()
    assert reproducer.read("pre", 0, 0, len(pre)) == pre
    assert reproducer.read("post", 0, 0, len(post)) == post
    reproducer.verify()


def test_units_go_to_files_in_turn(large: Path, tmp_path: Path) -> None:
    with Reproducer.open(large) as reproducer:
        memory = reproducer.manifest.memory
        assert memory.digest_of == "payloads-blake3"
        assert [file.path for file in memory.chunk_files] == [*FILES, "memory/chunks.3"]
        assert [file.size for file in memory.chunk_files if file.path != FILES[1]][:2] == [
            CHUNK_BYTES, 2 * CHUNK_BYTES,
        ]  # fmt: skip
        assert memory.chunk_files[1].size < 1000, "text packs, and is one chunk sixteen times"
        assert sum(file.size for file in memory.chunk_files) == memory.stored_bytes
        _holds(reproducer)
        again = small.write(tmp_path / "again", _states())
        assert again.name == large.name, "the same memory gives the same bytes"


def test_an_archive_has_all_of_them(large: Path, tmp_path: Path) -> None:
    with Reproducer.open(large) as reproducer:
        write_archive(reproducer, tmp_path / "packed.zip")
    with Reproducer.open(unpack(tmp_path / "packed.zip", tmp_path / "unpacked", 1 << 30)) as reproducer:
        _holds(reproducer)


def test_a_range_of_large_and_small_launches(
    large: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """One table, by BLAKE3: the chunks of a launch that had SHA-256 are hashed again."""
    with monkeypatch.context() as patch:
        patch.setattr(chunks, "LARGE_BYTES", 1 << 40)
        other = small.write(tmp_path / "small", _states())
    with Reproducer.open(large) as first, Reproducer.open(other) as second:
        assert second.manifest.memory.digest_of is None
        folder = write_range(tmp_path, [(0, second), (1, first)])
        stored = first.manifest.memory.stored_bytes
    with LaunchRange.open(folder) as opened:
        opened.verify()
        assert opened.manifest.memory.chunks.size == stored, "equal chunks are there once"
        for launch in opened.launches:
            _holds(launch)
        with Reproducer.open(slice_launch(opened.launches[0], tmp_path / "slice")) as sliced:
            _holds(sliced)


def _flip(path: Path, offset: int) -> None:
    with path.open("r+b") as file:
        file.seek(offset)
        byte = file.read(1)[0]
        file.seek(offset)
        file.write(bytes([byte ^ 1]))


@pytest.mark.parametrize(("name", "chunk", "offset"), [(FILES[0], 1, 0), (FILES[2], 4, CHUNK_BYTES)])
def test_damage_is_named_with_its_file_and_byte(large: Path, name: str, chunk: int, offset: int) -> None:
    _flip(large / name, offset + 20)
    with Reproducer.open(large) as reproducer:
        with pytest.raises(FormatError, match=f"chunk {chunk} is damaged: BLAKE3 is") as caught:
            reproducer.verify_files(memory=True)
        assert (caught.value.path, caught.value.offset) == (str(large / name), offset)


def _without_digest(memory: dict[str, Any]) -> None:
    del memory["digest_of"]


def _of_other_names(memory: dict[str, Any]) -> None:
    memory["more_chunks"][0]["path"] = "memory/chunks.2"


def _out_of_the_folder(memory: dict[str, Any]) -> None:
    memory["more_chunks"][1]["path"] = "../chunks.2"


def _other_digest(memory: dict[str, Any]) -> None:
    memory["digest_of"] = "payloads-md5"


def _too_many(memory: dict[str, Any]) -> None:
    memory["more_chunks"] = [{**memory["chunks"], "path": f"memory/chunks.{n}"} for n in range(1, 17)]


def _too_large(memory: dict[str, Any]) -> None:
    for file in memory["more_chunks"]:
        file["size"] = 1 << 40


def _one_less(memory: dict[str, Any]) -> None:
    del memory["more_chunks"][2]


@pytest.mark.parametrize(
    ("change", "said"),
    [
        (_without_digest, "files of chunks whose digests are not of payloads"),
        (_of_other_names, "'memory/chunks.2'; expected 'memory/chunks.1'"),
        (_out_of_the_folder, "leads out of the reproducer"),
        (_other_digest, "Invalid enum value 'payloads-md5'"),
        (_too_many, "length <= 15"),
        (_too_large, "bytes; at most"),
        (_one_less, "the chunks take"),
    ],
)
def test_what_a_stranger_lists(large: Path, change: Callable[[dict[str, Any]], None], said: str) -> None:
    edit_manifest(large, lambda manifest: change(manifest["memory"]))
    with pytest.raises(FormatError, match=said):
        Reproducer.open(large)


def test_no_chunk_is_in_two_files(large: Path) -> None:
    """The end of one file is the start of the next: their sizes add up to what the index has."""
    first, second = (large / name for name in FILES[:2])
    data = first.read_bytes()
    first.write_bytes(data[:-1])
    second.write_bytes(data[-1:] + second.read_bytes())

    def resized(manifest: dict[str, Any]) -> None:
        manifest["memory"]["chunks"]["size"] -= 1
        manifest["memory"]["more_chunks"][0]["size"] += 1

    edit_manifest(large, resized)
    with pytest.raises(FormatError, match="table record 0: the chunk is in two files"):
        Reproducer.open(large)

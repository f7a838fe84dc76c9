"""Sealing is all or nothing, never over something that is there, and never of what could not be read."""

from __future__ import annotations

import os
import resource
import signal
import subprocess
import sys
import threading
from pathlib import Path

import msgspec
import pytest

from kerncap.errors import KerncapError
from kerncap.format import Reproducer, ReproducerWriter, schema
from kerncap.format.memory_index import Encoding
from kerncap.format.packing import UNIT_BYTES
from kerncap.format.schema import CHUNK_BYTES
from kerncap.format.writer import file_stem
from tests.golden.contents import noise
from tests.unit.format import small

STATE = [(b"\x01" * 100, b"\x02" * 100)]


def test_until_sealed_there_is_only_a_hidden_folder(tmp_path: Path) -> None:
    with ReproducerWriter(tmp_path, "a/b kernel") as writer:
        writer.add_region_pre(0, 3, b"abc")
        (name,) = os.listdir(tmp_path)
        assert name.startswith(".kerncap-seal-")
        folder = writer.seal(small.manifest(writer.finish_memory(), [3]))
    assert os.listdir(tmp_path) == [folder.name]


def test_an_error_takes_the_folder_away(tmp_path: Path) -> None:
    with pytest.raises(RuntimeError, match="in between"), ReproducerWriter(tmp_path, "k") as writer:
        writer.add_region_pre(0, 3, b"abc")
        raise RuntimeError("in between")
    assert os.listdir(tmp_path) == []


def test_the_same_again_is_the_same_folder(tmp_path: Path) -> None:
    first = small.write(tmp_path, STATE)
    before = (first / "manifest.json").stat().st_ino
    assert small.write(tmp_path, STATE) == first
    assert (first / "manifest.json").stat().st_ino == before
    assert os.listdir(tmp_path) == [first.name]


def test_a_damaged_folder_of_that_name_is_left_alone_and_not_returned(tmp_path: Path) -> None:
    first = small.write(tmp_path, STATE)
    (first / "memory/chunks").write_bytes(b"")
    second = small.write(tmp_path, STATE)
    assert second != first and second.name.startswith(first.name)
    assert (first / "memory/chunks").read_bytes() == b""
    with Reproducer.open(second) as made:
        made.verify()


@pytest.mark.parametrize("kind", ["file", "folder"])
def test_something_else_of_that_name_is_left_alone(tmp_path: Path, kind: str) -> None:
    name = small.write(tmp_path / "elsewhere", STATE).name
    taken = tmp_path / name
    if kind == "file":
        taken.write_text("mine")
    else:
        taken.mkdir()
        (taken / "mine").touch()
    folder = small.write(tmp_path, STATE)
    assert folder.name.startswith(name) and folder.name != name
    assert taken.read_text() == "mine" if kind == "file" else os.listdir(taken) == ["mine"]


def test_every_name_taken_is_an_error_that_leaves_nothing(tmp_path: Path) -> None:
    made = small.write(tmp_path / "elsewhere", STATE)
    with Reproducer.open(made) as reproducer:
        digest = reproducer.manifest_sha256
    for digits in (8, 16, 64):
        (tmp_path / f"k-{digest[:digits]}").touch()
    with pytest.raises(KerncapError, match="already there with other content"):
        small.write(tmp_path, STATE)
    assert not [name for name in os.listdir(tmp_path) if name.startswith(".")]


def test_a_manifest_that_could_not_be_read_is_not_written(tmp_path: Path) -> None:
    for field, value, message in (
        (
            "views",
            (schema.View(region=1, offset=0, dtype="int8", itemsize=1, shape=(), strides=()),),
            "region 1 of",
        ),
        ("command", (7,), "Expected `str`, got `int`"),
        ("files", (schema.StoredFile(path="source/x", size=0, sha256="0" * 64),), "which was not added so"),
        ("regions", (), "region 0 was added with 3 bytes"),
    ):
        with ReproducerWriter(tmp_path, "k") as writer:
            writer.add_region_pre(0, 3, b"abc")
            good = small.manifest(writer.finish_memory(), [3])
            with pytest.raises(ValueError, match=message):
                writer.seal(msgspec.structs.replace(good, **{field: value}))
    assert os.listdir(tmp_path) == []


def test_a_kill_just_before_the_rename_leaves_no_final_folder(tmp_path: Path) -> None:
    program = f"""
import os, signal
from pathlib import Path
from tests.unit.format import small
os.rename = lambda *_, **__: os.kill(os.getpid(), signal.SIGKILL)
small.write(Path({str(tmp_path)!r}), [(b"a", b"b")])
"""
    root = Path(__file__).parents[3]
    done = subprocess.run([sys.executable, "-c", program], cwd=root, timeout=300)
    assert done.returncode == -signal.SIGKILL
    (name,) = os.listdir(tmp_path)
    assert name.startswith(".kerncap-seal-")
    small.write(tmp_path, [(b"a", b"b")])
    assert name not in os.listdir(tmp_path), "the next writer removes what a killed one has left"


def test_sealing_is_durable_before_the_rename(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Every file and folder was synced, and only then the name given, and then the parent synced."""
    done: list[str] = []
    sync, rename = os.fsync, os.rename

    def fsync(fd: int) -> None:
        done.append(os.path.relpath(os.readlink(f"/proc/self/fd/{fd}"), tmp_path))
        sync(fd)

    def renamed(source: str, target: Path, **where: int) -> None:
        done.append("rename")
        rename(source, target, **where)

    monkeypatch.setattr(os, "fsync", fsync)
    monkeypatch.setattr(os, "rename", renamed)
    folder = small.write(tmp_path, STATE)
    at = done.index("rename")
    synced = {os.path.relpath(name, done[0].split("/")[0]) for name in done[:at]}
    held = {str(p.relative_to(folder)) for p in folder.rglob("*")}
    assert synced == held | {"."}
    assert done[at + 1 :] == ["."]


def test_misuse_is_refused(tmp_path: Path) -> None:
    with ReproducerWriter(tmp_path, "k") as writer:
        writer.add_region_pre(0, 3, b"abc")
        with pytest.raises(ValueError, match="region 0 was added before"):
            writer.add_region_pre(0, 3, b"abc")
        with pytest.raises(ValueError, match="region 0 chunk 0: 2 bytes, expected 3"):
            writer.add_post_chunk(0, 0, b"ab")
        with pytest.raises(ValueError, match="region 0 chunk 1: 2 bytes, expected 0"):
            writer.add_post_chunk(0, 1, b"ab")
        with pytest.raises(ValueError, match=r"leads out of the reproducer"):
            writer.add_file("../x", b"")
        with pytest.raises(KerncapError, match="memory source has 3 bytes, expected 4"):
            writer.add_region_pre(1, 4, b"abc")


def test_a_source_file_that_shrinks_is_an_error(tmp_path: Path) -> None:
    source = tmp_path / "source"
    source.write_bytes(noise(3 * CHUNK_BYTES, 1))
    out = tmp_path / "out"
    with source.open("rb") as file, pytest.raises(KerncapError, match="memory source ends at byte"):
        with ReproducerWriter(out, "k") as writer:
            os.truncate(source, 3 * CHUNK_BYTES)
            original = os.fstat

            def shrink_after(fd: int) -> os.stat_result:
                info = original(fd)
                os.truncate(source, CHUNK_BYTES)
                return info

            with pytest.MonkeyPatch.context() as patch:
                patch.setattr(os, "fstat", shrink_after)
                patch.setattr(os, "lseek", _no_holes)
                writer.add_region_pre(0, 3 * CHUNK_BYTES, file)
            writer.finish_memory()
    assert os.listdir(out) == []


def _no_holes(fd: int, offset: int, whence: int) -> int:
    raise OSError(22, "this file system knows no holes")


def test_unlisted_files_are_listed_and_readme_describes_the_folder(tmp_path: Path) -> None:
    with ReproducerWriter(tmp_path, "k") as writer:
        writer.add_region_pre(0, 3, b"abc")
        writer.add_file("source/notes.txt", b"hello")
        folder = writer.seal(small.manifest(writer.finish_memory(), [3]))
    with Reproducer.open(folder) as made:
        assert [file.path for file in made.manifest.files] == ["source/notes.txt", "README.md"]
    readme = (folder / "README.md").read_text()
    assert "kerncap verify ." in readme and "private data" in readme and "`m.k`" in readme


def test_undecodable_text_of_the_target_is_written_readably(tmp_path: Path) -> None:
    with ReproducerWriter(tmp_path, "k") as writer:
        good = small.manifest(writer.finish_memory(), [])
        argument = os.fsdecode(b"caf\xe9.py")
        folder = writer.seal(msgspec.structs.replace(good, command=("python", argument)))
    with Reproducer.open(folder) as made:
        assert made.manifest.command == ("python", "caf?.py")


def test_threads_do_not_change_the_order(tmp_path: Path) -> None:
    """The first chunk is held back until the others are packed; it still is row 1."""
    from kerncap.format.chunks import ChunkWriter

    others, rows = threading.Barrier(2, timeout=300), []
    (tmp_path / "memory").mkdir()
    chunks = ChunkWriter(tmp_path, 9)

    def late(_: memoryview) -> bytes:
        others.wait()
        return b"late"

    def early(_: memoryview) -> bytes:
        others.wait()
        return b"early"

    chunks.add(late, rows.extend)
    chunks.add(early, rows.extend)
    chunks.add(lambda _: b"late", rows.extend)
    table, places = chunks.finish()
    chunks.close()
    assert rows == [1, 2, 1] and places.tolist() == [0, 1, 2]
    assert list(table["offset"]) == [0, 4]
    assert (tmp_path / "memory/chunks").read_bytes() == b"lateearly"


def test_memory_in_units_is_as_it_was(tmp_path: Path) -> None:
    """Several units and a short end, zeros and repeats within and across them, a changed run after them."""
    unit = UNIT_BYTES // CHUNK_BYTES
    kinds = [
        noise(CHUNK_BYTES, 1),
        bytes(CHUNK_BYTES),
        noise(CHUNK_BYTES, 2),
        b"kerncap " * (CHUNK_BYTES // 8),
    ]
    pre = b"".join(kinds[n * n % 7 % 4] for n in range(3 * unit + 2)) + b"end"
    post = bytearray(pre)
    start, size = (unit - 1) * CHUNK_BYTES, unit * CHUNK_BYTES
    post[start : start + size] = b"".join(kinds[n % 4] for n in range(unit))
    with ReproducerWriter(tmp_path, "k") as writer:
        writer.add_region_pre(0, len(pre), pre)
        writer.add_post_chunks(0, unit - 1, size, lambda _: bytes(post[start : start + size]))
        writer.add_post_chunks(0, 3 * unit + 2, 3, lambda _: b"END")
        for chunk, wrong in ((0, CHUNK_BYTES - 1), (0, UNIT_BYTES + CHUNK_BYTES), (3 * unit + 2, 4), (0, 0)):
            with pytest.raises(ValueError, match=f"{wrong} bytes are not its chunks"):
                writer.add_post_chunks(0, chunk, wrong, lambda _: b"")
        folder = writer.seal(small.manifest(writer.finish_memory(), [len(pre)]))
    with Reproducer.open(folder) as made:
        assert len(made.index.table) == 5, "three kinds and two ends, once each"
        assert made.read("pre", 0, 0, len(pre)) == pre
        assert made.read("post", 0, 0, len(pre)) == bytes(post[:-3]) + b"END"
        made.stage("post", 0, [tmp_path / "staged"])
        assert (tmp_path / "staged").read_bytes() == bytes(post[:-3]) + b"END"
        made.verify()


@pytest.mark.parametrize(
    ("chunk", "encodings"),
    [
        (noise(CHUNK_BYTES, 5), [Encoding.RAW]),
        (b"kerncap " * (CHUNK_BYTES // 8), [Encoding.ZSTD]),
        # Noise where a sample may look, and then what is worth packing, and the other way round.
        (noise(CHUNK_BYTES // 4, 5) + bytes(CHUNK_BYTES * 3 // 4), [Encoding.ZSTD]),
        (bytes(100_000) + noise(10_000, 5) + bytes(CHUNK_BYTES - 110_000), [Encoding.ZSTD]),
        (noise(10, 5), [Encoding.RAW]),
    ],
)
def test_only_what_is_worth_it_is_packed(tmp_path: Path, chunk: bytes, encodings: list[Encoding]) -> None:
    with Reproducer.open(small.write(tmp_path, [(chunk, chunk)])) as made:
        assert list(made.index.table["encoding"]) == encodings
        assert made.read("pre", 0, 0, len(chunk)) == chunk


@pytest.mark.parametrize(
    ("name", "stem"),
    [("k", "k"), ("..", "kernel"), ("a<b>(c)", "a_b_c"), ("x" * 500, "x" * 120), (".hid", "hid")],
)
def test_file_stem(name: str, stem: str) -> None:
    assert file_stem(name).rstrip("_") == stem


def test_abort_takes_the_folder_away_though_its_buffers_do_not_fit_on_the_disk(tmp_path: Path) -> None:
    """A limit on the size of files stands for the full disk: both fail in write()."""
    writer = ReproducerWriter(tmp_path, "k")
    soft, hard = resource.getrlimit(resource.RLIMIT_FSIZE)
    writer.add_region_pre(0, 2 * CHUNK_BYTES, noise(2 * CHUNK_BYTES, 1))
    resource.setrlimit(resource.RLIMIT_FSIZE, (4096, hard))
    try:
        with pytest.raises(OSError, match="File too large"):
            writer.finish_memory()
        writer.abort()
    finally:
        resource.setrlimit(resource.RLIMIT_FSIZE, (soft, hard))
    assert list(tmp_path.iterdir()) == []

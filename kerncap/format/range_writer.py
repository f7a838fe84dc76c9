"""Writing a range from the reproducers of its launches, and a reproducer of one launch from a range."""

from __future__ import annotations

import hashlib
import os
from collections.abc import Iterator, Sequence
from pathlib import Path

import msgspec
import numpy as np
import numpy.typing as npt

import kerncap
from kerncap.format import digests, readme, schema
from kerncap.format.allowed_names import (
    CHUNKS_PATH,
    INDEX_PATH,
    MEMORY_PATHS,
    README_PATH,
    file_of_range,
    manifest_of_launch,
)
from kerncap.format.checks_file import Checks
from kerncap.format.chunks import Buffer, Loader
from kerncap.format.documents import canonical_json
from kerncap.format.launch_range import LaunchOfRange, LaunchRange, range_stem
from kerncap.format.memory_index import ROW, STATES, Table, encode_range
from kerncap.format.reader import Reproducer
from kerncap.format.region_sources import Piece
from kerncap.format.sealed_folder import SealedFolder
from kerncap.format.validate import stored_files
from kerncap.format.write_set import WriteSet
from kerncap.format.writer import ReproducerWriter


def write_range(
    parent: Path,
    launches: Sequence[tuple[int, Reproducer]],
    missing: Sequence[schema.MissingLaunch] = (),
    notes: Sequence[str] = (),
    order: schema.StreamOrder | None = None,
) -> Path:
    """Write the range of ``launches``, (position, reproducer) in ascending order, into ``parent``.

    Chunks and files that are equal are stored once, packed as they are. README.md of each launch is left out,
    and so is what was found out after sealing. Raises ValueError for launches that are no range.
    """
    if not launches:
        raise ValueError("a range has at least one launch")
    manifests = [reproducer.manifest for _, reproducer in launches]
    folder = SealedFolder(parent, range_stem(manifests), LaunchRange.is_whole)
    try:
        memory = _write_memory(folder, [reproducer for _, reproducer in launches])
        entries = []
        for number, (position, reproducer) in enumerate(launches):
            files = _add_files(folder, reproducer)
            manifest = _manifest_of_launch(reproducer.manifest, memory, files)
            stored = folder.add_file(manifest_of_launch(number), canonical_json(manifest))
            entries.append(schema.RangeLaunch(position=position, manifest=stored))
        text = readme.render_range([position for position, _ in launches], manifests, missing)
        range_manifest = schema.RangeManifest(
            format="kerncap-range",
            version=schema.Version(schema.FORMAT_MAJOR, schema.FORMAT_MINOR),
            tool=schema.Tool(name="kerncap", version=kerncap.__version__),
            created=manifests[0].created,
            memory=memory,
            launches=tuple(entries),
            missing=tuple(missing),
            order=order,
            files=(folder.add_file(README_PATH, text.encode("utf-8", "replace")),),
            notes=tuple(notes),
        )
        return folder.seal(canonical_json(range_manifest))
    finally:
        folder.remove()


def slice_launch(launch: LaunchOfRange, parent: Path) -> Path:
    """Write one launch of a range into ``parent`` as a reproducer; its folder.

    What was measured of it comes along. Raises FormatError for damaged content.
    """
    manifest = launch.manifest
    size = sum(region.size for region in manifest.regions)
    with ReproducerWriter(parent, manifest.kernel.name, size) as writer:
        for number, region in enumerate(manifest.regions):
            writer.add_region_pre(number, region.size, _Before(launch, number))
            for chunk in launch.chunks_changed(number):
                start = chunk * schema.CHUNK_BYTES
                length = min(schema.CHUNK_BYTES, region.size - start)
                writer.add_post_chunk(number, chunk, launch.read("post", number, start, length))
        for _, stored in stored_files(manifest):
            if stored.path not in MEMORY_PATHS:
                writer.add_file(stored.path, launch.file(stored))
        sliced = msgspec.structs.replace(manifest, memory=writer.finish_memory())
        path = writer.seal(sliced)
    _keep_checks(launch, path)
    return path


class _Before:
    """A region before the launch, a chunk at a time."""

    def __init__(self, launch: Reproducer, region: int) -> None:
        self._launch = launch
        self._region = region

    def pieces(self, offset: int, size: int, step: int) -> Iterator[Piece]:
        """See `ChunkSource`; ``offset`` is 0."""
        chunks, _ = self._launch.index.nonzero("pre", self._region)
        for unit in np.unique(chunks * self._launch.index.chunk_bytes // step).tolist():
            yield unit * step, self._loader(unit * step, min(step, size - unit * step))

    def _loader(self, start: int, size: int) -> Loader:
        def load(buffer: Buffer) -> memoryview:
            self._launch.read_into("pre", self._region, start, buffer[:size])
            return buffer[:size]

        return load


def _keep_checks(launch: LaunchOfRange, path: Path) -> None:
    checks, kept = launch.checks(), WriteSet.load(launch)
    if checks is None:
        return
    with Reproducer.open(path) as sliced:
        stored = kept.save(sliced) if kept is not None else None
        sliced.write_checks(
            Checks(manifest_sha256=sliced.manifest_sha256, self_check=checks.self_check, write_set=stored)
        )


def _write_memory(folder: SealedFolder, launches: Sequence[Reproducer]) -> schema.RangeMemory:
    """The chunks of all launches, equal ones once, and the index; by BLAKE3 if those of a launch are."""
    (folder.path / "memory").mkdir()
    blake3 = any(launch.manifest.memory.digest == "blake3" for launch in launches)
    digest_of = digests.function("blake3" if blake3 else "sha256")
    rows: dict[bytes, int] = {}
    table: list[tuple[bytes, int, int, int, int]] = []
    entries: list[tuple[Table, Table]] = []
    digest, offset = hashlib.sha256(), 0
    with open(folder.path / CHUNKS_PATH, "xb", buffering=1 << 20) as file:
        for launch in launches:
            if launch.index.chunk_bytes != schema.CHUNK_BYTES:
                raise ValueError(f"{launch.path}: chunks of {launch.index.chunk_bytes} bytes")
            other_digest = blake3 and launch.manifest.memory.digest != "blake3"
            places = np.zeros(len(launch.index.table) + 1, dtype=np.uint32)
            for row, record in enumerate(launch.index.table, start=1):
                key = digest_of(launch.chunk(row)) if other_digest else record["digest"].tobytes()
                if key not in rows:
                    payload = launch.payload(row)
                    file.write(payload)
                    digest.update(digest_of(payload))
                    encoding, raw = int(record["encoding"]), int(record["raw"])
                    table.append((key, offset, len(payload), raw, encoding))
                    offset += len(payload)
                    rows[key] = len(table)
                places[row] = rows[key]
            pre, post = (_moved(launch.index.entries(state), places) for state in STATES)
            entries.append((pre, post))
        file.flush()
        os.fsync(file.fileno())
    chunks = schema.StoredFile(path=CHUNKS_PATH, size=offset, sha256=digest.hexdigest())
    index = encode_range(schema.CHUNK_BYTES, np.array(table, dtype=ROW), entries)
    return schema.RangeMemory(
        chunk_bytes=schema.CHUNK_BYTES,
        index=folder.add_file(INDEX_PATH, index),
        chunks=chunks,
        digest_of="payloads-blake3" if blake3 else "payloads",
    )


def _moved(entries: Table, places: npt.NDArray[np.uint32]) -> Table:
    """Entries with the rows of the range's table."""
    moved: Table = entries.copy()
    moved["row"] = places[entries["row"]]
    return moved


def _add_files(folder: SealedFolder, reproducer: Reproducer) -> tuple[schema.StoredFile, ...]:
    """Copy what the manifest of a launch lists; the extra files that stay listed."""
    for _, stored in stored_files(reproducer.manifest):
        name = file_of_range(stored)
        if stored.path not in MEMORY_PATHS | {README_PATH} and name not in folder.files:
            folder.add_file(name, reproducer.file(stored))
    return tuple(file for file in reproducer.manifest.files if file.path != README_PATH)


def _manifest_of_launch(
    manifest: schema.Manifest, memory: schema.RangeMemory, files: tuple[schema.StoredFile, ...]
) -> schema.Manifest:
    own = msgspec.structs.replace(
        manifest.memory, index=memory.index, chunks=memory.chunks, more_chunks=(), digest_of=memory.digest_of
    )
    return msgspec.structs.replace(manifest, memory=own, files=files)

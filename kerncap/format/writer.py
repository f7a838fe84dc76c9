"""Writing a reproducer: next to its final name, then one rename. A final name means a whole folder."""

from __future__ import annotations

from pathlib import Path

import msgspec
import numpy as np

from kerncap.format import readme, schema
from kerncap.format.allowed_names import INDEX_PATH, README_PATH
from kerncap.format.chunks import ChunkWriter, Loader
from kerncap.format.documents import canonical_json
from kerncap.format.final_name import file_stem
from kerncap.format.memory_index import ENTRY, MemoryIndex, Numbers, Table
from kerncap.format.packing import UNIT_BYTES
from kerncap.format.reader import Reproducer
from kerncap.format.region_sources import Source, pieces_of
from kerncap.format.sealed_folder import SealedFolder
from kerncap.format.validate import ManifestProblem, stored_files, validate


class ReproducerWriter:
    """Builds one reproducer in a hidden folder of ``final_parent`` until `seal` renames it.

    One thread calls it. Use it as a context manager, or call `abort` on any error: both take the
    temporary folder away unless it was sealed.
    """

    def __init__(self, final_parent: Path, name_stem: str, memory_bytes: int = 0) -> None:
        """``memory_bytes``: what the regions will have together. Of large memory, several files hold the
        chunks, by BLAKE3: version 1.11 can't read those."""
        self._folder = SealedFolder(final_parent, name_stem, Reproducer.is_whole)
        try:
            (self._folder.path / "memory").mkdir()
            self._chunks = ChunkWriter(self._folder.path, memory_bytes)
        except BaseException:
            self._folder.remove()
            raise
        self._sizes: dict[int, int] = {}
        self._entries: dict[str, dict[tuple[int, int], int]] = {"pre": {}, "post": {}}
        self._memory: schema.Memory | None = None

    def __enter__(self) -> ReproducerWriter:
        return self

    def __exit__(self, *_: object) -> None:
        self.abort()

    def add_region_pre(self, region: int, size: int, source: Source, offset: int = 0) -> None:
        """Store ``size`` bytes of ``source`` from ``offset`` on as the pre-state of region ``region``.

        Files are read at absolute offsets and their holes are skipped; they must stay open until
        `finish_memory`. None stands for zeros. Raises ValueError when the region was given before,
        KerncapError when the source ends early.
        """
        if region in self._sizes:
            raise ValueError(f"region {region} was added before")
        self._sizes[region] = size
        for start, load in pieces_of(source, offset, size, UNIT_BYTES):
            self._add("pre", region, start // schema.CHUNK_BYTES, load)

    def add_post_chunk(self, region: int, chunk: int, data: bytes | memoryview) -> None:
        """Chunk number ``chunk`` of the region after the launch; one equal to the pre-state is dropped."""
        held = bytes(data)  # the caller may reuse its buffer while a thread still reads this
        expected = min(schema.CHUNK_BYTES, self._sizes.get(region, 0) - chunk * schema.CHUNK_BYTES)
        if chunk < 0 or len(held) != expected:
            raise ValueError(f"region {region} chunk {chunk}: {len(held)} bytes, expected {max(0, expected)}")
        self._add("post", region, chunk, lambda _: held)

    def add_post_chunks(self, region: int, chunk: int, size: int, load: Loader) -> None:
        """The chunks from number ``chunk`` on that have ``size`` bytes together, at most UNIT_BYTES.

        ``load`` is as for `ChunkWriter.add`.
        """
        end, whole = chunk * schema.CHUNK_BYTES + size, self._sizes.get(region, 0)
        if (
            chunk < 0
            or not 0 < size <= UNIT_BYTES
            or end > whole
            or (size % schema.CHUNK_BYTES and end < whole)
        ):
            raise ValueError(f"region {region} from chunk {chunk} on: {size} bytes are not its chunks")
        self._add("post", region, chunk, load)

    def add_code(self, stage: str, data: bytes) -> schema.CodeFile:
        """Store one stage of the compiled kernel as ``code/kernel.<stage>``."""
        return schema.CodeFile(stage=stage, file=self.add_file(f"code/kernel.{file_stem(stage)}", data))

    def add_source(self, name: str, data: bytes) -> schema.StoredFile:
        """Store ``source/<name>``."""
        return self.add_file(f"source/{name}", data)

    def add_file(self, relpath: str, data: bytes) -> schema.StoredFile:
        """Store ``data`` under a plain relative path. The same path again must have the same bytes."""
        return self._folder.add_file(relpath, data)

    def finish_memory(self) -> schema.Memory:
        """Write the index; no region or chunk can be added afterwards."""
        if self._memory is not None:
            return self._memory
        table, places = self._chunks.finish()
        pre, post = self._entries["pre"], self._entries["post"]
        changed = {key: row for key, row in post.items() if pre.get(key, 0) != row}
        stored = {key: row for key, row in pre.items() if row}
        entries = [_entry_table(listed, places) for listed in (stored, changed)]
        index = MemoryIndex(schema.CHUNK_BYTES, table, *entries)
        self._chunks.close()
        files = self._chunks.files()
        index_file = self.add_file(INDEX_PATH, index.encode())
        self._folder.files.update((file.path, file) for file in files)
        self._memory = schema.Memory(
            chunk_bytes=schema.CHUNK_BYTES,
            index=index_file,
            chunks=files[0],
            more_chunks=tuple(files[1:]),
            pre_bytes=index.raw_bytes("pre"),
            post_bytes=index.raw_bytes("post"),
            digest_of="payloads-blake3" if self._chunks.is_large else None,
        )
        return self._memory

    def seal(self, manifest: schema.Manifest) -> Path:
        """Write manifest and README.md, make all of it durable, and give the folder its final name.

        For the name see `SealedFolder.seal`. Files that were added and that the manifest does not list are
        listed in ``files``.
        Raises ValueError for a manifest that could not be read back.
        """
        memory = self.finish_memory()
        if manifest.memory != memory:
            raise ValueError("manifest.memory is not what finish_memory() gave")
        manifest = self._complete(manifest)
        final = self._folder.seal(canonical_json(manifest))
        self.abort()
        return final

    def abort(self) -> None:
        """Take the temporary folder away; does nothing once sealed or aborted."""
        if not self._folder.is_there:
            return
        try:
            self._chunks.close()
        finally:
            self._folder.remove()

    def _add(self, state: str, region: int, chunk: int, load: Loader) -> None:
        if self._memory is not None:
            raise ValueError("the memory is finished")
        entries = self._entries[state]

        def placed(rows: list[int]) -> None:
            for number, row in enumerate(rows, chunk):
                if row or state == "post":
                    entries[region, number] = row

        self._chunks.add(load, placed)

    def _complete(self, manifest: schema.Manifest) -> schema.Manifest:
        """The manifest with every added file listed and README.md made; checked as a reader would."""
        listed = {file.path for _, file in stored_files(manifest)}
        extra = [file for path, file in sorted(self._folder.files.items()) if path not in listed]
        manifest = msgspec.structs.replace(manifest, files=(*manifest.files, *extra))
        manifest = _as_read(manifest)
        if README_PATH not in {file.path for file in manifest.files}:
            file = self.add_file(README_PATH, readme.render(manifest).encode("utf-8", "replace"))
            manifest = _as_read(msgspec.structs.replace(manifest, files=(*manifest.files, file)))
        for _, file in stored_files(manifest):
            if self._folder.files.get(file.path) != file:
                raise ValueError(f"the manifest lists {file.path!r}, which was not added so")
        sizes = {number: region.size for number, region in enumerate(manifest.regions)}
        for region, size in self._sizes.items():
            if sizes.get(region) != size:
                raise ValueError(f"region {region} was added with {size} bytes, not as in the manifest")
        return manifest


def _as_read(manifest: schema.Manifest) -> schema.Manifest:
    """The manifest through JSON and back: types, bounds and rules are checked as they will be on reading."""
    try:
        manifest = msgspec.json.decode(canonical_json(manifest), type=schema.Manifest)
        validate(manifest)
    except (msgspec.ValidationError, ManifestProblem) as error:
        where = "/".join(map(str, getattr(error, "steps", ())))
        raise ValueError(f"the manifest breaks the format: {where} {error}") from error
    return manifest


def _entry_table(rows: dict[tuple[int, int], int], places: Numbers) -> Table:
    """``places`` has where each row came to be in the table."""
    table = np.array([(region, chunk, row) for (region, chunk), row in sorted(rows.items())], dtype=ENTRY)
    table["row"] = places[table["row"]]
    return table

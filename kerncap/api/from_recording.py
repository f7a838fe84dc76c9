"""`from-recording`: reproducers of launches that another tool recorded. Nothing in them is executed."""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import msgspec
import numpy as np

from kerncap.capture.manifest import build_manifest
from kerncap.capture.recordings import amd_kerncap, hrr, tritonparse
from kerncap.capture.recordings.recorded import Lacking, LeftOut, Recorded
from kerncap.errors import UsageError
from kerncap.format import ReproducerWriter, schema
from kerncap.regular_file import open_regular
from kerncap.report.documents.capture import FromRecordingDocument
from kerncap.whole_files import writing

_NO_RESULT = "no result was recorded: there is nothing to compare with"


@dataclass(frozen=True)
class Imported:
    """``paths``: the reproducers. ``left_out``: launches that the recording does not hold whole."""

    recording: Path
    tool: str
    paths: tuple[Path, ...]
    left_out: tuple[LeftOut, ...]

    def as_dict(self) -> dict[str, Any]:
        """The document of ``kerncap from-recording --json``."""
        return FromRecordingDocument(
            path=str(self.recording),
            tool=self.tool,
            reproducers=tuple(map(str, self.paths)),
            left_out=self.left_out,
        ).as_dict()


def from_recording(
    path: Path | str, output: Path | str = "kerncap-out", *,
    kernel: str | None = None, launch: int = 0, max_size: int | None = None,
) -> Imported:  # fmt: skip
    """Make a reproducer of launch number ``launch`` of each kernel that the pattern ``kernel`` finds.

    ``path``: a log of tritonparse, or a folder of AMD's kerncap. ``max_size``: bytes of memory that a launch
    may have. Raises UsageError if ``path`` is neither, or damaged; for an archive of HIP's record and replay
    with the command that captures from it.
    """
    path, folder = Path(path), Path(output)
    try:
        pattern = None if kernel is None else re.compile(kernel)
    except re.error as error:
        raise UsageError(f"-k {kernel}: not a regular expression: {error}") from error
    tool, found = _launches(path, pattern, launch, max_size)
    paths, left_out = [], []
    for one in found:
        if isinstance(one, LeftOut):
            left_out.append(one)
        else:
            with writing(folder):
                folder.mkdir(parents=True, exist_ok=True)
                paths.append(_write(one, path, folder))
    return Imported(path, tool, tuple(paths), tuple(left_out))


def _launches(
    path: Path, kernel: re.Pattern[str] | None, launch: int, max_size: int | None
) -> tuple[str, Iterator[Recorded | LeftOut]]:
    if path.is_dir():
        of_amd = amd_kerncap.folder_of(path)
        if of_amd is not None:
            return amd_kerncap.TOOL, _one(path, of_amd, max_size)
        if of_hip := hrr.processes(path):
            raise hrr.refuse(path, of_hip)
        logs = sorted(each for each in path.iterdir() if tritonparse.is_log(each))
        if len(logs) == 1:
            path = logs[0]
        elif logs:
            raise UsageError(f"{path}: {len(logs)} logs, such as {logs[0].name}; give one of them")
        else:
            raise UsageError(
                f"{path}: not a recording; give a log of tritonparse (.ndjson) or a folder of AMD's kerncap"
            )
    open_regular(path).close()
    return "tritonparse", tritonparse.Log(path, max_size).launches(kernel, launch)


def _one(path: Path, found: Path, max_size: int | None) -> Iterator[Recorded | LeftOut]:
    try:
        yield amd_kerncap.read(path, found, max_size)
    except Lacking as error:
        yield LeftOut("the launch", str(error))


def _write(recorded: Recorded, path: Path, folder: Path) -> Path:
    launch = recorded.launch
    size = sum(each.size for each in launch.regions)
    with ReproducerWriter(folder, launch.kernel.name, size) as writer:
        opened = []
        try:
            for number, (region, contents) in enumerate(zip(launch.regions, recorded.memory, strict=True)):
                if isinstance(contents, Path):
                    opened.append(open_regular(contents))
                    writer.add_region_pre(number, region.size, opened[-1])
                    continue
                before = np.ascontiguousarray(contents)
                writer.add_region_pre(number, region.size, before.data)
                after = recorded.expected.get(number, before)
                for start in range(0, region.size, schema.CHUNK_BYTES):
                    part = slice(start, start + schema.CHUNK_BYTES)
                    if not np.array_equal(before[part], after[part]):
                        writer.add_post_chunk(number, start // schema.CHUNK_BYTES, after[part].tobytes())
            code = [writer.add_code(stage, data) for stage, data in recorded.code.items()]
            source = None
            if recorded.source is not None:
                file = writer.add_source("kernel.py", recorded.source.encode())
                source = schema.Source(file=file, entry=launch.kernel.name)
            memory = writer.finish_memory()
        finally:
            for each in opened:
                each.close()
        oracle = schema.Oracle(kind="trusted")
        if not recorded.expected:
            oracle = schema.Oracle(kind="suspect", condition=schema.UNRECORDED, detail=_NO_RESULT)
        manifest = build_manifest(
            launch, None, process=None,
            oracle=oracle,
            command=(), environment={}, memory=memory, code=code, compiled=recorded.compiled, source=source,
            functions=(), notes=(f"made of what {recorded.tool} recorded: {path.name}", *recorded.notes),
        )  # fmt: skip
        platform = schema.Platform(
            system="unknown", machine="unknown", python="unknown", packages=recorded.packages
        )
        return writer.seal(msgspec.structs.replace(manifest, platform=platform))

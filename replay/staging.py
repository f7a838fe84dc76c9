"""A job folder: what of a reproducer a worker needs, as plain files that any Python can read."""

from __future__ import annotations

import collections
import contextlib
import itertools
import json
import mmap
import os
import shutil
import tempfile
from pathlib import Path
from typing import Any

import msgspec

from kerncap import scratch
from kerncap.errors import BackendUnavailable, UsageError
from kerncap.format import Reproducer
from kerncap.format.expanded_size import require_expandable
from kerncap.format.schema import Manifest
from kerncap.printable import visible
from kerncap.replay import captured_function_addresses, trust
from kerncap.replay.worker import job, protocol
from kerncap.scratch import SHARED_MEMORY, Scratch

NATIVE_STAGES = ("cubin", "ptx", "fatbin", "hsaco")  # what a driver takes, the surest first
_MARGIN = 512 * 1024 * 1024  # what is left free in memory-backed storage
_LARGE_BYTES = 128 << 20  # of a region
_PARTS = 16  # files of a large region: one takes the bytes of one writer at a time
_MOST_RANGES = 16  # of a large region, each of which is mapped: with 65,530 mappings a process has no more


class Job:
    """A staged reproducer; the folder goes when the job is closed."""

    def __init__(self, reproducer: Reproducer, made: Scratch, content: job.Job) -> None:
        self.folder = made.path
        self.content = content
        self._reproducer = reproducer
        self._made = made
        self._has_memory = False

    def add_memory(self) -> None:
        """Write the regions' files, once. A worker reads them for its first request: it starts meanwhile.

        Raises UsageError if there is no room, FormatError for damaged content.
        """
        if not self._has_memory:
            try:
                _write_memory(self._reproducer, self.content, self.folder)
            except OSError as error:
                raise _no_room(self.folder.parent, error) from error
            self._has_memory = True

    @property
    def path(self) -> Path:
        return self.folder / "job.json"

    @property
    def log(self) -> Path:
        return self.folder / "worker.log"

    def give_up_memory(self, is_read: bool) -> None:
        """Delete the regions' files. ``is_read``: a worker may read what it has mapped of them.

        If not, their pages go at once, on a thread for each of some files: with the worker, which has them
        mapped, they would go one by one.
        """
        names = [name for region in self.content["regions"] for name in (*region["pre"], *region["post"])]
        is_large = any(len(region["pre"]) > 1 for region in self.content["regions"])
        if is_large and not is_read:
            from concurrent.futures import ThreadPoolExecutor

            with ThreadPoolExecutor(_PARTS) as threads:
                collections.deque(threads.map(self._empty, names), maxlen=0)
        for name in names:
            with contextlib.suppress(OSError):
                os.unlink(self.folder / name)

    def _empty(self, name: str) -> None:
        with contextlib.suppress(OSError):
            os.truncate(self.folder / name, 0)

    def close(self) -> None:
        self._made.remove()


def stage(
    reproducer: Reproducer,
    launcher: str,
    memory: str,
    device: int,
    hostile: bool = False,
    stranger: bool = False,
    ranks: job.JobRanks | None = None,
) -> Job:
    """Write the job folder of ``reproducer`` for one launcher, memory and device ordinal, but for the memory.

    ``ranks``: of one rank of several; without it windows of other ranks become memory of the worker's own.

    ``hostile``: the worker keeps what it knows of the result from candidates; ``stranger``: and from the
    stored source.

    Regions become sparse files (`Job.add_memory`); one that the launch did not change has no post file.
    What is laid out was checked as it was read, and nobody else can reach it. Raises UsageError for what
    nobody agreed to or if there is no room, FormatError for damaged content.
    """
    trust.check(reproducer)
    if launcher != "native":  # which passes the captured parameters as they are
        _refuse_negative_strides(reproducer.manifest, launcher)
    place = _place(reproducer)
    require_expandable(reproducer, place or Path(tempfile.gettempdir()))
    made = None
    try:
        made = scratch.folder("job", place)
        content = _content(reproducer, made.path, launcher, memory, device, hostile, stranger, ranks)
        _write_files(reproducer, content, made.path)
        (made.path / "job.json").write_text(json.dumps(content))
        return Job(reproducer, made, content)
    except BaseException as error:
        if made is not None:
            made.remove()
        if isinstance(error, OSError):
            raise _no_room(made.path.parent if made is not None else error.filename, error) from error
        raise


def _no_room(where: object, error: OSError) -> UsageError:
    return UsageError(
        f"{where}: the reproducer can't be staged there ({error.strerror}); make room, or set TMPDIR"
    )


def _refuse_negative_strides(manifest: Manifest, launcher: str) -> None:
    for view in manifest.views:
        if any(stride < 0 for stride in view.strides):
            reason = f"{visible(view.name) or 'a view'} has a negative stride, which torch has no tensors for"
            raise BackendUnavailable(f"the {launcher} engine", reason)


def _place(reproducer: Reproducer) -> Path | None:
    """Memory-backed storage when everything fits there with room to spare, else the usual place."""
    memory = reproducer.manifest.memory
    needed = 2 * memory.pre_bytes + memory.post_bytes + _MARGIN
    try:
        if shutil.disk_usage(SHARED_MEMORY).free > 2 * needed:
            return SHARED_MEMORY
    except OSError:
        pass
    return None


def _content(
    reproducer: Reproducer, folder: Path, launcher: str, memory: str, device: int, hostile: bool,
    stranger: bool, ranks: job.JobRanks | None,
) -> job.Job:  # fmt: skip
    manifest = reproducer.manifest
    regions: list[job.JobRegion] = []
    for index, region in enumerate(manifest.regions):
        parts = _PARTS if _is_large(reproducer, index) else 1
        changed = _changed(reproducer, index)
        regions.append({
            "base": region.base, "size": region.size, "kind": region.kind, "device": region.device,
            "name": region.name, "module": region.module,
            "array": _plain(region.array), "window": _plain(region.owner) if ranks is not None else None,
            "pre": _files(f"regions/{index}.pre", parts),
            "post": _files(f"regions/{index}.post", parts) if changed else [],
            "changed": changed,
        })  # fmt: skip
    return {
        "version": protocol.VERSION,
        "folder": str(folder),
        "launcher": launcher,
        "reproducer": str(reproducer.path.resolve()),
        "memory": memory,
        "device": device,
        "captured_device": manifest.device.ordinal,
        "views": _plain(manifest.views),
        "launches": [
            _of_launch(one, f"{number}/") for number, one in enumerate(reproducer.in_range)
        ],
        "regions": regions,
        "zeros": [{"base": zero.base, "size": zero.size} for zero in manifest.zeros],
        "hostile": hostile,
        "stranger": stranger,
        "ranks": ranks,
        **_of_launch(reproducer, ""),
        "functions": captured_function_addresses.of_reproducer(reproducer),
    }  # fmt: skip


def _files(name: str, count: int) -> list[str]:
    return [name, *(f"{name}.{number}" for number in range(1, count))]


def _is_large(reproducer: Reproducer, region: int) -> bool:
    return not reproducer.in_range and reproducer.manifest.regions[region].size >= _LARGE_BYTES


def _changed(reproducer: Reproducer, region: int) -> list[list[int]]:
    """Of a large region if the launch changed it, if that is in few places; of another all or nothing."""
    size, step = reproducer.manifest.regions[region].size, reproducer.index.chunk_bytes
    chunks = reproducer.chunks_changed(region)
    if not chunks or not _is_large(reproducer, region) or step % mmap.ALLOCATIONGRANULARITY:
        return [[0, size]] if chunks else []
    firsts = [chunk for before, chunk in itertools.pairwise([-2, *chunks]) if chunk != before + 1]
    lasts = [chunk for chunk, after in itertools.pairwise([*chunks, -2]) if after != chunk + 1]
    if len(firsts) > _MOST_RANGES:
        return [[0, size]]
    return [[first * step, min((last + 1) * step, size)] for first, last in zip(firsts, lasts, strict=True)]


def _of_launch(reproducer: Reproducer, below: str) -> job.JobOfLaunch:
    """``below``: the folder of its files in those for source and code."""
    manifest, launch = reproducer.manifest, reproducer.manifest.launch
    code = {code.stage: f"code/{below}{i}.{_suffix(code.stage)}" for i, code in enumerate(manifest.code)}
    source = manifest.source
    return {
        "kernel": manifest.kernel.name,
        "symbol": manifest.kernel.mangled or manifest.kernel.name,
        "entry": source.entry if source else None,
        "source": f"source/{below}{Path(source.file.path).name}" if source else None,
        "code": code,
        "images": [code[stage] for stage in NATIVE_STAGES if stage in code],
        "arguments": _plain(manifest.arguments),
        "launch": {
            "grid": _plain(launch.grid),
            "mode": launch.mode,
            "options": _plain(launch.options),
            "shared_bytes": launch.shared_bytes,
            "block": _plain(launch.block),
            "cluster": _plain(launch.cluster),
            "cooperative": launch.cooperative,
            "attributes": _plain(launch.attributes),
            "parameters": _plain(launch.parameters),
            "dispatch": _plain(launch.dispatch),
            "limits": _plain(launch.limits),
            "textures": _plain(launch.textures),
        },
        "compiled": _plain(manifest.compiled),
        "variables": list(reproducer.variables),
        "functions": [],
    }  # fmt: skip


def _plain(value: Any) -> Any:
    """Structs as the objects that JSON has, defaults included, so that a worker needs no schema."""
    if isinstance(value, msgspec.Struct):
        fields = {name: _plain(getattr(value, name)) for name in value.__struct_fields__}
        tag = value.__struct_config__.tag
        return {value.__struct_config__.tag_field or "kind": tag, **fields} if tag else fields
    if isinstance(value, dict):
        return {key: _plain(item) for key, item in value.items()}
    if isinstance(value, tuple | list):
        return [_plain(item) for item in value]
    return value


def _suffix(stage_name: str) -> str:
    return stage_name if stage_name.isalnum() else "bin"


def _write_files(reproducer: Reproducer, content: job.Job, folder: Path) -> None:
    for name in ("regions", "source", "code"):
        (folder / name).mkdir()
    for one, said in [(reproducer, content), *zip(reproducer.in_range, content["launches"], strict=True)]:
        _write_code(one, said, folder)


def _write_memory(reproducer: Reproducer, content: job.Job, folder: Path) -> None:
    for index, region in enumerate(content["regions"]):
        reproducer.stage("pre", index, [folder / name for name in region["pre"]])
        if region["post"]:
            is_whole = region["changed"] == [[0, region["size"]]]
            reproducer.stage("post", index, [folder / name for name in region["post"]], not is_whole)


def _write_code(reproducer: Reproducer, said: job.JobOfLaunch, folder: Path) -> None:
    text = reproducer.source_text()
    if text is not None:
        source = folder / str(said["source"])
        source.parent.mkdir(exist_ok=True)
        source.write_text(text, encoding="utf-8")
    for stage_name, path in said["code"].items():
        (folder / path).parent.mkdir(exist_ok=True)
        (folder / path).write_bytes(reproducer.code(stage_name) or b"")

"""Changing a reproducer as its maker could: digests are set right again, so that the rule itself is met."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Callable, Iterator, Mapping
from pathlib import Path
from typing import Any

import msgspec
import pytest

from kerncap.errors import FormatError
from kerncap.format import Reproducer, WriteSet
from kerncap.format.documents import canonical_json

GOLDEN = Path(__file__).parents[2] / "golden" / "v1.0"
GOLDEN_NATIVE = GOLDEN.with_name("v1.1")
GOLDEN_BLOCK = GOLDEN.with_name("v1.2")
GOLDEN_HIP = GOLDEN.with_name("v1.3")
GOLDEN_IDLE = GOLDEN.with_name("v1.4")
GOLDEN_ARENA = GOLDEN.with_name("v1.5")
GOLDEN_NUMBA = GOLDEN.with_name("v1.6")
GOLDEN_TEXTURES = GOLDEN.with_name("v1.7")
GOLDEN_CUTE_DSL = GOLDEN.with_name("v1.8")
GOLDEN_PAYLOADS = GOLDEN.with_name("v1.9")
GOLDEN_COLLECTIVE = GOLDEN.with_name("v1.9-ranks")
GOLDEN_LIMITS = GOLDEN.with_name("v1.11")
GOLDEN_CHUNK_FILES = GOLDEN.with_name("v1.12")
GOLDEN_HEAP = GOLDEN.with_name("v1.14")
GOLDEN_PRINTED = GOLDEN.with_name("v1.15")
GOLDEN_CODE_PLACE = GOLDEN.with_name("v1.16")
GOLDEN_RANKS = (GOLDEN.with_name("v1.17"), GOLDEN.with_name("v1.17-rank1"))
Edit = Callable[[Any], None]


def write_manifest(folder: Path, data: bytes) -> None:
    """Put ``data`` there as manifest.json, with its digest."""
    (folder / "manifest.json").write_bytes(data)
    digest = hashlib.sha256(data).hexdigest()
    (folder / "manifest.sha256").write_text(f"{digest}  manifest.json\n")


def reseal(folder: Path, document: Any, files: Mapping[str, bytes] | None = None) -> None:
    """Write the manifest again, and some of the files that it lists, with the digests that they have."""
    for name, data in (files or {}).items():
        (folder / name).write_bytes(data)
        for entry in _listed(document):
            if entry["path"] == name:
                entry.update(size=len(data), sha256=hashlib.sha256(data).hexdigest())
    write_manifest(folder, json.dumps(document).encode())


def edit_manifest(folder: Path, edit: Edit) -> bytes:
    """Apply ``edit`` to the manifest's plain form; gives the new text. What it lists no more is deleted."""
    manifest = json.loads((folder / "manifest.json").read_bytes())
    before = _paths(manifest)
    edit(manifest)
    for path in before - _paths(manifest):
        (folder / path).unlink(missing_ok=True)
        for above in Path(path).parents[:-1]:
            if (folder / above).is_dir() and not any((folder / above).iterdir()):
                (folder / above).rmdir()
    data = canonical_json(manifest)
    write_manifest(folder, data)
    return data


def _paths(manifest: Any) -> set[str]:
    return {entry["path"] for entry in _listed(manifest)}


def _listed(value: Any) -> Iterator[dict[str, Any]]:
    """The entries of the stored files in a manifest, wherever they are."""
    if isinstance(value, dict):
        if isinstance(value.get("path"), str) and "sha256" in value:
            yield value
        value = list(value.values())
    if isinstance(value, list):
        for one in value:
            yield from _listed(one)


def write_stored(folder: Path, place: tuple[str, ...], path: str, data: bytes) -> None:
    """Replace a listed file and set its size and digest in the manifest right."""
    (folder / path).write_bytes(data)

    def edit(manifest: Any) -> None:
        entry = manifest
        for step in place:
            entry = entry[step]
        entry["size"], entry["sha256"] = len(data), hashlib.sha256(data).hexdigest()

    edit_manifest(folder, edit)


def edit_index(folder: Path, edit: Edit) -> bytes:
    """Apply ``edit`` to the index's map (columns as bytearrays); gives the new bytes."""
    index = msgspec.msgpack.decode((folder / "memory/index").read_bytes())
    for column in ("table", "pre", "post"):
        index[column] = bytearray(index[column])
    edit(index)
    data = msgspec.msgpack.encode({k: bytes(v) if isinstance(v, bytearray) else v for k, v in index.items()})
    write_stored(folder, ("memory", "index"), "memory/index", data)
    return data


def damaged(folder: Path, file: str, message: str) -> FormatError:
    """Open and verify ``folder``; it must fail in ``file`` with one line that has ``message``."""
    with pytest.raises(FormatError, match=message) as caught:
        with Reproducer.open(folder) as reproducer:
            reproducer.verify()
            WriteSet.load(reproducer)
    assert Path(caught.value.path) == folder / file
    text = str(caught.value)
    assert len(text.splitlines()) == 1
    assert f"byte {caught.value.offset}: " in text
    return caught.value


def put(*steps: str | int) -> Callable[[Any], Callable[[Any], None]]:
    """put("a", 0, "b")(value): the edit that sets manifest["a"][0]["b"]."""

    def with_value(value: Any) -> Callable[[Any], None]:
        def edit(manifest: Any) -> None:
            for step in steps[:-1]:
                manifest = manifest[step]
            manifest[steps[-1]] = value

        return edit

    return with_value

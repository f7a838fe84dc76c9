"""Another reproducer of the same launch, with private places of its files filled up."""

from __future__ import annotations

import hashlib
import os
import shutil
from collections.abc import Callable
from pathlib import Path
from typing import Any

import msgspec

from kerncap import scratch
from kerncap.format import schema
from kerncap.format.archive.place import place
from kerncap.format.checks import Checks
from kerncap.format.documents import canonical_json
from kerncap.format.names import CHUNKS_PATH, INDEX_PATH, MANIFEST_DIGEST_PATH, MANIFEST_PATH
from kerncap.format.reader import Reproducer, decode_manifest
from kerncap.format.validate import stored_files
from kerncap.format.write_set import WriteSet
from kerncap.format.writer import file_stem
from kerncap.output import writing

Clean = Callable[[str, bytes], bytes]  # name, content -> content of the same length


def redact(reproducer: Reproducer, parent: Path, clean: Clean, note: str) -> Path:
    """Write the redacted reproducer into ``parent`` and give its folder; ``note`` goes into the manifest.

    ``clean`` gets each file but the memory, which is taken as it is, and the manifest. Write set and checks
    come along: they are of the memory. Raises FormatError, UsageError.
    """
    with writing(parent):
        parent.mkdir(parents=True, exist_ok=True)
        with scratch.folder("redact", parent, hidden=True, mode=0o755) as made:
            digest = _write(reproducer, made.path, clean, note)
            _bring_checks(reproducer, made.path)
            return place(made, parent, file_stem(reproducer.manifest.kernel.name), digest)


def _write(reproducer: Reproducer, folder: Path, clean: Clean, note: str) -> str:
    raw = clean(MANIFEST_PATH, canonical_json(reproducer.manifest))
    where = folder / MANIFEST_PATH
    document = msgspec.to_builtins(decode_manifest(raw, where))
    digests: dict[str, str] = {}
    for _, stored in stored_files(reproducer.manifest):
        # Names can be private, too: they were in the manifest, and are what its new text says.
        name = clean(MANIFEST_PATH, stored.path.encode()).decode()
        target = folder / name
        target.parent.mkdir(parents=True, exist_ok=True)
        if stored.path in (CHUNKS_PATH, INDEX_PATH):
            _copy(reproducer, stored.path, target)
            continue
        data = clean(stored.path, reproducer.file(stored))
        target.write_bytes(data)
        digests[name] = hashlib.sha256(data).hexdigest()
    _set_digests(document, digests)
    document["notes"] = [*document.get("notes", ()), note]
    data = canonical_json(msgspec.convert(document, schema.Manifest))
    decode_manifest(data, where)
    digest = hashlib.sha256(data).hexdigest()
    where.write_bytes(data)
    (folder / MANIFEST_DIGEST_PATH).write_text(f"{digest}  {MANIFEST_PATH}\n")
    return digest


def _copy(reproducer: Reproducer, name: str, target: Path) -> None:
    fd, _ = reproducer.open_file(name)
    with os.fdopen(fd, "rb") as source, open(target, "xb") as file:
        shutil.copyfileobj(source, file, 1 << 20)


def _set_digests(value: Any, digests: dict[str, str]) -> None:
    """Give each stored file that the document lists the digest that it has now."""
    if isinstance(value, dict):
        if {"path", "size", "sha256"} <= value.keys() and value["path"] in digests:
            value["sha256"] = digests[value["path"]]
        for inner in value.values():
            _set_digests(inner, digests)
    elif isinstance(value, list | tuple):
        for inner in value:
            _set_digests(inner, digests)


def _bring_checks(reproducer: Reproducer, folder: Path) -> None:
    checks, write_set = reproducer.checks(), WriteSet.load(reproducer)
    if checks is None:
        return
    with Reproducer.open(folder) as new:
        stored = write_set.save(new) if write_set is not None else None
        new.write_checks(
            Checks(manifest_sha256=new.manifest_sha256, self_check=checks.self_check, write_set=stored)
        )

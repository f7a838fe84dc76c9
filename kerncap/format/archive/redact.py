"""Another reproducer of the same launch, without what is private in its files."""

from __future__ import annotations

import hashlib
import os
import shutil
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import msgspec

from kerncap import scratch
from kerncap.format import schema
from kerncap.format.archive.final_name import place
from kerncap.format.checks_file import Checks
from kerncap.format.documents import canonical_json
from kerncap.format.names import (
    CHECKS_PATH,
    CHUNKS_PATH,
    INDEX_PATH,
    MANIFEST_DIGEST_PATH,
    MANIFEST_PATH,
    README_PATH,
)
from kerncap.format.private import KEPT, Scrubber
from kerncap.format.private.manifest_facts import look_at_facts, scrub_facts
from kerncap.format.reader import Reproducer, decode_manifest
from kerncap.format.readme import render
from kerncap.format.sealed_folder import file_stem
from kerncap.format.validate import stored_files
from kerncap.format.write_set import WriteSet
from kerncap.whole_files import writing

Searched = Callable[[int], None]
_OWN_README = b"This folder is a *reproducer* made by "


def look_at(reproducer: Reproducer, scrubber: Scrubber, searched: Searched | None = None) -> None:
    """Let ``scrubber`` see the manifest and every file but the memory; ``searched`` gets bytes done."""
    look_at_facts(msgspec.to_builtins(reproducer.manifest), scrubber)
    done = 0

    def reached(inside: int) -> None:
        if searched is not None:
            searched(done + inside)

    for name, data in texts(reproducer):
        scrubber.look(name, data, reached)
        done += len(data)


def texts(reproducer: Reproducer) -> Iterator[tuple[str, bytes]]:
    """Name and content of each file that is looked at; one at a time."""
    for name, stored in _listed(reproducer).items():
        if name not in (CHUNKS_PATH, INDEX_PATH):
            yield name, reproducer.file(stored)


def redact(reproducer: Reproducer, parent: Path, scrubber: Scrubber) -> Path:
    """Write the reproducer without what ``scrubber`` finds into ``parent``, and give its folder.

    The memory is taken as it is. Write set and checks come along: they are of the memory. `look_at` comes
    first. Raises FormatError, UsageError.
    """
    with writing(parent):
        with scratch.folder("redact", parent, hidden=True, mode=0o755) as made:
            digest = _write(reproducer, made.path, scrubber)
            _bring_checks(reproducer, made.path, scrubber)
            return place(made, parent, file_stem(reproducer.manifest.kernel.name), digest)


def _write(reproducer: Reproducer, folder: Path, scrubber: Scrubber) -> str:
    where = folder / MANIFEST_PATH
    document = scrub_facts(msgspec.to_builtins(reproducer.manifest), scrubber)
    readme = None
    changed: dict[str, tuple[int, str]] = {}

    def write(name: str, data: bytes) -> None:
        with open(folder / name, "xb") as file:
            file.write(data)
        changed[name] = len(data), hashlib.sha256(data).hexdigest()

    for old, stored in _listed(reproducer).items():
        name = scrubber.path(old)  # names can be private, too: the manifest has the same
        scratch.place_of(name, folder)
        if old in (CHUNKS_PATH, INDEX_PATH):
            _copy(reproducer, old, folder / name)
            continue
        data = reproducer.file(stored)
        if old == README_PATH and _OWN_README in data:
            readme = data
            continue
        write(name, scrubber.file(old, data))
    _set_digests(document, changed)
    if readme is not None:  # made of the manifest, so made again of the new one
        made = render(msgspec.convert(document, schema.Manifest)).encode("utf-8", "replace")
        write(README_PATH, scrubber.file(README_PATH, made))
        _set_digests(document, changed)
    return _write_manifest(document, scrubber, where)


def _write_manifest(document: dict[str, Any], scrubber: Scrubber, where: Path) -> str:
    gone = [one for one in scrubber.findings if one.became != KEPT]
    if gone:
        kinds = ", ".join(sorted({one.kind for one in gone}))
        document["notes"] = [*document.get("notes", ()), f"Replaced before it was shared: {kinds}."]
    data = canonical_json(msgspec.convert(document, schema.Manifest))
    decode_manifest(data, where)
    digest = hashlib.sha256(data).hexdigest()
    where.write_bytes(data)
    where.with_name(MANIFEST_DIGEST_PATH).write_text(f"{digest}  {MANIFEST_PATH}\n")
    return digest


def _listed(reproducer: Reproducer) -> dict[str, schema.StoredFile]:
    return {stored.path: stored for _, stored in stored_files(reproducer.manifest)}


def _copy(reproducer: Reproducer, name: str, target: Path) -> None:
    fd, _ = reproducer.open_file(name)
    with os.fdopen(fd, "rb") as source, open(target, "xb") as file:
        shutil.copyfileobj(source, file, 1 << 20)


def _set_digests(value: Any, changed: dict[str, tuple[int, str]]) -> None:
    """Give each stored file that the document lists the size and digest that it has now."""
    if isinstance(value, dict):
        if {"path", "size", "sha256"} <= value.keys() and value["path"] in changed:
            value["size"], value["sha256"] = changed[value["path"]]
        for inner in value.values():
            _set_digests(inner, changed)
    elif isinstance(value, list | tuple):
        for inner in value:
            _set_digests(inner, changed)


def _bring_checks(reproducer: Reproducer, folder: Path, scrubber: Scrubber) -> None:
    checks, write_set = reproducer.checks(), WriteSet.load(reproducer)
    if checks is None:
        return
    own = checks.self_check
    if own is not None and own.reason:
        reason = scrubber.text(CHECKS_PATH, own.reason.encode("utf-8", "replace"), key="self_check.reason")
        own = msgspec.structs.replace(own, reason=reason.decode("utf-8", "replace"))
    with Reproducer.open(folder) as new:
        stored = write_set.save(new) if write_set is not None else None
        new.write_checks(Checks(manifest_sha256=new.manifest_sha256, self_check=own, write_set=stored))

"""Another reproducer of the same launch, or range, without what is private in its files."""

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
from kerncap.format.allowed_names import (
    CHECKS_PATH,
    CHUNKS_PATH,
    INDEX_PATH,
    MANIFEST_DIGEST_PATH,
    MANIFEST_PATH,
    MEMORY_PATHS,
    README_PATH,
    manifest_of_launch,
)
from kerncap.format.archive.named_folder import place
from kerncap.format.checks_file import Checks
from kerncap.format.documents import canonical_json
from kerncap.format.launch_range import LaunchRange
from kerncap.format.manifest_file import decode_manifest
from kerncap.format.private import KEPT, Scrubber
from kerncap.format.private.manifest_facts import look_at_facts, scrub_facts
from kerncap.format.reader import OpenedFolder, Reproducer
from kerncap.format.readme import render, render_range
from kerncap.format.validate import stored_files
from kerncap.format.write_set import WriteSet
from kerncap.whole_files import writing

Searched = Callable[[int], None]
_OWN_README = b"This folder is a *reproducer* made by "


def look_at(opened: OpenedFolder, scrubber: Scrubber, searched: Searched | None = None) -> None:
    """Let ``scrubber`` see the manifests and every file but the memory; ``searched`` gets bytes done."""
    for launch in opened.launches:
        look_at_facts(msgspec.to_builtins(launch.manifest), scrubber)
    done = 0

    def reached(inside: int) -> None:
        if searched is not None:
            searched(done + inside)

    for name, data in texts(opened):
        scrubber.look(name, data, reached)
        done += len(data)


def texts(opened: OpenedFolder) -> Iterator[tuple[str, bytes]]:
    """Name and content of each file that is looked at; one at a time, and what launches share once."""
    seen = set()
    for launch in opened.launches:
        for name, stored in _listed(launch).items():
            if name not in MEMORY_PATHS and (name, stored.sha256) not in seen:
                seen.add((name, stored.sha256))
                yield name, launch.file(stored)


def scrub_manifests(opened: OpenedFolder, scrubber: Scrubber) -> Iterator[dict[str, Any]]:
    """The manifest of each launch, as builtins, without what is private. Digests are those of before."""
    for launch in opened.launches:
        yield scrub_facts(msgspec.to_builtins(launch.manifest), scrubber)


def redact(opened: OpenedFolder, parent: Path, scrubber: Scrubber) -> Path:
    """Write the reproducer or range without what ``scrubber`` finds into ``parent``, and give its folder.

    The memory is taken as it is. Write set and checks come along: they are of the memory. `look_at` comes
    first. Raises FormatError, UsageError.
    """
    with writing(parent):
        with scratch.folder("redact", parent, hidden=True, mode=0o755) as made:
            if isinstance(opened, LaunchRange):
                _write_range(opened, made.path, scrubber)
            else:
                [reproducer] = opened.launches
                _write(reproducer, made.path, scrubber)
            with type(opened).open(made.path) as new:
                for before, after in zip(opened.launches, new.launches, strict=True):
                    _bring_checks(before, after, scrubber)
                return place(made, parent, new)


def _write(reproducer: Reproducer, folder: Path, scrubber: Scrubber) -> None:
    [document] = scrub_manifests(reproducer, scrubber)
    readme = None
    changed: dict[str, tuple[int, str]] = {}

    def write(name: str, data: bytes) -> None:
        with open(folder / name, "xb") as file:
            file.write(data)
        changed[name] = len(data), hashlib.sha256(data).hexdigest()

    for old, stored in _listed(reproducer).items():
        name = scrubber.path(old)  # names can be private, too: the manifest has the same
        scratch.place_of(name, folder)
        if old in MEMORY_PATHS:
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
    document["notes"] = [*document.get("notes", ()), *_replaced(scrubber)]
    _write_top(folder, _manifest_bytes(document, folder / MANIFEST_PATH))


def _write_range(opened: LaunchRange, folder: Path, scrubber: Scrubber) -> None:
    first, written = opened.launches[0], dict[tuple[str, str], tuple[int, str]]()

    def write(name: str, data: bytes) -> tuple[int, str]:
        target = scratch.place_of(name, folder)
        target.write_bytes(data)
        return len(data), hashlib.sha256(data).hexdigest()

    for name in (CHUNKS_PATH, INDEX_PATH):
        _copy(first, name, scratch.place_of(name, folder))
    for name, data in texts(opened):
        data, before = scrubber.file(name, data), hashlib.sha256(data).hexdigest()
        written[name, before] = write(f"files/{hashlib.sha256(data).hexdigest()}", data)
    own, manifests = msgspec.to_builtins(opened.manifest), []
    for number, document in enumerate(scrub_manifests(opened, scrubber)):
        listed = _listed(opened.launches[number]).items()
        names = {scrubber.path(name): (name, stored.sha256) for name, stored in listed}
        _set_digests(document, {new: written[old] for new, old in names.items() if old in written})
        name = manifest_of_launch(number)
        data = _manifest_bytes(document, folder / name)
        _set_digests(own["launches"], {name: write(name, data)})
        manifests.append(decode_manifest(data, folder / name))
    for missing in own.get("missing", ()):
        for key in missing.keys() - {"position"}:
            missing[key] = scrubber.string(f"missing.{key}", missing[key])
    notes = [scrubber.string("notes", note) for note in own.get("notes", ())]
    scrubber.findings = list(dict.fromkeys(scrubber.findings))  # launches of one program say the same
    own["notes"] = [*notes, *_replaced(scrubber)]
    if own.get("files"):
        positions = [launch.position for launch in opened.launches]
        missing = msgspec.convert(own.get("missing", ()), tuple[schema.MissingLaunch, ...])
        readme = render_range(positions, manifests, missing).encode("utf-8", "replace")
        _set_digests(own["files"], {README_PATH: write(README_PATH, scrubber.file(README_PATH, readme))})
    _write_top(folder, canonical_json(msgspec.convert(own, schema.RangeManifest)))


def _replaced(scrubber: Scrubber) -> list[str]:
    """A note for the manifest."""
    kinds = ", ".join(sorted({one.kind for one in scrubber.findings if one.became != KEPT}))
    return [f"Replaced before it was shared: {kinds}."] if kinds else []


def _manifest_bytes(document: dict[str, Any], where: Path) -> bytes:
    """The manifest of a launch, which has to be one that can be read."""
    data = canonical_json(msgspec.convert(document, schema.Manifest))
    decode_manifest(data, where)
    return data


def _write_top(folder: Path, manifest: bytes) -> None:
    (folder / MANIFEST_PATH).write_bytes(manifest)
    digest = hashlib.sha256(manifest).hexdigest()
    (folder / MANIFEST_DIGEST_PATH).write_text(f"{digest}  {MANIFEST_PATH}\n")


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


def _bring_checks(old: Reproducer, new: Reproducer, scrubber: Scrubber) -> None:
    checks, write_set = old.checks(), WriteSet.load(old)
    if checks is None:
        return
    own = checks.self_check
    if own is not None and own.reason:
        reason = scrubber.text(CHECKS_PATH, own.reason.encode("utf-8", "replace"), key="self_check.reason")
        own = msgspec.structs.replace(own, reason=reason.decode("utf-8", "replace"))
    stored = write_set.save(new) if write_set is not None else None
    new.write_checks(Checks(manifest_sha256=new.manifest_sha256, self_check=own, write_set=stored))

"""Built candidates by what they were built from, so that an unchanged one costs nothing."""

from __future__ import annotations

import contextlib
import json
import os
from collections.abc import Iterable
from pathlib import Path

from kerncap import user_folders, whole_files
from kerncap.errors import UsageError

_KEPT = 128


def folder() -> Path:
    """Where built candidates are kept."""
    return user_folders.cache("candidates")


def get(key: str) -> bytes | None:
    """What was put under ``key``, if the files that it was made of are as they were."""
    path = folder() / key
    try:
        head, _, data = path.read_bytes().partition(b"\n")
        if any(_stamp(name) != stamp for name, stamp in json.loads(head).items()):
            return None
        os.utime(path)
        return data
    except (OSError, ValueError, AttributeError):
        return None


def put(key: str, data: bytes, read: Iterable[str] = ()) -> None:
    """Keep ``data``; ``read`` are the files that it depends on. A cache that can't be written is no error."""
    with contextlib.suppress(OSError, UsageError):
        head = json.dumps({name: _stamp(name) for name in read}).encode()
        place = folder()
        place.mkdir(mode=0o700, parents=True, exist_ok=True)
        with whole_files.new_file(place / key, replace=True, mode=0o600, durable=False) as file:
            file.write(head + b"\n" + data)
        _prune(place)


def _stamp(path: str) -> list[int]:
    found = os.stat(path)
    return [found.st_mtime_ns, found.st_size]


def _prune(place: Path) -> None:
    entries = [(entry.stat().st_mtime_ns, entry.path) for entry in os.scandir(place)]
    for _, path in sorted(entries)[:-_KEPT]:
        os.unlink(path)

"""The name of a reproducer's folder: its kernel's, and the first digits of its manifest's SHA-256."""

from __future__ import annotations

import re
from collections.abc import Iterator
from pathlib import Path

MAX_STEM = 120


def file_stem(name: str) -> str:
    """``name`` as the first part of a folder's name."""
    return re.sub(r"[^A-Za-z0-9._-]+", "_", name).strip("._")[:MAX_STEM] or "kernel"


def final_names(parent: Path, stem: str, digest: str) -> Iterator[Path]:
    """``<parent>/<stem>-<digits>``; with more digits for when other content has the name."""
    return (parent / f"{stem}-{digest[:digits]}" for digits in (8, 16, 64))

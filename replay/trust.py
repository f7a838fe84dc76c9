"""Strangers' reproducers: what replaying one would execute, and whether the user said yes.

Trust is given to one manifest, by its SHA-256, and kept in the user's configuration folder. What was
captured here is trusted from its sealing on. (No mark inside a reproducer could say "captured here": whoever
gets one could copy the mark into another.)
"""

from __future__ import annotations

import hashlib
import os
from pathlib import Path

from kerncap.errors import UsageError
from kerncap.format import Reproducer
from kerncap.log import one_line


def trusted_file() -> Path:
    """Where digests are remembered."""
    root = os.environ.get("XDG_CONFIG_HOME") or os.path.join(os.path.expanduser("~"), ".config")
    return Path(root) / "kerncap" / "trusted"


def is_remembered(reproducer: Reproducer) -> bool:
    try:
        return reproducer.manifest_sha256 in trusted_file().read_text().split()
    except OSError:
        return False


def remember(reproducer: Reproducer) -> None:
    """Keep the manifest's digest; a configuration folder that can't be written is no error."""
    if not is_remembered(reproducer):
        _append(reproducer.manifest_sha256)


def remember_captured(folder: Path) -> None:
    """Trust a reproducer that was sealed here a moment ago."""
    _append(hashlib.sha256((folder / "manifest.json").read_bytes()).hexdigest())


def _append(digest: str) -> None:
    path = trusted_file()
    try:
        path.parent.mkdir(parents=True, exist_ok=True)
        with path.open("a") as file:
            file.write(digest + "\n")
    except OSError:
        pass  # it is asked again next time


def require(reproducer: Reproducer, trust: bool) -> None:
    """Let pass what is remembered; ``trust`` is the user's yes, and is remembered.

    Raises UsageError that lists what would execute.
    """
    if is_remembered(reproducer):
        return
    if trust:
        remember(reproducer)
        return
    raise UsageError(
        f"{reproducer.path} was not captured here. Replaying it would execute: "
        f"{'; '.join(executes(reproducer)) or 'nothing'}. Look at it, then repeat with --trust"
    )


def executes(reproducer: Reproducer) -> list[str]:
    """What of a reproducer runs when it is replayed, one line each."""
    manifest = reproducer.manifest
    found = []
    if manifest.source is not None:
        lines = (reproducer.source_text() or "").count("\n")
        kind = {"python": "Python", "cuda": "CUDA C++", "hip": "HIP C++", "ptx": "PTX"}[
            manifest.source.language
        ]
        found.append(
            f"{one_line(manifest.source.file.path)} ({lines} lines of {kind}, "
            f"kernel {one_line(manifest.source.entry)})"
        )
    native = manifest.launch.mode == "native"
    found += [
        f"{one_line(code.file.path)} ({code.file.size:,} bytes of device code)"
        for code in manifest.code
        if code.stage in ("cubin", "hsaco") or (native and code.stage in ("ptx", "fatbin"))
    ]
    return found

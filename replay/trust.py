"""Consent: what of a reproducer runs, and whether the user said yes to just that.

Yes is said to one manifest, by its SHA-256. It lists the SHA-256 of every file that is imported, compiled or
loaded, and how that is launched; files are checked against it as they are read, and what is run is a private
copy of the bytes that were checked. So nothing that is exchanged later runs, and nothing that is not listed.
What was captured here has the user's yes from its sealing on. (No mark inside a reproducer could say so:
a recipient could copy the mark into another.)
"""

from __future__ import annotations

import contextlib
import hashlib
from pathlib import Path

from kerncap import log, unexpected_error
from kerncap.errors import UsageError
from kerncap.format import Reproducer
from kerncap.format.folder import is_range
from kerncap.format.launch_range import digests_of
from kerncap.printable import visible
from kerncap.replay import trusted_file

_agreed: set[str] = set()  # in this process, whether or not it could be written down


def is_remembered(reproducer: Reproducer) -> bool:
    """Whether it may run; a file of digests that is not believed says no."""
    try:
        return _is_agreed(reproducer)
    except (UsageError, OSError):
        return False


def remember(reproducer: Reproducer) -> None:
    """Keep the user's yes; a configuration folder that can't be written is no error."""
    _remember(reproducer.manifest_sha256)


def remember_captured(folder: Path) -> None:
    """Trust a reproducer, or a range, that was sealed here a moment ago."""
    try:
        for digest in digests_of(folder) if is_range(folder) else [_digest_of(folder)]:
            _remember(digest)
    except UsageError as error:  # no reason to fail a capture
        log.line(str(error))


def agree_to_derived(folder: Path) -> None:
    """What was derived here, in a private folder, of something that runs already: for this process alone."""
    agree(_digest_of(folder))


def agree(digest: str) -> None:
    """To run what has this manifest, for the life of this process: its user said yes elsewhere."""
    _agreed.add(digest)


def _digest_of(folder: Path) -> str:
    return hashlib.sha256((folder / "manifest.json").read_bytes()).hexdigest()


def _remember(digest: str) -> None:
    _agreed.add(digest)
    with contextlib.suppress(OSError):
        trusted_file.add(digest)  # else it is asked again next time


def _is_agreed(reproducer: Reproducer) -> bool:
    return reproducer.manifest_sha256 in _agreed or reproducer.manifest_sha256 in trusted_file.read()


def require(reproducer: Reproducer, trust: bool, why: str = ". Replaying it") -> None:
    """Let pass what is remembered; ``trust`` is the user's yes, and is remembered. ``why`` is for the error.

    Raises UsageError that lists what would execute, or names what others may exchange.
    """
    _refuse_exposed(reproducer)
    try:
        agreed = _is_agreed(reproducer)
    except OSError as error:
        if not trust:
            raise unexpected_error.about(trusted_file.path(), error, "can't be read") from error
        agreed = False
    if agreed:
        agree(reproducer.manifest_sha256)  # for `check`, which must not depend on the file once more
        return
    if trust:
        remember(reproducer)
        return
    raise UsageError(
        f"{visible(reproducer.path)} was not captured here{why} would execute: "
        f"{'; '.join(executes(reproducer)) or 'nothing'}. Look at it, then repeat with --trust"
    )


def check(reproducer: Reproducer) -> None:
    """Before anything of it is laid out to be run. Raises UsageError for what nobody agreed to.

    A folder that was exchanged after `require` is another manifest, or not what its manifest lists.
    """
    if not _is_agreed(reproducer):
        raise UsageError(
            f"{visible(reproducer.path)}: it is not what was trusted; if nothing should have changed it, "
            "look at the folder, and run the command again"
        )


def executes(reproducer: Reproducer) -> list[str]:
    """What of a reproducer runs when it is replayed, one line each."""
    manifest = reproducer.manifest
    found = []
    if manifest.source is not None:
        lines = (reproducer.source_text() or "").count("\n")
        kind = {
            "python": "Python",
            "numba": "Python",
            "python-dsl": "Python",
            "cuda": "CUDA C++",
            "hip": "HIP C++",
            "ptx": "PTX",
        }[manifest.source.language]
        found.append(
            f"{visible(manifest.source.file.path)} ({lines} lines of {kind}, "
            f"kernel {visible(manifest.source.entry)})"
        )
        beside = [file for file in manifest.source.originals if file.path != manifest.source.file.path]
        if manifest.source.build is not None and beside:
            found.append(f"{len(beside)} more files in source/ that are compiled with it")
    native = manifest.launch.mode == "native"
    found += [
        f"{visible(code.file.path)} ({code.file.size:,} bytes of device code)"
        for code in manifest.code
        if code.stage in ("cubin", "hsaco") or (native and code.stage in ("ptx", "fatbin"))
    ]
    return found


def _refuse_exposed(reproducer: Reproducer) -> None:
    exposed = reproducer.others_may_change()
    if exposed is not None:
        name, reason = exposed
        raise UsageError(
            f"{visible(name)}: {reason}, so it could be exchanged while it runs; copy the reproducer to a "
            f"folder that only you can write: cp -r --no-preserve=all {visible(reproducer.path)} DIR"
        )

"""The file of digests that the user agreed to: written at once, believed only if others can't write it."""

from __future__ import annotations

import contextlib
import fcntl
import os
import re
import tempfile
from collections.abc import Iterator
from pathlib import Path

from kerncap import user_folders, writable_by_others
from kerncap.errors import UsageError
from kerncap.printable import visible
from kerncap.regular_file import open_regular

_MAX_BYTES = 64 << 20
_DIGEST = re.compile(rb"^[0-9a-f]{64}$", re.MULTILINE)


def path() -> Path:
    """Where digests are remembered."""
    return user_folders.config("trusted")


def read() -> set[str]:
    """All digests; none without a file.

    Raises UsageError for a file that others can change, PermissionError for one that this user can't read.
    """
    file = path()
    try:
        os.close(os.open(file, os.O_RDONLY | os.O_NONBLOCK | os.O_CLOEXEC))
    except (FileNotFoundError, NotADirectoryError):
        return set()
    with open_regular(file, _MAX_BYTES) as opened:
        _refuse(file, os.fstat(opened.fileno()))
        _check_folder(file.parent)
        return {match.decode() for match in _DIGEST.findall(opened.read(_MAX_BYTES))}


def add(digest: str) -> None:
    """Keep ``digest``. Raises UsageError as `read` does, OSError if it can't be written."""
    file = path()
    for folder in (file.parent.parent, file.parent):
        folder.mkdir(mode=0o700, parents=True, exist_ok=True)
    _check_folder(file.parent)
    with _locked(file.parent):
        digests = read()
        if digest in digests:
            return
        target = os.path.realpath(file)
        descriptor, fresh = tempfile.mkstemp(prefix=".trusted-", dir=os.path.dirname(target))  # mode 0600
        try:
            with os.fdopen(descriptor, "wb") as written:
                written.write("".join(f"{each}\n" for each in sorted({*digests, digest})).encode())
                written.flush()
                os.fsync(written.fileno())
            os.replace(fresh, target)
        except BaseException:
            with contextlib.suppress(OSError):
                os.unlink(fresh)
            raise


def _check_folder(folder: Path) -> None:
    _refuse(folder, os.stat(folder))
    above = writable_by_others.may_replace(folder)
    if above is not None:
        raise UsageError(_message(above[0], above[1]))


def _refuse(name: Path, info: os.stat_result) -> None:
    why = writable_by_others.may_change(info)
    if why is not None:
        raise UsageError(_message(name, why))


def _message(name: Path, why: str) -> str:
    remedy = "remove it" if why.startswith("it belongs") else f"chmod go-w {name}, and check what it holds"
    return f"{visible(name)}: {why}, so its entries are ignored; {remedy}"


@contextlib.contextmanager
def _locked(folder: Path) -> Iterator[None]:
    descriptor = os.open(folder, os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC)
    try:
        with contextlib.suppress(OSError):  # a file system without locks: the last one wins
            fcntl.flock(descriptor, fcntl.LOCK_EX)
        yield
    finally:
        os.close(descriptor)

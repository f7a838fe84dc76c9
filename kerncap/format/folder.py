"""The folder of a reproducer or of a range, by a descriptor of it."""

from __future__ import annotations

import contextlib
import errno
import os
import time
from pathlib import Path

from kerncap import unexpected_error
from kerncap.errors import KerncapError, UsageError
from kerncap.format import schema
from kerncap.format.allowed_names import MANIFEST_PATH, unfinished_by
from kerncap.format.manifest_file import format_of
from kerncap.format.size_limits import MAX_MANIFEST_BYTES
from kerncap.format.stored_files import read_file
from kerncap.printable import visible
from kerncap.regular_file import open_regular

_UNFINISHED_S = 60.0  # after which a file that is being written is one that nobody writes any more


def open_root(path: Path) -> int:
    """A descriptor of a reproducer's folder. Raises UsageError if there is no folder that can be read."""
    try:
        return os.open(path, os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC)
    except FileNotFoundError:
        raise UsageError(f"{visible(path)}: no such reproducer; check the path") from None
    except OSError as error:
        if _is_zip(path):
            message = f"{visible(path)}: packed; `kerncap unpack` gives the folder"
            raise UsageError(message) from error
        if error.errno in (errno.ENOTDIR, errno.ENAMETOOLONG):
            message = f"{visible(path)}: not a reproducer folder; give the folder that has a manifest.json"
            raise UsageError(message) from error
        raise unexpected_error.about(path, error, "can't be read") from error


def is_range(path: Path | str) -> bool:
    """Whether the folder at ``path`` holds a range; what is damaged says so when it is opened."""
    path = Path(path)
    try:
        root_fd = open_root(path)
    except KerncapError:
        return False
    try:
        data = read_file(path, root_fd, MANIFEST_PATH, MAX_MANIFEST_BYTES)
        return format_of(data, path / MANIFEST_PATH) == schema.RANGE_FORMAT_NAME
    except KerncapError:
        return False
    finally:
        os.close(root_fd)


def replace_file(root_fd: int, name: str, data: bytes) -> None:
    """Put a file beside the manifest in one step, durable; for what is found after sealing.

    What a process that was killed at this left in the folder is removed.
    """
    _remove_unfinished(root_fd)
    temporary = f".{name}.tmp-{os.getpid()}-{os.urandom(4).hex()}"
    flags = os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_CLOEXEC
    fd = os.open(temporary, flags, 0o644, dir_fd=root_fd)
    try:
        with os.fdopen(fd, "wb") as file:
            file.write(data)
            file.flush()
            os.fsync(file.fileno())
        os.rename(temporary, name, src_dir_fd=root_fd, dst_dir_fd=root_fd)
    except BaseException:
        with contextlib.suppress(OSError):
            os.unlink(temporary, dir_fd=root_fd)
        raise
    os.fsync(root_fd)


def _remove_unfinished(root_fd: int) -> None:
    now = time.time()
    for name in os.listdir(root_fd):
        pid = unfinished_by(name)
        with contextlib.suppress(OSError):
            # The number may be a living process's elsewhere, which writes for less than a minute.
            old = now - os.stat(name, dir_fd=root_fd, follow_symlinks=False).st_mtime > _UNFINISHED_S
            if pid is not None and old and not os.path.exists(f"/proc/{pid}"):
                os.unlink(name, dir_fd=root_fd)


def _is_zip(path: Path) -> bool:
    """Whether this begins as an archive does; a FIFO or a device is not read."""
    try:
        with open_regular(path) as file:
            return file.read(4) == b"PK\3\4"
    except (KerncapError, OSError):
        return False

"""Opening the files of a reproducer that a stranger made: plain relative names, no links, real files.

Every name is walked from the folder's own descriptor, one component at a time and without
following links, so that neither a name nor a link (nor a swap of one while we read) leads out.
"""

from __future__ import annotations

import errno
import hashlib
import os
import stat
from pathlib import Path

from kerncap import unexpected_error
from kerncap.errors import FormatError
from kerncap.printable import visible

MAX_PATH_DEPTH = 32
_READ_BYTES = 1 << 20
_DIRECTORY_FLAGS = os.O_RDONLY | os.O_DIRECTORY | os.O_NOFOLLOW | os.O_CLOEXEC
# O_NONBLOCK: opening a FIFO must not wait for a writer.
_FILE_FLAGS = os.O_RDONLY | os.O_NOFOLLOW | os.O_CLOEXEC | os.O_NONBLOCK
# Links, files in place of folders, sockets, names: it was made so. Anything else is this machine's matter.
_MADE_SO = (errno.ELOOP, errno.EMLINK, errno.ENOTDIR, errno.ENXIO, errno.ENAMETOOLONG)


def format_error(path: Path | str, offset: int, message: object) -> FormatError:
    """A FormatError that is sure to be one line."""
    return FormatError(visible(path, 4096), max(0, offset), visible(message))


def path_problem(name: str) -> str | None:
    """Why ``name`` is no plain relative path, or None when it is one."""
    if not name:
        return "an empty path"
    if "\0" in name:
        return "a path with a NUL byte"
    if "\\" in name:
        return f"path {name!r} has a backslash; paths are written with '/'"
    if name.startswith("/") or (len(name) > 1 and name[1] == ":"):
        return f"path {name!r} is absolute; only paths inside the reproducer are allowed"
    parts = name.split("/")
    if ".." in parts:
        return f"path {name!r} leads out of the reproducer ('..')"
    if "" in parts or "." in parts:
        return f"path {name!r} is not in its plain form"
    if len(parts) > MAX_PATH_DEPTH or any(len(os.fsencode(part)) > 255 for part in parts):
        return f"path {name!r} is too deep or has too long a component"
    return None


def open_file(root: Path, root_fd: int, name: str) -> tuple[int, int]:
    """Open the regular file ``name`` for reading; gives (descriptor, size in bytes).

    The caller closes the descriptor. Raises FormatError for a name that is not plain, a link
    anywhere on the way, a file that is missing or not regular; UsageError for one that this user can't read.
    """
    problem = path_problem(name)
    if problem:
        raise format_error(root / "manifest.json", 0, problem)
    where = root / name
    *folders, last = name.split("/")
    folder_fd = os.dup(root_fd)
    try:
        for folder in folders:
            below = os.open(folder, _DIRECTORY_FLAGS, dir_fd=folder_fd)
            os.close(folder_fd)
            folder_fd = below
        fd = os.open(last, _FILE_FLAGS, dir_fd=folder_fd)
    except FileNotFoundError as error:
        if not os.fstat(root_fd).st_nlink:
            raise unexpected_error.about(root, error, "can't be read") from error
        raise format_error(where, 0, "the file is missing") from None
    except OSError as error:
        if error.errno not in _MADE_SO:
            raise unexpected_error.about(where, error, "can't be read") from error
        raise format_error(where, 0, f"not a regular file that can be read ({error.strerror})") from error
    finally:
        os.close(folder_fd)
    try:
        info = os.fstat(fd)
        if not stat.S_ISREG(info.st_mode):
            raise format_error(where, 0, "not a regular file")
        return fd, info.st_size
    except BaseException:
        os.close(fd)
        raise


def exists(root: Path, root_fd: int, name: str) -> bool:
    """Whether there is anything of this plain name; raises UsageError if the folder does not let us look."""
    try:
        os.stat(name, dir_fd=root_fd, follow_symlinks=False)
    except FileNotFoundError as error:
        if not os.fstat(root_fd).st_nlink:  # nor of the folder
            raise unexpected_error.about(root, error, "can't be read") from error
        return False
    except OSError as error:
        raise unexpected_error.about(root / name, error, "can't be read") from error
    return True


def read_file(root: Path, root_fd: int, name: str, limit: int, expected: int | None = None) -> bytes:
    """The bytes of ``name``, at most ``limit``; exactly ``expected`` when that is given."""
    fd, size = open_file(root, root_fd, name)
    try:
        check_size(root / name, size, expected)
        if size > limit:
            raise format_error(root / name, limit, f"{size} bytes; at most {limit} are allowed")
        data = bytearray()
        while len(data) < size:
            piece = os.pread(fd, min(_READ_BYTES, size - len(data)), len(data))
            if not piece:
                raise format_error(root / name, len(data), f"ends early; expected {size} bytes")
            data += piece
        return bytes(data)
    finally:
        os.close(fd)


def check_size(where: Path, size: int, expected: int | None) -> None:
    if expected is None or size == expected:
        return
    if size < expected:
        raise format_error(where, size, f"truncated: {size} bytes, the manifest says {expected}")
    raise format_error(where, expected, f"too long: {size} bytes, the manifest says {expected}")


def check_digest(where: Path, data: bytes | memoryview, expected: str) -> None:
    require_digest(where, hashlib.sha256(data).hexdigest(), expected)


def require_digest(where: Path, found: str, expected: str) -> None:
    if found != expected:
        raise format_error(where, 0, f"damaged: SHA-256 is {found[:16]}…, expected {expected[:16]}…")


def digest_file(root: Path, root_fd: int, name: str, expected_size: int, expected: str) -> None:
    """Check size and SHA-256 of ``name`` without holding it in memory."""
    fd, size = open_file(root, root_fd, name)
    try:
        check_size(root / name, size, expected_size)
        digest = hashlib.sha256()
        offset = 0
        while piece := os.pread(fd, _READ_BYTES, offset):
            digest.update(piece)
            offset += len(piece)
        found = digest.hexdigest()
    finally:
        os.close(fd)
    require_digest(root / name, found, expected)

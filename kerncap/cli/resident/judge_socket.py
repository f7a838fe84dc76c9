"""Where a judge is found: a socket in a folder that only this user can open, named by what decides a verdict.

The name is a digest of kerncap's version and files, the Python, and the environment: another one of these is
another judge. Both ends look at the folder, and at whose process is at the other end of the socket.
"""

from __future__ import annotations

import contextlib
import fcntl
import hashlib
import json
import os
import socket
import stat
import struct
import sys
import tempfile
from collections.abc import Iterator
from pathlib import Path

import kerncap
from kerncap.errors import UsageError
from kerncap.printable import visible

SUFFIX = ".judge"
_LOCK = "lock"
# What a shell or a terminal changes from command to command, and no verdict depends on.
_PASSING = frozenset(
    ("_", "SHLVL", "PWD", "OLDPWD", "COLUMNS", "LINES", "TERM", "WINDOWID", "PYTEST_CURRENT_TEST")
)


class Folder:
    """The folder of this user's judges, open; a context manager."""

    def __init__(self) -> None:
        """Raises UsageError for one that somebody else can open, or that is somebody else's."""
        base = os.environ.get("XDG_RUNTIME_DIR", "")
        given = os.path.isabs(base)
        self.path = Path(base, "kerncap") if given else Path(tempfile.gettempdir(), f"kerncap-{os.geteuid()}")
        try:
            with contextlib.suppress(FileExistsError):
                os.mkdir(self.path, 0o700)
            self._fd = os.open(self.path, os.O_RDONLY | os.O_DIRECTORY | os.O_NOFOLLOW | os.O_CLOEXEC)
        except OSError as error:
            raise UsageError(
                f"--resident: {visible(self.path)}: {error.strerror}; set XDG_RUNTIME_DIR to another folder"
            ) from error
        found = os.fstat(self._fd)
        if found.st_uid != os.geteuid() or stat.S_IMODE(found.st_mode) & 0o077:
            os.close(self._fd)
            raise UsageError(
                f"--resident: {visible(self.path)}: other users may open it; remove it, or set "
                "XDG_RUNTIME_DIR to a folder of yours"
            )

    def __enter__(self) -> Folder:
        return self

    def __exit__(self, *_: object) -> None:
        os.close(self._fd)

    @contextlib.contextmanager
    def locked(self) -> Iterator[None]:
        """Alone: a judge that ends and a command that looks for it never miss each other."""
        fd = os.open(_LOCK, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC | os.O_NOFOLLOW, 0o600, dir_fd=self._fd)
        try:
            fcntl.flock(fd, fcntl.LOCK_EX)
            yield
        finally:
            os.close(fd)

    def names(self) -> list[str]:
        """The sockets that there are."""
        return sorted(name for name in os.listdir(self._fd) if name.endswith(SUFFIX))

    def connect(self, name: str) -> socket.socket | None:
        """To the judge of that name; None if nobody listens. Raises UsageError for another user's."""
        found = socket.socket(socket.AF_UNIX)
        try:
            found.connect(self._address(name))
        except OSError:
            found.close()
            return None
        if not is_own(found):
            found.close()
            raise UsageError(f"--resident: {visible(self.path / name)}: another user's process; remove it")
        return found

    def listen(self, name: str) -> socket.socket:
        """A socket of that name, in place of one that nobody listens to."""
        self.remove(name)
        found = socket.socket(socket.AF_UNIX)
        found.bind(self._address(name))
        found.listen(64)
        return found

    def remove(self, name: str) -> None:
        with contextlib.suppress(FileNotFoundError):
            os.unlink(name, dir_fd=self._fd)

    def _address(self, name: str) -> str:
        """By the open folder: a path of its own may be too long for a socket, or another one by now."""
        return f"/proc/self/fd/{self._fd}/{name}"


def is_own(connected: socket.socket) -> bool:
    """Whether the process at the other end is this user's. Source: unix(7), SO_PEERCRED."""
    size = struct.calcsize("iII")
    _, uid, _ = struct.unpack("iII", connected.getsockopt(socket.SOL_SOCKET, socket.SO_PEERCRED, size))
    return bool(uid == os.geteuid())


def own_name() -> str:
    """The name of the judge that says what this process would."""
    environment = {name: value for name, value in os.environ.items() if name not in _PASSING}
    package = Path(kerncap.__file__).parent
    parts = [
        kerncap.__version__, str(package), _stamp(package), sys.executable, sys.prefix, sys.path[1:],
        sorted(environment.items()),
    ]  # fmt: skip
    return hashlib.sha256(json.dumps(parts).encode(errors="surrogateescape")).hexdigest()[:32] + SUFFIX


def _stamp(package: Path) -> list[tuple[str, int, int]]:
    """Of each module of ours its size and time: a judge says what these files say, and no older ones."""
    found = []
    for folder, folders, files in os.walk(package, followlinks=True):
        folders[:] = sorted(name for name in folders if name != "__pycache__")
        for name in sorted(files):
            if name.endswith(".py"):
                at = os.stat(os.path.join(folder, name))
                found.append((name, at.st_size, at.st_mtime_ns))
    return found

"""Where a launch's bytes go: files of the process's folder, or memfds that outlive the target."""

from __future__ import annotations

import array
import contextlib
import json
import os
import socket
import threading
from typing import Any, Dict, List, Optional

from . import record_writer
from .contract import key
from .quiet_signals import QuietSignals
from .session import Session

ANSWER_TIMEOUT_S = 5.0


class Image:
    """An open file to write a state into. ``reference`` is what a record says of it."""

    def __init__(self, fd: int, reference: Dict[str, Any], path: Optional[str] = None) -> None:
        self.fd = fd
        self.reference = reference
        self.path = path
        self._own = record_writer.OwnDescriptor(fd)

    @property
    def is_ours(self) -> bool:
        return self._own.is_ours

    def resize(self, size: int) -> None:
        """Empty, and ``size`` bytes of holes."""
        with QuietSignals():  # the limit on file sizes is a memfd's, too
            os.ftruncate(self.fd, 0)
            os.ftruncate(self.fd, size)

    def close(self) -> None:
        self._own.close()


class Images:
    """One process's images. Memfds of dropped launches are used again, so their number stays small."""

    def __init__(self, session: Session) -> None:
        self._session = session
        self._free: List[Image] = []
        self._lock = threading.Lock()
        self._count = 0
        self._socket_works = True

    def file(self, launch: int, kind: str) -> Image:
        """``<launch>.pre`` or ``.post`` in the process's folder."""
        name = f"{launch}.{kind}"
        path = self._session.path(name)
        fd = os.open(path, os.O_RDWR | os.O_CREAT | os.O_TRUNC | os.O_CLOEXEC, 0o600)
        return Image(fd, {key.file: name}, path)

    def surviving(self, launch: int, kind: str) -> Image:
        """An image that may be thrown away again and outlives a crash: a memfd, or else a file."""
        with self._lock:
            while self._free:
                free = self._free.pop()
                if free.is_ours:
                    return free
            image = self._new_memfd() if self._socket_works else None
            if image is None:
                self._socket_works = False
        return image if image is not None else self.file(launch, kind)

    def discard(self, image: Image) -> None:
        """Nobody needs these bytes: use a memfd again, delete a file."""
        if image.path is None:
            with self._lock:
                if image.is_ours:
                    os.ftruncate(image.fd, 0)
                    self._free.append(image)
            return
        with contextlib.suppress(OSError):
            image.close()
        with contextlib.suppress(OSError):
            os.unlink(image.path)

    def _new_memfd(self) -> Optional[Image]:
        if not hasattr(os, "memfd_create"):
            return None
        number = self._count
        try:
            fd = os.memfd_create(f"kerncap-{number}", os.MFD_CLOEXEC)
        except OSError:
            return None
        try:
            if hand_over(self._session, fd, number):
                self._count += 1
                return Image(fd, {key.memfd: number})
        except OSError:
            pass
        os.close(fd)
        return None


def hand_over(session: Session, fd: int, number: int) -> bool:
    """Send a descriptor to the command line's process; True when it is kept there."""
    path = session.options.socket
    if not path:
        return False
    process = os.path.basename(os.path.dirname(session.path("records")))
    message = json.dumps({key.token: session.options.token, key.process: process, key.memfd: number})
    with QuietSignals(), socket.socket(socket.AF_UNIX, socket.SOCK_STREAM) as connection:
        connection.settimeout(ANSWER_TIMEOUT_S)
        connection.connect(path)
        rights = [(socket.SOL_SOCKET, socket.SCM_RIGHTS, array.array("i", [fd]))]
        connection.sendmsg([message.encode()], rights)
        return connection.recv(1) == b"k"


def images_of(session: Session) -> Images:
    images = session.resources.get("images")
    if images is None:
        images = session.resources["images"] = Images(session)
    return images

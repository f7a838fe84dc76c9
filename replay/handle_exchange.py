"""What workers of several ranks hand each other: see `worker.handles`."""

from __future__ import annotations

import contextlib
import os
import socket
import threading
from pathlib import Path

from kerncap.replay.worker.handles import LINE_BYTES, TIMEOUT_S


class HandleExchange:
    """Answers workers on a socket until it is closed; descriptors are kept until `clear`."""

    def __init__(self, folder: Path) -> None:
        self.path = folder / "handles"
        self._given: dict[str, int] = {}
        self._changed = threading.Condition()
        self._is_open = True
        self._socket = socket.socket(socket.AF_UNIX)
        self._socket.bind(str(self.path))
        self._socket.listen(64)
        self._threads = [threading.Thread(target=self._accept, daemon=True)]
        self._threads[0].start()

    def clear(self) -> None:
        """Forget what was given: the workers that gave it are gone."""
        with self._changed:
            for fd in self._given.values():
                os.close(fd)
            self._given.clear()
            self._is_open = True

    def give_up(self) -> None:
        """End all waits without a handle, later ones too, until `clear`."""
        with self._changed:
            self._is_open = False
            self._changed.notify_all()

    def close(self) -> None:
        self.give_up()
        with contextlib.suppress(OSError):
            self._socket.shutdown(socket.SHUT_RDWR)
        self._socket.close()
        for thread in self._threads:
            thread.join()
        self.clear()

    def _accept(self) -> None:
        while True:
            try:
                connection, _ = self._socket.accept()
            except OSError:
                return
            thread = threading.Thread(target=self._answer, args=(connection,), daemon=True)
            self._threads.append(thread)
            thread.start()

    def _answer(self, connection: socket.socket) -> None:
        with connection, contextlib.suppress(OSError, UnicodeDecodeError):
            connection.settimeout(TIMEOUT_S)
            line, fds, _, _ = socket.recv_fds(connection, LINE_BYTES, 1)
            verb, _, name = line.decode().strip().partition(" ")
            if verb == "give" and fds:
                with self._changed:
                    self._given[name] = fds[0]
                    self._changed.notify_all()
                connection.sendall(b"+")
                return
            with self._changed:
                self._changed.wait_for(lambda: name in self._given or not self._is_open, TIMEOUT_S)
                fd = self._given.get(name)
            if fd is None:
                connection.sendall(b"-")
            else:
                socket.send_fds(connection, [b"+"], [fd])

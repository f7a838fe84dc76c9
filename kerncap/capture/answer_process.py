"""A process that answers the shims' questions: in kerncap's own they would wait for Python's lock.

The target waits for each answer, and the threads that seal hold that lock in turns of 5 ms. It is a fork, so
that it answers from the start; it ends with its owner, as the owner's end of a socket closes.
"""

from __future__ import annotations

import contextlib
import os
import signal
import socket
import threading
import warnings
from pathlib import Path

from kerncap.capture.session_socket import Answer, SessionServer
from kerncap.capture.target import FORWARDED

NAME = "questions"  # of its socket


class AnsweringProcess:
    def __init__(self, folder: Path, token: str, answer: Answer) -> None:
        """Raises OSError. To be made before this process's threads, and `start` sees to that."""
        self._ours, theirs = socket.socketpair()
        with theirs:
            with warnings.catch_warnings():
                warnings.simplefilter("ignore", DeprecationWarning)  # of any thread, so of OpenBLAS's
                self._pid = os.fork()
            if self._pid == 0:
                try:
                    self._ours.close()
                    _serve(theirs, folder, token, answer)
                finally:
                    os._exit(0)
        self.path = self._ours.recv(4096).decode()
        if not self.path:
            self.close()
            raise OSError("no socket for questions")

    def close(self) -> None:
        """End it. May be called twice."""
        self._ours.close()
        if self._pid:
            with contextlib.suppress(ChildProcessError):  # SIGCHLD is ignored here
                os.waitpid(self._pid, 0)
        self._pid = 0


def start(folder: Path, token: str, answer: Answer) -> AnsweringProcess | None:
    """None if this process has other threads, whose locks a fork would keep for ever, or none can be made.

    Those of numpy's OpenBLAS don't count: they wait, and it sees to forks.
    """
    if threading.active_count() > 1:
        return None
    try:
        return AnsweringProcess(folder, token, answer)
    except OSError:
        return None


def _serve(owner: socket.socket, folder: Path, token: str, answer: Answer) -> None:
    for number in FORWARDED:  # the owner goes on after them, and the target may
        signal.signal(number, signal.SIG_IGN)
    server = SessionServer(folder, token, answer, NAME)
    try:
        owner.sendall(server.path.encode())
        owner.recv(1)
    finally:
        server.close()

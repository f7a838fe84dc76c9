"""The session's Unix socket: hooks hand over what must outlive the target, shims ask questions.

A hook sends one message, ``{"token", "process", "memfd"}`` with the descriptor attached
(SCM_RIGHTS), and waits for one byte: ``k`` for kept, ``n`` for refused. A native shim sends
``{"token", "process", "ask", …}`` and gets one JSON object.
"""

from __future__ import annotations

import contextlib
import hmac
import json
import os
import re
import resource
import select
import socket
import stat
import struct
import tempfile
import threading
from collections.abc import Callable
from concurrent.futures import Future, ThreadPoolExecutor
from pathlib import Path
from typing import Any

from kerncap import scratch
from kerncap.capture import session_file
from kerncap.capture.session_file import SessionFile
from kerncap.capture.target import block_signals_in_this_thread
from kerncap.errors import CaptureError
from kerncap.format.contract import key

MAX_MESSAGE = 4096  # of one that hands over a memfd
MAX_QUESTION = 4 << 20  # C++ names reach hundreds of KiB
ANSWERING_THREADS = 4  # a question may have to read an image; others must not wait for it
MAX_DESCRIPTORS = 512  # of one session; more are refused, and the hook uses files
MAX_PATH = 100  # sun_path holds 108 bytes
ANSWER_TIMEOUT_S = 2.0
_PRIVATE = "socket"
_PROCESS = re.compile(r"^[0-9]{1,10}-[0-9]{1,6}$")


Answer = Callable[[dict[str, Any]], dict[str, Any]]


class SessionServer:
    """A listening socket, the descriptors that came in, and who answers; ended by ``close``."""

    def __init__(self, folder: Path, token: str, answer: Answer | None = None, name: str = "socket") -> None:
        """``answer`` gets each question with a valid token; it is called from several threads."""
        self._token = token
        self._answer = answer
        self._pool = ThreadPoolExecutor(
            ANSWERING_THREADS, "kerncap-answer", initializer=block_signals_in_this_thread
        )
        self._descriptors: dict[tuple[str, int], int] = {}
        self._lock = threading.Lock()
        self._private_folder: scratch.Scratch | None = None
        self._socket, self.path = self._listen(folder, name)
        self._wake_read, self._wake_write = os.pipe()
        self._thread = threading.Thread(target=self._serve, name="kerncap-socket", daemon=True)
        self._thread.start()

    def descriptor(self, process: str, number: int) -> int | None:
        """The descriptor, still owned by the server; None if it never came."""
        with self._lock:
            return self._descriptors.get((process, number))

    def release(self, process: str, number: int) -> None:
        """Let a descriptor go whose bytes are sealed: its memory is the machine's again."""
        with self._lock:
            descriptor = self._descriptors.pop((process, number), None)
        if descriptor is not None:
            os.close(descriptor)

    def close(self) -> None:
        """Stop the thread, close every descriptor, remove the socket. May be called twice."""
        if self._thread.is_alive():
            os.write(self._wake_write, b"x")
            self._thread.join()
            os.close(self._wake_write)
            os.close(self._wake_read)
        self._pool.shutdown(cancel_futures=True)
        self._socket.close()
        with self._lock:
            for descriptor in self._descriptors.values():
                os.close(descriptor)
            self._descriptors.clear()
        with contextlib.suppress(OSError):
            os.unlink(self.path)
        if self._private_folder is not None:
            self._private_folder.remove()

    def _listen(self, folder: Path, name: str) -> tuple[socket.socket, str]:
        """In the session folder if its path is short enough and its file system holds sockets."""
        path = str(folder / name)
        if len(os.fsencode(path)) <= MAX_PATH:
            with contextlib.suppress(OSError):
                return self._bind(path), path
        self._private_folder = scratch.folder(_PRIVATE, Path(_short_temporary_folder()))
        path = str(self._private_folder.path / name)
        return self._bind(path), path

    @staticmethod
    def _bind(path: str) -> socket.socket:
        listener = socket.socket(socket.AF_UNIX, socket.SOCK_STREAM | socket.SOCK_CLOEXEC)
        try:
            listener.bind(path)
            os.chmod(path, 0o600)
            listener.listen(64)
        except OSError:
            listener.close()
            raise
        return listener

    def _serve(self) -> None:
        block_signals_in_this_thread()
        poller = select.poll()
        poller.register(self._socket, select.POLLIN)
        poller.register(self._wake_read, select.POLLIN)
        while True:
            ready = {descriptor for descriptor, _ in poller.poll()}
            if self._wake_read in ready:
                return
            try:
                connection, _ = self._socket.accept()
            except OSError:
                continue
            # What ``close`` takes out of the queue is done, too.
            self._pool.submit(self._serve_one, connection).add_done_callback(_closing(connection))

    def _serve_one(self, connection: socket.socket) -> None:
        try:
            self._take(connection)
        except (OSError, ValueError, KeyError, TypeError, RecursionError):
            return  # a stranger, or a target that died in the middle of it

    def _take(self, connection: socket.socket) -> None:
        connection.settimeout(ANSWER_TIMEOUT_S)
        _pid, uid, _gid = struct.unpack(
            "3i", connection.getsockopt(socket.SOL_SOCKET, socket.SO_PEERCRED, struct.calcsize("3i"))
        )
        data, descriptors, _flags, _address = socket.recv_fds(connection, MAX_MESSAGE, 4)
        ours = uid in (os.getuid(), 0)
        if ours and not descriptors and self._answer is not None:
            question = _whole_object(connection, data)
            if isinstance(question, dict) and "ask" in question:
                answer = self._answer(question) if self._is_ours(question) else {}
                connection.sendall(json.dumps(answer).encode() + b"\n")
                return
        kept = False
        try:
            kept = ours and self._keep(data, descriptors)
        finally:
            for descriptor in descriptors[1 if kept else 0 :]:
                os.close(descriptor)
        connection.sendall(b"k" if kept else b"n")

    def _is_ours(self, message: dict[str, Any]) -> bool:
        process = message[key.process]
        token = str(message[key.token]).encode("utf-8", "replace")
        known = hmac.compare_digest(token, self._token.encode())
        return known and isinstance(process, str) and bool(_PROCESS.match(process))

    def _keep(self, data: bytes, descriptors: list[int]) -> bool:
        message = json.loads(data)
        process, number = message[key.process], message[key.memfd]
        if not (self._is_ours(message) and type(number) is int and number >= 0):
            return False
        if len(descriptors) != 1 or not stat.S_ISREG(os.fstat(descriptors[0]).st_mode):
            return False
        os.set_inheritable(descriptors[0], False)
        with self._lock:
            if len(self._descriptors) >= min(
                MAX_DESCRIPTORS, resource.getrlimit(resource.RLIMIT_NOFILE)[0] // 2
            ):
                return False
            previous = self._descriptors.pop((process, number), None)
            self._descriptors[process, number] = descriptors[0]
        if previous is not None:
            os.close(previous)
        return True


def _closing(connection: socket.socket) -> Callable[[Future[None]], None]:
    return lambda _done: connection.close()


def _whole_object(connection: socket.socket, data: bytes) -> Any:
    """The JSON document that begins with ``data``; ValueError for anything else."""
    text = bytearray(data)
    while True:
        # An object ends with a brace; to try at every one in a name costs little.
        whole = not data or text.rstrip().endswith(b"}")
        try:
            if whole:
                return json.loads(text)
        except ValueError:
            if not data:
                raise
        if len(text) > MAX_QUESTION:
            raise ValueError(f"a question of more than {MAX_QUESTION} bytes")
        data = connection.recv(1 << 16)
        text += data


def remove_abandoned_socket(session: Path) -> None:
    """Take away the private folder of a killed kerncap's socket, as the session names it.

    Nothing but a socket in a folder of ours is removed: the session's files may be anybody's.
    """
    try:
        path = Path(SessionFile.read(session / session_file.NAME).socket)
        if path.name == "socket" and scratch.is_scratch(path.parent.name) and path.is_socket():
            path.unlink()
            path.parent.rmdir()
    except (OSError, ValueError, CaptureError):
        return


def _short_temporary_folder() -> str:
    """The usual temporary folder, or /tmp if that one is too deep for a socket."""
    usual = tempfile.gettempdir()
    return usual if len(os.fsencode(usual)) <= MAX_PATH - 48 else "/tmp"

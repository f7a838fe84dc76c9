"""The judge's side: one command after the other, until none has come for some minutes."""

from __future__ import annotations

import contextlib
import io
import json
import os
import signal
import socket
import sys
import threading
from collections.abc import Callable
from typing import Any

from kerncap import cli, interrupts, scratch
from kerncap.cli.resident.judge_socket import Folder, is_own
from kerncap.replay.pool import Pool

IDLE_S = 300.0
_KEPT = 2
_REQUEST_S = 30.0
_MOST_BYTES = 4 << 20


def main() -> int:
    """Serve the socket that this process was started with."""
    fd, name = sys.argv[1:]
    with contextlib.suppress(KeyboardInterrupt, cli.Ended), interrupts.raised(), Folder() as folder:
        with socket.socket(fileno=int(fd)) as listening, Pool(keep=_KEPT, apart=True) as pool:
            _serve(folder, name, listening, pool)
    scratch.remove_all()
    return 0


def _serve(folder: Folder, name: str, listening: socket.socket, pool: Pool) -> None:
    try:
        while (connected := _next(folder, name, listening)) is not None:
            with connected:
                if not _answered(connected, pool):
                    return
    finally:
        folder.remove(name)


def _next(folder: Folder, name: str, listening: socket.socket) -> socket.socket | None:
    """The next command of this user's; None when it is time to end, with nobody left who has found us."""
    while True:
        listening.settimeout(IDLE_S)
        try:
            connected, _ = listening.accept()
        except TimeoutError:
            with folder.locked():
                listening.settimeout(0.0)
                try:
                    connected, _ = listening.accept()
                except BlockingIOError:
                    folder.remove(name)
                    return None
        if is_own(connected):
            return connected
        connected.close()


def _answered(connected: socket.socket, pool: Pool) -> bool:
    """Carry out what one command asks for; whether to go on."""
    connected.settimeout(_REQUEST_S)
    with contextlib.suppress(OSError, ValueError, KeyError, TypeError), connected.makefile("rb") as lines:
        asked = json.loads(lines.readline(_MOST_BYTES))
        if "stop" in asked:
            connected.sendall(json.dumps({"pid": os.getpid()}).encode() + b"\n")
            return False
        words, folder = list(map(str, asked["words"])), str(asked["folder"])
        connected.settimeout(None)
        with _Watched(connected) as watched:
            status = _carried_out(words, folder, pool, watched.send)
        watched.send({"status": status})
    return True


def _carried_out(words: list[str], folder: str, pool: Pool, send: Callable[[dict[str, Any]], None]) -> int:
    before = sys.stdout, sys.stderr
    sys.stdout, sys.stderr = _Stream(1, send), _Stream(2, send)
    try:
        os.chdir(folder)
        return cli.status_of(words, pool)
    except OSError as error:
        sys.stderr.write(f"kerncap: {folder}: {error.strerror}; change to a folder that exists\n")
        return 2
    finally:
        sys.stdout, sys.stderr = before
        os.chdir("/")


class _Watched:
    """While a command is carried out: that the client is still there. If not, this process ends.

    With it ends all that it has started, as a command's own end would have it; the next one starts another.
    """

    def __init__(self, connected: socket.socket) -> None:
        self._connected = connected
        self._lock = threading.Lock()
        self._done = False

    def __enter__(self) -> _Watched:
        threading.Thread(target=self._wait, daemon=True).start()
        return self

    def __exit__(self, *_: object) -> None:
        with self._lock:
            self._done = True

    def send(self, message: dict[str, Any]) -> None:
        self._connected.sendall(json.dumps(message).encode() + b"\n")

    def _wait(self) -> None:
        with contextlib.suppress(OSError):
            self._connected.recv(1)  # nothing is sent after a request
        with self._lock:
            if not self._done:
                os.kill(os.getpid(), signal.SIGTERM)


class _Stream(io.TextIOBase):
    """What is printed goes to the client, which prints it."""

    encoding = "utf-8"
    errors = "backslashreplace"

    def __init__(self, number: int, send: Callable[[dict[str, Any]], None]) -> None:
        self._number, self._send = number, send

    def writable(self) -> bool:
        return True

    def write(self, text: str, /) -> int:
        self._send({"stream": self._number, "text": text})
        return len(text)

"""Handles of memory, from the worker of one rank to those of others, through kerncap's own process.

A worker connects for each: one line, `give NAME` with the descriptor, or `take NAME`, and one byte back: `+`,
after a `take` with the descriptor, as soon as it was given.
"""

from __future__ import annotations

import os
import socket

from .common.failures import Refused

TIMEOUT_S = 120.0
LINE_BYTES = 256


def give(path: str, name: str, fd: int) -> None:
    """Hand a descriptor over, which is closed here."""
    try:
        _asked(path, f"give {name}", [fd])
    finally:
        os.close(fd)


def take(path: str, name: str) -> int:
    """The descriptor that another worker gives under this name, waited for."""
    [fd] = _asked(path, f"take {name}", [])
    return fd


def _asked(path: str, line: str, fds: list[int]) -> list[int]:
    try:
        with socket.socket(socket.AF_UNIX) as connection:
            connection.settimeout(TIMEOUT_S)
            connection.connect(path)
            socket.send_fds(connection, [line.ljust(LINE_BYTES).encode()], fds)
            answer, found, _, _ = socket.recv_fds(connection, 1, 1)
    except OSError as error:
        raise Refused(f"memory of another rank did not come: {error}") from error
    if answer != b"+" or (not fds and not found):
        raise Refused("the worker of another rank did not place its memory")
    return list(found)

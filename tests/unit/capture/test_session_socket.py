"""Memfds that hooks hand over: kept with the right token, refused otherwise."""

from __future__ import annotations

import json
import os
import socket
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from kerncap.capture.session_socket import MAX_PATH, SessionServer

TOKEN = "secret"


@pytest.fixture
def server(tmp_path: Path) -> Iterator[SessionServer]:
    server = SessionServer(tmp_path, TOKEN)
    yield server
    server.close()


def hand_over(server: SessionServer, message: dict[str, Any], descriptors: list[int]) -> bytes:
    with socket.socket(socket.AF_UNIX, socket.SOCK_STREAM) as connection:
        connection.settimeout(10)
        connection.connect(server.path)
        socket.send_fds(connection, [json.dumps(message).encode()], descriptors)
        return connection.recv(1)


def memfd(data: bytes) -> int:
    descriptor = os.memfd_create("test")
    os.write(descriptor, data)
    return descriptor


def test_a_memfd_outlives_its_sender(server: SessionServer) -> None:
    descriptor = memfd(b"pre-state")
    assert hand_over(server, {"token": TOKEN, "process": "12-0", "memfd": 3}, [descriptor]) == b"k"
    os.write(descriptor, b" and more")
    os.close(descriptor)
    kept = server.descriptor("12-0", 3)
    assert kept is not None and os.pread(kept, 100, 0) == b"pre-state and more"
    assert server.descriptor("12-0", 4) is None and server.descriptor("13-0", 3) is None


GOOD = {"token": TOKEN, "process": "12-0", "memfd": 0}


@pytest.mark.parametrize(
    "changes",
    [
        {"token": "other"},
        {"token": 5},
        {"process": "../x"},
        {"process": 12},
        {"memfd": "0"},
        {"memfd": -1},
        {"memfd": True},
    ],
)
def test_a_stranger_is_refused(server: SessionServer, changes: dict[str, Any]) -> None:
    descriptor = memfd(b"x")
    assert hand_over(server, {**GOOD, **changes}, [descriptor]) == b"n"
    os.close(descriptor)
    assert server.descriptor("12-0", 0) is None


def test_what_is_no_memory_is_refused(server: SessionServer) -> None:
    read, write = os.pipe()
    assert hand_over(server, GOOD, [read]) == b"n"
    assert hand_over(server, GOOD, []) == b"n"
    first, second = memfd(b"x"), memfd(b"y")
    assert hand_over(server, GOOD, [first, second]) == b"n"
    for descriptor in (read, write, first, second):
        os.close(descriptor)


def test_nonsense_does_not_end_the_service(server: SessionServer) -> None:
    for data in (b"", b"\xff\xfe", b"[]", b"{}", b"null", b"{" * 3000):
        with socket.socket(socket.AF_UNIX, socket.SOCK_STREAM) as connection:
            connection.connect(server.path)
            connection.sendall(data)
            connection.shutdown(socket.SHUT_WR)
            connection.settimeout(10)
            assert connection.recv(1) in (b"", b"n")
    test_a_memfd_outlives_its_sender(server)


def test_a_long_path_moves_the_socket(tmp_path: Path) -> None:
    deep = tmp_path / ("d" * 120)
    deep.mkdir()
    server = SessionServer(deep, TOKEN)
    place = Path(server.path)
    assert len(server.path) <= MAX_PATH and place.exists()
    assert place.parent.stat().st_mode & 0o777 == 0o700
    test_a_memfd_outlives_its_sender(server)
    server.close()
    assert not place.parent.exists()


def test_close_frees_every_descriptor(tmp_path: Path) -> None:
    before = len(os.listdir("/proc/self/fd"))
    server = SessionServer(tmp_path, TOKEN)
    descriptor = memfd(b"x")
    hand_over(server, GOOD, [descriptor])
    hand_over(server, GOOD, [descriptor])  # the same number again replaces the first
    os.close(descriptor)
    server.close()
    server.close()
    assert len(os.listdir("/proc/self/fd")) == before
    assert os.listdir(tmp_path) == []

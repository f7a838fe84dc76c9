"""kerncap's end of a sanitized run, with a process at the other end that says what it likes."""

from __future__ import annotations

import os
import socket
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Any

import pytest

from kerncap.sanitizer.live.carried_out import CarryOutError
from kerncap.sanitizer.live.judged_once import Judge
from kerncap.sanitizer.live.target_socket import LiveServer
from kerncap.sanitizer.sources import hook_messages as messages

TOKEN = "0123"
HELLO = messages.Hello(TOKEN, os.getpid(), ["a note"])
FACTS = messages.Facts(
    kernel="softmax_kernel",
    grid=(1, 1, 1),
    arguments=[messages.Argument("x_ptr", tensor=messages.Tensor(0, 64, "float32", 4, [8], [1]))],
    storages=[messages.Storage(64, 32, 64, 32, "x_ptr")],
    stack=[("run.py", 3, "main")],
    configuration={"BLOCK": "8"},
    target="cuda:90",
    triton="3.9.0",
    label="",
)
LAUNCH = messages.line(messages.Launch(FACTS, messages.Text("1", "module {}"), {}, False, [None]))
MISSED = messages.line(messages.Missed("softmax_kernel", "no such argument"))


@pytest.fixture
def judge() -> Judge:
    return Judge()


@pytest.fixture
def server(tmp_path: Path, judge: Judge) -> Iterator[LiveServer]:
    made = LiveServer(tmp_path, TOKEN, judge)
    yield made
    made.finish()


@contextmanager
def said(server: LiveServer, *parts: bytes, memory: bool = True) -> Iterator[socket.socket]:
    """A connection over which these parts were sent, the memfd with the first; it gives up after a while."""
    with socket.socket(socket.AF_UNIX) as connection:
        connection.settimeout(60)
        connection.connect(server.path)
        descriptor = os.memfd_create("test")
        try:
            socket.send_fds(connection, [parts[0]], [descriptor] if memory else [])
        finally:
            os.close(descriptor)
        with suppress(BrokenPipeError):  # what was sent before was enough for the other end
            for part in parts[1:]:
                connection.sendall(part)
        yield connection


def ended(connection: socket.socket) -> bool:
    try:
        return connection.recv(1) == b""
    except ConnectionResetError:
        return True


@pytest.mark.parametrize("cut", [1, 20, None])
def test_messages_arrive_in_any_pieces(server: LiveServer, judge: Judge, cut: int | None) -> None:
    whole = messages.line(HELLO) + MISSED + MISSED
    parts = (whole,) if cut is None else (whole[:cut], whole[cut:-cut], whole[-cut:])
    with said(server, *parts) as connection:
        connection.shutdown(socket.SHUT_WR)
        assert ended(connection)
    server.finish()
    [report] = judge.reports
    assert (report.kernel, report.repeats) == ("softmax_kernel", 1)
    assert "no such argument" in report.notes[0]
    assert server.processes == {os.getpid()} and server.notes == ["a note"]


@pytest.mark.parametrize(
    ("hello", "memory"),
    [
        (messages.line(messages.Hello("0124", 1, [])), True),
        (messages.line(messages.Hello("\u00e9", 1, [])), True),
        (messages.line(HELLO), False),
        (MISSED, True),
        (b"[]\n", True),
        (b"{\n", True),
        (b"x" * 5000, True),
        (b'{"Hello":{"token":"0123","pid":"1","notes":[]}}\n', True),
        (b'{"Hello":{"token":"0123","pid":1}}\n', True),
    ],
    ids=(
        "another token", "no token of ours", "no memory", "no hello", "a list", "no JSON", "too long",
        "a pid in text", "no notes",
    ),
)  # fmt: skip
def test_a_stranger_is_not_heard(server: LiveServer, judge: Judge, hello: bytes, memory: bool) -> None:
    with said(server, hello, MISSED, memory=memory) as connection:
        assert ended(connection)
    server.finish()
    assert not judge.reports and not server.processes and not server.notes


class Waiting(Judge):
    """Carries a launch out for as long as anybody waits for it."""

    def __init__(self) -> None:
        super().__init__()
        self.began, self.was_ended = threading.Event(), False

    def carry_out(self, report: Any, launch: Any, ended: Callable[[], bool] | None = None) -> Any:
        assert ended is not None and not ended()
        self.began.set()
        limit = time.monotonic() + 60
        while not self.was_ended and time.monotonic() < limit:
            self.was_ended = ended()
        raise CarryOutError("the program ended meanwhile")


def test_a_launch_of_a_program_that_was_stopped_is_not_carried_out_to_its_end(tmp_path: Path) -> None:
    judge = Waiting()
    server = LiveServer(tmp_path, TOKEN, judge)
    with said(server, messages.line(HELLO), LAUNCH.replace(b"false", b"true")):
        assert judge.began.wait(60)
    server.finish()
    assert judge.was_ended


def test_a_launch_of_which_the_text_can_not_be_read_is_answered(server: LiveServer, judge: Judge) -> None:
    with said(server, messages.line(HELLO), LAUNCH) as connection:
        assert connection.recv(4096) == messages.line(messages.Done(False))
    server.finish()
    [report] = judge.reports
    assert report.kernel == "softmax_kernel" and not report.settled


@pytest.mark.parametrize(
    "message",
    [
        b"null\n",
        b'{"Launch":{}}\n',
        LAUNCH.replace(b'"shape":[8]', b'"shape":["8"]'),
        LAUNCH.replace(b'"grid":[1,1,1]', b'"grid":[1,1]'),
        LAUNCH.replace(b'"size":32,', b""),
        b'{"Missed":{"kernel":"k"}}\n',
        b'{"Missed":{"kernel":"k","reason":5}}\n',
        b'{"Nothing":{}}\n',
        b'{"Missed":{"kernel":"k","reason":"r"},"Note":{"text":"t"}}\n',
        messages.line(messages.Size(5)),
        b"[" * 100_000 + b"\n",
    ],
)
def test_what_is_no_message_ends_the_connection(server: LiveServer, judge: Judge, message: bytes) -> None:
    with said(server, messages.line(HELLO), MISSED, message, MISSED) as connection:
        assert ended(connection)
    server.finish()
    [report] = judge.reports
    assert report.repeats == 0

"""What the command line answers a native shim, over the socket and from its store."""

from __future__ import annotations

import json
import os
import socket
import threading
from concurrent.futures import Future, ThreadPoolExecutor
from pathlib import Path
from typing import Any

import pytest

from kerncap.capture import languages
from kerncap.capture.answers import Answers
from kerncap.capture.session_socket import SessionServer
from tests.session_options import capture_options
from tests.unit.capture.built_images import PTX_TEXT, cubin, entry, fatbin

MANGLED = "_ZN2ns5scaleIfLi2EEEvPT_i"
DEMANGLED = "void ns::scale<float, 2>(float*, int)"
TOKEN = "secret"


def match(**changes: Any) -> dict[str, Any]:
    image = {"kind": "fatbin", "origin": "", "mapped_from": "/app"}
    return {
        "ask": "match",
        "process": "12-0",
        "kernel": MANGLED,
        "demangled": DEMANGLED,
        "image": image,
        **changes,
    }


def answers(folder: Path, **options: Any) -> Answers:
    return Answers(folder, capture_options(**options))


# --- match -----------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    "pattern",
    ["^scale$", "^ns::scale$", "scale<float, 2>", "^_ZN2ns5scale", r"\(float\*, int\)", "^void ns::"],
)
def test_a_name_meets_every_spelling(tmp_path: Path, pattern: str) -> None:
    assert answers(tmp_path, kernel=pattern).answer(match()) == {"match": True}


@pytest.mark.parametrize("pattern", ["^scal$", "scale<double", "^ns$"])
def test_another_name_does_not_match(tmp_path: Path, pattern: str) -> None:
    assert answers(tmp_path, kernel=pattern).answer(match()) == {"match": False, "reason": "name"}


@pytest.mark.parametrize(
    ("known", "answer"), [(True, {"match": True}), (False, {"match": False, "reason": "no source"})]
)
def test_without_a_selector_a_kernel_needs_a_source(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, known: bool, answer: dict[str, Any]
) -> None:
    asked = []

    def source_known(request: Any, image: Any = None) -> bool:
        asked.append(request)
        return known

    monkeypatch.setattr(languages, "is_known", source_known)
    found = answers(tmp_path, source_dirs=(tmp_path,))
    for _ in range(3):
        assert found.answer(match()) == answer
    [request] = asked  # kept: the target waits for each answer
    assert (request.mangled, request.demangled, request.mapped_from) == (MANGLED, DEMANGLED, "/app")
    assert request.source_dirs == (tmp_path,)
    found.answer(match(kernel="_Z1bv"))
    assert len(asked) == 2


@pytest.mark.parametrize(
    "options", [{"on_fault": True}, {"launch": (0, 1)}, {"when": "differs"}, {"list_only": True}]
)
def test_with_any_other_selector_no_source_is_needed(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, options: dict[str, Any]
) -> None:
    monkeypatch.setattr(languages, "is_known", lambda request, image=None: False)
    assert answers(tmp_path, **options).answer(match(image=None)) == {"match": True}


# --- globals ---------------------------------------------------------------------------------------


def test_variables_of_the_stored_image(tmp_path: Path) -> None:
    code = tmp_path / "12-0" / "code"
    code.mkdir(parents=True)
    newer = cubin(90, variables=[("counter", ".nv.global"), ("coef", ".nv.constant3")])
    (code / "fatbin-1").write_bytes(fatbin(entry(cubin(80), 80), entry(newer, 90)))
    (code / "ptx-1").write_bytes(PTX_TEXT)
    question = {
        "ask": "globals",
        "process": "12-0",
        "image": "code/fatbin-1",
        "kernel": "_Z3addPf",
        "arch": "sm_90",
    }
    found = answers(tmp_path)
    assert found.answer(question) == {"globals": ["counter", "coef"]}
    assert found.answer({**question, "arch": "sm_80"}) == {"globals": []}
    assert found.answer({**question, "image": "code/ptx-1"}) == {
        "globals": ["coef", "counter", "both", "wide"]
    }
    (code / "fatbin-1").unlink()
    assert found.answer(question) == {"globals": ["counter", "coef"]}, "asked once for each image"


@pytest.mark.parametrize(
    "changes",
    [
        {"image": "code/missing"},
        {"image": "code/../records"},
        {"image": "../12-0/code/bad"},
        {"image": "/etc/passwd"},
        {"image": "code/bad"},
        {"image": "code/link"},
        {"image": 5},
        {"process": "../12-0"},
        {"arch": []},
        {"ask": "other"},
    ],
)
def test_what_can_not_be_answered_is_answered_with_nothing(tmp_path: Path, changes: dict[str, Any]) -> None:
    code = tmp_path / "12-0" / "code"
    code.mkdir(parents=True)
    (code / "bad").write_bytes(b"no image")
    os.symlink("/etc/passwd", code / "link")
    question = {
        "ask": "globals",
        "process": "12-0",
        "image": "code/bad",
        "kernel": "k",
        "arch": "sm_90",
        **changes,
    }
    assert answers(tmp_path).answer(question) == {}


# --- over the socket -------------------------------------------------------------------------------


def ask(server: SessionServer, message: dict[str, Any], pieces: int = 1, end: bool = False) -> bytes:
    data = json.dumps(message).encode()
    step = -(-len(data) // pieces)
    with socket.socket(socket.AF_UNIX, socket.SOCK_STREAM) as connection:
        connection.settimeout(30)
        connection.connect(server.path)
        for start in range(0, len(data), step):
            connection.sendall(data[start : start + step])
        if end:
            connection.shutdown(socket.SHUT_WR)
        answer = b""
        while piece := connection.recv(4096):
            answer += piece
        return answer


@pytest.mark.parametrize("pieces", [1, 7])
@pytest.mark.parametrize("end", [False, True])
def test_a_question_of_any_length_is_answered(tmp_path: Path, pieces: int, end: bool) -> None:
    server = SessionServer(tmp_path, TOKEN, answers(tmp_path, kernel="tail$").answer)
    try:
        name = "k" + "{lambda()#1}" * 20_000 + "tail"
        question = match(token=TOKEN, kernel=name, demangled=name)
        assert json.loads(ask(server, question, pieces, end)) == {"match": True}
    finally:
        server.close()


@pytest.mark.parametrize(
    "changes", [{"token": "other"}, {"token": None}, {"process": "../x"}, {"process": 5}]
)
def test_a_stranger_learns_nothing(tmp_path: Path, changes: dict[str, Any]) -> None:
    asked: list[Any] = []
    server = SessionServer(tmp_path, TOKEN, lambda question: {"asked": asked.append(question)})
    try:
        assert json.loads(ask(server, {**match(token=TOKEN), **changes})) == {}
        assert asked == []
    finally:
        server.close()


def test_a_slow_answer_holds_nobody_else_up(tmp_path: Path) -> None:
    let_go, begun = threading.Event(), threading.Event()

    def answer(question: dict[str, Any]) -> dict[str, Any]:
        if question["kernel"] == "slow":
            begun.set()
            assert let_go.wait(30)
        return {"match": True}

    server = SessionServer(tmp_path, TOKEN, answer)
    slow: list[bytes] = []
    thread = threading.Thread(target=lambda: slow.append(ask(server, match(token=TOKEN, kernel="slow"))))
    try:
        thread.start()
        assert begun.wait(30)
        assert json.loads(ask(server, match(token=TOKEN))) == {"match": True}
        assert slow == []
        let_go.set()
        thread.join(30)
        assert json.loads(slow[0]) == {"match": True}
    finally:
        let_go.set()
        server.close()


def test_who_still_waits_at_the_end_is_let_go(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Its connection is closed, not left to the garbage collector, which would warn (an error here)."""
    let_go, begun, taken = threading.Event(), threading.Event(), threading.Semaphore(0)

    class Pool(ThreadPoolExecutor):
        def submit(self, *arguments: Any, **named: Any) -> Future[Any]:
            future = super().submit(*arguments, **named)
            taken.release()
            return future

    def answer(question: dict[str, Any]) -> dict[str, Any]:
        begun.set()
        assert let_go.wait(30)
        return {"match": True}

    monkeypatch.setattr("kerncap.capture.session_socket.ThreadPoolExecutor", Pool)
    monkeypatch.setattr("kerncap.capture.session_socket.ANSWERING_THREADS", 1)
    server = SessionServer(tmp_path, TOKEN, answer)
    answers: list[bytes] = []

    def asks() -> None:
        try:
            answers.append(ask(server, match(token=TOKEN)))
        except (BrokenPipeError, ConnectionResetError):  # before or after it has asked
            answers.append(b"")

    asking = [threading.Thread(target=asks) for _ in "ab"]
    ending = threading.Thread(target=server.close)
    try:
        for thread in asking:
            thread.start()
            assert taken.acquire(timeout=30) and begun.wait(30)
        ending.start()
        asking[1].join(30)
        assert answers == [b""], "while the first is still being answered"
    finally:
        let_go.set()
        asking[0].join(30)
        ending.join(30)
    assert json.loads(answers[1]) == {"match": True}


def test_memfds_still_come_in_beside_questions(tmp_path: Path) -> None:
    server = SessionServer(tmp_path, TOKEN, lambda question: {})
    descriptor = os.memfd_create("state")
    try:
        with socket.socket(socket.AF_UNIX, socket.SOCK_STREAM) as connection:
            connection.settimeout(30)
            connection.connect(server.path)
            message = {"token": TOKEN, "process": "12-0", "memfd": 3}
            socket.send_fds(connection, [json.dumps(message).encode()], [descriptor])
            assert connection.recv(1) == b"k"
        assert server.descriptor("12-0", 3) is not None
    finally:
        os.close(descriptor)
        server.close()

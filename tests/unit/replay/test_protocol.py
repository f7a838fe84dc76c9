"""What passes between kerncap and a replay worker, read strictly on both ends."""

from __future__ import annotations

import dataclasses
import inspect
import json
import math
import os
import sys
import threading
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from kerncap.replay.worker import protocol, typed_json
from kerncap.replay.worker.protocol import Backend, Difference, Element, Ended, Failure, Place, View
from kerncap.replay.worker.typed_json import MAX_LINE_BYTES, Lines, Unreadable
from kerncap.replay.worker_process import Worker, WorkerDied

_DIFFERENCE = Difference(3, "out", 8, 2, 1, 0, 0.5, math.inf, 2.0, Element([7], "1.0", "2.0"))


@pytest.mark.parametrize(
    ("operation", "result"),
    [
        (Backend.launch, Ended("error", "it raised", "the traceback", 0, 4, Place("a.py", 4))),
        (Backend.compare, [_DIFFERENCE, Difference()]),
        (Backend.interleaved, [[1.0, 2.5], []]),
        (Backend.gap_writes, [(4096, 8191, 17)]),
        (Backend.infer, None),
        (Backend.diff, True),
        (Backend.restore, None),
        (Backend.boxes, [protocol.ErrorBoxes([(0, 4)], None, 1)]),
    ],
    ids=lambda value: getattr(value, "__name__", ""),
)
def test_a_result_is_what_was_returned(operation: Any, result: Any) -> None:
    assert protocol.read_reply(operation, protocol.reply(result)) == result


def test_a_failure_is_the_answer_to_any_operation() -> None:
    failure = Failure("refused", "no such thing here")
    assert protocol.read_reply(Backend.differing, protocol.reply(failure)) == failure


def test_arguments_arrive_as_they_were_given() -> None:
    view = View(1, 16, "float32", 4, [8], [1], "inferred")
    line = protocol.request(Backend.compare, [(0, 1e-5, 0.0), (view, 0.0, 1.0)], against="post").decode()
    assert protocol.read_request(line) == protocol.Request(
        "compare", {"views": [(0, 1e-5, 0.0), (view, 0.0, 1.0)], "against": "post"}
    )
    line = protocol.request(Backend.perturb, views=[2], masks={0: "mask-1.npy"}).decode()
    assert protocol.read_request(line).arguments == {"views": [2], "masks": {0: "mask-1.npy"}}


@pytest.mark.parametrize(
    ("line", "problem"),
    [
        ('{"operation": "lunch", "arguments": {}}', "operation: lunch is unknown"),
        ('{"operation": "__init__", "arguments": {}}', "operation: __init__ is unknown"),
        ('{"operation": "drop", "arguments": {"name": 3}}', "name: expected str, found int"),
        ('{"operation": "drop", "arguments": {}}', "no field name"),
        ('{"operation": "drop", "arguments": {"name": "a", "b": 1}}', "an unknown field 'b'"),
        ('{"operation": "drop"}', "no field arguments"),
    ],
)
def test_a_request_that_does_not_fit_is_refused(line: str, problem: str) -> None:
    with pytest.raises(Unreadable, match=f"^{problem}$"):
        protocol.read_request(line)


def _reply(**changed: Any) -> bytes:
    ended = {**vars(Ended("ok", ns=5)), **changed}
    return json.dumps(
        {"result": {key: value for key, value in ended.items() if value != "left out"}}
    ).encode()


@pytest.mark.parametrize(
    ("line", "problem"),
    [
        (_reply(ns="left out"), "no field ns"),
        (_reply(ns="5"), "ns: expected int, found str"),
        (_reply(ns=True), "ns: expected int, found bool"),
        (_reply(ns=5.0), "ns: expected int, found float"),
        (_reply(status="passed"), "status: expected one of ok, error, fault, timeout, refused, killed"),
        (_reply(status=["ok"]), "status: expected one of ok, error, fault, timeout, refused, killed"),
        (_reply(**{"\x1b[2J": 1}), r"an unknown field '\\x1b\[2J'"),
        (_reply(place={"file": 1, "line": None, "column": None}), "place: file: expected str, found int"),
        (b'{"result": []}', "expected object, found list"),
        (b'{"result": null, "failure": null}', "neither a result nor a failure"),
        (b"[]", "neither a result nor a failure"),
        (b"null", "neither a result nor a failure"),
        (b'{"failure": {"kind": "won"}}', "no field detail"),
        (b"", "not JSON"),
        (b"\xff\xfe", "not JSON"),
        (b"[" * 200_000, "not JSON"),
        (b"9" * 10_000, "not JSON|neither a result nor a failure"),
    ],
)
def test_nonsense_for_a_reply_is_one_line(line: bytes, problem: str) -> None:
    with pytest.raises(Unreadable, match=f"^({problem})$"):
        protocol.read_reply(Backend.launch, line)


_JSON = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats() | st.text(max_size=9),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(max_size=9), inner, max_size=3),
    max_leaves=9,
)


@given(st.sampled_from(sorted(protocol.OPERATIONS)), _JSON | st.fixed_dictionaries({"result": _JSON}))
def test_any_reply_is_read_or_refused(name: str, document: Any) -> None:
    try:
        protocol.read_reply(protocol.OPERATIONS[name], json.dumps(document).encode())
    except Unreadable as error:
        assert "\n" not in str(error)


def test_each_message_can_be_read() -> None:
    """Every annotation of an operation is one that JSON has, so that none fails when it is first asked."""
    for operation in protocol.OPERATIONS.values():
        hints = protocol._types(operation)
        assert set(hints) == {*inspect.signature(operation).parameters, "return"} - {"self"}, operation
        for kind in hints.values():
            typed_json._reader(kind)
    messages = [each for each in vars(protocol).values() if dataclasses.is_dataclass(each)]
    for message in messages:
        typed_json._reader(message)


def test_lines_are_told_apart_however_they_come() -> None:
    read_fd, write_fd = os.pipe()
    lines = Lines(read_fd)
    os.write(write_fd, b"one\ntw")
    assert lines.next() == b"one"
    os.write(write_fd, b"o\n\nfour\n")
    assert [lines.next(), lines.next(), lines.next(1.0)] == [b"two", b"", b"four"]
    with pytest.raises(TimeoutError):
        lines.next(0.0)
    os.write(write_fd, b"cut off")
    os.close(write_fd)
    assert lines.next(1.0) is None
    os.close(read_fd)


def test_a_line_that_does_not_end_is_given_up() -> None:
    read_fd, write_fd = os.pipe()

    def flood() -> None:
        try:
            while True:
                os.write(write_fd, b"x" * 65536)
        except OSError:  # nobody reads any more
            os.close(write_fd)

    flooding = threading.Thread(target=flood)
    flooding.start()
    try:
        with pytest.raises(Unreadable, match=f"more than {MAX_LINE_BYTES >> 20} MiB"):
            Lines(read_fd).next()
    finally:
        os.close(read_fd)
        flooding.join()


@pytest.mark.parametrize(
    ("reply", "problem"),
    [
        ('{"result": {"status": "ok"}}', "(no field detail)"),
        ("\x1b[2J", "(not JSON)"),
        ("[" * 100_000, "(not JSON)"),
        ("null", "(neither a result nor a failure)"),
    ],
    ids=["half", "terminal", "nested", "null"],
)
def test_a_worker_that_answers_nonsense_is_lost_in_one_line(tmp_path: Path, reply: str, problem: str) -> None:
    python = tmp_path / "python"
    lines = typed_json.line(protocol.Hello()) + reply.encode() + b"\n"
    python.write_text(
        f"#!{sys.executable}\nimport os, sys\nos.write(int(sys.argv[-1]), {lines!r})\n"
        "os.read(int(sys.argv[-2]), 1)\nos.read(int(sys.argv[-2]), 1 << 16)\n"
    )
    python.chmod(0o755)
    worker = Worker(str(python), tmp_path / "job.json", tmp_path / "log", dict(os.environ), False)
    with pytest.raises(WorkerDied) as died:
        worker.request(60.0, Backend.launch, "original", 1.0)
    assert str(died.value) == f"its answer can't be read: something else writes to its pipe {problem}"
    assert not worker.alive

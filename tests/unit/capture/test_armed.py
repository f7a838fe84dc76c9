"""A dormant session from outside: arming it, two at once, one that is over, and what shims are answered."""

from __future__ import annotations

import fcntl
import json
import os
import threading
from collections.abc import Iterator
from pathlib import Path

import pytest

from kerncap.api.arm import _Watcher, arm
from kerncap.capture import armed
from kerncap.capture.answers import Answers
from kerncap.capture.collect import Collector
from kerncap.capture.options import Selection
from kerncap.capture.outcome import ArmedCapture, ArmResult
from kerncap.capture.session_folder import Session
from kerncap.errors import CaptureError, UsageError
from kerncap.format.records import RecordKind
from kerncap.report.arm_text import render_arm
from tests.session_options import capture_options
from tests.unit.capture.recorded import RecordedProcess
from tests.unit.capture.recorded import sealer as make_sealer

DORMANT = capture_options(dormant=True, memory="args", max_size=1 << 20)


@pytest.fixture
def session(tmp_path: Path) -> Iterator[Session]:
    made = Session.create(capture_options(output=tmp_path, dormant=True, memory="args"), {})
    yield made
    made.remove()


def selecting(**changes: object) -> Selection:
    return Selection(**changes)  # type: ignore[arg-type]


def test_a_generation_is_written_before_it_is_raised(session: Session) -> None:
    dormant = armed.DormantSession.open(session.folder)
    assert armed.generation_of(session.folder) == 0 and dormant.file.keep.memory == "args"
    assert dormant.arm(selecting(kernel="add", launch=(2, 4), range="step", ranks=(0, 2))) == 1
    assert dormant.arm(selecting(kernel="mul")) == 2
    assert armed.generation_of(session.folder) == 2
    first = json.loads((session.folder / "session-1.json").read_bytes())
    assert (first["generation"], first["dormant"]) == (1, False)
    assert first["selection"] == {
        "kernel": "add", "launch": [2, 4], "launches": None, "from_kernel": None, "from_skip": 0,
        "to_kernel": None, "to_skip": 0, "whole_range": None, "graph": None, "graph_skip": 0,
        "per_config": False, "where": None,
        "range": "step", "ranks": [0, 2], "collective": None, "collective_timeout_s": 60.0,
        "on_fault": False, "fault_timeout_s": 60.0, "when": None,
        "last": None, "stop": False,
    }  # fmt: skip
    assert first["token"] == dormant.file.token and first["by_default"] is False
    assert armed.session_file_of(session.folder, 2).selection.kernel == "mul"
    assert (session.folder / "session-1.json").stat().st_mode & 0o777 == 0o600
    assert not list(session.folder.glob("*.tmp-*"))


def test_shims_are_answered_by_the_generation_that_they_name(session: Session, tmp_path: Path) -> None:
    answers = Answers(session.folder, DORMANT)
    armed.DormantSession.open(session.folder).arm(selecting(kernel="^add$", range="^step/"))
    question = {"ask": "match", "process": "1-0", "kernel": "add", "generation": 1}
    assert answers.answer(question) == {"match": True}
    assert answers.answer({**question, "kernel": "mul"}) == {"match": False, "reason": "name"}
    within = {"ask": "range", "range": "step/forward", "generation": 1}
    assert answers.answer(within) == {"match": True}
    assert answers.answer({**within, "range": "outer/step"}) == {"match": False}
    assert answers.answer({**within, "generation": 7}) == {}, "there is none"
    assert Answers(tmp_path, capture_options(range="x")).answer({"ask": "range", "range": ""}) == {
        "match": False
    }


def test_two_at_once_is_one_line(session: Session) -> None:
    dormant = armed.DormantSession.open(session.folder)
    held = os.open(session.folder / armed.LOCK, os.O_RDWR | os.O_CREAT)
    fcntl.flock(held, fcntl.LOCK_EX)
    with pytest.raises(CaptureError, match="another kerncap arm is using it"):
        dormant.arm(selecting(kernel="add"))
    os.close(held)
    assert dormant.arm(selecting(kernel="add")) == 1, "a lock goes with its process"


def test_what_cannot_be_armed_says_why(session: Session, tmp_path: Path) -> None:
    with pytest.raises(UsageError, match="no such folder"):
        armed.find_session(tmp_path / "nowhere")
    empty = tmp_path / "empty"
    empty.mkdir()
    with pytest.raises(UsageError, match="no dormant session in it"):
        armed.find_session(empty)
    assert armed.find_session(tmp_path) == session.folder, "the output folder stands for the one in it"
    awake = Session.create(capture_options(output=tmp_path), {})
    with pytest.raises(UsageError, match="not started with --dormant; start capture with --dormant"):
        armed.DormantSession.open(awake.folder)
    awake.remove()
    other = Session.create(capture_options(output=tmp_path, dormant=True), {})
    with pytest.raises(UsageError, match="2 dormant sessions"):
        armed.find_session(tmp_path)
    other.remove()


def test_a_name_that_no_folder_can_have_is_said(tmp_path: Path) -> None:
    with pytest.raises(UsageError, match="no such folder"):
        armed.find_session(tmp_path / ("a" * 300))


def test_what_was_captured_is_told_by_any_path(tmp_path: Path) -> None:
    """A folder's name is bytes; these are no UTF-8."""
    output = Path(os.fsdecode(os.fsencode(tmp_path) + b"/out\xff"))
    session = Session.create(capture_options(output=output, dormant=True), {})
    process = RecordedProcess(session.folder)
    process.launch(0, generation=1)
    process.complete(0)
    collector = Collector(session.folder, make_sealer(session, output))
    collector.poll()
    told = ArmResult(session.folder, 1, waited=True)
    assert not _Watcher(told).poll(), "nothing is under way"
    assert [each.path for each in told.captured] == [collector.sealed[0].path]
    assert not list(process.folder.glob(".*")), "written beside, then renamed"
    process.end()
    session.remove()


def test_without_values_the_next_step_is_no_replay(session: Session) -> None:
    captured = [ArmedCapture(Path("out/add-12345678"), "add", 0, 1, None)]
    shown = render_arm(ArmResult(session.folder, 1, waited=True, no_values=True, captured=captured))
    assert "next: kerncap inspect out/add-12345678" in shown and "replay" not in shown


@pytest.mark.parametrize(("last", "said"), [(None, False), (2, True)])
def test_a_wait_in_vain_says_when_last_is_written(session: Session, last: int | None, said: bool) -> None:
    found = arm(session.folder, selecting(kernel="add", last=last), wait_s=0.0)
    assert found.reason is not None and found.reason.startswith("within 0 s; it stays armed")
    assert ("--last is written when another selection is armed or the program ends" in found.reason) is said


def test_a_session_that_is_over_says_so(session: Session) -> None:
    dormant = armed.DormantSession.open(session.folder)
    session.close()  # as if its kerncap had been killed: the folder stays
    with pytest.raises(CaptureError, match="the session is over"):
        armed.DormantSession.open(session.folder)
    with pytest.raises(CaptureError, match="the session is over"):
        dormant.arm(selecting(kernel="add"))


@pytest.mark.parametrize("text", ["", "[1]", '{"token": 1}', "{" * 5000, '{"token": "t"}'])
def test_a_damaged_session_file_is_one_line(session: Session, text: str) -> None:
    (session.folder / "session.json").write_text(text)
    with pytest.raises(CaptureError, match="session.json"):
        armed.DormantSession.open(session.folder)


def test_the_end_waits_for_a_last_look(session: Session) -> None:
    done = threading.Event()

    def end() -> None:
        session.say_ended()
        done.set()

    with armed.waiting(session.folder):
        ending = threading.Thread(target=end)
        ending.start()
        while not armed.has_ended(session.folder):
            pass
        assert not done.wait(0.3), "somebody is still looking"
    assert done.wait(2.0)
    ending.join()


def test_last_of_an_armed_selection_is_sealed_once_it_is_replaced(session: Session, tmp_path: Path) -> None:
    dormant = armed.DormantSession.open(session.folder)
    dormant.arm(selecting(kernel="scale", last=2))
    process = RecordedProcess(session.folder)
    process.launch(0, generation=1)
    process.complete(0)
    collector = Collector(session.folder, make_sealer(session, tmp_path))
    collector.poll()
    assert not collector.sealed, "it may still be dropped"
    dormant.arm(selecting(kernel="scale"))
    process.launch(1, generation=2)
    process.complete(1)
    process.say(RecordKind.END, {"time_ns": 1})
    collector.poll()
    assert [sealed.generation for sealed in collector.sealed] == [1, 2]
    process.end()

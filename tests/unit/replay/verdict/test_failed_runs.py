"""Runs that hang, crash, are killed or raise, and candidates that do not load."""

from __future__ import annotations

import os
import signal
from pathlib import Path

import pytest

from kerncap.api.verify import VerifyOptions, verify
from kerncap.errors import ReplayError
from kerncap.exit_status import ExitStatus
from kerncap.format import schema
from kerncap.replay.outcome import CandidateError
from kerncap.replay.worker.protocol import Failure
from kerncap.replay.worker_process import Worker, WorkerFailed
from tests.unit.replay import build
from tests.unit.replay.resident import Resident, candidate
from tests.unit.replay.verdict.replayed import run

pytest.importorskip("triton")
pytest.importorskip("torch")


def test_an_endless_loop_is_a_timeout(adder: Resident) -> None:
    endless = build.ADD + "    while tl.load(x_ptr) == tl.load(x_ptr):\n        pass\n"
    line = adder.judge(endless, timeout_s=1.0).line
    why = "the kernel did not end within 1 s; a longer --timeout would decide it"
    assert line == f"Result: UNDECIDED ({why})"
    assert adder.judge(build.ADD).exact  # and the engine lives on


WILD = build.ADD + "    tl.store((tl.program_id(0) + 8).to(tl.int64).to(tl.pointer_type(tl.float32)), 1.0)\n"


def test_a_crash_is_reported(adder: Resident) -> None:
    assert adder.judge(WILD).line == "Result: FAIL (the kernel died with SIGSEGV)"
    assert adder.judge(build.ADD).exact


_WHY = "the worker was killed, probably for memory; a run with more memory would decide it"
KILLED = f"Result: UNDECIDED ({_WHY})"


def test_a_worker_that_the_system_kills_says_nothing_of_the_kernel(
    adder: Resident, monkeypatch: pytest.MonkeyPatch
) -> None:
    while_imported = "import os\nimport signal\n\nos.kill(os.getpid(), signal.SIGKILL)\n"
    with pytest.raises(ReplayError, match="was killed, probably for memory") as lost:
        adder.judge(while_imported + build.ADD)
    assert lost.value.exit_status == ExitStatus.UNDECIDED
    while_launched = build.ADD + "    __import__('os').kill(__import__('os').getpid(), 9)\n"
    assert adder.judge(while_launched).line == KILLED
    assert adder.judge(build.ADD).exact
    monkeypatch.setattr(Worker, "alive", True)  # what nobody has noticed yet
    worker = adder.engine.connection._worker
    assert worker is not None
    os.kill(worker._process.pid, signal.SIGKILL)
    assert adder.engine.launch().status == "killed"
    monkeypatch.undo()
    assert adder.judge(build.ADD).exact


def test_what_kerncaps_own_code_did_not_expect_is_no_verdict(
    adder: Resident, monkeypatch: pytest.MonkeyPatch
) -> None:
    worker = adder.engine.connection._worker
    assert worker is not None
    failed = Failure("internal", "KeyError('hip')")

    def unexpected(*_: object, **__: object) -> None:
        raise worker._error("load", failed)

    with monkeypatch.context() as patch, pytest.raises(WorkerFailed, match="worker failed in load") as lost:
        patch.setattr(adder.engine.connection, "call_within", unexpected)
        adder.judge(build.ADD)
    assert lost.value.exit_status == ExitStatus.UNDECIDED
    assert adder.judge(build.ADD).exact


@pytest.mark.long
def test_a_captured_fault_is_reproduced(tmp_path: Path) -> None:
    launch = build.add(source=WILD)
    launch.oracle = schema.Oracle(kind="fault", error="SIGSEGV")
    path = launch.seal(tmp_path)
    assert run(path).verdict.line == "Result: PASS (fault reproduced: the kernel died with SIGSEGV)"
    assert not verify(path).passed
    fixed = candidate(tmp_path, build.ADD)
    by_replays = verify(path, VerifyOptions(candidate=fixed))
    assert by_replays.passed and by_replays.judged_by == "the agreement of 3 replays"


def test_another_signature_is_explained(adder: Resident) -> None:
    other = build.ADD.replace("out_ptr", "dst_ptr")
    with pytest.raises(CandidateError) as caught:
        adder.judge(other)
    assert "the launch passes out_ptr, which it does not take; it takes dst_ptr" in str(caught.value)
    assert "Expected (x_ptr, y_ptr, out_ptr, n, BLOCK)" in str(caught.value)


def test_a_candidate_that_does_not_import_is_explained(adder: Resident) -> None:
    with pytest.raises(CandidateError, match=r"can't be imported: SyntaxError: .*line 5") as caught:
        adder.judge("def broken(:\n")
    assert "def broken(:" in caught.value.detail


def test_an_exception_in_the_kernel_is_a_failed_run(adder: Resident) -> None:
    verdict = adder.judge(build.ADD + "    tl.load(no_such_name)\n")
    assert not verdict.passed and "no_such_name" in verdict.reasons[0]

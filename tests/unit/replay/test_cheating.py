"""Candidates that do no work and try to pass all the same, or break what judges them."""

from __future__ import annotations

import importlib
import os
import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from types import ModuleType, SimpleNamespace

import numpy as np
import pytest
import torch

from kerncap.answer import Answer
from kerncap.api.candidate_file import Kept, kept
from kerncap.api.replay import ReplayOptions, load_candidate, outcome_result, replay
from kerncap.api.verify import VerifyOptions, verify
from kerncap.errors import UsageError
from kerncap.format import schema
from kerncap.replay.engine import CANDIDATE
from kerncap.replay.outcome import CandidateError
from kerncap.replay.verdict import judge
from kerncap.replay.verdict_words import Verdict
from kerncap.replay.worker import typed_json
from kerncap.replay.worker.protocol import Ended
from kerncap.replay.worker.torch_backend import isolation, replaced_functions
from kerncap.replay.worker.torch_backend.launchers import source_and_arguments

from . import build
from .build import HEADER, Launch
from .resident import Resident, candidate, resident

pytest.importorskip("triton")
replay_module = importlib.import_module("kerncap.api.replay")
verify_module = importlib.import_module("kerncap.api.verify.stage_order")
IDLE = "\n@triton.jit\ndef add(x_ptr, y_ptr, out_ptr, n, BLOCK: tl.constexpr):\n    pass\n"


@pytest.fixture(scope="module")
def adder(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Resident]:
    with resident(build.add(), tmp_path_factory.mktemp("adder")) as opened:
        yield opened


PATCHES = """
import sys
import numpy, torch
states = sys.modules["_kerncap_worker.torch_backend.states"].States
states.diff = lambda self, region, *others: numpy.zeros((self.sizes[region] + 7) // 8, numpy.uint8)
states.gap_writes = lambda self: []
states.differing = lambda self, name: []
torch.equal = lambda a, b: True
"""


def test_a_module_that_patches_the_comparison_changes_nothing(adder: Resident) -> None:
    assert adder.judge(PATCHES + IDLE).reasons[0].startswith("4,000 bytes of out_ptr were never written")
    assert adder.judge(build.ADD).exact


_FORGED = b"\n" + typed_json.line(Ended("ok", ns=1))
PIPES = f"""
import os
for fd in range(3, 64):
    try:
        os.write(fd, {_FORGED!r})
        os.close(fd)
    except OSError:
        pass
"""


@pytest.mark.parametrize("trick", ["import os\nos._exit(0)\n", "raise SystemExit(0)\n"])
def test_a_module_that_ends_the_process_is_explained(adder: Resident, trick: str) -> None:
    with pytest.raises(CandidateError, match="can't be imported"):
        adder.judge(build.ADD + trick)
    assert adder.judge(build.ADD).exact, "the worker lives on"


def test_a_module_that_speaks_on_foreign_pipes_is_not_heard(adder: Resident) -> None:
    assert adder.judge(PIPES + IDLE).reasons[0].startswith("4,000 bytes of out_ptr were never written")
    assert adder.judge(build.ADD).exact


LEFT_BEHIND = """
import os, signal
told, tells = os.pipe()
if os.fork() == 0:
    os.setsid()
    if os.fork() == 0:
        print("left behind:", os.getpid(), flush=True)
        os.write(tells, b".")
        signal.pause()
    os._exit(0)
os.wait()
os.read(told, 1)
"""


def test_what_a_module_leaves_behind_is_ended_before_anything_is_compared(adder: Resident) -> None:
    assert adder.judge(build.ADD + LEFT_BEHIND).exact
    pids = [int(line.rpartition(" ")[2]) for line in adder.engine.log_tail().splitlines() if "behind" in line]
    assert pids
    for pid in pids:
        with pytest.raises(ProcessLookupError):
            os.kill(pid, 0)


def test_an_endless_module_is_ended(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(isolation, "LEAST_LOAD_S", 0.1)

    def endless() -> Callable[[], None]:
        while True:
            pass

    ended = isolation.run_isolated(endless, 0.1)
    assert ended == Ended("timeout", "the module's own code did not end within 0.1 s")


def test_an_error_that_says_nothing_is_told_by_its_kind() -> None:
    def launch() -> None:
        raise AssertionError

    assert isolation.run_here(launch).message == "AssertionError"


def test_a_module_may_import_what_lies_beside_it(tmp_path: Path) -> None:
    kernel, helper = tmp_path / "kernel.py", tmp_path / "kerncap_test_helper.py"
    kernel.write_text("from kerncap_test_helper import VALUE\n")
    before = list(sys.path)
    for value in (1, 2):
        helper.write_text(f"VALUE = {value}\n")
        assert vars(source_and_arguments.load(kernel))["VALUE"] == value, "as it is now"
    assert sys.path == before
    assert set(tmp_path.iterdir()) == {kernel, helper}, "and nothing is left in the user's folder"


@pytest.mark.parametrize("command", [replay_module, verify_module])
def test_a_file_that_changes_while_it_is_judged_fails(
    command: ModuleType, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    file = tmp_path / "own.py"
    file.write_text(build.ADD)
    result = SimpleNamespace(verdict=Verdict(Answer.YES, "identical"), stages=[])

    def judging(*_: object) -> SimpleNamespace:
        file.write_text(file.read_text().replace("+", "-", edits.pop()))
        return result

    edits = [1, 0]  # the last first: none, then one

    @contextmanager
    def opened(*_: object, **__: object) -> Iterator[tuple[None, None, Kept | None]]:
        with kept(file) as candidate:
            yield None, None, candidate

    monkeypatch.setattr(command, "opened", opened)
    monkeypatch.setattr(command, "_replayed" if command is replay_module else "judged", judging)
    options = VerifyOptions(candidate=file)
    run = command.replay if command is replay_module else command.verify
    monkeypatch.setattr(verify_module, "Case", lambda *_: None)
    assert run(tmp_path, options).verdict.passed
    changed = run(tmp_path, options).verdict
    assert changed.answer is Answer.UNDECIDED
    why = "own.py was changed while it was judged: this is not a verdict on what it holds now"
    assert changed.reasons == [why] and changed.summary == f"{why}; judging it again would decide it"


def test_what_is_judged_is_one_text_with_all_that_it_imports(tmp_path: Path) -> None:
    """A file that is another one for a while, and the old one again, was never what ran."""
    (tmp_path / "parts").mkdir()
    files = [tmp_path / name for name in ("own.py", "beside.py", "parts/__init__.py", "parts/inner.py")]
    for file in files:
        file.write_text("before")
    verdict = Verdict(Answer.NO, "wrong", ["wrong"], [])
    with kept(files[0]) as candidate:
        assert candidate is not None
        for file in files:
            file.write_text("after")
        copies = [candidate.path.parent / file.relative_to(tmp_path) for file in files]
        assert [copy.read_text() for copy in copies] == ["before"] * 4
        files[0].write_text("before")
        verdict.reasons.append(f"{candidate.path}, line 3")
        judged = candidate.close(verdict)
    assert judged.answer is Answer.NO and judged.reasons == ["wrong", f"{files[0]}, line 3"]
    assert not candidate.path.exists()


def test_a_file_with_more_modules_than_are_copied_is_judged_in_place(tmp_path: Path) -> None:
    own = tmp_path / "own.py"
    own.touch()
    with (tmp_path / "large.py").open("wb") as file:
        file.truncate(65 << 20)
    with kept(own) as candidate:
        assert candidate is not None and candidate.path == own
        [note] = candidate.close(Verdict(Answer.YES, "")).notes
    assert note.endswith("next to the candidate: it was judged in place, not from a copy")
    with pytest.raises(UsageError, match="more than 64 MiB of modules next to the candidate; move it"):
        with kept(own, hostile=True):
            pass


def test_a_candidate_is_launched_as_its_file_asks(adder: Resident) -> None:
    half = build.ADD.replace("tl.arange(0, BLOCK)", "tl.arange(0, BLOCK)\n    tl.static_assert(BLOCK == 128)")
    file = candidate(adder.folder, "# kerncap: BLOCK=128 grid=8\n" + half)
    assert load_candidate(adder.engine, file) is None
    assert judge(adder.engine, adder.measured, CANDIDATE).exact
    notes = outcome_result(adder.engine, CANDIDATE, "", Verdict(Answer.YES, "")).notes
    assert "the candidate's file asks for another launch: BLOCK=128 grid=8,1,1" in notes
    refused = load_candidate(adder.engine, candidate(adder.folder, "# kerncap: grid=x\n" + half))
    assert refused is not None and "candidate.py, line 5: grid=x: expected" in refused.summary


def test_another_launch_is_proved_too(tmp_path: Path) -> None:
    """Of 8 elements each the programs end with the tensor; of 16 the last one reads past it."""
    unmasked = build.ADD.replace("tl.load(x_ptr + i, mask=mask)", "tl.load(x_ptr + i)")
    path = build.add(1000, 8, unmasked).seal(tmp_path)
    file = candidate(tmp_path, "# kerncap: BLOCK=16 grid=63\n" + unmasked)
    result = verify(path, VerifyOptions(candidate=file))
    assert not result.passed
    assert result.verdict.reasons[0].startswith("sanitizer: oob: load of 4 bytes at x_ptr + 1000 ")


def test_of_a_candidate_that_dies_the_access_is_named(tmp_path: Path) -> None:
    path = build.add().seal(tmp_path)
    far = build.ADD.replace("tl.load(x_ptr + i, mask=mask)", "tl.load(x_ptr + i.to(tl.int64) * (1 << 32))")
    result = verify(path, VerifyOptions(candidate=candidate(tmp_path, far)))
    assert not result.passed
    died = "the kernel died with SIGSEGV; sanitizer: oob: load of 4 bytes at x_ptr + "
    assert result.verdict.summary.startswith(died), result.verdict


def test_a_stray_access_decides_what_left_out_memory_leaves_open(tmp_path: Path) -> None:
    """The captured kernel has the same one, and died in the application: that excuses no candidate."""
    far = build.ADD.replace("tl.load(x_ptr + i, mask=mask)", "tl.load(x_ptr + i.to(tl.int64) * (1 << 32))")
    launch = build.add(source=far)
    launch.unreached_bytes = 64
    launch.oracle = schema.Oracle(kind="fault", error="SIGSEGV")
    path = launch.seal(tmp_path)
    for text in (far, far.replace("(1 << 32)", "(1 << 33)")):
        result = verify(path, VerifyOptions(candidate=candidate(tmp_path, text)))
        assert result.answer is Answer.NO, result.verdict
        assert "; sanitizer: oob: load of 4 bytes at x_ptr + " in result.verdict.summary, result.verdict


def test_of_a_captured_kernel_that_differs_a_stray_access_is_named(tmp_path: Path) -> None:
    """As a gradient of one element that is expanded, and read as a whole: the rest is not captured."""
    launch = build.add(
        source=build.ADD.replace("tl.load(y_ptr + i, mask=mask)", "tl.load(y_ptr + i + 4, mask=mask)")
    )
    result = verify(launch.seal(tmp_path))
    assert not result.passed
    assert "elements differ, first at out_ptr[0]" in result.verdict.summary
    assert "; sanitizer: oob: load of 4 bytes at y_ptr + 1000 " in result.verdict.summary, result.verdict


@pytest.mark.long
def test_a_candidate_that_does_not_load_is_a_result(tmp_path: Path) -> None:
    path = build.add().seal(tmp_path)
    other = tmp_path / "other.py"
    other.write_text(HEADER + build.ADD.replace("def add", "def sub"))
    for judged in (
        replay(path, ReplayOptions(candidate=other)),
        verify(path, VerifyOptions(candidate=other)),
    ):
        assert judged.verdict.line == "Result: FAIL (other.py has no kernel add; it has sub)"


COPY = """
@triton.jit
def copy(x_ptr, out_ptr, n, BLOCK: tl.constexpr):
    i = tl.arange(0, BLOCK)
    tl.store(out_ptr + i, tl.load(x_ptr + i, mask=i < n), mask=i < n)
"""


def test_an_output_byte_that_is_poison_by_chance_must_be_written_too(tmp_path: Path) -> None:
    from kerncap.replay.worker.common.poison import pattern

    poison = pattern(torch, 0, 1, 0, 64, "cpu").numpy()  # of seed A, in region 1
    launch = Launch(COPY, "copy").tensor("x_ptr", poison).tensor("out_ptr", np.zeros(64, np.uint8), poison)
    with resident(launch.argument("n", 64).constexpr("BLOCK", 64), tmp_path) as opened:
        assert opened.judge(COPY).exact
        one_less = opened.judge(COPY.replace("i < n)\n", "(i < n) & (i != 7))\n"))
        assert one_less.reasons == ["1 bytes of out_ptr were never written (first at out_ptr[7])"]


SPOILS = "    tl.store(x_ptr + i, 5.0, mask=mask)\n"


@pytest.mark.long
def test_other_judges_see_that_an_input_was_overwritten(tmp_path: Path) -> None:
    reference = tmp_path / "reference.py"
    reference.write_text("def reference(args):\n    return {'out_ptr': args['x_ptr'] + args['y_ptr']}\n")
    spoils = tmp_path / "spoils.py"
    spoils.write_text(HEADER + build.ADD + SPOILS)
    trusted, suspect = build.add(), build.add()
    suspect.oracle = schema.Oracle(kind="suspect", condition="nonfinite", detail="for the test")
    for path, options in (
        (trusted.seal(tmp_path), VerifyOptions(candidate=spoils, reference=reference)),
        (suspect.seal(tmp_path), VerifyOptions(candidate=spoils, expect="finite")),
    ):
        result = verify(path, options)
        assert "bytes outside the write set were changed (first at x_ptr[0])" in result.verdict.summary


def test_a_limit_that_is_no_number_is_refused(tmp_path: Path) -> None:
    path = build.add().seal(tmp_path)
    for options in (ReplayOptions(rtol=float("nan")), ReplayOptions(atol=float("inf"))):
        with pytest.raises(UsageError, match="expected a number"):
            replay(path, options)
    for seconds in (float("nan"), float("inf"), 0.0):
        with pytest.raises(UsageError, match="--timeout"):
            replay(path, ReplayOptions(timeout_s=seconds))


@pytest.mark.long
def test_a_replaced_function_is_noticed(monkeypatch: pytest.MonkeyPatch) -> None:
    before = replaced_functions.functions()
    assert replaced_functions.replaced(before) == []
    monkeypatch.setattr(torch, "equal", lambda a, b: True)
    monkeypatch.setattr(isolation.run_here, "__code__", (lambda launch: Ended("ok")).__code__)
    assert replaced_functions.replaced(before) == [f"{isolation.__name__}.run_here()", "torch.equal"]

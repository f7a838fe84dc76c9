"""Verify, trust and the command line."""

from __future__ import annotations

import json
from pathlib import Path

import numpy as np
import pytest
from click.testing import CliRunner

from kerncap.api.replay import ReplayOptions, replay
from kerncap.api.verify import VerifyOptions, by_finiteness, by_reference, self_check, verify
from kerncap.cli.replay import command as replay_command
from kerncap.cli.verify import command as verify_command
from kerncap.errors import BackendUnavailable, UsageError
from kerncap.format import Reproducer, WriteSet, schema
from kerncap.replay import trust
from kerncap.replay.engine import CANDIDATE, ORIGINAL
from kerncap.replay.verdict_words import BY_DTYPE
from kerncap.replay.worker.common import bitmap

from . import build
from .build import HEADER, Launch
from .resident import resident

pytest.importorskip("triton")
pytest.importorskip("torch")

NAN = build.ADD.replace(
    "tl.load(y_ptr + i, mask=mask),", "tl.where(i == 5, float('nan'), tl.load(y_ptr + i, mask=mask)),"
)


def suspect() -> Launch:
    """A captured launch that made a NaN."""
    launch = build.add(source=NAN)
    base, before, after = launch.regions[2]
    wrong = np.frombuffer(after, np.float32).copy()
    wrong[5] = np.nan
    launch.regions[2] = (base, before, wrong.tobytes())
    launch.oracle = schema.Oracle(kind="suspect", condition="nonfinite", detail="1 NaN in out_ptr")
    return launch


def write(folder: Path, name: str, text: str) -> Path:
    path = folder / name
    path.write_text(text)
    return path


@pytest.mark.parametrize(
    ("asked", "said"),
    [
        ("--once --bisect", "--bisect, --max-ratio: only for a comparison; add --compare"),
        ("--watch --max-ratio 1.1", "--bisect, --max-ratio: only for a comparison; add --compare"),
        ("--once --ceilings H200", "only for limits; add --limits"),
        ("--compare captured,rebuilt --counters none", "only for limits; add --limits"),
        ("--compare captured,rebuilt --until-fail 3", "--until-fail runs one thing many times"),
        ("--limits --until-fail 3", "--until-fail runs one thing many times"),
        ("--apply - --until-fail 3", "--until-fail runs one thing many times"),
    ],
)
def test_what_nobody_would_look_at_is_refused(asked: str, said: str) -> None:
    run = CliRunner().invoke(replay_command, ["repro", *asked.split()], standalone_mode=False)
    assert isinstance(run.exception, UsageError) and said in str(run.exception)


@pytest.mark.long
def test_reproduced_and_correct_are_two_verdicts(tmp_path: Path) -> None:
    path = suspect().seal(tmp_path)
    again = replay(path)
    assert again.passed and any("reproduced does not mean correct" in note for note in again.notes)
    wrong = verify(path, VerifyOptions(expect="finite"))
    assert not wrong.passed
    assert "1 of 1,000 written elements are not finite, first out_ptr[5] = nan" in wrong.verdict.reasons[0]
    fixed = write(tmp_path, "fixed.py", HEADER + build.ADD)
    assert verify(path, VerifyOptions(candidate=fixed, expect="finite")).judged_by == "finite"
    half = write(tmp_path, "half.py", HEADER + build.ADD.replace("i < n", "i < n // 2"))
    unfinished = verify(path, VerifyOptions(candidate=half, expect="finite"))
    assert not unfinished.passed
    assert unfinished.verdict.reasons[0] == "2,000 bytes were never written (first at out_ptr[500])"


SUM = "def reference(args):\n    return {'out_ptr': args['x_ptr'] + args['y_ptr']}\n"


def test_a_repaired_kernel_agrees_with_the_reference(tmp_path: Path) -> None:
    reference = write(tmp_path, "reference.py", SUM)
    fixed = write(tmp_path, "fixed.py", HEADER + build.ADD)
    options = VerifyOptions(candidate=fixed, reference=reference)
    by_the_user = verify(suspect().seal(tmp_path), options)
    assert by_the_user.passed and by_the_user.judged_by == "the reference reference.py"


def test_what_a_reference_may_say(tmp_path: Path) -> None:
    texts = {
        "right": "def reference(args):\n    args['out_ptr'][:] = args['x_ptr'] + args['y_ptr']\n",
        "sum": SUM,
        "wrong": "def reference(args):\n    args['out_ptr'][:] = args['x_ptr']\n",
        "idle": "def reference(args):\n    pass\n",
    }
    with resident(build.add(), tmp_path) as opened:
        judged = {
            name: by_reference(
                opened.engine, opened.measured, ORIGINAL, write(tmp_path, f"{name}.py", text), BY_DTYPE
            )
            for name, text in texts.items()
        }
    assert judged["right"].passed and judged["sum"].passed
    assert "out_ptr: 1,000 of 1,000 elements differ" in judged["wrong"].reasons[0]
    assert judged["idle"].line.startswith("Result: UNDECIDED (nothing to compare: idle.py returns no tensor")


def pool(stray: bool) -> Launch:
    """An output that is a slice of a pool; the stray kernel writes two elements past it."""
    source = build.ADD.replace("mask=mask)\n", "mask=i < n + 2)\n") if stray else build.ADD
    x, pre = np.arange(64, dtype=np.float32), np.ones(128, np.float32)
    post = pre.copy()
    post[:64] = 2 * x
    if stray:
        post[64:66] = 0  # what a masked load gives here
    launch = Launch(source, "add").tensor("x_ptr", x).tensor("y_ptr", x)
    view = launch.view("out_ptr", launch.region(pre, post), "float32", (64,))
    launch.argument("out_ptr", schema.TensorValue(view=view))
    return launch.argument("n", 64).constexpr("BLOCK", 128)


def test_what_the_captured_kernel_writes_beside_its_arguments_is_said(tmp_path: Path) -> None:
    result = verify(pool(stray=True).seal(tmp_path))
    assert result.passed
    said = "the captured kernel writes 8 bytes outside every argument (first at byte 256 of region 2 (0 bytes"
    assert any(note.startswith(said) for note in result.verdict.notes), result.verdict.notes


@pytest.mark.long
def test_other_judges_see_a_write_beside_the_arguments_too(tmp_path: Path) -> None:
    reference = write(tmp_path, "reference.py", SUM)
    with resident(pool(stray=False), tmp_path) as opened:
        assert bitmap.count(opened.measured.idle(2)) == 256
        beside = write(
            tmp_path, "beside.py", HEADER + build.ADD + "    tl.store(out_ptr + n + i, 1.0, mask=i < 1)\n"
        )
        opened.engine.load_candidate(beside)
        outside = "4 bytes outside the write set were changed"
        arguments = (opened.engine, opened.measured, CANDIDATE)
        assert outside in by_reference(*arguments, reference, BY_DTYPE).reasons[0]
        assert outside in by_finiteness(*arguments).reasons[0]


@pytest.mark.long
def test_a_reference_that_names_no_tensor_is_explained(tmp_path: Path) -> None:
    other = write(tmp_path, "other.py", "def reference(args):\n    return {'result': args['x_ptr']}\n")
    with pytest.raises(
        BackendUnavailable, match="names result, which is not a tensor of the launch; those are x_ptr"
    ):
        verify(build.add().seal(tmp_path), VerifyOptions(reference=other))


@pytest.mark.long
def test_self_check_keeps_its_result_and_the_write_set(tmp_path: Path) -> None:
    path = build.add().seal(tmp_path)
    assert self_check(path) == ("pass", "12,000 bytes identical, 4,000 written bytes poisoned")
    with Reproducer.open(path) as reproducer:
        checks = reproducer.checks()
        kept = WriteSet.load(reproducer)
    assert checks is not None and checks.self_check is not None and checks.self_check.result == "pass"
    assert kept is not None and kept.written_bytes(2) == 4000 and not kept.also_input(2)
    assert kept.regions == (2,), "inputs have no mask"


def test_self_check_of_a_wrong_oracle_fails(tmp_path: Path) -> None:
    launch = build.add()
    base, before, _ = launch.regions[2]
    launch.regions[2] = (base, before, np.zeros(1000, np.float32).tobytes())
    result, reason = self_check(launch.seal(tmp_path))
    assert result == "fail" and "out_ptr" in reason


def test_a_stranger_needs_trust_once(tmp_path: Path) -> None:
    launch = build.add()
    launch.stranger = True
    path = launch.seal(tmp_path)
    with pytest.raises(UsageError) as caught:
        replay(path)
    assert "source/add.py" in str(caught.value) and "--trust" in str(caught.value)
    assert replay(path, ReplayOptions(trust=True)).passed
    with Reproducer.open(path) as reproducer:
        trust.require(reproducer, False)


def test_a_python_without_triton_is_named(tmp_path: Path) -> None:
    bare = write(tmp_path, "bare", '#!/bin/sh\nexec /usr/bin/env python3 -I -S "$@"\n')
    bare.chmod(0o755)
    with pytest.raises(BackendUnavailable, match="has no torch and no triton.*--python"):
        replay(build.add().seal(tmp_path), ReplayOptions(python=str(bare)))


def test_an_engine_that_needs_a_gpu_says_so(tmp_path: Path) -> None:
    with pytest.raises(BackendUnavailable, match="jit engine is not available: it needs a CUDA device"):
        replay(build.add().seal(tmp_path), ReplayOptions(engine="jit", device="cpu"))


@pytest.mark.long
def test_an_opaque_argument_is_refused_by_name(tmp_path: Path) -> None:
    launch = build.add()
    launch.arguments[3] = schema.Argument(
        name="n", role="runtime", value=schema.OpaqueValue(type_name="mylib.Thing", repr="<Thing>")
    )
    with pytest.raises(BackendUnavailable, match="argument n holds a mylib.Thing"):
        replay(launch.seal(tmp_path))


def test_the_command_line_ends_with_the_result(tmp_path: Path) -> None:
    path = build.add().seal(tmp_path)
    done = CliRunner().invoke(replay_command, [str(path)], standalone_mode=False)
    assert done.return_value == 0
    assert done.output.strip().splitlines()[-1].startswith("Result: PASS (12,000 bytes identical")
    nothing = write(
        tmp_path, "nothing.py", HEADER + "@triton.jit\ndef add(x_ptr, y_ptr, out_ptr, n, BLOCK): pass\n"
    )
    arguments = [str(path), "--candidate", str(nothing), "--json"]
    done = CliRunner().invoke(verify_command, arguments, standalone_mode=False)
    assert done.return_value == 1
    document = json.loads(done.output)
    assert document["result"] == "fail" and "never written" in document["reasons"][0]
    assert document["placement"] == {"honoured": 3, "relocated": []}


def test_without_values_there_is_nothing_to_compare(tmp_path: Path) -> None:
    zeros = np.zeros(64, np.float32)  # what such a reproducer starts from, and ends as here
    launch = Launch(build.ADD, "add").tensor("x_ptr", zeros).tensor("y_ptr", zeros).tensor("out_ptr", zeros)
    launch.left_out_bytes = 3 * zeros.nbytes
    path = launch.argument("n", 64).constexpr("BLOCK", 64).seal(tmp_path)
    for result in (replay(path), verify(path)):
        why = "nothing to compare: the contents were left out"
        assert result.verdict.line.startswith(f"Result: UNDECIDED ({why}")

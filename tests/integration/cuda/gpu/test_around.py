"""What is done around captures on a GPU: arming a program that runs, `diff` down to SASS, `doctor`."""

from __future__ import annotations

import json
import shutil
import subprocess
import sys
import time
from pathlib import Path

import pytest

from tests.integration.conftest import CommandLine

from .captured import TARGETS

pytestmark = [pytest.mark.gpu, pytest.mark.timeout(400)]
DEADLINE_S = 120


def session_of(out: Path) -> Path:
    """The session's folder, as soon as a process of it writes records."""
    deadline = time.monotonic() + DEADLINE_S
    while time.monotonic() < deadline:
        for found in out.glob(".kerncap-session-*/*/records"):
            return found.parents[1]
        time.sleep(0.05)
    raise AssertionError(f"no session in {out}")


@pytest.fixture(scope="module")
def armed(kerncap_of_module: CommandLine) -> list[Path]:
    """`add_one` of an odd step, then of an even one, armed one after another while the program runs."""
    folder = kerncap_of_module.folder
    end = folder / "end"
    command = [
        sys.executable, "-m", "kerncap", "capture", "--dormant", "--json", "-o", "armed",
        "--", sys.executable, str(TARGETS / "steps.py"), str(end),
    ]  # fmt: skip
    pipe = subprocess.PIPE
    running = subprocess.Popen(
        command, cwd=folder, env=kerncap_of_module.environment(), stdout=pipe, stderr=pipe, text=True
    )
    paths = []
    try:
        session = session_of(folder / "armed")
        for name in ("odd", "even"):
            options = ("-k", "add_one", "--range", f"^{name}$", "--wait", str(DEADLINE_S), "--json")
            done = kerncap_of_module("arm", session, *options, timeout=DEADLINE_S + 30)
            assert done.status == 0, done.stderr
            paths += [folder / path for path in done.document["captured"]]
    finally:
        end.touch()
        out, err = running.communicate(timeout=DEADLINE_S)
    assert running.returncode == 0 and "right" in err, err
    document = json.loads(out)
    assert [entry["range"] for entry in document["reproducers"]] == [["odd"], ["even"]], document
    assert [entry["generation"] for entry in document["reproducers"]] == [1, 2]
    assert len(paths) == 2
    return paths


def test_what_was_armed_verifies(armed: list[Path], kerncap_of_module: CommandLine) -> None:
    for path in armed:
        done = kerncap_of_module("verify", "--json", path, timeout=200)
        assert done.status == 0 and done.document["result"] == "pass", done.stdout + done.stderr


def test_the_machine_code_of_two_configurations_differs(
    armed: list[Path], kerncap_of_module: CommandLine
) -> None:
    done = kerncap_of_module("diff", "--json", *armed, "--code", "sass")
    assert done.status == 1, done.stderr
    [image] = [entry for entry in done.document["code"] if entry["stage"] == "cubin"]
    if shutil.which("nvdisasm") is None and shutil.which("cuobjdump") is None:
        pytest.skip("needs nvdisasm or cuobjdump")
    assert not image["same"] and image["how"] == "sass", image
    shown = kerncap_of_module("diff", *armed, "--code", "sass")
    assert "STG" in shown.stdout, shown.stdout[-3000:]


def test_a_reproducer_equals_itself(armed: list[Path], kerncap_of_module: CommandLine) -> None:
    done = kerncap_of_module("diff", armed[0], armed[0])
    assert done.status == 0 and done.result_line == "Result: EQUAL", done.stdout


def test_doctor_captures_and_replays(kerncap_of_module: CommandLine) -> None:
    done = kerncap_of_module("doctor", "--self-test", "--json", timeout=300)
    assert done.status == 0, done.stdout + done.stderr
    results = {entry["way"]: (entry["result"], entry["reason"]) for entry in done.document["self_test"]}
    ways = ("Triton on an NVIDIA GPU", "CUDA kernels on an NVIDIA GPU")
    assert [results[way] for way in ways] == [("pass", None)] * 2, results


def test_doctor_of_a_program(kerncap_of_module: CommandLine) -> None:
    program = (sys.executable, TARGETS / "steps.py", "never", "20")
    done = kerncap_of_module("doctor", "--json", "--", *program, timeout=200)
    assert done.status == 0, done.stderr
    document = done.document
    assert document["result"] == "ok" and document["missed"] == [] and document["launches"] >= 40, document
    [live] = [process for process in document["processes"] if process["live"]]
    assert "CUDA shim" in live["live"], live

"""What every command prints with --json, against its schema; an unknown key is a failure.

So is what other tests read as `Finished.document`: here is what they leave out.
"""

from __future__ import annotations

import json
import re
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

from tests.integration.conftest import CommandLine
from tests.integration.small_softmax import small_softmax
from tests.unit.schemas.strict import check

SAMPLES = Path(__file__).parents[3] / "samples"
LOOP = """
import time

@triton.jit
def copy(x, y, BLOCK: tl.constexpr):
    i = tl.arange(0, BLOCK)
    tl.store(y + i, tl.load(x + i))

x = torch.ones(16, device=DEVICE)
until = time.monotonic() + 300
while time.monotonic() < until:
    copy[(1,)](x, torch.empty_like(x), BLOCK=16)
"""


@pytest.fixture(scope="module")
def kerncap(kerncap_of_module: CommandLine) -> CommandLine:
    return kerncap_of_module


@pytest.fixture(scope="module")
def repro(kerncap: CommandLine) -> Path:
    """One capture for all of this file; its own document is held against the schema here."""
    program = small_softmax(kerncap.folder / "program")
    done = kerncap("capture", "--json", "--no-self-check", "-o", "out", "--", sys.executable, program)
    text = done.stdout[done.stdout.index("{") :]
    document = json.loads(text)
    check("capture", document)
    [path] = document["captured"]
    return kerncap.folder / path


def printed(kerncap: CommandLine, name: str, *arguments: str | Path, status: int = 0) -> None:
    done = kerncap(*arguments, "--json")
    assert done.status == status, done.stderr
    check(name, done.document)


def test_what_executes_nothing(kerncap: CommandLine, repro: Path) -> None:
    printed(kerncap, "inspect", "inspect", repro)
    printed(kerncap, "sanitize", "sanitize", repro)
    printed(kerncap, "prove", "prove", repro, repro)
    printed(kerncap, "prove", "prove", repro, SAMPLES / "softmax" / "wrong.py", status=1)
    printed(kerncap, "pack", "pack", repro, "-o", "r.zip")
    printed(kerncap, "unpack", "unpack", "r.zip", "-o", "unpacked")


@pytest.mark.long
def test_an_edit_that_is_wrong(kerncap: CommandLine, repro: Path) -> None:
    """Of verify and of a save: tensors that differ, the first wrong element."""
    candidate = SAMPLES / "softmax" / "wrong.py"
    printed(kerncap, "verify", "verify", repro, "--candidate", candidate, status=1)


def test_pack_of_a_home(kerncap: CommandLine, repro: Path) -> None:
    copy = kerncap.folder / "private" / repro.name
    shutil.copytree(repro, copy)
    done = kerncap("pack", copy, "-o", "p.zip", "--json", env={"HOME": str(SAMPLES.parent)})
    check("pack", done.document)


def test_what_is_made_of_it(kerncap: CommandLine, repro: Path) -> None:
    printed(kerncap, "diff", "diff", repro, repro)
    printed(kerncap, "report", "report", repro, "-o", "r.html", "--no-sanitize")
    printed(kerncap, "export", "export", repro, "--as", "script", "-o", "project")
    one = kerncap("inspect", repro, "--json").stdout
    for name in ("a.json", "b.json"):
        (kerncap.folder / name).write_text(one)
    printed(kerncap, "diff-results", "diff", "a.json", "b.json")


@pytest.mark.long
def test_findings(kerncap: CommandLine) -> None:
    program = SAMPLES / "out_of_bounds" / "run.py"
    done = kerncap("sanitize", "--bounds", "view", "--json", "--", sys.executable, program)
    assert done.status == 1, done.stderr
    assert done.document["launches"][0]["findings"]
    check("sanitize", done.document)


@pytest.mark.long
def test_doctor(kerncap: CommandLine) -> None:
    done = kerncap("doctor", "--json")
    assert done.status in (0, 4)
    check("doctor", done.document)


@pytest.mark.long
def test_a_program_under_doctor(kerncap: CommandLine) -> None:
    done = kerncap("doctor", "--json", "--", sys.executable, SAMPLES / "softmax" / "run.py")
    check("doctor-program", done.document)


@pytest.mark.long
def test_diff_of_other_memory(kerncap: CommandLine, repro: Path) -> None:
    """Two captures of programs with other values: views with errors, histograms and maps."""
    program = kerncap.folder / "seeded.py"
    program.write_text(
        (SAMPLES / "softmax" / "run.py").read_text().replace("manual_seed(0)", "manual_seed(1)")
    )
    done = kerncap("capture", "--json", "-o", "seeded", "--", sys.executable, program)
    [other] = json.loads(done.stdout[done.stdout.index("{") :])["captured"]
    printed(kerncap, "diff", "diff", repro, kerncap.folder / other, status=1)


@pytest.mark.long
def test_arm(kerncap: CommandLine, tmp_path: Path) -> None:
    """A program that runs until it was armed and captured."""
    target = kerncap.target(LOOP, "loop.py")
    words = [sys.executable, "-m", "kerncap", "capture", "--dormant", "-o", str(tmp_path / "out")]
    running = subprocess.Popen(
        [*words, "--", sys.executable, target], cwd=kerncap.folder, env=kerncap.environment(),
        stderr=subprocess.PIPE, stdout=subprocess.DEVNULL, text=True,
    )  # fmt: skip
    try:
        assert running.stderr is not None
        session = re.search(r"(\S*\.kerncap-session-\w+)", running.stderr.readline())
        assert session is not None
        done = kerncap("arm", session[1], "-k", "copy", "--wait", "60", "--json")
        assert done.status == 0, done.stderr
        check("arm", done.document)
    finally:
        running.terminate()
        running.communicate(timeout=300)


@pytest.mark.long
def test_list(kerncap: CommandLine) -> None:
    done = kerncap("list", "--json", "--", sys.executable, SAMPLES / "layer_norm" / "run.py")
    check("list", done.document)


@pytest.mark.long
def test_replay_with_times(kerncap: CommandLine, repro: Path) -> None:
    printed(kerncap, "replay", "replay", repro, "-n", "2")


@pytest.mark.long
def test_replay_otherwise(kerncap: CommandLine, repro: Path) -> None:
    printed(kerncap, "replay-limits", "replay", repro, "--limits")
    printed(kerncap, "replay-compare", "replay", repro, "--compare", "captured,rebuilt", status=5)
    edited = shutil.copy(SAMPLES / "softmax" / "wrong.py", kerncap.folder)
    printed(kerncap, "replay-edit", "replay", repro, "--once", "--watch", edited, status=1)


@pytest.mark.long
def test_all_stages(kerncap: CommandLine, repro: Path) -> None:
    printed(kerncap, "verify", "verify", repro, "--stages", "all")


@pytest.mark.long
def test_minimize(kerncap: CommandLine, repro: Path) -> None:
    printed(kerncap, "minimize", "minimize", repro, "-o", "small")


@pytest.mark.long
def test_tune(kerncap: CommandLine, repro: Path) -> None:
    done = kerncap("tune", repro, "--trials", "3", "--json")
    assert done.status in (0, 1), done.stderr
    check("tune", done.document)


@pytest.mark.long
def test_seal(kerncap: CommandLine) -> None:
    program = SAMPLES / "vector_add" / "run.py"
    done = kerncap("capture", "--keep-session", "-o", "kept", "--json", "--", sys.executable, program)
    session = json.loads(done.stdout[done.stdout.index("{") :])["session"]
    sealed = kerncap("seal", kerncap.folder / session, "-o", "again", "--json")
    check("seal", sealed.document)

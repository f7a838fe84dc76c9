"""A long job that is armed from another process, captured, and armed again for another kernel."""

from __future__ import annotations

import re
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.integration.conftest import CommandLine

JOB = """
import pathlib, time
@triton.jit
def add(x, BLOCK: tl.constexpr):
    i = tl.arange(0, BLOCK)
    tl.store(x + i, tl.load(x + i) + 1)

@triton.jit
def mul(x, BLOCK: tl.constexpr):
    i = tl.arange(0, BLOCK)
    tl.store(x + i, tl.load(x + i) * 0.5)

x = torch.ones(16)
end = time.monotonic() + 300
while not pathlib.Path("stop").exists() and time.monotonic() < end:
    add[(1,)](x, BLOCK=16)
    mul[(1,)](x, BLOCK=16)
"""


@pytest.fixture
def job(kerncap: CommandLine) -> Iterator[tuple[subprocess.Popen[str], Path]]:
    """The running job and the session that its capture has printed."""
    command = [sys.executable, "-m", "kerncap", "capture", "--dormant", "-o", "out", "--no-self-check", "--"]
    process = subprocess.Popen(
        [*command, sys.executable, kerncap.target(JOB)],
        cwd=kerncap.folder, env=kerncap.environment(), stderr=subprocess.PIPE, text=True,
    )  # fmt: skip
    assert process.stderr is not None
    found = re.search(r"kerncap arm (\S+) -k REGEX --wait", process.stderr.readline())
    assert found is not None
    yield process, kerncap.folder / found[1]
    (kerncap.folder / "stop").touch()
    process.communicate(timeout=300)


@pytest.mark.long
def test_armed_twice_while_it_runs(kerncap: CommandLine, job: tuple[subprocess.Popen[str], Path]) -> None:
    process, session = job
    first = kerncap("arm", "--json", session, "-k", "^add$", "--launch", "2:4", "--wait", "60")
    assert first.status == 0, first.stderr
    assert [(each["kernel"], each["launch"]) for each in first.document["reproducers"]] == [
        ("add", 2),
        ("add", 3),
    ]
    second = kerncap("arm", "out", "-k", "^mul$", "--wait", "60")  # the output folder has only this session
    assert second.status == 0 and "captured mul (launch 0 since it was armed) -> out/mul-" in second.stderr
    nothing = kerncap("arm", session, "-k", "^div$", "--wait", "2")
    assert nothing.status == 1
    assert "-k '^div$' matches none of what was launched so far: add, mul" in nothing.stderr

    (kerncap.folder / "stop").touch()
    _, said = process.communicate(timeout=300)
    assert process.returncode == 0, said
    kept = sorted(path.name for path in (kerncap.folder / "out").iterdir())
    assert [name.partition("-")[0] for name in kept] == ["add", "add", "mul"], "and the session is gone"
    assert all(str(Path(path).name) in kept for path in first.document["captured"])
    over = kerncap("arm", session, "-k", "add")
    assert over.status == 2 and "no such folder" in over.stderr and "Traceback" not in over.stderr


def test_dormant_and_selectors_exclude_each_other(kerncap: CommandLine) -> None:
    done = kerncap("capture", "--dormant", "-k", "add", "--", "true")
    assert done.status == 2 and "give them to kerncap arm" in done.stderr

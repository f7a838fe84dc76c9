"""Captured from an unchanged program, replayed by the command line, judged by what the program got."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.integration.conftest import CommandLine

pytest.importorskip("triton")
pytest.importorskip("torch")

PROGRAM = """
@triton.jit
def scale(x, s, n, BLOCK: tl.constexpr):
    i = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    tl.store(x + i, tl.load(x + i, mask=i < n) * s, mask=i < n)

@triton.jit
def add(x, y, out, n, BLOCK: tl.constexpr):
    i = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    tl.store(out + i, tl.load(x + i, mask=i < n) + tl.load(y + i, mask=i < n), mask=i < n)

x = torch.randn(1000, device=DEVICE)
y = torch.randn(1000, device=DEVICE)
out = torch.empty_like(x)
scale[(4,)](x, 1.7, 1000, BLOCK=256)
for _ in range(3):
    add[(4,)](x, y, out, 1000, BLOCK=256)
"""


def edited(reproducer: Path, old: str, new: str) -> Path:
    """A candidate made from the reproducer's own source."""
    (source,) = (reproducer / "source").glob("*.py")
    text = source.read_text()
    assert old in text
    path = reproducer.parent / "candidate.py"
    path.write_text(text.replace(old, new))
    return path


@pytest.mark.slow
def test_in_place_scale_gives_s_and_not_its_square(kerncap: CommandLine) -> None:
    (repro,) = kerncap.capture("-k", "^scale$", target=kerncap.target(PROGRAM))
    done = kerncap("replay", repro)
    assert done.status == 0, done.stdout + done.stderr
    assert done.result_line.startswith("Result: PASS (")
    squared = kerncap("replay", repro, "--candidate", edited(repro, "* s", "* s * s"))
    assert squared.status == 1 and squared.result_line.startswith("Result: FAIL (")


@pytest.mark.slow
def test_a_third_launch_into_the_same_output_is_still_proved(kerncap: CommandLine) -> None:
    (repro,) = kerncap.capture("-k", "^add$", "--launch", "2", target=kerncap.target(PROGRAM))
    done = kerncap("verify", repro, "--json")
    assert done.document["result"] == "pass" and done.document["poisoned_bytes"] == 4000
    lazy = kerncap(
        "verify", repro, "--json", "--candidate", edited(repro, "tl.store(", "if n < 0: tl.store(")
    )
    assert lazy.status == 1
    assert "4,000 bytes of out were never written" in lazy.document["reasons"][0]

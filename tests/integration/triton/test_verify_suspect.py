"""A program whose kernel makes a NaN: reproduced is one verdict, correct another."""

from __future__ import annotations

import pytest

from tests.integration.conftest import CommandLine

pytest.importorskip("triton")
pytest.importorskip("torch")

PROGRAM = """
@triton.jit
def root(x, out, n, BLOCK: tl.constexpr):
    i = tl.arange(0, BLOCK)
    tl.store(out + i, tl.sqrt(tl.load(x + i, mask=i < n)), mask=i < n)

out = torch.empty(64, device=DEVICE)
for launch in range(8):
    x = torch.rand(64, device=DEVICE) + 1
    if launch == 6:
        x[13] = -1.0
    root[(1,)](x, out, 64, BLOCK=64)
"""

REFERENCE = """
import torch

def reference(args):
    return {"out": args["x"].clamp(min=0).sqrt()}
"""


@pytest.mark.slow
def test_a_nan_is_reproduced_and_its_repair_is_proved(kerncap: CommandLine) -> None:
    (repro,) = kerncap.capture("-k", "root", "--when", "nonfinite", target=kerncap.target(PROGRAM))
    assert kerncap("replay", repro).status == 0
    captured = kerncap("verify", repro, "--expect", "finite")
    assert captured.status == 1 and "out[13] = nan" in captured.stdout
    (source,) = (repro / "source").glob("*.py")
    text = source.read_text()
    repaired = kerncap.folder / "repaired.py"
    repaired.write_text(text.replace("mask=i < n))", "mask=i < n) * (tl.load(x + i) > 0))"))
    assert repaired.read_text() != text
    reference = kerncap.folder / "reference.py"
    reference.write_text(REFERENCE)
    for judge in (["--expect", "finite"], ["--reference", reference]):
        done = kerncap("verify", repro, "--candidate", repaired, *judge)
        assert done.status == 0, done.stdout + done.stderr
        assert done.result_line.startswith("Result: PASS (")

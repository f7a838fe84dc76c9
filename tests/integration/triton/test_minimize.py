"""`kerncap minimize` on the CPU: what a gather does not read goes, and the rest still verifies."""

from __future__ import annotations

import json
import sys

import numpy as np
import pytest

from kerncap.format import Reproducer
from tests.integration.conftest import CommandLine

# Reads 40 of 4096 rows.
GATHER = """
    @triton.jit
    def gather(x_ptr, index_ptr, y_ptr, BLOCK: tl.constexpr):
        i = tl.arange(0, BLOCK)
        row = tl.load(index_ptr + tl.program_id(0))
        tl.store(y_ptr + tl.program_id(0) * BLOCK + i, tl.load(x_ptr + row * BLOCK + i) * 2)

    x = torch.randn(4096, 64, device=DEVICE)
    index = torch.randperm(4096, device=DEVICE)[:40]
    y = torch.empty(40, 64, device=DEVICE)
    gather[(40,)](x, index, y, BLOCK=64)
"""


@pytest.fixture(scope="module")
def captured(kerncap_of_module: CommandLine) -> CommandLine:
    kerncap_of_module.capture(target=kerncap_of_module.target(GATHER))
    return kerncap_of_module


@pytest.mark.long
def test_one_per_cent_stays_and_verifies(captured: CommandLine) -> None:
    (old,) = captured.folder.glob("out/gather-*")
    done = captured("minimize", "--json", "-o", "small", old)
    assert done.status == 0, done.stderr
    result = done.document
    assert result["complete"] and result["ratio"] <= 0.03 and "accesses" in result["how"]
    with Reproducer.open(old) as before, Reproducer.open(captured.folder / result["path"]) as after:
        x = next(view.region for view in after.manifest.views if view.name in ("x_ptr", "x"))
        size = after.manifest.regions[x].size
        rows = np.frombuffer(after.read("pre", x, 0, size), dtype=np.float32).reshape(4096, 64)
        assert (rows != 0).any(axis=1).sum() == 40
        whole = np.frombuffer(before.read("pre", x, 0, size), dtype=np.float32).reshape(4096, 64)
        assert ((rows == whole) | (rows == 0)).all()
    verdict = captured("verify", captured.folder / result["path"])
    assert verdict.status == 0 and verdict.result_line.startswith("Result: PASS"), verdict.stdout


@pytest.mark.long
def test_by_a_command_that_fails(captured: CommandLine) -> None:
    """The "failure": the reproducer's x still has a certain value at one place."""
    (old,) = captured.folder.glob("out/gather-*")
    with Reproducer.open(old) as before:
        x = next(view.region for view in before.manifest.views if view.name in ("x_ptr", "x"))
        word = before.read("pre", x, 100_000, 4).hex()
    script = captured.folder / "fails.py"
    script.write_text(
        "import sys\nfrom kerncap.format import Reproducer\n"
        "with Reproducer.open(sys.argv[1]) as r:\n"
        f"    sys.exit(r.read('pre', {x}, 100_000, 4).hex() == {word!r})\n"
    )
    command = f"{sys.executable} {script}"
    done = captured("minimize", "--json", "-o", "failing", "--keep-failing", command, old, timeout=300)
    assert done.status == 0, done.stderr
    result = json.loads(done.stdout)
    assert result["ratio"] < 0.02 and result["needed_bytes"] <= 4096
    with Reproducer.open(captured.folder / result["path"]) as after:
        assert after.read("pre", x, 100_000, 4).hex() == word
    fine = captured("minimize", "--keep-failing", "true", "-o", "other", old)
    assert fine.status == 2 and "status 0" in fine.stderr

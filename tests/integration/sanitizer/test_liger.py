"""Somebody else's kernels over their own test shapes: nothing is accused, and nearly all of it is proved."""

from __future__ import annotations

import importlib.util
import json
import sys
from pathlib import Path

import pytest

from tests.integration.conftest import CommandLine

pytestmark = pytest.mark.skipif(
    importlib.util.find_spec("liger_kernel") is None,
    reason="liger-kernel is not installed (make setup brings it)",
)

TARGET = Path(__file__).parent / "targets" / "liger_shapes.py"
FEWEST_KERNELS = 78


@pytest.mark.long
@pytest.mark.timeout(400)
def test_no_kernel_of_liger_is_accused(kerncap: CommandLine) -> None:
    done = kerncap("sanitize", "--one-config", "--json", "--", sys.executable, TARGET, timeout=380)
    assert done.status in (0, 5), done.stderr[-2000:]  # what is unproven is counted below
    assert "cannot run here" not in done.stderr, done.stderr[-2000:]
    document = json.loads(done.stdout)
    launches = document["launches"]
    findings = [(one["kernel"], finding["message"]) for one in launches for finding in one["findings"]]
    assert not findings
    assert all(note.startswith("no GPU here") for note in document["notes"])
    assert not [note for one in launches for note in one["notes"] if "could not be sanitised" in note]

    kernels = {one["kernel"] for one in launches if one["proved"] or one["unproven"]}
    assert len(kernels) >= FEWEST_KERNELS, sorted(kernels)
    unproven = [
        (one["kernel"], entry["line"], entry["reason"]) for one in launches for entry in one["unproven"]
    ]
    assert all(reason for *_, reason in unproven)
    proved = sum(one["proved"] for one in launches)
    assert proved / (proved + len(unproven)) >= 0.9, unproven

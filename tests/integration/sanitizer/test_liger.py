"""Somebody else's kernels: nothing is accused, and nearly all of it is proved."""

from __future__ import annotations

import importlib.util
import json
import subprocess
import sys
from pathlib import Path

import pytest

from tests.integration.conftest import CommandLine

pytestmark = pytest.mark.skipif(
    importlib.util.find_spec("liger_kernel") is None,
    reason="liger-kernel is not installed (make setup brings it)",
)

CALLS = (Path(__file__).parents[3] / "benchmarks" / "zoo" / "run.py", "liger_calls.py")
WRONG = ("cross_entropy_expanded", "cross_entropy_target_out_of_range")  # docs/found.md; it raises
FEWEST_KERNELS = 78


def chosen() -> list[str]:
    """Of each operation the call at its first and at its last sizes."""
    done = subprocess.run([sys.executable, *CALLS, "-"], capture_output=True, text=True, check=True)
    first: dict[str, str] = {}
    last: dict[str, str] = {}
    for call in done.stdout.splitlines():
        operation = call.partition("(")[0]
        if operation not in WRONG:
            first.setdefault(operation, call)
            last[operation] = call
    return list(dict.fromkeys([*first.values(), *last.values()]))


@pytest.mark.long
@pytest.mark.timeout(400)
def test_no_kernel_of_liger_is_accused(kerncap: CommandLine, tmp_path: Path) -> None:
    journal, calls = tmp_path / "journal", chosen()
    program = (sys.executable, *CALLS, journal, *calls)
    done = kerncap("sanitize", "--one-config", "--json", "--", *program, timeout=380)
    assert done.status in (0, 5), done.stderr[-2000:]  # what is unproven is counted below
    ended = [one for one in map(json.loads, journal.read_text().splitlines()) if "outcome" in one]
    assert [one["call"] for one in ended if one["outcome"] == "made"] == calls, ended
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

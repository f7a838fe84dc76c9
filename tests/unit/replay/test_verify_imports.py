"""What a verify of a small native launch loads, and what a command loads that a judge carries out."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

from kerncap import child
from kerncap.cli.resident import client
from tests.parameters import first_of

from . import native

pytestmark = pytest.mark.usefixtures("stand_in")
SCRIPT = """
import json, sys
from kerncap.cli import main
assert main(sys.argv[1:]) == 0
print(json.dumps([*sys.modules]), file=sys.stderr)
"""
# For candidates, other stages and other commands. Each takes longer to load than the launch takes to judge.
OTHERS = (
    "torch", "triton", "importlib.metadata", "multiprocessing", "logging", "statistics", "kerncap.capture",
    "kerncap.sanitizer", "kerncap.replay.candidates", "kerncap.replay.amd_devices", "kerncap.replay.tuning",
    "kerncap.replay.limits", "kerncap.api.prove", "kerncap.api.diff", "kerncap.api.pack",
    "kerncap.api.sanitize", "kerncap.api.compiled_ttir", "kerncap.api.verify.other_inputs",
    "kerncap.api.verify.numerics_stage", "kerncap.api.verify.memory_stage", "kerncap.api.verify.timing_stage",
)  # fmt: skip

STARTS = """
import json, sys
from kerncap.replay import nursery
began, starts = nursery.Nursery.__init__, []
def noted(*given, **named):
    starts.append([*sys.modules])
    began(*given, **named)
nursery.Nursery.__init__ = noted
from kerncap.__main__ import main
assert main() == 0
print(json.dumps(starts), file=sys.stderr)
"""


def loaded(*words: str | Path) -> set[str]:
    """The modules that a command loads in its own process."""
    return set(said(SCRIPT, "verify", *words))


def said(script: str, *words: str | Path) -> list[Any]:
    command = [sys.executable, "-c", script, *words]
    done = subprocess.run(command, env=child.environment(), capture_output=True, text=True, check=True)
    found: list[Any] = json.loads(done.stderr)
    return found


def unwanted(found: set[str], names: tuple[str, ...]) -> set[str]:
    return {each for each in found for name in names if each == name or each.startswith(f"{name}.")}


def test_a_native_verify_loads_what_it_needs(tmp_path: Path) -> None:
    found = loaded(native.add().seal(tmp_path))
    assert "kerncap.api.verify.oracle_stage" in found
    assert not unwanted(found, OTHERS)


@first_of("verb", ["verify", "replay"])
def test_the_process_that_forks_workers_starts_before_the_rest_is_loaded(tmp_path: Path, verb: str) -> None:
    [before] = said(STARTS, verb, native.add().seal(tmp_path))
    assert not unwanted(set(before), ("click", "numpy", "msgspec", "kerncap.api", "kerncap.format"))


def test_a_command_of_a_judge_that_is_there_loads_next_to_nothing(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("XDG_RUNTIME_DIR", str(tmp_path))
    path = native.add().seal(tmp_path / "repro")
    try:
        found = loaded("--resident", path)
        assert "kerncap.cli.resident.client" in found
        assert not unwanted(found, ("numpy", "msgspec", "kerncap.api", "kerncap.replay", "kerncap.format"))
    finally:
        client.stop()

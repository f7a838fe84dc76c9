"""The command: its document, its text, its exit status."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path

import pytest
from click.testing import CliRunner

from kerncap.api.doctor import probes as doctor_probes
from kerncap.cli.doctor import command
from kerncap.report.doctor_text import render
from tests.unit.doctor.machines import GOOD_PACKAGES, NO_DRIVER, NO_ROCR, report_of


def test_json_is_one_document_with_a_verdict(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setattr(doctor_probes, "packages", lambda python: GOOD_PACKAGES)
    monkeypatch.setattr(doctor_probes, "driver", lambda python="": NO_DRIVER)
    monkeypatch.setattr(doctor_probes, "rocr", lambda emulator: NO_ROCR)
    run = CliRunner().invoke(command, ["--json", "-o", str(tmp_path)], standalone_mode=False)
    document = json.loads(run.stdout)
    assert run.return_value == 0
    assert document["result"] == "ok"
    assert [way["works"] for way in document["ways"]] == [True, False, False, False, False]
    assert {"name", "status", "detail", "next_step"} == set(document["checks"][0])


def test_exit_status_4_when_nothing_works(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setattr(doctor_probes, "driver", lambda python="": NO_DRIVER)
    monkeypatch.setattr(doctor_probes, "rocr", lambda emulator: NO_ROCR)
    missing = str(tmp_path / "no-python")
    run = CliRunner().invoke(command, ["--python", missing, "-o", str(tmp_path)], standalone_mode=False)
    assert run.return_value == 4
    assert "kerncap doctor --python PATH" in run.stdout


def test_text_shows_every_next_step(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    found = report_of(monkeypatch, tmp_path, {"error": "no answer within 120 s"}, NO_DRIVER)
    text = render(found)
    steps = [check.next_step for check in found.checks if check.next_step]
    assert steps and all(f"-> {step}" in text for step in steps)
    assert not found.works


def test_kerncap_itself_loads_no_gpu_package(tmp_path: Path) -> None:
    code = (
        "import sys\nfrom kerncap.cli import main\n"
        "main(['doctor', '--json', '--python', sys.argv[1]])\n"
        "print(sorted({'torch', 'triton', 'cuda'} & set(sys.modules)), file=sys.stderr)\n"
    )
    run = subprocess.run(
        [sys.executable, "-c", code, str(tmp_path / "none")],
        cwd=tmp_path,
        capture_output=True,
        text=True,
        check=True,
    )
    assert run.stderr.strip().splitlines()[-1] == "[]"

"""The facts for a bug report: complete, and private to no one."""

from __future__ import annotations

import json
import re
import subprocess
from collections.abc import Callable
from pathlib import Path

import pytest

from tests.unit.doctor.machines import GOOD_DRIVER, GOOD_PACKAGES, report_of


def test_facts_are_complete_and_nothing_in_them_is_private(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    monkeypatch.setenv("TRITON_CACHE_DIR", "/home/alice/cache")
    monkeypatch.setenv("KERNCAP_API_KEY", "topsecret12345")
    monkeypatch.setenv("LD_PRELOAD", "")
    packages = {**GOOD_PACKAGES, "sitecustomize": "/home/alice/lib/sitecustomize.py"}
    found = report_of(monkeypatch, tmp_path, packages, GOOD_DRIVER).as_dict()
    text = json.dumps(found["facts"])
    assert "alice" not in text and "topsecret" not in text
    facts = found["facts"]
    assert facts["environment"]["TRITON_CACHE_DIR"] == "/home/USER/cache"
    assert facts["vendors"]["nvidia"] == GOOD_DRIVER
    assert facts["shims"]["cuda"] == {"path": "/shim.so", "error": "No such file or directory"}
    assert facts["target"]["triton"] == {"version": "3.6.0"}


def test_a_shim_is_told_by_its_build_id(compiled: Callable[[str], Path]) -> None:
    from kerncap.api.doctor.bug_report_facts import build_id, shim

    path = compiled("int x;")
    told = shim(path)
    assert told is not None and told["bytes"] == path.stat().st_size
    notes = subprocess.run(["readelf", "-n", path], capture_output=True, text=True, check=False).stdout
    stated = re.search(r"Build ID: ([0-9a-f]+)", notes)
    assert told["build_id"] == stated[1] if stated else told["build_id"].startswith("sha256:")
    assert build_id(b"no ELF").startswith("sha256:")

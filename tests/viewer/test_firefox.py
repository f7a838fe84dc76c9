"""The same page in Firefox: golden files and one of 1 GiB in every tab, hostile ones refused."""

from __future__ import annotations

import json
import random
import shutil
import subprocess
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from kerncap.api.view import PAGE
from tests.fuzz.archives import build
from tests.viewer.conftest import GOLDEN

pytestmark = pytest.mark.long

TABS = ("Launch", "Code", "Values", "Memory")
HOSTILE = 90


def test_firefox_shows_golden_files_and_refuses_hostile_ones(
    node: str, pack: Callable[[str], Path], huge: Path, tmp_path: Path
) -> None:
    firefox = shutil.which("firefox-esr") or shutil.which("firefox")
    if firefox is None:
        pytest.skip("no firefox here")
    if not PAGE.exists():
        pytest.skip("the page was not built: make viewer")
    goldens = [*(pack(path.parent.name) for path in GOLDEN.glob("*/manifest.json")), huge]
    hostile = []
    for seed in range(HOSTILE):
        hostile.append(tmp_path / f"hostile-{seed}.zip")
        hostile[-1].write_bytes(build(random.Random(seed)))
    script = Path(__file__).with_name("firefox.mjs")
    linked = pack("v1.2")
    words = [node, script, firefox, PAGE.as_uri(), ",".join(TABS), linked, *hostile, *goldens]
    run = subprocess.run(words, capture_output=True, text=True, check=False)
    assert run.returncode == 0, run.stderr[-3000:]
    document: dict[str, Any] = json.loads(run.stdout)
    assert document["said"] == []
    answers = document["answers"]
    for archive in goldens:
        assert all(answers[str(archive)]["tabs"][tab].strip() for tab in TABS), archive
    assert sum("refused" in answers[str(archive)] for archive in hostile) >= 60
    assert any("tt.store" in line for line in answers[str(linked)]["marked"])
    assert answers[str(linked)]["colours"] > 100

"""The site builds with no warning, and asks nothing of a network."""

from __future__ import annotations

import os
import re
import subprocess
import sys
from pathlib import Path

import pytest

from tests.integration.docs.running import ROOT

FETCHED = re.compile(
    r"<(?:script|img|iframe|source)\b[^>]*\ssrc=\"(?:https?:)?//|<link\b[^>]*\shref=\"(?:https?:)?//"
)


@pytest.mark.long
def test_builds_strictly_and_fetches_nothing(tmp_path: Path) -> None:
    site = tmp_path / "site"
    done = subprocess.run(
        [sys.executable, "-m", "mkdocs", "build", "--strict", "--quiet", "--site-dir", site],
        cwd=ROOT, env={**os.environ, "NO_MKDOCS_2_WARNING": "1"}, capture_output=True, text=True, timeout=300,
    )  # fmt: skip
    assert done.returncode == 0, done.stderr
    pages = sorted(site.rglob("*.html"))
    assert {"index.html", "tutorial.html", "format.html"} <= {page.name for page in pages}
    for page in pages:
        found = FETCHED.search(page.read_text())
        assert found is None, f"{page.name}: {found}"
    assert "kerncap capture" in (site / "reference" / "cli.html").read_text()
    assert "CaptureOptions" in (site / "reference" / "api.html").read_text()
    assert "manifest_sha256" in (site / "reference" / "schemas.html").read_text()

"""A target that is no Python itself, but starts one. (Other children: test_cases.py, case 20.)"""

from __future__ import annotations

import sys
from pathlib import Path

import pytest

from tests.integration.conftest import CommandLine

CHILDREN = Path(__file__).parent / "targets" / "capture_children.py"


@pytest.mark.long
def test_a_shell_between_kerncap_and_python(kerncap: CommandLine) -> None:
    script = f"{sys.executable} {CHILDREN} fork; exit 9"
    done = kerncap("capture", "--json", "-k", "mark", "--no-self-check", "--", "sh", "-c", script)
    assert done.status == 9 and len(done.document["captured"]) == 2, "the first of each process"

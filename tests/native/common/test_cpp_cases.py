"""The cases in C++ that need no session, and what they cost."""

from __future__ import annotations

import re
import sys
from pathlib import Path

import pytest

from tests.native.common.captured import run

SOURCES = Path(__file__).parent


def cases() -> list[str]:
    """Every case in the sources that needs no session; capture_* are run by tests of their own."""
    text = "\n".join(path.read_text() for path in sorted(SOURCES.glob("*.cpp")))
    found = re.findall(r"^CASE\((\w+)\)", text, re.MULTILINE)
    return sorted(name for name in found if not name.startswith("capture_"))


@pytest.mark.parametrize("name", cases())
def test_case(program: Path, name: str) -> None:
    run(program, name, {})


def test_costs_are_printed(program: Path, capsys: pytest.CaptureFixture[str]) -> None:
    out = run(program, "gate_pass_cost", {})
    assert "a pass costs" in out
    with capsys.disabled():
        sys.stderr.write(f"[{program.parent.name}] {out}")

"""Launches of children are captured as the main process's are."""

from __future__ import annotations

import sys
from pathlib import Path

import pytest

from kerncap.format import Reproducer, schema
from tests.integration.conftest import CommandLine

CHILDREN = Path(__file__).parent / "targets" / "capture_children.py"


@pytest.mark.parametrize(("how", "expected"), [("fork", [1, 2]), ("spawn", [3]), ("daemon", [4, 5])])
def test_children_are_captured(kerncap: CommandLine, how: str, expected: list[int]) -> None:
    done = kerncap(
        "capture", "--json", "-k", "mark", "--launch", "0:4", "--no-self-check", "--",
        sys.executable, CHILDREN, how,
    )  # fmt: skip
    assert done.status == 0, done.stderr
    values = []
    for path in done.document["captured"]:
        with Reproducer.open(Path(path)) as reproducer:
            value = next(item.value for item in reproducer.manifest.arguments if item.name == "value")
            assert isinstance(value, schema.FloatValue)
            values.append(float.fromhex(value.value))
    assert sorted(values) == expected
    assert list((kerncap.folder / "kerncap-out").glob(".*")) == [], "the session is gone"


def test_a_shell_between_kerncap_and_python(kerncap: CommandLine) -> None:
    script = f"{sys.executable} {CHILDREN} fork; exit 9"
    done = kerncap("capture", "--json", "-k", "mark", "--no-self-check", "--", "sh", "-c", script)
    assert done.status == 9 and len(done.document["captured"]) == 2, "the first of each process"

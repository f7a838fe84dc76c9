"""Gluon on an NVIDIA GPU: its source is rebuilt by its own decorator, or the captured image is judged."""

from __future__ import annotations

import sys
from pathlib import Path

import pytest

from tests.integration.conftest import CommandLine

pytestmark = [pytest.mark.gpu, pytest.mark.timeout(500)]

TARGET = Path(__file__).parent / "targets" / "gluon_rows.py"


@pytest.fixture(scope="module")
def captured(kerncap_of_module: CommandLine) -> dict[str, Path]:
    done = kerncap_of_module(
        "capture", "-o", "out", "-k", "gluon", "--launch", "0:1", "--", sys.executable, TARGET, timeout=400
    )
    assert done.status == 0, done.stdout + done.stderr
    found = {name: list((kerncap_of_module.folder / "out").glob(f"{name}-*"))
             for name in ("gluon_rows", "gluon_odd")}  # fmt: skip
    assert all(len(paths) == 1 for paths in found.values()), done.stdout + done.stderr
    return {name: paths[0] for name, paths in found.items()}


@pytest.mark.parametrize("engine", ["auto", "jit", "binary"])
def test_a_source_of_gluon_is_rebuilt(
    kerncap_of_module: CommandLine, captured: dict[str, Path], engine: str
) -> None:
    done = kerncap_of_module("verify", "--json", "--engine", engine, captured["gluon_rows"], timeout=300)
    assert done.status == 0, done.stdout + done.stderr
    assert done.document["engine"] == ("binary" if engine == "binary" else "jit")
    assert done.document["compared_bytes"] > 0


def test_a_candidate_of_gluon_is_judged(
    kerncap_of_module: CommandLine, captured: dict[str, Path], tmp_path: Path
) -> None:
    text = next((captured["gluon_rows"] / "source").glob("*.py")).read_text()
    for factor, status in (("x + by", 0), ("x + by * 1.25", 1)):
        candidate = tmp_path / f"candidate{status}.py"
        candidate.write_text(text.replace("return x + by", f"return {factor}"))
        done = kerncap_of_module("verify", captured["gluon_rows"], "--candidate", candidate, timeout=300)
        assert done.status == status, done.stdout + done.stderr


def test_every_stage_of_gluon_is_right_or_left_out(
    kerncap_of_module: CommandLine, captured: dict[str, Path]
) -> None:
    done = kerncap_of_module("verify", "--stages", "all", captured["gluon_rows"], timeout=400)
    assert done.status == 0, done.stdout + done.stderr


def test_a_source_that_can_not_be_rebuilt_is_not_judged(
    kerncap_of_module: CommandLine, captured: dict[str, Path]
) -> None:
    done = kerncap_of_module("verify", "--json", captured["gluon_odd"], timeout=300)
    assert done.status == 0, done.stdout + done.stderr
    assert done.document["engine"] == "binary"
    assert any("the stored source is not judged" in note for note in done.document["notes"])

"""Saves of CUDA C++ judged by a resident engine: a program of NVRTC's, a unit of nvcc's, its header."""

from __future__ import annotations

import importlib.util
import shutil
import statistics
import sys
from pathlib import Path

import pytest

from kerncap.api.edit.working_copy import unit_of
from kerncap.format import Reproducer
from tests.integration.conftest import CommandLine
from tests.integration.watching import Watching

from .captured import TARGETS, build, capture

pytestmark = [pytest.mark.gpu, pytest.mark.timeout(400)]

LONGEST_MS = 150.0  # from the save to the verdict, compile time apart
_SAVES = 9


def laid_out(reproducer: Path, folder: Path) -> Path:
    """The unit's files as they lay, and the one of them that is edited."""
    with Reproducer.open(reproducer) as opened:
        unit = unit_of(opened)
    for name, data in unit.files.items():
        (folder / name).parent.mkdir(parents=True, exist_ok=True)
        (folder / name).write_bytes(data)
    return folder / unit.main


def judged(
    kerncap: CommandLine, reproducer: Path, file: Path, edits: dict[str, tuple[str, str]], buffer_known: bool
) -> float:
    """A correct edit, a wrong one and a compile error; the median time to a verdict in milliseconds."""
    text = file.read_text()
    waits = []

    def edited(name: str) -> str:
        old, new = edits[name]
        assert old in text
        return text.replace(old, new)

    with Watching(kerncap, reproducer, file) as watching:
        assert watching.first["result"] == "pass", watching.first["summary"]
        right = watching.save(edited("right"))
        assert right["result"] == "pass" and right["times"]["ratio"] > 0, right
        assert right["candidate"]["registers"] > 0 and right["candidate"]["occupancy"] > 0
        wrong = watching.save(edited("wrong"))
        assert wrong["result"] == "fail" and wrong["stage"] == "compare", wrong
        assert not buffer_known or wrong["first_wrong"] is not None
        broken = watching.save(edited("broken"))
        line = 1 + text[: text.index(edits["broken"][0])].count("\n")
        assert broken["result"] == "fail" and broken["stage"] == "build", broken
        first = broken["diagnostics"][0]
        assert (Path(first["file"]).name, first["line"]) == (file.name, line), broken
        assert "undeclared" in first["message"]
        for number in range(_SAVES):
            done = watching.save(edited("right") + f"\n// {number}\n")
            assert done["result"] == "pass", done
            waits.append(done["save_to_verdict_ms"])
    return statistics.median(waits)


def told(capsys: pytest.CaptureFixture[str], what: str, median: float) -> None:
    with capsys.disabled():
        print(f"\n{what}: save to verdict {median:.0f} ms, compile apart")
    assert median <= LONGEST_MS


@pytest.mark.skipif(importlib.util.find_spec("cupy") is None, reason="cupy is not installed")
def test_a_program_of_nvrtc(
    kerncap_of_module: CommandLine, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    env = {"CUPY_CACHE_IN_MEMORY": "1"}
    captured = capture(
        kerncap_of_module, sys.executable, TARGETS / "cupy_kernels.py", options=("-k", "kc_raw"), env=env
    )
    path = captured.one("kc_raw")
    body = "x[i] * 2.0f + 1.0f"
    edits = {
        "right": (body, "1.0f + x[i] + x[i]"),
        "wrong": (body, "x[i] * 2.0f + (i == 4321 ? 1.5f : 1.0f)"),
        "broken": ("int i = ", "int i = undeclared + "),
    }
    told(
        capsys, "nvrtc", judged(kerncap_of_module, path, laid_out(path, tmp_path), edits, buffer_known=False)
    )


def test_a_unit_of_nvcc(
    kerncap_of_module: CommandLine, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    captured = capture(kerncap_of_module, build("several.cu"), options=("-k", "kc_scale", "--launch", "0:1"))
    path = captured.one("kc_scale")
    file = laid_out(path, tmp_path)
    body = "x[i] *= s;"
    edits = {
        "right": (body, "x[i] = s * x[i];"),
        "wrong": (body, "x[i] = s * x[i] + (i == n - 1);"),
        "broken": (body, "x[i] *= undeclared;"),
    }
    told(capsys, "nvcc", judged(kerncap_of_module, path, file, edits, buffer_known=False))


def test_a_saved_header_is_a_save(kerncap_of_module: CommandLine, tmp_path: Path) -> None:
    """The unit stays as it is: what it includes is broken, and mended."""
    captured = capture(kerncap_of_module, build("several.cu"), options=("-k", "kc_scale", "--launch", "0:1"))
    path = captured.one("kc_scale")
    file = laid_out(path, tmp_path)
    headers = list(tmp_path.rglob("check.h"))
    assert headers, "several.cu includes check.h"
    with Watching(kerncap_of_module, path, file) as watching:
        assert watching.first["result"] == "pass", watching.first["summary"]
        kept = headers[0].with_suffix(".kept")
        shutil.copy(headers[0], kept)
        watching.file = headers[0]
        broken = watching.save(headers[0].read_text() + "\n#error broken here\n")
        assert broken["result"] == "fail" and Path(broken["diagnostics"][0]["file"]).name == "check.h", broken
        assert watching.save(kept.read_text())["result"] == "pass"

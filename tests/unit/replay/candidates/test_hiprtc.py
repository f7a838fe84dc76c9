"""Which compiler serves a HIPRTC program, and which hip-python fits a ROCm."""

from __future__ import annotations

import dataclasses
from pathlib import Path

import pytest

from kerncap.errors import BackendUnavailable
from kerncap.format.schema import SourceBuild
from kerncap.replay.candidates import tools
from kerncap.replay.candidates.build import _compiler
from kerncap.replay.candidates.tools import Tool
from kerncap.replay.candidates.unit import StagedUnit

HIPCC = Tool("hipcc", Path("/opt/rocm/bin/hipcc"), "6.4")
HIPRTC = Tool("hiprtc", Path("/usr/bin/python3"), "10.0.0.0.1.2")
PROGRAM = StagedUnit(SourceBuild(tool="hiprtc", unit="source/k.hip"), {})
UNIT = dataclasses.replace(PROGRAM, build=SourceBuild(tool="hipcc", unit="source/k.hip"))


@pytest.mark.parametrize(
    ("runtime", "requirement"),
    [
        ("libamdhip64.so.6.4.43484", "hip-python~=6.4.0"),
        ("libamdhip64.so.7.2.53150", "hip-python~=7.2.0"),
        ("libamdhip64.so.7.15.1", "hip-python"),  # of ROCm 10
        ("libamdhip64.so.5.2.21153", "hip-python"),
    ],
)
def test_hip_python_fits_the_rocm(
    runtime: str, requirement: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    library = tmp_path / "lib"
    library.mkdir()
    (library / runtime).touch()
    (library / "libamdhip64.so").symlink_to(runtime)
    monkeypatch.setenv("ROCM_PATH", str(tmp_path))
    assert tools.hip_requirement() == requirement


def found(monkeypatch: pytest.MonkeyPatch, hipcc: Tool | str, hiprtc: Tool | str) -> None:
    monkeypatch.setattr(tools, "hipcc", lambda python=None: hipcc)
    monkeypatch.setattr(tools, "hiprtc", lambda python=None: hiprtc)


def test_hiprtc_serves_its_programs_where_no_hipcc_is(monkeypatch: pytest.MonkeyPatch) -> None:
    found(monkeypatch, HIPCC, HIPRTC)
    assert _compiler(PROGRAM, None) == HIPCC
    found(monkeypatch, "there is no hipcc", HIPRTC)
    assert _compiler(PROGRAM, None) == HIPRTC
    with pytest.raises(BackendUnavailable, match="there is no hipcc"):
        _compiler(UNIT, None)  # which has host code, too


def test_where_neither_is_both_are_named(monkeypatch: pytest.MonkeyPatch) -> None:
    found(monkeypatch, "there is no hipcc", "no Python here has hip-python")
    with pytest.raises(BackendUnavailable, match="has hip-python; there is no hipcc"):
        _compiler(PROGRAM, None)

"""Which Python a replay runs in."""

from __future__ import annotations

import os
import sys
from pathlib import Path

import pytest

from kerncap.errors import BackendUnavailable
from kerncap.format import Reproducer
from kerncap.replay import choose_engine as choose

from . import build

pytest.importorskip("triton")
pytest.importorskip("torch")


def script(path: Path, text: str) -> str:
    path.write_text(f"#!/bin/sh\n{text}\n")
    path.chmod(0o755)
    return str(path)


@pytest.fixture
def bare(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """kerncap in an environment of its own: neither torch nor triton beside it."""
    folder = tmp_path / "bin"
    folder.mkdir()
    lacking = script(tmp_path / "lacking", f'exec {sys.executable} -I -S "$@"')
    monkeypatch.setenv("PATH", f"{folder}{os.pathsep}/usr/bin{os.pathsep}/bin")
    monkeypatch.setattr(sys, "executable", lacking)
    return folder


def test_the_python_of_the_users_environment_serves(
    bare: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    real = script(bare / "python", f'exec {os.path.realpath("/proc/self/exe")} "$@"')
    site = os.pathsep.join(path for path in sys.path if path.endswith("site-packages"))
    monkeypatch.setenv("PYTHONPATH", site)
    with Reproducer.open(build.add().seal(tmp_path)) as reproducer:
        assert choose.choose(reproducer.manifest).python == real


def test_a_broken_python_on_the_path_is_passed_over(bare: Path, tmp_path: Path) -> None:
    script(bare / "python", "exit 3")
    script(bare / "python3", "exit 3")
    with (
        Reproducer.open(build.add().seal(tmp_path)) as reproducer,
        pytest.raises(BackendUnavailable, match="lacking has no torch and no triton.*--python"),
    ):
        choose.choose(reproducer.manifest)


def test_the_python_of_the_target_serves(bare: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    target = tmp_path / "target"
    target.mkdir()
    real = script(target / "python", f'exec {os.path.realpath("/proc/self/exe")} "$@"')
    site = os.pathsep.join(path for path in sys.path if path.endswith("site-packages"))
    monkeypatch.setenv("PYTHONPATH", site)
    with Reproducer.open(build.add().seal(tmp_path)) as reproducer:
        assert choose.choose(reproducer.manifest, target_python=real).python == real


def test_a_python_that_lacks_nothing_is_asked_once(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    asked = tmp_path / "asked"
    real, count = os.path.realpath("/proc/self/exe"), f"echo x >> {asked}\nexec"
    site = os.pathsep.join(path for path in sys.path if path.endswith("site-packages"))
    monkeypatch.setenv("PYTHONPATH", site)
    whole = script(tmp_path / "whole", f'{count} {real} "$@"')
    lacking = script(tmp_path / "lacking", f'{count} {real} -I -S "$@"')
    assert choose.probe(whole) == choose.probe(whole)
    assert asked.read_text() == "x\n"
    assert choose.probe(lacking).missing and choose.probe(lacking).missing
    assert asked.read_text() == "x\n" * 3, "what is missing may be installed"
    monkeypatch.setenv("CUDA_VISIBLE_DEVICES", "")
    choose.probe(whole)
    assert asked.read_text() == "x\n" * 4

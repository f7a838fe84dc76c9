"""No emulator unless a test names one; shared objects built for a test."""

from __future__ import annotations

import shutil
import subprocess
from collections.abc import Callable
from pathlib import Path

import pytest

from kerncap.api.doctor.vendors import EMULATOR_VARIABLE


@pytest.fixture(autouse=True)
def _no_emulator(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv(EMULATOR_VARIABLE, raising=False)


@pytest.fixture
def compiled(tmp_path: Path) -> Callable[[str], Path]:
    """A C file as a shared object."""
    compiler = next(filter(None, map(shutil.which, ("cc", "gcc", "clang"))), None)
    if compiler is None:
        pytest.skip("no C compiler")

    def build(text: str) -> Path:
        (tmp_path / "shim.c").write_text(text)
        path = tmp_path / "libshim.so"
        subprocess.run([compiler, "-shared", "-fPIC", "-o", path, tmp_path / "shim.c"], check=True)
        return path

    return build

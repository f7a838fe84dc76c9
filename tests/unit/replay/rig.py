"""The stand-in driver and its kernels, put before the real driver for every process that is started."""

from __future__ import annotations

import os
import subprocess
from functools import cache
from pathlib import Path

import pytest

from tests.integration.cuda.conftest import ROOT, build

_SOURCES = ROOT / "tests" / "rigs" / "cuda_driver"


@cache
def driver() -> Path:
    """The folder with the stand-in libcuda.so.1; skips where it can't be built."""
    folder = ROOT / "build" / "rig"
    build(_SOURCES, folder)
    return folder


def kernels(folder: Path) -> Path:
    """The kernels of rig_kernels.cpp as a library in ``folder``."""
    library = folder / "libreplay_kernels.so"
    source = Path(__file__).with_name("rig_kernels.cpp")
    subprocess.run(
        ["g++", "-std=c++17", "-O1", "-fPIC", "-shared", f"-I{_SOURCES}", str(source), f"-L{driver()}",
         "-l:libcuda.so.1", "-o", str(library)],
        check=True,
    )  # fmt: skip
    return library


def use(monkeypatch: pytest.MonkeyPatch, own: Path) -> None:
    """Let every process that is started from here find the stand-in driver."""
    before = os.environ.get("LD_LIBRARY_PATH")
    monkeypatch.setenv("LD_LIBRARY_PATH", f"{driver()}{os.pathsep}{before}" if before else str(driver()))
    monkeypatch.setenv(
        "KERNCAP_RIG_KERNELS", f"{driver() / 'clients' / 'librig_test_kernels.so'}:{own}"
    )  # fmt: skip

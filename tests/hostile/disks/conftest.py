"""Small file systems, and the hook's own harness."""

from __future__ import annotations

import contextlib
import subprocess
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from tests.unit.hook.conftest import run

__all__ = ["run"]

Mount = Callable[[Path, int], Path]


@pytest.fixture
def mount() -> Iterator[Mount]:
    """``mount(folder, kib)``: a tmpfs of ``kib`` KiB there. Skips where mounting is not permitted."""
    mounted: list[Path] = []

    def at(folder: Path, kib: int) -> Path:
        folder.mkdir(exist_ok=True)
        command = ["mount", "-t", "tmpfs", "-o", f"size={kib}k,mode=0700", "tmpfs", str(folder)]
        try:
            done = subprocess.run(command, capture_output=True, text=True, timeout=60, check=False)
        except FileNotFoundError:
            pytest.skip("mount is not on PATH")
        if done.returncode:
            pytest.skip(f"a tmpfs can't be mounted: {done.stderr.strip()}")
        mounted.append(folder)
        return folder

    yield at
    for folder in mounted:
        with contextlib.suppress(subprocess.CalledProcessError):
            subprocess.run(["umount", "-l", str(folder)], check=True, timeout=60)


@pytest.fixture(scope="session")
def library(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """`faulty_disk.c`, compiled."""
    made = tmp_path_factory.mktemp("faulty") / "libfaulty_disk.so"
    source = Path(__file__).with_name("faulty_disk.c")
    try:
        subprocess.run(["gcc", "-shared", "-fPIC", "-O1", str(source), "-o", str(made), "-ldl"], check=True)
    except FileNotFoundError:
        pytest.skip("needs gcc")
    return made

"""Native test programs, built with CMake into the repository's build folder and brought up to date there."""

from __future__ import annotations

import fcntl
import os
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[2]
STAND_IN = ROOT / "tests" / "rigs" / "cuda_driver"
SANITIZERS = ("thread", "address", "address,undefined")
# Beside the interpreter too: in a virtual environment that is not activated they are on no PATH.
TOOLS = os.pathsep.join([str(Path(sys.executable).parent), os.environ.get("PATH", "")])


def build(source: Path, folder: Path, *options: str) -> Path:
    """``folder``, with what CMake makes of ``source``; one process at a time builds there.

    Raises AssertionError with the compiler's words. Skips where CMake, a compiler or cuda.h is missing.
    """
    for tool in ("cmake", "g++"):
        if shutil.which(tool, path=TOOLS) is None:
            pytest.skip(f"needs {tool} to build {source.relative_to(ROOT)}")
    folder.mkdir(parents=True, exist_ok=True)
    generator = ["-G", "Ninja"] if shutil.which("ninja", path=TOOLS) else []
    with (folder.parent / f"{folder.name}.lock").open("w") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        if not (folder / "CMakeCache.txt").exists():
            _run(["cmake", "-S", str(source), "-B", str(folder), *generator, *options])
        _run(["cmake", "--build", str(folder), "-j2"])
    return folder


def stand_in(sanitizer: str = "") -> Path:
    """The build folder of the stand-in CUDA driver, plain or for a sanitizer."""
    if not sanitizer:
        return build(STAND_IN, ROOT / "build" / "rig")
    return build(STAND_IN, ROOT / "build" / f"rig-{sanitizer}", f"-DKERNCAP_SANITIZE={sanitizer}")


def require_sanitizer(name: str, folder: Path) -> None:
    """Skips where g++ has no runtime for ``-fsanitize=name``."""
    probe = folder / "probe.cpp"
    probe.write_text("int main() {}")
    command = ["g++", f"-fsanitize={name}", str(probe), "-o", str(folder / "probe")]
    if subprocess.run(command, capture_output=True, check=False).returncode:
        pytest.skip(f"g++ has no -fsanitize={name}: install its runtime (libtsan, libasan, libubsan)")


def _run(command: list[str]) -> None:
    environment = {**os.environ, "PATH": TOOLS}
    done = subprocess.run(command, capture_output=True, text=True, check=False, env=environment)
    if "cuda.h was not found" in done.stderr:
        pytest.skip("needs cuda.h: set CUDA_HOME, or pip install nvidia-cuda-runtime")
    assert done.returncode == 0, f"{' '.join(command)}\n{done.stdout[-4000:]}{done.stderr[-4000:]}"

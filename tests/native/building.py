"""Native test programs, built with CMake into the repository's build folder and brought up to date there."""

from __future__ import annotations

import fcntl
import os
import re
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[2]
STAND_IN = ROOT / "tests" / "rigs" / "cuda_driver"
PLAIN_AND_SANITIZED = [
    pytest.param("", id="plain"),
    *(pytest.param(name, marks=pytest.mark.sanitized) for name in ("thread", "address,undefined")),
]
# Beside the interpreter too: in a virtual environment that is not activated they are on no PATH.
TOOLS = os.pathsep.join([str(Path(sys.executable).parent), os.environ.get("PATH", "")])


def build(source: Path, folder: Path, *options: str, target: str = "all") -> Path:
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
        cache = folder / "CMakeCache.txt"
        known = cache.read_text() if cache.exists() else ""
        settings = [option.removeprefix("-D").split("=") for option in ("-DCMAKE_PROJECT_NAME=.*", *options)]
        if not all(re.search(rf"(?m)^{name}:\w+={value}$", known) for name, value in settings):
            _run(["cmake", "-S", str(source), "-B", str(folder), *generator, *options])
        _run(["cmake", "--build", str(folder), "-j2", "--target", target])
    return folder


def shims(target: str = "all", sanitizer: str = "") -> Path:
    """The build folder of the shims, plain or for a sanitizer: its native tests are in ``tests/``."""
    if sanitizer:
        _require_sanitizer(sanitizer)
    folder = ROOT / "build" / f"shims{_suffix(sanitizer)}"
    return build(
        ROOT / "shims", folder, f"-DKERNCAP_SANITIZE={sanitizer}", "-DKERNCAP_TESTS=ON", target=target
    )


def stand_in(sanitizer: str = "") -> Path:
    """The build folder of the stand-in CUDA driver, plain or for a sanitizer."""
    folder = ROOT / "build" / f"rig{_suffix(sanitizer)}"
    return build(STAND_IN, folder, f"-DKERNCAP_SANITIZE={sanitizer}")


def _suffix(sanitizer: str) -> str:
    return f"-{sanitizer.replace(',', '-')}" if sanitizer else ""


def _require_sanitizer(name: str) -> None:
    """Skips where g++ has no runtime for ``-fsanitize=name``."""
    command = ["g++", f"-fsanitize={name}", "-x", "c++", "-", "-o", os.devnull]
    if subprocess.run(command, input=b"int main() {}", capture_output=True, check=False).returncode:
        pytest.skip(f"g++ has no -fsanitize={name}: install its runtime (libtsan, libasan, libubsan)")


def _run(command: list[str]) -> None:
    environment = {**os.environ, "PATH": TOOLS}
    done = subprocess.run(command, capture_output=True, text=True, check=False, env=environment)
    if "cuda.h was not found" in done.stderr:
        pytest.skip("needs cuda.h: set CUDA_HOME, or pip install nvidia-cuda-runtime")
    assert done.returncode == 0, f"{' '.join(command)}\n{done.stdout[-4000:]}{done.stderr[-4000:]}"

"""Builds common_tests, plain and with sanitizers."""

from __future__ import annotations

import os
import re
import shutil
import subprocess
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[3]
SOURCES = (
    # The mirror of torch's allocator is CUDA's in name only.
    [*sorted((ROOT / "shims/common").glob("*.cpp")), ROOT / "shims/cuda/torch_mirror.cpp"],
    sorted(Path(__file__).parent.glob("*.cpp")),
)
INCLUDES = (f"-I{ROOT}/shims", f"-I{ROOT}/shims/include")
FLAGS = ("-std=c++17", "-O1", "-g", "-Wall", "-Wextra", "-Werror", *INCLUDES)


def cases() -> list[str]:
    """Every case in the sources that needs no session; capture_* are run by tests of their own."""
    found = re.findall(r"^CASE\((\w+)\)", "\n".join(path.read_text() for path in SOURCES[1]), re.MULTILINE)
    return sorted(name for name in found if not name.startswith("capture_"))


def build(sanitize: str, factory: pytest.TempPathFactory) -> Path:
    """The program's path. Skips where the compiler, or its sanitizer, is missing."""
    compiler = os.environ.get("CXX") or shutil.which("g++")
    if compiler is None:
        pytest.skip("g++ is missing")
    folder = factory.mktemp(sanitize.replace(",", "-"))
    flags = [*FLAGS, *([] if sanitize == "plain" else [f"-fsanitize={sanitize}"])]
    if sanitize != "plain":
        probe = folder / "probe.cpp"
        probe.write_text("int main() {}")
        if subprocess.run([compiler, *flags, probe, "-o", folder / "probe"], capture_output=True).returncode:
            pytest.skip(f"g++ has no -fsanitize={sanitize}: install its runtime (libtsan, libasan, libubsan)")
    objects = []
    for source in [*SOURCES[0], *SOURCES[1]]:
        objects.append(folder / f"{source.parent.name}-{source.stem}.o")
        subprocess.run([compiler, *flags, "-c", source, "-o", objects[-1]], check=True)
    target = folder / "common_tests"
    subprocess.run([compiler, *flags, *objects, "-o", target, "-lpthread", "-ldl"], check=True)
    return target

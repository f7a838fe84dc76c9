"""tools/shims.sh: what `make shims` does around CMake."""

from __future__ import annotations

import os
import shutil
import subprocess
from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]
# Says of each call whether another process could build now, and leaves what the script shows at its end.
CMAKE = """\
#!/bin/sh
if flock --nonblock build/shims.lock true; then echo "$1 free"; else echo "$1 locked"; fi >>calls
mkdir -p build/shims/cuda build/shims/hip
touch build/shims/cuda/libkerncap_cuda.so build/shims/hip/libkerncap_hip.so
"""


def test_one_process_at_a_time_builds(tmp_path: Path) -> None:
    """The tests' own builds lock the same file: tests/native/building.py."""
    for folder in ("tools", "bin"):
        (tmp_path / folder).mkdir()
    shutil.copy(ROOT / "tools" / "shims.sh", tmp_path / "tools")
    cmake = tmp_path / "bin" / "cmake"
    cmake.write_text(CMAKE)
    cmake.chmod(0o755)
    path = f"{cmake.parent}{os.pathsep}{os.environ['PATH']}"
    subprocess.run(
        ["bash", tmp_path / "tools" / "shims.sh", "python3"], env={**os.environ, "PATH": path}, check=True
    )
    assert (tmp_path / "calls").read_text() == "-S locked\n--build locked\n"
    subprocess.run(["flock", "--nonblock", "build/shims.lock", "true"], cwd=tmp_path, check=True)

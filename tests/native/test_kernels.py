"""The shim's own device kernels: any assembler at hand takes their PTX for every architecture it knows."""

from __future__ import annotations

import importlib.util
import re
import shutil
import subprocess
from pathlib import Path

import pytest

FOLDER = Path(__file__).parents[2] / "shims" / "cuda" / "kernels"


def ptx(name: str = "snapshot_ptx.h") -> str:
    text = (FOLDER / name).read_text()
    return text.split('R"ptx(')[1].split(')ptx"')[0]


def assembler() -> str:
    found = shutil.which("ptxas")
    if found is None:
        spec = importlib.util.find_spec("triton")
        beside = Path(spec.origin or "").parent / "backends/nvidia/bin/ptxas" if spec is not None else None
        found = str(beside) if beside is not None and beside.exists() else None
    if found is None:
        pytest.skip("no ptxas: neither a CUDA toolkit nor Triton is installed")
    return found


def test_the_ptx_is_as_old_as_it_says() -> None:
    text = ptx()
    assert ".version 6.4" in text and ".target sm_52" in text
    found = set(re.findall(r"\.entry (\w+)\(", text))
    assert found == {"kerncap_copy", "kerncap_fingerprint", "kerncap_scan", "kerncap_stop"}


@pytest.mark.parametrize("arch", ["sm_75", "sm_80", "sm_86", "sm_89", "sm_90", "sm_100", "sm_120"])
@pytest.mark.parametrize("name", ["snapshot_ptx.h", "../device_text.cpp"])
def test_assembles(name: str, arch: str, tmp_path: Path) -> None:
    known = subprocess.run([assembler(), "--help"], capture_output=True, text=True).stdout
    if arch not in known:
        pytest.skip(f"this ptxas does not know {arch}")
    source = tmp_path / "snapshot.ptx"
    source.write_text(ptx(name))
    done = subprocess.run(
        [assembler(), "-arch", arch, source, "-o", tmp_path / "out.cubin"], capture_output=True, text=True
    )
    assert done.returncode == 0, done.stderr
    assert (tmp_path / "out.cubin").read_bytes()[:4] == b"\x7fELF"


def test_regenerating_changes_nothing(tmp_path: Path) -> None:
    """The committed PTX comes from the source beside it, where the compiler that made it is at hand."""
    nvcc = shutil.which("nvcc")
    version = subprocess.run([nvcc, "--version"], capture_output=True, text=True).stdout if nvcc else ""
    if "release 13.0" not in version:
        pytest.skip("needs nvcc 13.0, which wrote snapshot_ptx.h")
    for name in ("snapshot.cu", "regenerate.sh"):
        shutil.copy(FOLDER / name, tmp_path / name)
    subprocess.run(["bash", str(tmp_path / "regenerate.sh")], check=True)
    assert (tmp_path / "snapshot_ptx.h").read_text() == (FOLDER / "snapshot_ptx.h").read_text()

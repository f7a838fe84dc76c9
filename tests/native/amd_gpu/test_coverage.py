"""Every instruction that LLVM knows for an architecture is executed, or ends a dispatch with its name."""

from __future__ import annotations

import re
import shutil
import subprocess

import pytest

from tests.native.amd_gpu.coverage import HEADER, row, swept
from tests.native.amd_gpu.isa import ARCHS, rocm_prefix, run_code
from tests.native.building import ROOT

pytestmark = [pytest.mark.long, pytest.mark.parametrize("arch", ARCHS)]


def test_what_is_refused_stops_with_its_name(arch: str) -> None:
    refused = [one for one in swept(arch) if one.taken == "refused"]
    assert len(refused) < len(swept(arch)) / 5
    for one in refused:
        done = run_code(one.code, arch)
        assert done.fault == "unsupported" and one.name in done.text, (one, done)


def test_clamp_is_all_that_is_refused_of_the_others(arch: str) -> None:
    for one in swept(arch):
        if one.taken == "partly":
            done = run_code(one.code, arch)
            assert done.text.startswith("clamp is not known here: ") and one.name in done.text, (one, done)


def test_another_llvm_reads_the_same(arch: str) -> None:
    tools = [shutil.which(name) for name in ("llvm-mc-22", "llvm-mc-21", "llvm-mc-20")]
    tool = next((found for found in tools if found), None)
    if tool is None:
        pytest.skip("needs an llvm-mc that knows gfx950: LLVM 20 to 22")
    listed = "\n".join(f"[{','.join(f'{byte:#04x}' for byte in one.code)}]" for one in swept(arch))
    command = [tool, "-triple=amdgcn-amd-amdhsa", f"-mcpu={arch}", "-disassemble"]
    done = subprocess.run(command, input=listed, capture_output=True, text=True, check=True)
    lines = [line.strip() for line in done.stdout.splitlines() if line.startswith("\t") and line[1] != "."]
    assert lines == [one.text for one in swept(arch)], done.stderr


def test_the_manual_says_how_many(arch: str) -> None:
    prefix = rocm_prefix()
    if prefix is None or not list(prefix.glob("usr/lib/*/libLLVM.so.22*")):
        pytest.skip("the manual counts what libLLVM 22 knows (make amd-gpu ROCM=7)")
    manual = (ROOT / "docs" / "hip.md").read_text()
    [table] = re.findall(rf"{re.escape(HEADER)}\n\|[-|]+\n((?:\|.*\n)+)", manual)
    assert row(arch) in table.splitlines(), "python -m tests.native.amd_gpu.coverage"

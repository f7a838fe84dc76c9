"""Arguments that are in registers when a kernel starts (kernarg preload): its code says how many."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.integration.conftest import CommandLine
from tests.rigs import amd_gpu

from .conftest import Bench, Programs
from .replay_launches import by_hiprtc
from .test_large_lds import SOURCE, WRONG

PRELOAD = ("-mllvm", "-amdgpu-kernarg-preload-count=4")


@pytest.mark.parametrize(("arch", "rocm"), [("gfx942", 6), pytest.param("gfx950", 7, marks=pytest.mark.long)])
def test_a_launch_and_its_candidates_with_and_without(
    kerncap: CommandLine, shim: Path, programs: Programs, tmp_path: Path, arch: str, rocm: int
) -> None:
    rig = amd_gpu.find(rocm)
    if isinstance(rig, str):
        pytest.skip(rig)
    assert shim.is_file()

    def code(name: str, text: str, *flags: str) -> Path:
        file = tmp_path / f"{name}.hsaco"
        file.write_bytes(by_hiprtc(text, arch, rig.folder, tmp_path, *flags))
        return file

    preloaded, plain = code("preloaded", SOURCE, *PRELOAD), code("plain", SOURCE)
    assert preloaded.read_bytes() != plain.read_bytes()
    wrong = code("wrong", SOURCE.replace(*WRONG), *PRELOAD)
    bench = Bench(kerncap, rig)
    run = bench.capture("-k", "reverse", program=(programs("large_lds"), preloaded, "8192"),
                        extra={"AMD_GPU_GFX": arch})  # fmt: skip
    [path] = run.paths
    assert bench.judge(path)["result"] == "pass"
    assert bench.judge(path, "--candidate", plain)["result"] == "pass"
    assert bench.judge(path, "--candidate", wrong)["result"] == "fail"

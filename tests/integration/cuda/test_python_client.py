"""A Python program on cuda-bindings, which finds each function by cuGetProcAddress."""

from __future__ import annotations

import sys
import textwrap
import venv
from pathlib import Path

import pytest

from tests.integration.cuda.conftest import Bench

PROGRAM = """
import ctypes, struct
from cuda.bindings import driver

def check(result):
    assert result[0] == driver.CUresult.CUDA_SUCCESS, result
    return result[1] if len(result) == 2 else result[1:]

check(driver.cuInit(0))
context = check(driver.cuDevicePrimaryCtxRetain(check(driver.cuDeviceGet(0))))
check(driver.cuCtxSetCurrent(context))
image = b'''.version 8.0
.target sm_90
.address_size 64
.visible .entry _Z14scale_in_placePffi(.param .u64 x, .param .f32 s, .param .u32 n) { ret; }
\\0'''
library = check(driver.cuLibraryLoadData(image, [], [], 0, [], [], 0))
kernel = check(driver.cuLibraryGetKernel(library, b"_Z14scale_in_placePffi"))
x = check(driver.cuMemAlloc(4096))
host = bytearray(struct.pack("<1024f", *range(1024)))
check(driver.cuMemcpyHtoD(x, bytes(host), 4096))
arguments = ((int(x), 2.5, 1024), (ctypes.c_void_p, ctypes.c_float, ctypes.c_uint))
check(driver.cuLaunchKernel(driver.CUfunction(int(kernel)), 4, 1, 1, 256, 1, 1, 0, 0, arguments, 0))
check(driver.cuCtxSynchronize())
check(driver.cuMemcpyDtoH(host, x, 4096))
print(sum(struct.unpack("<1024f", host)))
"""


def test_cuda_bindings(bench: Bench, tmp_path: Path) -> None:
    pytest.importorskip("cuda.bindings.driver", reason="needs cuda-bindings as a client")
    program = tmp_path / "program.py"
    program.write_text(textwrap.dedent(PROGRAM))
    captured = bench.capture("-k", "scale_in_place", client=(sys.executable, program))
    assert captured.plain.stdout.strip() == "1309440.0", captured.plain.stderr
    bench.passes(captured.path)

    # Replayed in a Python that has numpy and no cuda-bindings.
    venv.create(tmp_path / "bare", symlinks=True)
    [packages] = (tmp_path / "bare" / "lib").glob("python*/site-packages")
    (packages / "numpy").mkdir()
    (packages / "numpy" / "__init__.py").touch()
    python = tmp_path / "bare" / "bin" / "python"
    refused = bench("verify", captured.path, "--python", python)
    assert (refused.status, refused.stdout, refused.stderr.count("\n")) == (4, "", 1)
    assert f"{python} has no cuda-bindings; {python} -m pip install 'cuda-bindings" in refused.stderr

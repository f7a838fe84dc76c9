"""Lines of the source in what Triton's compilers write, for both vendors; no GPU is needed to compile."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path

import pytest

from kerncap.capture.source.native import line_table

pytestmark = pytest.mark.long

KERNEL = """\
import json, sys
import triton
import triton.language as tl
from triton.backends.compiler import GPUTarget
from triton.compiler import ASTSource

@triton.jit
def double(x_ptr, n, BLOCK: tl.constexpr):
    offsets = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    x = tl.load(x_ptr + offsets, mask=offsets < n)
    tl.store(x_ptr + offsets, x * 2, mask=offsets < n)

backend, arch, lanes, stage, out = sys.argv[1:]
target = GPUTarget(backend, int(arch) if arch.isdigit() else arch, int(lanes))
source = ASTSource(double, {"x_ptr": "*fp32", "n": "i32", "BLOCK": "constexpr"}, {(2,): 256})
made = triton.compile(source, target=target)
open(out, "wb").write(made.asm[stage])
print(json.dumps(made.metadata.name))
"""


@pytest.mark.parametrize(
    ("backend", "arch", "lanes", "stage"), [("cuda", "90", "32", "cubin"), ("hip", "gfx942", "64", "hsaco")]
)
def test_each_line_of_the_kernel_has_code(
    backend: str, arch: str, lanes: str, stage: str, tmp_path: Path
) -> None:
    pytest.importorskip("triton")
    script, out = tmp_path / "kernel.py", tmp_path / stage
    script.write_text(KERNEL)
    environment = {name: text for name, text in os.environ.items() if name != "TRITON_INTERPRET"}
    run = subprocess.run(
        [sys.executable, script, backend, arch, lanes, stage, out],
        env={**environment, "TRITON_CACHE_DIR": str(tmp_path / "cache")}, capture_output=True, text=True,
    )  # fmt: skip
    assert run.returncode == 0, run.stderr
    places = line_table.places(out.read_bytes(), json.loads(run.stdout))
    assert {place.file for place in places} == {str(script)}
    lines = {place.line for place in places}
    assert {9, 10, 11} <= lines and lines <= set(range(7, 12))
    assert all(one.offset + one.size <= two.offset for one, two in zip(places, places[1:], strict=False))

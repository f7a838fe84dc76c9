"""`tune` on a captured CUDA kernel and its source, on the stand-in driver, which knows the kernel by name."""

from __future__ import annotations

from pathlib import Path

import pytest

from kerncap.replay.candidates import tools
from tests.integration.cuda.conftest import Bench
from tests.unit.replay import native

SOURCE = """
#define STEP 2
__global__ void vector_add(const float *a, const float *b, float *out, int n) {
    int i = blockIdx.x * blockDim.x + threadIdx.x;
    for (int k = 0; k < STEP && i < n; ++k, i += gridDim.x * blockDim.x) out[i] = a[i] + b[i];
}
"""


def test_the_numbers_of_a_source_are_searched(bench: Bench, tmp_path: Path) -> None:
    found = tools.nvcc()
    if isinstance(found, str):
        pytest.skip(found)
    path = native.add(source=SOURCE).seal(tmp_path / "captured")
    document = bench("tune", "--json", path, "--apply", "--trust").document
    assert {trial["point"]["STEP"] for trial in document["trials"]} == {2, 4, 8}
    assert {trial["state"] for trial in document["trials"]} <= {"timed", "slow"}, document
    assert document["result"] == "pass" and document["engine"] == "binary", document

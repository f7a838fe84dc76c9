"""TileLang's kernels: the CUDA C++ in its kernel cache. The file is written by hand, as tilelang 0.1.15 lays
its cache out."""

from __future__ import annotations

from pathlib import Path

import pytest

from kerncap.capture import languages
from kerncap.capture.languages import FoundSource, SourceRequest

GENERATED = """\
#include <tl_templates/cuda/common.h>
extern "C" __global__ void __launch_bounds__(128, 1) main_kernel(
    const float* __restrict__ A, float* __restrict__ B, int n) {
  int i = blockIdx.x * 128 + threadIdx.x;
  if (i < n) B[i] = A[i] * 2.0f;
}
"""


@pytest.fixture
def packages(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.setenv("TILELANG_CACHE_DIR", str(tmp_path / "cache"))
    kernel = tmp_path / "cache" / "0.1.15" / "kernels" / ("ab" * 32)
    kernel.mkdir(parents=True)
    (kernel / "device_kernel.cu").write_text(GENERATED)
    (kernel / "host_kernel.cu").write_text("// main_kernel(\n")
    headers = tmp_path / "site-packages" / "tilelang" / "src" / "tl_templates" / "cuda"
    headers.mkdir(parents=True)
    (headers / "common.h").write_text("#pragma once\n")
    return tmp_path / "site-packages"


def found(packages: Path, name: str = "main_kernel", module: str = "tilelang/jit/kernel.py") -> FoundSource:
    frames = (("/app/train.py", 9, "<module>"), (str(packages / module), 3, "__call__"))
    return languages.find(SourceRequest(name, arch="sm_90", python_stack=frames))


def test_the_generated_code_is_the_source(packages: Path) -> None:
    source = found(packages)
    assert source.missing is None and source.language == "cuda" and source.file is not None
    assert {Path(file.original).name for file in source.files} == {"device_kernel.cu", "common.h"}
    assert source.build is not None and source.build.tool == "nvcc"
    assert source.build.options == ("-std=c++20", "-O3", "-lineinfo")
    assert [Path(each.path).name for each in source.build.include_dirs] == ["src"]
    assert (source.kernel_line, len(source.origins)) == (2, 1)
    assert list(languages.parameters("main_kernel", "main_kernel", source.parameters) or ()) == [
        ("A", "float*"), ("B", "float*"), ("n", "int"),
    ]  # fmt: skip


@pytest.mark.parametrize(
    ("name", "module"), [("main_kernel", "torch/nn/module.py"), ("other_kernel", "tilelang/jit/kernel.py")]
)
def test_others_are_left_to_others(packages: Path, name: str, module: str) -> None:
    source = found(packages, name, module)
    assert source.file is None and source.missing is not None and "tilelang" not in source.missing

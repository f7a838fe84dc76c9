"""Candidates of later stages, compiled on by Triton; nothing of that needs a device."""

from __future__ import annotations

import shutil
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from kerncap.replay.worker.common.failures import KernelError, Refused
from kerncap.replay.worker.torch_backend.launchers import later_stages

pytest.importorskip("triton")
pytestmark = pytest.mark.filterwarnings("ignore:This process.*fork:DeprecationWarning")

_ARCH = 90
_KERNEL = """\
import triton
import triton.language as tl


@triton.jit
def scale(x_ptr, out_ptr, n, BLOCK: tl.constexpr):
    i = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    tl.store(out_ptr + i, tl.load(x_ptr + i, mask=i < n) * 2.0, mask=i < n)
"""


@pytest.fixture(scope="module")
def compiled(tmp_path_factory: pytest.TempPathFactory) -> Iterator[tuple[Path, dict[str, Any]]]:
    """The stages of a kernel as files, and what Triton says of it."""
    import importlib.util

    import triton
    from triton.backends.compiler import GPUTarget
    from triton.compiler import ASTSource
    from triton.runtime import JITFunction

    folder = tmp_path_factory.mktemp("stages")
    path = folder / "scale.py"
    path.write_text(_KERNEL)
    spec = importlib.util.spec_from_file_location("scale_of_a_test", path)
    assert spec is not None and spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    with pytest.MonkeyPatch.context() as patch:
        patch.delenv("TRITON_INTERPRET", raising=False)
        patch.setenv("TRITON_CACHE_DIR", str(folder / "cache"))
        patch.setenv("TRITON_DEFAULT_FP_FUSION", "1")  # Triton 3.9 warns where it is not set
        spec.loader.exec_module(module)
        function = JITFunction(module.scale.fn)
        source = ASTSource(
            function, {"x_ptr": "*fp32", "out_ptr": "*fp32", "n": "i32", "BLOCK": "constexpr"},
            constexprs={"BLOCK": 128},
        )  # fmt: skip
        kernel = triton.compile(source, target=GPUTarget("cuda", _ARCH, 32), options={"num_warps": 2})
        for stage in later_stages.STAGES:
            data = kernel.asm[stage]
            (folder / f"scale.{stage}").write_bytes(data if isinstance(data, bytes) else data.encode())
        yield folder, {**kernel.metadata._asdict(), "target": None}


def edited(folder: Path, to: Path, stage: str, *change: str) -> Path:
    path = to / f"scale.{stage}"
    if stage == "cubin":
        shutil.copyfile(folder / path.name, path)
        return path
    text = (folder / path.name).read_text()
    if change:
        assert change[0] in text
        text = text.replace(*change)
    path.write_text(text)
    return path


@pytest.mark.parametrize("stage", ["ttir", "ttgir", "llir", "ptx", "cubin"])
def test_each_stage_becomes_an_image(
    compiled: tuple[Path, dict[str, Any]], tmp_path: Path, stage: str
) -> None:
    folder, metadata = compiled
    made = later_stages.make(edited(folder, tmp_path, stage), metadata, _ARCH, tmp_path / "work")
    assert made.image.startswith(b"\x7fELF")
    assert (made.metadata["name"], made.metadata["num_warps"]) == ("scale", 2)
    expected = later_stages.STAGES[later_stages.STAGES.index(stage) :]
    assert [name for name in later_stages.STAGES if name in made.stages] == list(expected)


def test_an_edit_of_the_ir_reaches_the_image(compiled: tuple[Path, dict[str, Any]], tmp_path: Path) -> None:
    folder, metadata = compiled
    path = edited(folder, tmp_path, "ttgir", "2.000000e+00", "3.000000e+00")
    made = later_stages.make(path, metadata, _ARCH, tmp_path / "work")
    three, two = "0f40400000", "0f40000000"  # as PTX has them
    assert three in made.stages["ptx"].lower() and two not in made.stages["ptx"].lower()


@pytest.mark.parametrize(
    ("stage", "change", "line_of"),
    [
        ("ttir", ("arith.mulf", "arith.nonsense"), "arith.nonsense"),
        ("ttgir", ("tt.store ", "tt.store 5 "), "tt.store 5"),
        ("llir", ("ret void", "retoid"), "retoid"),
        ("ptx", ("ret;", "retoid;"), "retoid;"),
    ],
)
def test_what_does_not_compile_says_where(
    compiled: tuple[Path, dict[str, Any]], tmp_path: Path, stage: str, change: tuple[str, str], line_of: str
) -> None:
    folder, metadata = compiled
    path = edited(folder, tmp_path, stage, *change)
    with pytest.raises(KernelError, match=rf"scale\.{stage} does not compile: ") as caught:
        later_stages.make(path, metadata, _ARCH, tmp_path / "work")
    lines = path.read_text().split("\n")
    assert caught.value.place is not None and caught.value.place.line, caught.value.detail
    assert line_of in lines[caught.value.place.line - 1], (str(caught.value), caught.value.place)


def test_what_is_no_kernel_of_that_launch_is_refused(
    compiled: tuple[Path, dict[str, Any]], tmp_path: Path
) -> None:
    folder, metadata = compiled
    path = edited(folder, tmp_path, "ptx", "scale", "other")
    with pytest.raises(Refused, match=r"no \.entry scale; it has other"):
        later_stages.make(path, metadata, _ARCH, tmp_path / "work")
    path = edited(folder, tmp_path, "ptx")
    with pytest.raises(Refused, match="made for 64 threads per block, the launch has 128"):
        later_stages.make(path, {**metadata, "num_warps": 4}, _ARCH, tmp_path / "work")
    path = tmp_path / "text.cubin"
    path.write_text("not an image")
    with pytest.raises(Refused, match="is not a cubin"):
        later_stages.make(path, metadata, _ARCH, tmp_path / "work")

"""Languages that are compiled at run time: the source is found, and edits of it are judged."""

from __future__ import annotations

import sys
from pathlib import Path

import pytest

from kerncap.format import Reproducer
from tests.integration.conftest import CommandLine

from .captured import TARGETS, Judge, capture
from .test_libraries import needs

pytestmark = [pytest.mark.gpu, pytest.mark.timeout(400)]
SAMPLES = Path(__file__).parents[4] / "samples"


def edited(path: Path, folder: Path, name: str, old: str, new: str) -> Path:
    """The reproducer's source with one change, as a candidate."""
    with Reproducer.open(path) as reproducer:
        text, source = reproducer.source_text(), reproducer.manifest.source
    assert text is not None and source is not None and old in text
    file = folder / f"{name}{Path(source.file.path).suffix}"
    file.write_text(text.replace(old, new))
    return file


def test_numba(kerncap_of_module: CommandLine, judge: Judge, tmp_path: Path) -> None:
    needs("numba")
    sample = SAMPLES / "numba_axpy"
    captured = capture(kerncap_of_module, sys.executable, sample / "run.py", options=("-k", "^axpy$"))
    captured.target_is_unchanged()
    path = captured.one("axpy")
    manifest = captured.reproducers[path]
    assert manifest.source is not None and manifest.source.language == "numba", manifest.notes
    assert manifest.kernel.file is not None and manifest.kernel.file.endswith("numba_axpy/run.py")
    named = {argument.name: argument.signature for argument in manifest.arguments}
    assert (named["a"], named["x"], named["y"]) == ("float", "float*", "float*")
    assert {"x", "y"} <= {view.name for view in manifest.views}
    judge.agrees(path)
    judge.accepts(path, edited(path, tmp_path, "same", "y[i] += a *", "y[i] = y[i] + a *"))
    judge.rejects(path, sample / "wrong.py")
    broken = edited(path, tmp_path, "broken", "i = cuda.grid(1)", "i = undeclared")
    [done] = judge.ask(("verify", "--candidate", str(broken), str(path)))
    assert done.status == 1 and "undeclared" in done.stdout + done.stderr, done.stdout + done.stderr


def test_the_list_names_a_numba_kernel_so_that_it_can_be_captured(kerncap_of_module: CommandLine) -> None:
    needs("numba")
    done = kerncap_of_module("list", "--", sys.executable, SAMPLES / "numba_axpy" / "run.py")
    assert "-k '^axpy$'" in done.stdout + done.stderr, done.stdout + done.stderr


def test_cutile(kerncap_of_module: CommandLine, judge: Judge, tmp_path: Path) -> None:
    needs("cuda.tile")
    sample = SAMPLES / "cutile_scaled_add"
    captured = capture(kerncap_of_module, sys.executable, sample / "run.py", options=("-k", "^scaled_add$"))
    captured.target_is_unchanged()
    assert "agree" in captured.plain.stdout, captured.plain.stdout + captured.plain.stderr
    path = captured.one("scaled_add")
    manifest = captured.reproducers[path]
    assert manifest.source is not None and manifest.source.build is not None, manifest.notes
    assert manifest.source.build.tool == "cutile" and manifest.kernel.name == "scaled_add"
    assert manifest.kernel.file is not None and manifest.kernel.file.endswith("cutile_scaled_add/run.py")
    named = {argument.name: argument.signature for argument in manifest.arguments}
    assert (named["alpha"], named["x"], named["out"]) == ("float", "float*", "float*")
    assert {"x", "y", "out"} <= {view.name for view in manifest.views}
    judge.agrees(path)
    judge.accepts(
        path, edited(path, tmp_path, "same", "amplified(a) * alpha + b", "b + alpha * amplified(a)")
    )
    judge.rejects(path, sample / "wrong.py")
    broken = edited(path, tmp_path, "broken", "i = ct.bid(0)", "i = undeclared(0)")
    [done] = judge.ask(("verify", "--candidate", str(broken), str(path)))
    assert done.status == 1 and "undeclared" in done.stdout + done.stderr, done.stdout + done.stderr


def test_cute_dsl(kerncap_of_module: CommandLine, judge: Judge, tmp_path: Path) -> None:
    needs("cutlass")
    sample = SAMPLES / "cute_dsl_scaled_add"
    captured = capture(kerncap_of_module, sys.executable, sample / "run.py", options=("-k", "^scaled_add$"))
    captured.target_is_unchanged()
    assert "agree" in captured.plain.stdout, captured.plain.stdout + captured.plain.stderr
    path = captured.one("scaled_add")
    manifest = captured.reproducers[path]
    assert manifest.source is not None and manifest.source.build is not None, manifest.notes
    assert manifest.source.build.tool == "cute-dsl" and manifest.kernel.name == "scaled_add"
    assert manifest.kernel.file is not None and manifest.kernel.file.endswith("cute_dsl_scaled_add/run.py")
    named = {argument.name: argument.signature for argument in manifest.arguments}
    assert (named["alpha"], named["x"]) == ("float", "cute::Tensor<float>")
    assert {"x", "y", "out"} <= {view.name for view in manifest.views}
    judge.agrees(path)
    judge.accepts(
        path, edited(path, tmp_path, "same", "x[i] * GAIN * alpha + y[i]", "y[i] + alpha * (x[i] * GAIN)")
    )
    judge.rejects(path, sample / "wrong.py")
    broken = edited(path, tmp_path, "broken", "x[i] * GAIN", "undeclared(x[i])")
    [done] = judge.ask(("verify", "--candidate", str(broken), str(path)))
    assert done.status == 1 and "undeclared" in done.stdout + done.stderr, done.stdout + done.stderr


@pytest.mark.parametrize("sample", ["cutile_scaled_add", "cute_dsl_scaled_add"])
def test_the_list_names_a_kernel_of_a_python_compiler(kerncap_of_module: CommandLine, sample: str) -> None:
    needs("cuda.tile" if sample.startswith("cutile") else "cutlass")
    done = kerncap_of_module("list", "--", sys.executable, SAMPLES / sample / "run.py")
    assert "-k '^scaled_add$'" in done.stdout + done.stderr, done.stdout + done.stderr


def test_pallas(kerncap_of_module: CommandLine, judge: Judge) -> None:
    needs("jax")
    flags = "--xla_gpu_enable_command_buffer="
    env = {"XLA_PYTHON_CLIENT_MEM_FRACTION": "0.25", "XLA_FLAGS": flags}
    captured = capture(
        kerncap_of_module, sys.executable, TARGETS / "pallas_kernels.py",
        options=("-k", "scaled_(sum|difference)", "--launch", "0:1"), env=env,
    )  # fmt: skip
    captured.target_is_unchanged()
    assert captured.plain.status == 0, captured.plain.stderr
    for kernel in ("scaled_sum", "scaled_difference"):
        path = captured.one(kernel)
        manifest = captured.reproducers[path]
        assert manifest.kernel.name == kernel
        assert manifest.source is not None and manifest.source.language == "python-dsl", manifest.notes
        assert manifest.source.entry == kernel and manifest.kernel.file is not None
        assert manifest.kernel.file.endswith("targets/pallas_kernels.py")
        judge.agrees(path)


def test_cuda_core(kerncap_of_module: CommandLine, judge: Judge, tmp_path: Path) -> None:
    needs("cuda")
    needs("cuda.core")
    captured = capture(
        kerncap_of_module, sys.executable, TARGETS / "cuda_core_kernel.py", options=("-k", "kc_")
    )
    captured.target_is_unchanged()
    assert captured.plain.status == 0, captured.plain.stderr
    path = captured.one("kc_saxpy")
    manifest = captured.reproducers[path]
    assert manifest.source is not None and manifest.source.language == "cuda", manifest.notes
    assert [argument.signature for argument in manifest.arguments][:3] == ["float", "float const*", "float*"]
    judge.agrees(path)
    judge.accepts(path, edited(path, tmp_path, "same", "a * x[i] + y[i]", "y[i] + x[i] * a"))
    judge.rejects(path, edited(path, tmp_path, "wrong", "a * x[i]", "a * x[i] * T(1.001)"))


def test_cuda_core_linked(kerncap_of_module: CommandLine, judge: Judge) -> None:
    """A kernel of several programs: its image is what the linker made."""
    needs("cuda")
    needs("cuda.core")
    captured = capture(
        kerncap_of_module, sys.executable, TARGETS / "cuda_core_linked.py", options=("-k", "kc_")
    )
    captured.target_is_unchanged()
    assert captured.plain.status == 0, captured.plain.stderr
    judge.agrees(captured.one("kc_linked"))


def test_cuda_bindings(kerncap_of_module: CommandLine, judge: Judge, tmp_path: Path) -> None:
    needs("cuda")
    needs("cuda.bindings")
    sample = SAMPLES / "cuda_python_axpy"
    captured = capture(kerncap_of_module, sys.executable, sample / "run.py", options=("-k", "^axpy$"))
    captured.target_is_unchanged()
    assert "agree" in captured.plain.stdout, captured.plain.stdout + captured.plain.stderr
    path = captured.one("axpy")
    manifest = captured.reproducers[path]
    assert manifest.source is not None and manifest.source.build is not None, manifest.notes
    assert manifest.source.build.tool == "nvrtc"
    signatures = [argument.signature for argument in manifest.arguments]
    assert signatures == ["float", "float const*", "float*", "int"]
    judge.agrees(path)
    judge.accepts(path, edited(path, tmp_path, "same", "y[i] += a * x[i]", "y[i] = x[i] * a + y[i]"))
    judge.rejects(path, sample / "wrong.cu")

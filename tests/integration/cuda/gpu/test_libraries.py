"""CuPy, Numba and JAX, unchanged."""

from __future__ import annotations

import importlib.util
import sys
from pathlib import Path

import pytest

from kerncap.format import Reproducer
from tests.integration.conftest import CommandLine

from .captured import TARGETS, Captured, Judge, capture

pytestmark = [pytest.mark.gpu, pytest.mark.timeout(400)]


def needs(module: str) -> None:
    if importlib.util.find_spec(module) is None:
        pytest.skip(f"{module} is not installed")


@pytest.fixture(scope="module")
def cupy_kernels(kerncap_of_module: CommandLine, judge: Judge) -> Captured:
    needs("cupy")
    # A warm disk cache would hand out cubins, and NVRTC would see no source.
    env = {"CUPY_CACHE_IN_MEMORY": "1"}
    options = ("-k", "kc_raw|cupy_multiply", "--launch", "0:1")
    captured = capture(
        kerncap_of_module, sys.executable, TARGETS / "cupy_kernels.py", options=options, env=env
    )
    judge.prepare(captured.reproducers)
    return captured


@pytest.mark.parametrize("kernel", ["kc_raw", "cupy_multiply"])
def test_cupy(cupy_kernels: Captured, judge: Judge, kernel: str) -> None:
    cupy_kernels.target_is_unchanged()
    judge.agrees(cupy_kernels.one(kernel))


def test_an_edited_raw_kernel_is_compiled_and_judged(
    cupy_kernels: Captured, judge: Judge, tmp_path: Path
) -> None:
    path = cupy_kernels.one("kc_raw")
    with Reproducer.open(path) as reproducer:
        text = reproducer.source_text()
    assert text is not None and "x[i] * 2.0f + 1.0f" in text
    same, wrong, broken = (tmp_path / f"{name}.cu" for name in ("same", "wrong", "broken"))
    same.write_text(text.replace("x[i] * 2.0f + 1.0f", "1.0f + x[i] + x[i]"))
    judge.accepts(path, same)
    wrong.write_text(text.replace("2.0f + 1.0f", "2.0f + 1.5f"))
    judge.rejects(path, wrong)
    broken.write_text(text.replace("int i =", "int i = undeclared +"))
    [done] = judge.ask(("verify", "--candidate", str(broken), str(path)))
    assert done.status == 1 and "undeclared" in done.stdout + done.stderr, done.stdout + done.stderr


def test_numba(kerncap_of_module: CommandLine, judge: Judge) -> None:
    needs("numba")
    options = ("-k", "kc_axpy", "--launch", "1")
    captured = capture(kerncap_of_module, sys.executable, TARGETS / "numba_kernel.py", options=options)
    captured.target_is_unchanged()
    assert captured.plain.status == 0, captured.plain.stderr
    judge.agrees(captured.one("kc_axpy"))


@pytest.mark.parametrize("program", ["jax_matmul", "jax_step"])
def test_jax(kerncap_of_module: CommandLine, judge: Judge, program: str) -> None:
    needs("jax")
    # A quarter of the device is one allocation: other tests need the rest. Nothing is tuned, so that little
    # is launched, and nothing is put into graphs, which hold nodes that can't be left out.
    flags = "--xla_gpu_autotune_level=0 --xla_gpu_enable_command_buffer="
    env = {"XLA_PYTHON_CLIENT_MEM_FRACTION": "0.25", "XLA_FLAGS": flags}
    captured = capture(
        kerncap_of_module, sys.executable, TARGETS / f"{program}.py", options=("-k", ".", "--launch", "0:1"),
        env=env,
    )  # fmt: skip
    captured.target_is_unchanged()
    assert captured.plain.status == 0, captured.plain.stderr
    assert captured.reproducers and "--max-size" not in captured.captured.stderr, captured.captured.stderr
    assert any(manifest.zeros for manifest in captured.reproducers.values())
    judge.prepare(captured.reproducers)
    for path in captured.reproducers:
        judge.agrees(path)

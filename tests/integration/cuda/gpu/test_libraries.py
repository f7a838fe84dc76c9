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


def jax(kerncap: CommandLine, program: str, flags: str, launches: str) -> Captured:
    # A quarter of the device is one allocation: other tests need the rest. Nothing is tuned, so that little
    # is launched.
    env = {"XLA_PYTHON_CLIENT_MEM_FRACTION": "0.25", "XLA_FLAGS": f"--xla_gpu_autotune_level=0 {flags}"}
    options = ("-k", ".", "--launch", launches)
    captured = capture(kerncap, sys.executable, TARGETS / f"{program}.py", options=options, env=env)
    captured.target_is_unchanged()
    assert captured.plain.status == 0, captured.plain.stderr
    return captured


def test_jax_in_command_buffers(kerncap_of_module: CommandLine, judge: Judge) -> None:
    """XLA puts a step's launches into graphs, whose nodes it updates; each that runs there is captured."""
    needs("jax")
    captured = jax(kerncap_of_module, "jax_step", "--xla_gpu_graph_min_graph_size=1", launches="1:3")
    in_graphs = [
        path
        for path, manifest in captured.reproducers.items()
        if (manifest.launch.route or "").startswith("cuGraphLaunch node ")
    ]
    assert in_graphs, captured.names() + captured.captured.stderr
    assert " of its graph is a " not in captured.captured.stderr, captured.captured.stderr
    judge.prepare(in_graphs)
    for path in in_graphs:
        judge.agrees(path)


@pytest.mark.parametrize("program", ["jax_matmul", "jax_step"])
def test_jax(kerncap_of_module: CommandLine, judge: Judge, program: str) -> None:
    needs("jax")
    captured = jax(kerncap_of_module, program, "--xla_gpu_enable_command_buffer=", launches="0:1")
    assert captured.reproducers and "--max-size" not in captured.captured.stderr, captured.captured.stderr
    assert any(manifest.zeros for manifest in captured.reproducers.values())
    judge.prepare(captured.reproducers)
    for path in captured.reproducers:
        judge.agrees(path)

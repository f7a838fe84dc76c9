"""`kerncap export --as script` and `--as pytest` of Triton launches, run where there is no kerncap."""

from __future__ import annotations

import json
import sys
from pathlib import Path

import numpy as np
import pytest

from kerncap.format import Reproducer, schema
from tests.integration.conftest import CommandLine
from tests.unit.replay.build import Launch

from .bare import Bare
from .conftest import ROOT, Capture, sample

HERE = Path(__file__).parent
ON_CPU = {"TRITON_INTERPRET": "1", "CUDA_VISIBLE_DEVICES": ""}
NOTHING = """
import triton
import triton.language as tl


@triton.jit
def nothing(out_ptr, in_ptr, in_stride, out_stride, columns, BLOCK: tl.constexpr):
    pass
"""


def export(kerncap: CommandLine, reproducer: Path, kind: str, target: Path, *options: str) -> Path:
    done = kerncap("export", reproducer, "--as", kind, "-o", target, *options)
    assert done.status == 0, done.stderr
    return target


def run(bare: Bare, script: Path, *arguments: str | Path) -> tuple[int, str]:
    done = bare(script, *arguments, env=ON_CPU)
    assert done.stdout.strip(), done.stderr
    return done.status, done.result_line


def test_the_environment_has_no_kerncap(bare: Bare) -> None:
    found = "assert all(map(importlib.util.find_spec, ('numpy', 'triton', 'torch')))"
    done = bare("-c", f"import importlib.util; {found}; import kerncap")
    assert "ModuleNotFoundError: No module named 'kerncap'" in done.stderr


def results(bare: Bare, *scripts: Path, kernels: tuple[str, ...] = ()) -> list[str]:
    """What several scripts, or one with other kernels in its place, come to; one process for all."""
    done = bare(HERE / "several_runs.py", *scripts, "--kernels", *kernels, env=ON_CPU)
    assert done.status == 0, done.stdout + done.stderr
    return [line for line in done.stdout.splitlines() if line.startswith("Result: ")]


def test_a_script_of_softmax(kerncap: CommandLine, softmax: Path, bare: Bare) -> None:
    folder = export(kerncap, softmax, "script", kerncap.folder / "softmax")
    script = folder / "softmax_kernel.py"
    candidate = kerncap.folder / "nothing.py"
    candidate.write_text(NOTHING)
    samples = ROOT / "samples" / "softmax"
    kernels = (f"{candidate}:nothing", *(f"{samples / n}.py:softmax_kernel" for n in ("wrong", "faster")))
    nothing, wrong, faster = results(bare, script, kernels=kernels)
    assert nothing.startswith("Result: FAIL (out_ptr: 400 of 400 elements differ"), nothing
    assert wrong.startswith("Result: FAIL (out_ptr: 115 of 400 elements differ, first at out_ptr[0, 4]")
    assert faster.startswith("Result: PASS (within tolerance: max abs 1.49e-08"), faster


@pytest.mark.long
def test_one_file_holds_everything(kerncap: CommandLine, softmax: Path, bare: Bare) -> None:
    script = export(kerncap, softmax, "script", kerncap.folder / "one.py")
    alone = bare.work / "pasted.py"
    alone.write_text(script.read_text())
    status, line = run(bare, alone)
    assert (status, line) == (0, "Result: PASS (58,368 bytes identical, 25,600 written bytes poisoned)")
    candidate = kerncap.folder / "nothing.py"
    candidate.write_text(NOTHING)
    assert run(bare, alone, "--kernel", f"{candidate}:nothing")[0] == 1


@pytest.mark.long
def test_every_kind_of_argument(kerncap: CommandLine, captured: Capture, bare: Bare) -> None:
    folder = export(kerncap, captured(HERE / "targets" / "arguments.py"), "script", kerncap.folder / "mixed")
    script = folder / "mixed_kernel.py"
    text, store = script.read_text(), "    tl.store(low + i, (total * 2).to(tl.bfloat16))\n"
    edits = {
        store: "",
        "        total += 1\n": "        pass\n",
        "total * 2": "total * 2.1",
        "    tl.store(low + i,": f"    tl.store(low + i + 2 * N, total.to(tl.bfloat16))\n{store[:21]}",
    }
    scripts = [script]
    for number, (old, new) in enumerate(edits.items()):
        assert old in text, old
        scripts.append(folder / f"edited{number}.py")
        scripts[-1].write_text(text.replace(old, new))
    unchanged, unwritten, other, rounded, beside = results(bare, *scripts)
    assert unchanged.startswith("Result: PASS (") and "576 written bytes poisoned" in unchanged
    assert unwritten.startswith("Result: FAIL (low: 96 of 96 elements differ"), unwritten
    assert other.startswith("Result: FAIL (out: 96 of 96 elements differ"), other
    assert rounded.startswith("Result: FAIL (low: "), rounded
    assert "bytes outside the tensors of low were changed" in beside, beside


def test_a_pytest_file(kerncap: CommandLine, softmax: Path, bare: Bare) -> None:
    folder = export(kerncap, softmax, "pytest", kerncap.folder / "tests")
    done = bare("-m", "pytest", "-q", "-p", "no:cacheprovider", folder, env=ON_CPU)
    assert done.status == 0 and "1 passed" in done.stdout, done.stdout + done.stderr


def test_tasks_give_the_applications_result(kerncap: CommandLine, captured: Capture, bare: Bare) -> None:
    """Outputs that are allocated; and in place, with other dtypes and strides."""
    softmax = captured(sample("softmax"))
    gathered, after = gather_in_place()
    made = gathered.seal(kerncap.folder)
    with Reproducer.open(softmax) as opened:
        view = next(one for one in opened.manifest.views if one.name == "out_ptr")
        result = bytearray(64 * 100 * 4)
        opened.read_into("post", view.region, view.offset, memoryview(result))
    expected = {softmax: bytes(result), made: after.tobytes()}
    words: list[str | Path] = []
    for number, reproducer in enumerate(expected):
        for kind in ("kernelbench", "flashinfer-trace", "pygpubench"):
            folder = export(kerncap, reproducer, kind, kerncap.folder / f"{kind}{number}")
            task = next(folder.glob("*.py")) if kind == "kernelbench" else folder
            words += [kind, task, folder / "result"]
    assert "def forward(self, in_ptr):" in words[1].read_text()  # type: ignore[union-attr]
    done = bare(HERE / "run_tasks.py", *words, env=ON_CPU)
    assert done.status == 0, done.stderr
    for result_file, bytes_there in zip(
        words[2::3], [b for b in expected.values() for _ in "123"], strict=True
    ):
        assert Path(result_file).read_bytes() == bytes_there, result_file


@pytest.mark.long
def test_a_solution_is_a_candidate(kerncap: CommandLine, captured: Capture) -> None:
    softmax = captured(sample("softmax"))
    folder = export(kerncap, softmax, "flashinfer-trace", kerncap.folder / "traces")
    [solution] = (folder / "solutions").rglob("*.json")
    [source] = json.loads(solution.read_text())["sources"]
    (kerncap.folder / "solution.py").write_text(source["content"])
    done = kerncap("verify", softmax, "--candidate", "solution.py")
    assert done.status == 0 and "sanitizer passed" in done.result_line, done.stdout + done.stderr


def gather_in_place() -> tuple[Launch, np.ndarray]:
    """``x[index] *= weights``, with every third of the weights, and what x is then."""
    kernel = """
@triton.jit
def gather(x_ptr, index_ptr, weights_ptr, stride, N: tl.constexpr):
    i = tl.arange(0, N)
    at = tl.load(index_ptr + i)
    tl.store(x_ptr + at, tl.load(x_ptr + at) * tl.load(weights_ptr + i * stride))
"""
    random = np.random.default_rng(3)
    x, index = random.standard_normal(32).astype(np.float32), random.permutation(32)[:16].astype(np.int32)
    weights = random.standard_normal(48).astype(np.float32)
    after = x.copy()
    after[index] *= weights[::3]
    launch = Launch(kernel, "gather").tensor("x_ptr", x, after).tensor("index_ptr", index)
    view = launch.view("weights_ptr", launch.region(weights), "float32", (16,), strides=(3,))
    launch.argument("weights_ptr", schema.TensorValue(view=view)).argument("stride", 3).constexpr("N", 16)
    return launch, after


@pytest.mark.long
def test_a_pytest_file_of_a_wrong_kernel(kerncap: CommandLine, softmax: Path, bare: Bare) -> None:
    folder = export(kerncap, softmax, "pytest", kerncap.folder / "tests")
    test = folder / "test_softmax_kernel.py"
    wrong = f"{ROOT / 'samples' / 'softmax' / 'wrong.py'}:softmax_kernel"
    test.write_text(test.read_text().replace("KERNEL = None", f"KERNEL = {wrong!r}"))
    done = bare("-m", "pytest", "-q", "-p", "no:cacheprovider", folder, env=ON_CPU)
    assert done.status == 1 and "out_ptr: 115 of 400 elements differ" in done.stdout, done.stdout


@pytest.mark.long
def test_a_nan_of_the_application_fails(kerncap: CommandLine, bare: Bare) -> None:
    program = sample("nan_on_seventh")
    done = kerncap("capture", "--when", "nonfinite", "-o", "out", "--", sys.executable, program)
    assert done.status == 0, done.stderr
    [reproducer] = (kerncap.folder / "out").iterdir()
    script = export(kerncap, reproducer, "script", kerncap.folder / "nan.py")
    status, line = run(bare, script)
    assert status == 1 and "elements are NaN or infinite, as in the application" in line, line
    repaired = f"{program.with_name('repaired.py')}:standardise_kernel"
    status, line = run(bare, script, "--kernel", repaired)
    assert status == 0 and "written elements are finite" in line, line


@pytest.mark.long
@pytest.mark.parametrize(
    "name", ["flash_attention", "autotuned_matmul", "gather", "inplace_scale", "atomic_histogram"]
)
def test_samples(kerncap: CommandLine, captured: Capture, bare: Bare, name: str) -> None:
    script = export(kerncap, captured(sample(name)), "script", kerncap.folder / "one.py")
    status, line = run(bare, script)
    assert status == 0 and "bytes identical" in line, line

"""On an NVIDIA GPU: unchanged programs, replayed by the JIT and by the captured binary."""

from __future__ import annotations

import importlib.util
import os
import sys
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pytest

from kerncap.format import Reproducer, records
from tests.integration.conftest import CommandLine, Finished

pytestmark = [pytest.mark.gpu, pytest.mark.timeout(500)]

SAMPLES = Path(__file__).parents[3] / "samples"
TARGETS = Path(__file__).parent / "targets"
LAUNCHERS = ("jit", "binary")


def capture_all(kerncap: CommandLine, *command: str | Path, select: tuple[str, ...] = ()) -> list[Path]:
    done = kerncap(
        "capture", "-o", "out", "--no-self-check", *select, "--", sys.executable, *command, timeout=400
    )
    assert done.status == 0, done.stdout + done.stderr
    paths = sorted(path for path in (kerncap.folder / "out").iterdir() if not path.name.startswith("."))
    assert paths
    return paths


def replay_by_both(kerncap: CommandLine, paths: list[Path]) -> None:
    """Every reproducer by every launcher; all failures are told at once."""
    failures = {}

    def replay(case: tuple[Path, str]) -> Finished:
        path, launcher = case
        return kerncap("replay", "--engine", launcher, path, timeout=300)

    cases = [(path, launcher) for path in paths for launcher in LAUNCHERS]
    # Most of a replay is the import of torch: many at once cost little more than one.
    with ThreadPoolExecutor(min(len(cases), os.cpu_count() or 1)) as pool:
        for (path, launcher), done in zip(cases, pool.map(replay, cases), strict=True):
            assert Reproducer.open(path).manifest.device.kind == "cuda"
            if not done.stdout.strip() or not done.result_line.startswith("Result: PASS"):
                failures[f"{path.name} {launcher}"] = (done.stdout + done.stderr)[-1200:]
            elif "within tolerance" in done.result_line and "noise" not in done.stdout:
                failures[f"{path.name} {launcher}"] = "not bit for bit: " + done.stdout[-600:]
    assert not failures, "\n\n".join(f"{name}:\n{text}" for name, text in failures.items())


@pytest.mark.parametrize(
    "sample",
    ["vector_add", "inplace_scale", "softmax", "autotuned_matmul", "layer_norm", "flash_attention", "gather",
     "atomic_histogram", "torch_compile_block"],
)  # fmt: skip
def test_samples(kerncap: CommandLine, sample: str) -> None:
    replay_by_both(kerncap, capture_all(kerncap, SAMPLES / sample / "run.py"))


@pytest.mark.skipif(importlib.util.find_spec("liger_kernel") is None, reason="liger-kernel is not installed")
def test_liger(kerncap: CommandLine) -> None:
    paths = capture_all(
        kerncap, TARGETS / "liger_ops.py", select=("-k", r"^liger_kernel\.", "--launch", "0:1")
    )
    assert len(paths) >= 15
    replay_by_both(kerncap, paths)


def test_a_fault_kills_the_target_and_is_sealed(kerncap: CommandLine) -> None:
    target = kerncap.target(
        """
    @triton.jit
    def gather(x_ptr, index_ptr, y_ptr, n, BLOCK: tl.constexpr):
        i = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
        index = tl.load(index_ptr + i, mask=i < n, other=0)
        tl.store(y_ptr + i, tl.load(x_ptr + index), mask=i < n)

    x, y = torch.randn(64, device="cuda"), torch.zeros(64, device="cuda")
    for step in range(4):
        index = torch.arange(64, device="cuda")
        if step == 2:
            index[5] = 1 << 44
        gather[(2,)](x, index, y, 64, BLOCK=32)
    torch.cuda.synchronize()
    """
    )
    done = kerncap("capture", "--json", "--on-fault", "-o", "out", "--", sys.executable, target)
    assert done.status != 0
    [name] = done.document["captured"]
    path = kerncap.folder / name
    assert Reproducer.open(path).manifest.oracle.kind == "fault"
    for launcher in LAUNCHERS:
        again = kerncap("replay", "--engine", launcher, path)
        assert again.result_line.startswith("Result: PASS"), again.stdout + again.stderr
    source = (path / "source" / "kernel.py").read_text()
    repaired = kerncap.folder / "repaired.py"
    repaired.write_text(
        source.replace("tl.load(x_ptr + index)", "tl.load(x_ptr + index, mask=(index < n), other=0.0)")
    )
    fixed = kerncap("verify", path, "--candidate", repaired, "--expect", "finite")
    assert fixed.result_line.startswith("Result: PASS"), fixed.stdout + fixed.stderr
    assert kerncap("verify", path, "--expect", "finite").status == 1


def test_inside_a_graph_capture(kerncap: CommandLine) -> None:
    """The shim takes it when the graph is launched, with the hook's source; the hook alone refuses it."""
    target = kerncap.target(
        """
    @triton.jit
    def bump(x_ptr, BLOCK: tl.constexpr):
        i = tl.arange(0, BLOCK)
        tl.store(x_ptr + i, tl.load(x_ptr + i) + 1)

    x = torch.zeros(8, device="cuda")
    bump.warmup(x, BLOCK=8, grid=(1,))
    graph = torch.cuda.CUDAGraph()
    with torch.cuda.graph(graph):
        bump[(1,)](x, BLOCK=8)
    graph.replay()
    torch.cuda.synchronize()
    assert x[0] == 1
    """
    )
    command = ("--", sys.executable, target)
    alone = kerncap("capture", "--json", "--backend", "triton", "-o", "alone", *command)
    assert alone.document["captured"] == []
    assert "CUDA shim" in alone.document["reason"], alone.document
    done = kerncap("capture", "--json", "-k", "bump", "-o", "out", *command)
    [path] = done.document["captured"]
    manifest = Reproducer.open(kerncap.folder / path).manifest
    assert manifest.kernel.language == "triton" and manifest.source is not None
    assert "raph" in (manifest.launch.route or "")
    for engine in ("jit", "binary"):
        assert kerncap("replay", "--engine", engine, path).status == 0


def test_addresses_are_honoured_in_fresh_processes(kerncap: CommandLine) -> None:
    [path] = capture_all(kerncap, SAMPLES / "vector_add" / "run.py", select=("-k", "add"))
    for _ in range(5):
        done = kerncap("replay", "--json", "--engine", "binary", path)
        assert done.document["placement"]["relocated"] == [], done.document


def test_a_side_stream_and_fp8_arguments(kerncap: CommandLine) -> None:
    target = kerncap.target(
        """
    @triton.jit
    def widen(x_ptr, y_ptr, n, BLOCK: tl.constexpr):
        i = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
        tl.store(y_ptr + i, tl.load(x_ptr + i, mask=i < n).to(tl.float32), mask=i < n)

    stream = torch.cuda.Stream()
    with torch.cuda.stream(stream):
        x = torch.randn(1000, device="cuda").to(torch.float8_e4m3fn)
        y = torch.empty(1000, device="cuda")
        widen[(8,)](x, y, 1000, BLOCK=128)
        assert torch.equal(y, x.float())
    """
    )
    replay_by_both(kerncap, kerncap.capture(target=target))


def test_tensor_descriptors(kerncap: CommandLine) -> None:
    target = kerncap.target(
        """
    from triton.tools.tensor_descriptor import TensorDescriptor

    @triton.jit
    def copy_tile(source, destination, BLOCK: tl.constexpr):
        row = tl.program_id(0) * BLOCK
        destination.store([row, 0], source.load([row, 0]) + 1)

    x = torch.randn(128, 64, device="cuda", dtype=torch.float16)
    y = torch.zeros_like(x)
    source, destination = (TensorDescriptor.from_tensor(t, [32, 64]) for t in (x, y))
    copy_tile[(4,)](source, destination, BLOCK=32)
    torch.testing.assert_close(y, x + 1)
    """
    )
    replay_by_both(kerncap, kerncap.capture(target=target))


def test_nonfinite_takes_the_seventh_launch(kerncap: CommandLine) -> None:
    sample = SAMPLES / "nan_on_seventh"
    done = kerncap(
        "capture", "--json", "--when", "nonfinite", "-o", "out", "--", sys.executable, sample / "run.py"
    )
    [name] = done.document["captured"]
    path = kerncap.folder / name
    manifest = Reproducer.open(path).manifest
    assert manifest.launch.ordinal == 6
    assert (manifest.oracle.kind, manifest.oracle.condition) == ("suspect", "nonfinite")
    for launcher in LAUNCHERS:
        assert kerncap("replay", "--engine", launcher, path).status == 0, "the NaN is reproduced"
    repaired = kerncap("verify", path, "--candidate", sample / "repaired.py", "--expect", "finite")
    assert repaired.result_line.startswith("Result: PASS"), repaired.stdout + repaired.stderr
    assert kerncap("verify", path, "--expect", "finite").status == 1


def test_differs_leaves_the_applications_own_result(kerncap: CommandLine) -> None:
    target = kerncap.target(
        """
    @triton.jit
    def steady(x_ptr, BLOCK: tl.constexpr):
        i = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
        tl.store(x_ptr + i, tl.load(x_ptr + i) + 1)

    @triton.jit
    def sums(x_ptr, y_ptr, n, BLOCK: tl.constexpr):
        i = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
        tl.atomic_add(y_ptr + i % 64, tl.load(x_ptr + i, mask=i < n), mask=i < n)

    n = 1 << 20
    x = torch.randn(n, device="cuda") * torch.logspace(-6, 6, n, device="cuda")
    y = torch.zeros(64, device="cuda")
    counts = torch.zeros(1024, device="cuda")
    for _ in range(3):
        steady[(8,)](counts, BLOCK=128)
    sums[(n // 256,)](x, y, n, BLOCK=256)
    assert torch.all(counts == 3), "a second launch must leave nothing behind"
    torch.testing.assert_close(y, x.view(-1, 64).double().sum(0).float(), rtol=1e-3, atol=10)
    """
    )
    [path] = kerncap.capture("--when", "differs", target=target)
    manifest = Reproducer.open(path).manifest
    assert manifest.kernel.name == "sums"
    assert (manifest.oracle.kind, manifest.oracle.condition) == ("suspect", "differs")


def test_the_first_launch_counts_no_compiling(kerncap: CommandLine) -> None:
    target = kerncap.target(
        """
    @triton.jit
    def bump(x_ptr, BLOCK: tl.constexpr):
        i = tl.arange(0, BLOCK)
        tl.store(x_ptr + i, tl.load(x_ptr + i) + 1)

    x = torch.zeros(8, device="cuda")
    for _ in range(2):
        bump[(1,)](x, BLOCK=8)
    """
    )
    options = ("-k", "bump", "--launch", "0:2", "--keep-session", "--backend", "triton")
    kerncap.capture(*options, target=target, expect=2)
    [session] = (kerncap.folder / "out").glob(".kerncap-session-*")
    durations = [
        record.payload["duration_ns"]
        for file in session.glob("*/records")
        for record in records.decode(file.read_bytes())
        if record.kind is records.RecordKind.COMPLETE
    ]
    assert durations[0] is None
    assert durations[1] > 0

"""torch's own kernels, unchanged: captured, replayed bit for bit in a fresh process, verified."""

from __future__ import annotations

import sys
from pathlib import Path

import pytest

from kerncap.format import Reproducer
from tests.integration.conftest import CommandLine

from .captured import ROOT, TARGETS, Captured, Judge, capture

pytestmark = [pytest.mark.gpu, pytest.mark.timeout(560)]

# By operation: what the mangled name of one of its kernels holds. Alternatives, since libraries choose.
OPERATIONS: dict[str, tuple[str, ...]] = {
    "elementwise": ("CUDAFunctor_add",),
    "reduction": ("reduce_kernel",),
    "sort": ("SortKVInPlace",),
    "large sort": ("RadixSort",),
    "matmul": ("nvjet",),
    "attention": ("flash_fwd",),
    "conv2d": ("fprop", "convolve", "cudnn"),
    "foreach": ("multi_tensor_apply_kernel",),
}
NOISY = {"scatter_add": ("scatter_gather",)}
PATTERN = "|".join(word for words in (*OPERATIONS.values(), *NOISY.values()) for word in words)


def of(captured: Captured, words: tuple[str, ...]) -> Path:
    """The reproducer of the first alternative that was launched."""
    for word in words[:-1]:
        names = captured.names()
        if word in names:
            return captured.one(word)
    return captured.one(words[-1])


@pytest.fixture(scope="module")
def operations(kerncap_of_module: CommandLine, judge: Judge) -> Captured:
    options = ("-k", PATTERN, "--launch", "0:1")
    captured = capture(kerncap_of_module, sys.executable, TARGETS / "torch_ops.py", options=options)
    found = [words for words in (*OPERATIONS.values(), *NOISY.values())
             if any(word in captured.names() for word in words)]  # fmt: skip
    judge.prepare(of(captured, words) for words in found)
    return captured


def test_the_program_notices_nothing(operations: Captured) -> None:
    operations.target_is_unchanged()
    assert operations.plain.status == 0, operations.plain.stderr


@pytest.mark.parametrize("operation", OPERATIONS)
def test_replayed_bit_for_bit_and_verified(operations: Captured, judge: Judge, operation: str) -> None:
    path = of(operations, OPERATIONS[operation])
    manifest = operations.reproducers[path]
    assert manifest.closure.consistency == "gated"
    assert manifest.kernel.language == "cuda"
    judge.agrees(path)


def test_scatter_add_within_its_noise(operations: Captured, judge: Judge) -> None:
    judge.agrees(of(operations, NOISY["scatter_add"]), exact=False)


def test_lists_of_pointers_lead_to_their_tensors(operations: Captured) -> None:
    """A foreach kernel's pointers lie inside one struct parameter."""
    path = of(operations, OPERATIONS["foreach"])
    with Reproducer.open(path) as reproducer:
        assert any(region.size >= 70000 * 4 for region in reproducer.manifest.regions)
        assert len(reproducer.manifest.regions) >= 2


def test_a_library_without_source_says_so(operations: Captured, judge: Judge) -> None:
    [done] = judge.ask(("inspect", str(of(operations, OPERATIONS["matmul"]))))
    assert done.status == 0
    assert "no source" in done.stdout.lower() or "vendor" in done.stdout.lower(), done.stdout


def test_inside_a_cuda_graph(kerncap_of_module: CommandLine, judge: Judge) -> None:
    options = ("-k", "sinh_kernel|atan_kernel", "--launch", "0:1")
    captured = capture(kerncap_of_module, sys.executable, TARGETS / "torch_graph.py", options=options)
    captured.target_is_unchanged()
    paths = [captured.one(name) for name in ("sinh_kernel", "atan_kernel")]
    judge.prepare(paths)
    for path in paths:
        assert "raph" in (captured.reproducers[path].launch.route or "")
        judge.agrees(path)


def test_a_compiled_function(kerncap_of_module: CommandLine, judge: Judge) -> None:
    """torch.compile: Triton's source and configuration on top of the shim's memory."""
    program = ROOT / "samples" / "torch_compile_block" / "run.py"
    captured = capture(
        kerncap_of_module, sys.executable, program, options=("-k", "triton_", "--launch", "0:1")
    )
    captured.target_is_unchanged()
    assert captured.reproducers
    judge.prepare(captured.reproducers)
    for path, manifest in captured.reproducers.items():
        assert (manifest.kernel.language, manifest.launch.mode) == ("triton", "inductor")
        assert manifest.closure.consistency == "gated"
        assert manifest.source is not None
        judge.agrees(path, exact=False)


def test_a_fault_is_sealed_with_its_memory(kerncap_of_module: CommandLine, judge: Judge) -> None:
    options = ("--on-fault",)
    captured = capture(kerncap_of_module, sys.executable, TARGETS / "torch_fault.py", options=options)
    captured.target_is_unchanged()
    assert captured.plain.status == 9, captured.plain.stderr
    [path] = captured.reproducers
    assert captured.reproducers[path].oracle.kind == "fault"
    with Reproducer.open(path) as reproducer:
        indices = [
            reproducer.read("pre", n, 7 * 8, 8)
            for n, region in enumerate(reproducer.manifest.regions)
            if region.size >= 64 * 8
        ]
        assert (1000).to_bytes(8, "little") in indices or any(
            (1000).to_bytes(8, "little") in reproducer.read("pre", n, 0, min(region.size, 2 << 20))
            for n, region in enumerate(reproducer.manifest.regions)
        )
    [again] = judge.ask(("replay", str(path)))
    assert again.result_line.startswith("Result: PASS"), again.stdout + again.stderr

"""Kernels beside others that use the device's heap: no reproducer holds it, and nobody else can be blamed."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.integration.conftest import CommandLine

from .captured import Captured, Judge, build, capture, compile_candidate

pytestmark = [pytest.mark.gpu, pytest.mark.timeout(200)]

BESIDE = "__global__ void kc_beside(const int* x, int* out, int n) {{\n  {}\n}}\n"
LOOP = "for (int i = threadIdx.x; i < n; i += blockDim.x) out[i] = {};"


@pytest.fixture(scope="module")
def heap(kerncap_of_module: CommandLine, judge: Judge) -> Captured:
    captured = capture(
        kerncap_of_module, build("heap.cu", "heap_other.cu"), options=("-k", "kc_", "--launch", "0:1")
    )
    judge.prepare(captured.one(name) for name in ("kc_use", "kc_beside"))
    return captured


def test_the_program_and_its_heap_are_as_without(heap: Captured) -> None:
    heap.target_is_unchanged()
    assert heap.plain.status == 0, heap.plain.stderr
    in_use = {}
    for name in ("kc_make", "kc_use", "kc_beside"):
        limits = heap.reproducers[heap.one(name)].launch.limits
        assert limits is not None and limits.heap_bytes == 16 << 20
        in_use[name] = limits.heap_in_use
    assert in_use["kc_use"] and in_use["kc_beside"], in_use


@pytest.mark.parametrize("verb", ["replay", "verify"])
def test_what_lies_in_the_heap_is_not_there(heap: Captured, judge: Judge, verb: str) -> None:
    [done] = judge.ask((verb, "--json", str(heap.one("kc_use"))))
    assert done.status == 5, done.stdout + done.stderr
    assert "may be addresses of the device's heap" in done.document["summary"], done.stdout


def test_a_kernel_that_does_not_need_it_is_judged(heap: Captured, judge: Judge) -> None:
    judge.agrees(heap.one("kc_beside"))


@pytest.mark.parametrize("body", [LOOP.format("2 * x[i] + 2"), "out[0] = x[1LL << 40];"])
def test_a_wrong_candidate_is_found(heap: Captured, judge: Judge, tmp_path: Path, body: str) -> None:
    """By its result, or by its fault."""
    path = heap.one("kc_beside")
    source = tmp_path / "wrong.cu"
    source.write_text(BESIDE.format(body))
    judge.rejects(path, compile_candidate(source, heap.reproducers[path].device.arch))

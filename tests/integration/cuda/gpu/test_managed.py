"""Memory that host and device share: captured, replayed, and left to the application as it was."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.integration.conftest import CommandLine

from .captured import Captured, Judge, build, capture, compile_candidate

pytestmark = [pytest.mark.gpu, pytest.mark.timeout(300)]

KERNELS = ("kc_walk", "kc_variable", "kc_advised", "kc_attached")


@pytest.fixture(scope="module")
def managed(kerncap_of_module: CommandLine, judge: Judge) -> Captured:
    captured = capture(kerncap_of_module, build("managed.cu"), options=("-k", "kc_", "--launch", "0"))
    judge.prepare(captured.reproducers)
    return captured


def test_the_program_finds_its_memory_as_without(managed: Captured) -> None:
    """What it computes, what was advised, and where it was prefetched to."""
    managed.target_is_unchanged()
    assert managed.plain.status == 0, managed.plain.stderr
    assert len(managed.reproducers) == len(KERNELS), managed.names()


@pytest.mark.parametrize("kernel", KERNELS)
def test_a_replay_agrees(managed: Captured, judge: Judge, kernel: str) -> None:
    path = managed.one(kernel)
    kinds = {region.kind for region in managed.reproducers[path].regions}
    assert "managed" in kinds and (kernel != "kc_variable" or "global" in kinds)
    judge.agrees(path)


def test_a_wrong_candidate_is_found(managed: Captured, judge: Judge, tmp_path: Path) -> None:
    path = managed.one("kc_advised")
    source = tmp_path / "wrong.cu"
    source.write_text(
        "__global__ void kc_advised(const int* from, int* to, int n) {\n"
        "  int i = blockIdx.x * blockDim.x + threadIdx.x;\n"
        "  if (i < n) to[i] = from[i] * 3 + (i != n - 1);\n}\n"
    )
    judge.rejects(path, compile_candidate(source, managed.reproducers[path].device.arch))

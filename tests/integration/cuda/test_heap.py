"""Kernels that read what others made with malloc: no reproducer holds it, and a replay has a fault."""

from __future__ import annotations

from tests.integration.cuda.conftest import Bench


def test_a_replay_that_lacks_the_heap_is_undecided(bench: Bench) -> None:
    """The kernel's own module calls no malloc; and the program still can't set the heap's size."""
    captured = bench.capture("-k", "use_list", client=("heap", "limit"))
    limits = captured.manifest().launch.limits
    assert limits is not None and limits.heap_in_use and limits.heap_bytes == 16 << 20
    document = bench.judge(captured.path)
    assert document["result"] == "undecided"
    assert "CUDA_ERROR_ILLEGAL_ADDRESS" in document["summary"]
    assert "may be addresses of the device's heap, which other kernels use" in document["summary"]


def test_a_kernel_beside_a_heap_is_judged(bench: Bench) -> None:
    captured = bench.capture("-k", "make_list|use_list", "--launch", "0", client=("heap", "other"), expect=2)
    by_name = {captured.manifest(path).kernel.name: path for path in captured.paths}
    first, second = (captured.manifest(by_name[name]).launch.limits for name in ("make_list", "use_list"))
    assert first is not None and not first.heap_in_use, "no kernel has used it yet"
    assert second is not None and second.heap_in_use
    bench.passes(by_name["use_list"])

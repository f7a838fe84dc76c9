"""Two GPUs that reach each other's memory, as amdkfd links them if the host may touch it."""

from __future__ import annotations

from .conftest import Bench, Programs, fnv, post_of

TWO = {"AMD_GPU_COUNT": "2", "AMD_GPU_LARGE_BAR": "1"}


def test_a_launch_that_reads_another_gpus_memory(bench: Bench, programs: Programs) -> None:
    run = bench.capture("-k", ".", "--launch", "0", program=(programs("peers"),), extra=TWO, expect=2)
    assert "access 1" in run.plain.stdout
    outputs = run.outputs()
    for path, manifest in run.manifests().items():
        output = outputs[manifest.kernel.name]
        assert fnv(post_of(path, output)) == output.hash
        document = bench.judge(path)  # one GPU
        assert document["result"] == "pass", document


def test_without_links_there_is_no_access(bench: Bench, programs: Programs) -> None:
    assert "access 0" in bench.run(programs("peers"), extra={"AMD_GPU_COUNT": "2"}).stdout

"""`malloc` and `free` in a kernel that is captured: HIP's own thread serves them while the launch runs."""

from __future__ import annotations

from .conftest import Bench, Programs, fnv, post_of


def test_memory_that_a_kernel_takes_and_gives_back(bench: Bench, programs: Programs) -> None:
    run = bench.capture("-k", "^reversed$", program=(programs("heap"),))
    output = run.outputs()["reversed"]
    assert fnv(post_of(run.path, output)) == output.hash
    document = bench.judge(run.path)
    assert document["result"] == "pass", document

"""`kerncap list` of Triton on an AMD GPU: who a kernel is comes from the hook, its time from HSA's queues."""

from __future__ import annotations

import sys

import pytest

from .conftest import Bench
from .test_triton import KERNELS, NAMES, environment, pytestmark  # noqa: F401  (the same need of Triton)


@pytest.mark.long
def test_the_hooks_kernels_have_the_shims_times(shared_bench: Bench) -> None:
    rig = shared_bench.rig
    program = [*rig.run_prefix, sys.executable, KERNELS, *(name.removesuffix("_kernel") for name in NAMES)]
    done = shared_bench("list", "--json", "--", *program, extra=environment(rig))
    assert done.status == 0, done.stderr
    document = done.document
    kernels = {kernel["name"]: kernel for kernel in document["kernels"]}
    assert set(kernels) == set(NAMES), "each once: not as Triton's and as a native kernel"
    assert [clock["clock"] for clock in document["clocks"]] == ["hsa"]
    for name, kernel in kernels.items():
        [row] = kernel["rows"]
        assert (row["launches"], row["timed"]) == (1, 1) and row["time_ns"] == kernel["time_ns"] > 0
        assert row["block"] is not None and "B" in row["config"], "of both: the packet's, the hook's"
        assert kernel["stack"][-1][2] == name.removesuffix("_kernel")
        assert kernel["command_is_exact"]

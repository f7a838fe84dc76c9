"""Kernels of graphs that have host, event, child graph, memory and conditional nodes, captured in place."""

from __future__ import annotations

import pytest

from tests.integration.conftest import CommandLine

from .captured import Judge, build, capture

pytestmark = [pytest.mark.gpu, pytest.mark.timeout(500)]


@pytest.mark.parametrize(
    ("how", "launches", "nodes"),
    [
        ("nested", "0:9", {"1": 2, "2.1.0": 2, "2.1.1": 2, "2.3": 2, "5": 2}),
        # From the launch after the update on.
        ("updated", "2:9", {"2.1.0": 1, "2.1.1": 1, "5": 1}),
        ("updated_as_a_whole", "2:9", {"1": 1, "2.1.0": 1, "2.1.1": 1, "5": 1}),
        # Stopped at each kernel: bodies count their runs in the memory that the kernel behind them reads.
        ("if", "0:9", {"0": 2, "1.0": 2, "2": 2}),
        ("else", "0:9", {"0": 2, "1.1": 2, "1.2": 2, "2": 2}),
        ("switch", "0:9", {"0": 2, "1.1": 2, "1.2": 2, "2": 2}),
        ("decided", "0:9", {"1.2.0": 2, "2": 2}),
        ("while", "0:9", {"0": 2, "1.0": 4, "2": 2}),
        # What it prints has the device's own word of its graphs' memory, too.
        ("memory", "0:9", {"1": 2, "2": 2, "3": 2}),
        ("memory_between", "0:9", {"0": 1, "1": 1}),
        ("captured_child", "0:2", {"0": 1, "1.0": 1, "1.1": 2, "2": 2}),
    ],
)
def test_kernels_in_place(
    kerncap_of_module: CommandLine, judge: Judge, how: str, launches: str, nodes: dict[str, int]
) -> None:
    """What the parts of a launch compute together is what the target computes without kerncap."""
    captured = capture(
        kerncap_of_module, build("graph_kinds.cu"), how, options=("-k", "kc_", "--launch", launches)
    )
    captured.target_is_unchanged()
    routes = [(manifest.launch.route or "").split() for manifest in captured.reproducers.values()]
    found = sorted(route[-1] for route in routes)
    assert found == sorted(node for node, times in nodes.items() for _ in range(times)), (
        captured.captured.stderr
    )
    judge.prepare(captured.reproducers)
    for path in captured.reproducers:
        judge.agrees(path)


def test_a_kernel_that_decides_is_refused(kerncap_of_module: CommandLine) -> None:
    captured = capture(kerncap_of_module, build("graph_kinds.cu"), "while", options=("-k", "kc_turn"))
    assert captured.captured.stdout == captured.plain.stdout and captured.plain.status == 0
    assert captured.captured.status == 1 and not captured.reproducers
    reason = (
        "it sets the condition of a conditional node, which it can't do outside of its graph; graph of 3 "
        "nodes: 0 kernel kc_scale, 1 conditional (while) of 2 (0 kernel kc_count, 1 kernel kc_turn), "
        "2 kernel kc_add"
    )
    assert reason in captured.captured.stderr

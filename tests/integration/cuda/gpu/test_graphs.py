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
        # Twice: the bodies count their runs in the memory that the kernel behind them reads.
        ("if", "0:9", {"2": 2}),
        ("else", "0:9", {"2": 2}),
        ("switch", "0:9", {"2": 2}),
        ("decided", "0:9", {"2": 2}),
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


@pytest.mark.parametrize(
    ("how", "kernel", "reason"),
    [
        (
            "memory",
            "kc_add",
            "node 0 of its graph is a memory allocation node, with which a graph can be neither copied nor "
            "launched in parts; graph of 5 nodes: 0 memory allocation, 1 kernel kc_add, 2 kernel kc_scale, "
            "3 kernel kc_add, 4 memory free",
        ),
        (
            "while",
            "kc_scale",
            "node 1 of its graph is a conditional (while) node: a kernel can run alone only behind such "
            "nodes, if they are `if` and `switch` nodes and all others, in their bodies too, are kernels, "
            "copies and fills; graph of 3 nodes: 0 kernel kc_scale, 1 conditional (while) of 2 (0 kernel "
            "kc_count, 1 kernel kc_turn), 2 kernel kc_add",
        ),
        ("if", "kc_count", "it runs in a body of node 1 of its graph, a conditional node"),
    ],
)
def test_a_graph_that_cannot_be_taken_apart_is_outlined(
    kerncap_of_module: CommandLine, how: str, kernel: str, reason: str
) -> None:
    captured = capture(kerncap_of_module, build("graph_kinds.cu"), how, options=("-k", kernel))
    assert captured.captured.stdout == captured.plain.stdout and captured.plain.status == 0
    assert captured.captured.status == 1 and not captured.reproducers
    assert reason in captured.captured.stderr

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
        # A kernel of it waits for the thread that launches it.
        ("flag", "0:9", {"1": 1, "3": 1, "4": 1, "none": 1}),
        ("changed_after_launch", "0:9", {"1": 2, "3": 2, "4": 2}),
        ("unwaited", "0:9", {"1": 1, "3": 1, "4": 1}),
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
    routes = [
        (manifest.launch.route or "").rpartition(" node ") for manifest in captured.reproducers.values()
    ]
    found = sorted(node if is_graphs else "none" for _, is_graphs, node in routes)
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


def test_the_thread_that_launched_waits_for_its_next_launch(kerncap_of_module: CommandLine) -> None:
    """A kernel of the graph waits for that thread: it is let go, and nothing more of it is captured."""
    captured = capture(
        kerncap_of_module, build("graph_kinds.cu"), "flag_launch", options=("-k", "kc_", "--launch", "0:9")
    )
    assert captured.captured.stdout == captured.plain.stdout and captured.plain.status == 0
    assert "its graph was let go: for 5 s it came to no other stop" in captured.captured.stderr


def test_a_stop_at_the_kernel_that_waits(kerncap_of_module: CommandLine) -> None:
    """It is launched beside its graph, and the thread that launched the graph sets its flag."""
    options = ("-k", "wait_for_host", "--no-self-check")
    captured = capture(kerncap_of_module, build("graph_kinds.cu"), "flag", options=options)
    captured.target_is_unchanged()
    assert len(captured.reproducers) == 1, captured.captured.stderr


def test_what_waits_for_an_idle_device_does_not_keep_a_graph_at_its_stop(
    kerncap_of_module: CommandLine,
) -> None:
    options = ("-k", "kc_", "--launch", "0:9")
    captured = capture(kerncap_of_module, build("graph_kinds.cu"), "long", options=options)
    assert captured.captured.stdout == captured.plain.stdout, captured.captured.stderr
    assert captured.plain.status == 0 and len(captured.reproducers) >= 1, captured.captured.stderr

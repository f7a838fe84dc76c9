"""Kernels inside graphs, and programs that capture graphs themselves."""

from __future__ import annotations

import struct

import pytest

from tests.integration.cuda.conftest import Bench, opened
from tests.parameters import first_of


@first_of("how", ["child", "captured", "explicit", "inspected", "host_node"])
def test_a_kernel_in_a_launched_graph(bench: Bench, how: str) -> None:
    captured = bench.capture("-k", "vector_add", client=("graphs", how))
    route = captured.manifest().launch.route
    node = {"child": "0.2", "host_node": "3", "explicit": "4"}.get(how, "2")
    assert route == f"cuGraphLaunch node {node}"
    bench.passes(captured.path)


def test_every_kernel_of_graphs_in_graphs(bench: Bench) -> None:
    """Between host, event, memset and memcpy nodes, after the target has changed and destroyed its graphs."""
    captured = bench.capture(
        "-k", "vector_add|scale_in_place|increment", "--launch", "0:9", client=("graphs", "nested"), expect=10
    )
    manifests = [captured.manifest(path) for path in captured.paths]
    routes = [manifest.launch.route.rpartition(" ")[2] for manifest in manifests if manifest.launch.route]
    assert routes == ["1", "2.1.0", "2.1.1", "2.3", "5"] * 2
    bench.passes(captured.paths[1])
    bench.passes(captured.paths[4])


@first_of("how", ["updated", "updated_as_a_whole"])
def test_parts_have_the_parameters_that_the_exec_was_given_last(bench: Bench, how: str) -> None:
    # The output is that of a plain run: what a part ran with old parameters would show in it.
    captured = bench.capture("-k", "vector_add", "--launch", "2:4", client=("graphs", how), expect=2)
    for path in captured.paths:
        bench.passes(path)


@first_of("how", ["memory", "while"])
def test_a_graph_that_cannot_be_taken_apart_is_outlined(bench: Bench, how: str) -> None:
    captured = bench.capture("-k", "vector_add", client=("graphs", how), expect=0)
    assert captured.done.status == 1
    number, kind, outline = {
        "memory": (
            0,
            "memory allocation",
            "5 nodes: 0 memory allocation, 1 kernel vector_add, 2 kernel scale_in_place, "
            "3 kernel vector_add, 4 memory free",
        ),
        "while": (
            1,
            "conditional (while)",
            "3 nodes: 0 kernel scale_in_place, 1 conditional (while) of 2 (0 kernel increment, "
            "1 kernel turn), 2 kernel vector_add",
        ),
    }[how]
    assert f"node {number} of its graph is a {kind} node" in captured.reason, captured.reason
    assert outline in captured.reason, captured.reason


@pytest.mark.parametrize(
    ("how", "first", "node"),
    [
        ("if", "scale_in_place", "conditional (if) of 1 (0 kernel increment)"),
        pytest.param(
            "else",
            "scale_in_place",
            "conditional (if) of 3 (0 kernel increment, 1 kernel increment, 2 kernel increment)",
            marks=pytest.mark.long,
        ),
        ("decided", "decide", "conditional (switch) of 1 (0 conditional (if) of 1 (0 kernel increment))"),
    ],
)
def test_a_kernel_behind_a_branch(bench: Bench, how: str, first: str, node: str) -> None:
    """Bodies count their runs: one of them runs once a launch, and no kernel before or in it is taken."""
    captured = bench.capture(
        "-k",
        f"vector_add|increment|{first}",
        "--launch",
        "0:9",
        client=("graphs", how),
        expect=2,
    )
    assert {captured.manifest(path).launch.route for path in captured.paths} == {"cuGraphLaunch node 2"}
    bench.passes(captured.paths[1])
    outline = f"0 kernel {first}, 1 {node}, 2 kernel vector_add"
    before, body = (
        next(line for line in captured.document["failed"] if line.startswith(name))
        for name in (first, "increment")
    )
    assert f"node 1 of its graph is a {node.partition(' of ')[0]} node: a kernel can run alone only" in before
    assert "it runs in a body of node 1 of its graph, a conditional node" in body
    assert f"graph of 3 nodes: {outline}" in before and outline in body


def test_the_nodes_before_it_have_run(bench: Bench) -> None:
    captured = bench.capture("-k", "vector_add", client=("graphs", "captured"))
    manifest = captured.manifest()
    parameters = manifest.launch.parameters
    assert parameters is not None
    address = int.from_bytes(bytes.fromhex(parameters.bytes)[:8], "little")
    own, region = next((i, r) for i, r in enumerate(manifest.regions) if r.base <= address < r.base + r.size)
    with opened(captured.path) as reproducer:
        x = struct.unpack("<2f", reproducer.read("pre", own, address - region.base, 8))
    assert x[1] == 1.5, "one of the two scalings comes before it"


@pytest.mark.long
def test_the_second_launch_of_the_graph(bench: Bench) -> None:
    captured = bench.capture(
        "-k", "scale_in_place", "--launch", "0:4", client=("graphs", "captured"), expect=4
    )
    assert sorted(captured.manifest(path).launch.ordinal for path in captured.paths) == [0, 1, 2, 3]
    for path in captured.paths:
        bench.passes(path)


@pytest.mark.long
def test_a_programs_own_stream_capture_is_not_disturbed(bench: Bench) -> None:
    captured = bench.capture("-k", "increment", client=("stream_capture",), expect=None)
    assert "nodes 2" in captured.done.stderr
    # The launch beside the capture can't be taken; the one after it can.
    for path in captured.paths:
        bench.passes(path)

"""Kernels inside graphs, and programs that capture graphs themselves."""

from __future__ import annotations

import struct

import pytest

from kerncap.api.range_order import Facts, ordered, stream_names
from kerncap.format import LaunchRange
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


@first_of(
    ("how", "nodes"),
    [
        # Three turns in the first launch, one in the second.
        ("while", {"0": 2, "1.0": 4, "2": 2}),
        ("memory", {"1": 2, "2": 2, "3": 2}),
        ("memory_between", {"1": 1, "0": 1}),
        ("if", {"0": 2, "1.0": 2, "2": 2}),
        # The second body of two, of two kernels.
        ("else", {"0": 2, "1.1": 2, "1.2": 2, "2": 2}),
        ("decided", {"1.0.0": 2, "2": 2}),
    ],
)
def test_every_kernel_of_a_graph_that_is_stopped(bench: Bench, how: str, nodes: dict[str, int]) -> None:
    """It can be neither copied nor launched in parts; its memory's contents end with each launch."""
    kernels = ("-k", "vector_add|scale_in_place|increment", "--launch", "0:9")
    captured = bench.capture(*kernels, client=("graphs", how), expect=sum(nodes.values()))
    routes = [captured.manifest(path).launch.route for path in captured.paths]
    assert {node: routes.count(f"cuGraphLaunch node {node}") for node in nodes} == nodes
    for path in captured.paths[-3:]:
        bench.passes(path)


@pytest.mark.parametrize(
    ("how", "kernel", "reason"),
    [
        (
            "while",
            "turn",
            "it sets the condition of a conditional node, which it can't do outside of its graph; graph of 3 "
            "nodes: 0 kernel scale_in_place, 1 conditional (while) of 2 (0 kernel increment, 1 kernel turn), "
            "2 kernel vector_add",
        ),
        (
            "memory_beside",
            "increment",
            "other nodes may run at the same time, and a graph with memory or conditional nodes can't be "
            "launched in parts; graph of 6 nodes: 0 memory allocation, ",
        ),
        (
            "memory_host",
            "vector_add",
            "node 4 of its graph is a host function node, with which a graph of memory or conditional nodes "
            "can't be stopped; graph of 6 nodes: 0 memory allocation, ",
        ),
        (
            "device_launch",
            "increment",
            "its graph may be launched from the device too, which would launch a part of it; graph of 4 "
            "nodes: ",
        ),
    ],
)
def test_a_kernel_that_no_graph_can_be_stopped_at(bench: Bench, how: str, kernel: str, reason: str) -> None:
    captured = bench.capture("-k", kernel, client=("graphs", how), expect=0)
    assert captured.done.status == 1
    assert reason in captured.reason, captured.reason


@first_of(
    ("how", "nodes"),
    [("nested", ["1", "2.1.0", "2.1.1", "2.3", "5"]), ("memory", ["1", "2", "3"]), ("explicit", ["1", "4"])],
)
def test_a_launch_of_a_graph_is_a_range(bench: Bench, how: str, nodes: list[str]) -> None:
    """The second launch, by the number that `list` gives its graph."""
    listed = bench("list", "--json", "--by", "graph", "--", bench.rig.client("graphs"), how).document
    (group,) = listed["groups"]
    assert group["name"] == ["graph 0"] and group["launches"] == 2 * len(nodes)
    assert group["command"].startswith("kerncap capture --graph 0 -- ")
    captured = bench.capture("--graph", "0:1", client=("graphs", how), self_check=True)
    with LaunchRange.open(captured.path) as opened:
        routes = [launch.manifest.launch.route for launch in opened.launches]
        positions = [launch.position for launch in opened.launches]
        names = stream_names(opened)
    assert routes == [f"cuGraphLaunch node {node}" for node in nodes]
    assert positions == list(range(len(nodes), 2 * len(nodes)))
    assert names[0] == f"node {nodes[0]} of a graph"
    assert [check["result"] for check in captured.document["self_checks"].values()] == ["pass"]


def test_the_order_of_a_graphs_nodes_is_that_of_its_edges(bench: Bench) -> None:
    """One after the other where it was captured from a stream; of the parts of a diamond none is known to
    come first."""
    captured = bench.capture("--graph", "0", client=("graphs", "nested"))
    flows = bench("inspect", "--json", captured.path).document["flows"]
    assert (0, 1) in {(flow["from"], flow["to"]) for flow in flows}
    assert all(flow["ordered"] for flow in flows), flows
    captured = bench.capture("--graph", "0", "-o", "beside", client=("graphs", "branches"))
    with LaunchRange.open(captured.path) as opened:
        order = opened.manifest.order
    assert order is not None and len(order.launches) == 4
    found = ordered(order, [Facts(in_graph=True)] * 4)
    pairs = {(0, 1): True, (0, 2): True, (1, 2): False, (1, 3): True, (2, 3): True}
    assert {pair: found.orders(*pair) for pair in pairs} == pairs


@pytest.mark.parametrize(
    ("graph", "reason"),
    [("1", "graphs 0 to 0 were launched"), ("0:2", "graph 0 was launched 2 times, which count from 0")],
)
def test_no_such_launch_of_a_graph(bench: Bench, graph: str, reason: str) -> None:
    captured = bench.capture("--graph", graph, client=("graphs", "captured"), expect=0)
    assert captured.done.status == 1 and reason in captured.reason, captured.reason


EVERY = ("-k", "vector_add|scale_in_place", "--launch", "0:9")


def test_a_graph_waits_for_the_thread_that_launched_it(bench: Bench) -> None:
    """The launch returns as it does without kerncap, and the thread sets the flag that a kernel waits for."""
    captured = bench.capture(*EVERY, client=("graphs", "flag"), expect=3)
    routes = [(captured.manifest(path).launch.route or "").rpartition(" ")[2] for path in captured.paths]
    assert sorted(routes) == ["1", "3", "4"]
    bench.passes(captured.paths[-1])


@first_of("how", ["flag_launch", "memory_waits"])
def test_a_graph_waits_for_a_thread_that_waits_for_the_capture(bench: Bench, how: str) -> None:
    """That thread, which launched the graph or not, goes on after some time, and with it the graph."""
    captured = bench.capture(*EVERY, client=("graphs", how), expect=1)
    assert captured.manifest().launch.route == "cuGraphLaunch node 1"
    assert "its graph was let go: for 5 s it came to no other stop" in captured.reason


def test_the_program_ends_and_its_graph_does_not(bench: Bench) -> None:
    captured = bench.capture(*EVERY, client=("graphs", "flag_end"), expect=1)
    assert "its graph had not come to it when the program ended" in captured.reason


def test_the_program_goes_on_while_its_graph_runs(bench: Bench) -> None:
    """It launches, changes, launches and destroys it, forks and frees before the graph has ended."""
    captured = bench.capture(*EVERY, client=("graphs", "changed_after_launch"), expect=7)
    found = {(m.kernel.name, m.launch.ordinal): m for m in map(captured.manifest, captured.paths)}
    # In the order of the program: the launch behind the first graph comes before the second one's.
    scaled = [found["scale_in_place", ordinal].launch.route for ordinal in range(3)]
    assert scaled == ["cuGraphLaunch node 3", "cuLaunchKernel", "cuGraphLaunch node 3"]
    factors = [bytes.fromhex(found["scale_in_place", n].launch.parameters.bytes)[8:12] for n in (0, 2)]
    assert [struct.unpack("<f", each)[0] for each in factors] == [1.5, 7]


@first_of("stream", ["per_thread", "legacy"])
def test_a_graph_that_is_stopped_on_a_default_stream(bench: Bench, stream: str) -> None:
    captured = bench.capture(*EVERY, client=("graphs", f"memory_{stream}"), expect=6)
    bench.passes(captured.paths[-1])


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

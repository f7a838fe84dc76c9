"""`capture --graph` of a HIP program: the kernels of one launch of a graph as a range."""

from __future__ import annotations

import pytest

from kerncap.format import LaunchRange
from kerncap.format.schema import FloatValue

from .conftest import Bench, Programs

KERNELS = ["scaled", "shifted", "added"]


@pytest.fixture
def graphs(programs: Programs) -> tuple[str, ...]:
    return (str(programs("graphs")),)


@pytest.mark.parametrize(("graph", "factor"), [("1:1", 3.0), pytest.param("2", 0.5, marks=pytest.mark.long)])
def test_one_launch_of_a_graph(bench: Bench, graphs: tuple[str, ...], graph: str, factor: float) -> None:
    emulator = {"KERNCAP_AMD_EMULATOR": str(bench.rig.folder)}
    run = bench.capture("--graph", graph, program=graphs, self_check=True, extra=emulator)
    with LaunchRange.open(run.path) as opened:
        opened.verify()
        manifests = [launch.manifest for launch in opened.launches]
    assert [manifest.kernel.name for manifest in manifests] == KERNELS
    [found] = [
        float.fromhex(argument.value.value)
        for argument in manifests[0].arguments
        if isinstance(argument.value, FloatValue)
    ]
    assert found == factor, "not another graph's"
    document = bench("verify", "--json", run.path, extra=emulator).judged
    assert document["result"] == "pass" and document["exact"], document
    flows = bench("inspect", "--json", run.path).document["flows"]
    assert [(flow["from"], flow["to"], flow["bytes"]) for flow in flows] == [
        (0, 1, 2000), (0, 2, 2000), (1, 2, 2000)
    ]  # fmt: skip


def test_graphs_are_listed(bench: Bench, graphs: tuple[str, ...]) -> None:
    done = bench("list", "--json", "--by", "graph", "--", *bench.rig.run_prefix, *graphs)
    groups = {"".join(group["name"]): group for group in done.document["groups"]}
    assert set(groups) == {"", "graph 0", "graph 1", "graph 2"}, groups.keys()
    assert {kernel["name"]: kernel["launches"] for kernel in groups["graph 1"]["kernels"]} == dict.fromkeys(
        KERNELS, 2
    )
    assert [kernel["name"] for kernel in groups[""]["kernels"]] == ["grown"]
    assert "capture --graph 1 --" in groups["graph 1"]["command"]


def test_a_graph_that_is_not_launched_is_named(bench: Bench, graphs: tuple[str, ...]) -> None:
    for graph, said in (
        ("7", "--graph 7:0: graphs 0 to 2 were launched"),
        ("0:2", "--graph 0:2: graph 0 was launched 2 times"),
    ):
        run = bench.capture("--graph", graph, program=graphs, expect=0)
        assert said in run.document["reason"], run.document

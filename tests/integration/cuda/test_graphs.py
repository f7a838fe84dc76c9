"""Kernels inside graphs, and programs that capture graphs themselves."""

from __future__ import annotations

import struct

import pytest

from tests.integration.cuda.conftest import Bench, opened
from tests.parameters import first_of


@first_of("how", ["captured", "explicit", "child", "inspected"])
def test_a_kernel_in_a_launched_graph(bench: Bench, how: str) -> None:
    captured = bench.capture("-k", "vector_add", client=("graphs", how), expect=None)
    if how == "child" and not captured.paths:
        # Nodes of a child graph can't be disabled one by one: a reason is as good as a reproducer.
        assert "child" in captured.reason, captured.reason
        return
    [path] = captured.paths
    manifest = captured.manifest(path)
    assert manifest.launch.route and "cuGraphLaunch" in manifest.launch.route
    bench.passes(path)


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


def test_a_host_node_in_the_way_is_named(bench: Bench) -> None:
    captured = bench.capture("-k", "vector_add", client=("graphs", "host_node"), expect=0)
    assert captured.done.status == 1
    assert "host" in captured.reason


@pytest.mark.long
def test_a_programs_own_stream_capture_is_not_disturbed(bench: Bench) -> None:
    captured = bench.capture("-k", "increment", client=("stream_capture",), expect=None)
    assert "nodes 2" in captured.done.stderr
    # The launch beside the capture can't be taken; the one after it can.
    for path in captured.paths:
        bench.passes(path)

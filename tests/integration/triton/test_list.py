"""`kerncap list` of a program under Triton's interpreter: by range, and the command that it offers."""

from __future__ import annotations

import json
import shlex
import sys

import pytest

from tests.integration.conftest import CommandLine, Finished
from tests.integration.traces import read_trace, within

# NVTX's functions are missing from a torch without CUDA; what is observed is the Python above them.
PROGRAM = """
import types
import torch.cuda.nvtx as nvtx
nvtx._nvtx = types.SimpleNamespace(rangePushA=lambda name: 0, rangePop=lambda: 0)

@triton.jit
def scale(x, n, FACTOR: tl.constexpr, BLOCK: tl.constexpr):
    i = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    tl.store(x + i, tl.load(x + i, mask=i < n) * FACTOR, mask=i < n)

@triton.jit
def scale_all(x, BLOCK: tl.constexpr):
    tl.store(x + tl.arange(0, BLOCK), 0.0)

x = torch.ones(64)
def forward():
    scale[lambda meta: (triton.cdiv(64, meta["BLOCK"]),)](x, 64, FACTOR=2, BLOCK=32)
for step in range(3):
    with nvtx.range("step {}", step % 2):
        nvtx.range_push("forward")
        forward()
        nvtx.range_pop()
        scale_all[(1,)](x, BLOCK=64)
scale[(1,)](x, 64, FACTOR=3, BLOCK=64)
"""


@pytest.fixture(scope="module")
def listed(kerncap_of_module: CommandLine) -> tuple[CommandLine, Finished]:
    program = kerncap_of_module.target(PROGRAM)
    done = kerncap_of_module(
        "list", "--json", "--by", "range", "--save", "kept.json", "--timeline", "trace.json", "--",
        sys.executable, program,
    )  # fmt: skip
    assert done.status == 0, done.stderr
    return kerncap_of_module, done


def test_each_range_has_its_launches_and_each_kernel_its_rows(listed: tuple[CommandLine, Finished]) -> None:
    kerncap, done = listed
    document = done.document
    assert json.loads((kerncap.folder / "kept.json").read_text()) == document
    assert {tuple(group["name"]): group["launches"] for group in document["groups"]} == {
        ("step 0", "forward"): 2, ("step 1", "forward"): 1, ("step 0",): 2, ("step 1",): 1, ("",): 1
    }  # fmt: skip
    kernels = {kernel["name"]: kernel for kernel in document["kernels"]}
    scale = kernels["scale"]
    assert (scale["launches"], scale["configurations"], kernels["scale_all"]["launches"]) == (4, 2, 3)
    assert {(row["config"], row["grid"][0]) for row in scale["rows"]} == {
        ("FACTOR=2 BLOCK=32", 2), ("FACTOR=3 BLOCK=64", 1)
    }  # fmt: skip
    assert scale["stack"][-1][2] == "forward" and [clock["clock"] for clock in document["clocks"]] == ["host"]
    assert 0 < scale["share_of_wall"] < 1 < scale["speedup_if_twice_as_fast_wall"] < 2
    assert document["wall_ns"] > document["device_ns"] > 0


@pytest.mark.long
def test_a_groups_command_captures_exactly_what_it_stands_beside(
    listed: tuple[CommandLine, Finished],
) -> None:
    kerncap, done = listed
    group = next(each for each in done.document["groups"] if each["name"] == ["step 1", "forward"])
    command = group["kernels"][0]["command"]
    words = shlex.split(command)
    assert words[:2] == ["kerncap", "capture"]
    captured = kerncap(*words[1:2], "--json", "--no-self-check", *words[2:]).document["reproducers"]
    assert [(each["kernel"], each["launch"], each["range"]) for each in captured] == [
        ("scale", 0, ["step 1", "forward"])
    ]


def test_the_timeline_has_each_launch_in_its_range(listed: tuple[CommandLine, Finished]) -> None:
    kerncap, done = listed
    tracks = read_trace(kerncap.folder / "trace.json")
    launches = tracks.pop("interpreter")
    [(title, ranges)] = tracks.items()
    assert title.startswith("host, thread ")
    assert [event["name"] for event in launches] == ["scale", "scale_all"] * 3 + ["scale"]
    assert [event["name"] for event in ranges] == [
        "step 0",
        "forward",
        "step 1",
        "forward",
        "step 0",
        "forward",
    ]
    for launch, inside in zip(launches, [0, 0, 2, 2, 4, 4, None], strict=True):
        around = [i for i, event in enumerate(ranges) if within(launch, event)]
        assert (around[0] if around else None) == inside
    assert launches[0]["args"] == {
        "kernel": "__main__.scale",
        "grid": [2, 1, 1],
        "config": "FACTOR=2 BLOCK=32",
    }
    total_us = sum(event["dur"] for event in launches)
    assert round(total_us * 1e3) == done.document["device_ns"]
    assert done.document["timeline"]["launches"] == 7 and done.document["timeline"]["ranges"] == 6

"""`kerncap diverge` on an NVIDIA GPU: hashes of device memory, real atomics, addresses of device memory."""

from __future__ import annotations

import json
import sys
from typing import Any

import pytest

from kerncap.capture.trace_file import read as read_trace
from tests.integration.conftest import CommandLine

pytestmark = [pytest.mark.gpu, pytest.mark.timeout(300)]

PROGRAM = """
PLANT = os.environ.get("PLANT", "")
N = 1 << 20

@triton.jit
def scale(x, y, factor, n, BLOCK: tl.constexpr):
    i = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    tl.store(y + i, tl.load(x + i, mask=i < n) * factor, mask=i < n)

@triton.jit
def total(x, out, n, BLOCK: tl.constexpr):
    i = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    tl.atomic_add(out + tl.program_id(0) % 16, tl.sum(tl.load(x + i, mask=i < n, other=0.0)))

@triton.jit
def indirect(addresses, BLOCK: tl.constexpr):
    y = tl.load(addresses).to(tl.pointer_type(tl.float32))
    tl.store(y + tl.arange(0, BLOCK), 1.0)

x = torch.rand(N, device=DEVICE)
y = torch.empty(N, device=DEVICE)
scale[(N // 1024,)](x, y, 2.0, N, BLOCK=1024)
if PLANT == "host":
    y[77] += 1
z = torch.empty(2 * N, device=DEVICE)
if PLANT == "garbage":
    z.fill_(5.0)
scale[(N // 1024,)](y, z, 3.0, N, BLOCK=1024)
if PLANT == "atomics":
    out = torch.zeros(16, device=DEVICE)  # one sum may be the same by chance
    total[(N // 64,)](z, out, N, BLOCK=64)
if PLANT == "pointers":
    indirect[(1,)](torch.tensor([y.data_ptr()], device=DEVICE), BLOCK=64)
if PLANT == "graph":
    side = torch.cuda.Stream()
    with torch.cuda.stream(side):
        graph = torch.cuda.CUDAGraph()
        with torch.cuda.graph(graph, stream=side):
            scale[(N // 1024,)](x, y, 2.0, N, BLOCK=1024)
    graph.replay()
torch.cuda.synchronize()
"""


@pytest.fixture(scope="module")
def program(kerncap_of_module: CommandLine) -> list[str]:
    return [sys.executable, str(kerncap_of_module.target(PROGRAM))]


def diverged(kerncap: CommandLine, program: list[str], *options: str, status: int, plant: str = "") -> Any:
    output = "-".join(["out", *options, plant]).replace("=", "-")
    done = kerncap("diverge", "--json", "-o", output, *options, "--", *program, env={"PLANT": plant})
    assert done.status == status, (done.status, done.stdout, done.stderr)
    print(json.dumps({side: done.document[side] for side in "ab"}))  # with -s: what hashing took
    return done.document


def test_memory_that_the_host_changed(kerncap_of_module: CommandLine, program: list[str]) -> None:
    found = diverged(kerncap_of_module, program, "--no-noise", "--env", "PLANT=host", status=1)
    named = found["named"]
    assert (named["kind"], named["a"]["kernel"], named["a"]["ordinal"]) == ("memory", "scale", 1), named
    assert "x" in named["before"] and named["since"]["ordinal"] == 0
    [after] = [
        state["different"] for view in named["diff"]["views"] for state in view["states"]
        if view["name"] == "y" and state["state"] == "post"
    ]  # fmt: skip
    assert after == 1


def test_bytes_that_no_launch_writes_are_harmless(kerncap_of_module: CommandLine, program: list[str]) -> None:
    found = diverged(kerncap_of_module, program, "--no-noise", "--env", "PLANT=garbage", status=5)
    assert found["named"] is None and [one["ordinal"] for one in found["harmless"]] == [1]
    assert all("native launches of" in said for said in found["uncompared"]), found["uncompared"]


def test_atomics_are_nondeterministic(kerncap_of_module: CommandLine, program: list[str]) -> None:
    found = diverged(kerncap_of_module, program, status=1, plant="atomics")
    assert found["once"] and (found["named"]["kind"], found["named"]["a"]["kernel"]) == ("launch", "total")


def test_what_is_not_hashed_is_said(kerncap_of_module: CommandLine, program: list[str]) -> None:
    found = diverged(kerncap_of_module, program, status=5, plant="pointers")
    assert found["named"] is None
    assert (
        "indirect: addresses holds addresses, and the memory behind them was not hashed"
        in (found["uncompared"])
    )
    found = diverged(kerncap_of_module, program, status=5, plant="graph")
    assert found["named"] is None
    assert any("inside a graph capture" in said for said in found["uncompared"]), found["uncompared"]


HASHED = """
@triton.jit
def add_one(x, y, n, BLOCK: tl.constexpr):
    i = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    tl.store(y + i, tl.load(x + i, mask=i < n) + 1, mask=i < n)

from kerncap_triton import native_shims
has_shim = "NO_SHIM" not in os.environ
if not has_shim:
    native_shims.find = lambda *_: None
for n in (1 << 21, 700_001, 5):
    x = torch.randint(100, (n,), dtype=torch.uint8, device=DEVICE)
    add_one[(triton.cdiv(n, 1024),)](x, torch.zeros_like(x), n, BLOCK=1024)
    assert not has_shim or native_shims.find().digests(0, [(x.data_ptr(), n)]) is not None
torch.cuda.synchronize()
"""


def test_the_device_hashes_as_the_host_does(kerncap_of_module: CommandLine) -> None:
    """Digests are compared between runs, and not in each of them can the device look into its memory."""
    kerncap = kerncap_of_module
    program = [sys.executable, str(kerncap.target(HASHED, "hashed.py"))]
    hashed = []
    for name, environment in (("device", {}), ("host", {"NO_SHIM": "1"})):
        done = kerncap("trace", "-o", name, "--", *program, env=environment)
        assert done.status == 0, done.stderr
        [process] = read_trace(kerncap.folder / name).processes
        launches = [[(one.size, one.before, one.after) for one in each.hashed] for each in process.launches]
        assert [len(each) for each in launches] == [2, 2, 2]
        hashed.append(launches)
    assert hashed[0] == hashed[1]

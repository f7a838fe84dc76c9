"""`kerncap diverge --native` on an NVIDIA GPU: kernels of torch and cuBLAS, with Triton's in between."""

from __future__ import annotations

import json
import sys
from typing import Any

import pytest

from tests.integration.conftest import CommandLine

pytestmark = [pytest.mark.gpu, pytest.mark.timeout(300)]

PROGRAM = """
PLANT = os.environ.get("PLANT", "")
N = 512

@triton.jit
def scale(x, y, factor, BLOCK: tl.constexpr):
    i = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    tl.store(y + i, tl.load(x + i) * factor)

generator = torch.Generator(DEVICE).manual_seed(1 if PLANT == "seed" else 0)
torch.backends.cuda.matmul.allow_tf32 = PLANT == "tf32"
a = torch.randn(N, N, device=DEVICE, generator=generator)
b = torch.ones(N, N, device=DEVICE) / 3
c = a @ b
d = torch.empty_like(c)
scale[(N * N // 1024,)](c, d, 2.0, BLOCK=1024)
if PLANT == "host":
    d[3, 5] = 1.0
e = torch.relu(d) + (2.5 if PLANT == "constant" else 1.5)
side = torch.cuda.Stream()
side.wait_stream(torch.cuda.current_stream())
with torch.cuda.stream(side):
    graph = torch.cuda.CUDAGraph()
    with torch.cuda.graph(graph, stream=side):
        f = e * (0.5 if PLANT == "graph" else 0.25)
torch.cuda.current_stream().wait_stream(side)
graph.replay()
print(f.sum().item())
"""


@pytest.fixture(scope="module")
def program(kerncap_of_module: CommandLine) -> list[str]:
    return [sys.executable, str(kerncap_of_module.target(PROGRAM))]


def diverged(kerncap: CommandLine, program: list[str], plant: str, statuses: tuple[int, ...]) -> Any:
    options = ("--native", "--no-noise", "-o", f"out-{plant}", "--env", f"PLANT={plant}")
    done = kerncap("diverge", "--json", *options, "--", *program, timeout=250)
    found = done.document
    said = {key: found[key] for key in ("aligned", "only", "named", "uncompared", "changed", "notes", "a")}
    print(json.dumps(said, indent=1))
    assert done.status in statuses, (done.status, done.stdout, done.stderr)
    return found


def test_nothing_is_named_without_a_difference(kerncap_of_module: CommandLine, program: list[str]) -> None:
    found = diverged(kerncap_of_module, program, "none", (0, 5))
    assert found["named"] is None and found["aligned"] >= 6


def test_launches_are_in_their_order(kerncap: CommandLine, program: list[str]) -> None:
    done = kerncap("trace", "--native", "-o", "trace.json", "--", *program)
    assert done.status == 0, done.stderr
    trace = json.loads((kerncap.folder / "trace.json").read_text())
    [process] = trace["processes"]
    names = [launch["kernel"]["name"] for launch in process["launches"]]
    modes = [launch["mode"] for launch in process["launches"]]
    print(names, process["native"], process["failed"])
    assert modes.count("jit") == 1 and "native" in modes[: modes.index("jit")], names
    assert "native" in modes[modes.index("jit") :], names
    assert trace["hashing_ns"] < trace["wall_ns"]


@pytest.mark.parametrize(
    "plant, part",
    [("constant", "elementwise"), ("tf32", "gemm"), ("seed", "distribution"), ("graph", "elementwise")],
)
def test_the_kernel_is_named(
    kerncap_of_module: CommandLine, program: list[str], plant: str, part: str
) -> None:
    named = diverged(kerncap_of_module, program, plant, (1,))["named"]
    kernels = {place["kernel"] for place in (named["a"], named["b"]) if place is not None}
    assert any(part in kernel for kernel in kernels), named

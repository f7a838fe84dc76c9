"""`kerncap diverge` on an NVIDIA GPU: one planted difference each, also in libraries, graphs, torch.compile.

The kinds that need no GPU are in test_diverge.py, TF32 and seeds in test_native_gpu.py.
"""

from __future__ import annotations

import json
import sys
from pathlib import Path
from typing import Any

import pytest

from tests.integration.blame import planted
from tests.integration.blame.test_blame import TARGET
from tests.integration.conftest import CommandLine

pytestmark = [pytest.mark.gpu, pytest.mark.timeout(300)]

# Triton's kernels. A difference is chosen by PLANT.
KERNELS = """
PLANT = os.environ.get("PLANT", "")
N = 1 << 16

@triton.jit
def scale(x, y, factor, BLOCK: tl.constexpr):
    i = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    tl.store(y + i, tl.load(x + i) * factor)

@triton.jit
def count(x, bins, RACY: tl.constexpr, BLOCK: tl.constexpr):
    k = tl.load(x + tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)).to(tl.int32) % 16
    if RACY:
        tl.store(bins + k, tl.load(bins + k) + 1)
    else:
        tl.atomic_add(bins + k, 1)

@triton.jit
def half(x, y, BLOCK: tl.constexpr):
    i = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    tl.store(y + i, tl.load(x + i), mask=i % 2 == 0)

x = torch.arange(N, device=DEVICE, dtype=torch.float32)
y, z, w = torch.zeros(3, N, device=DEVICE)
grid = (N // 1024,)
scale[grid](x, y, 0.5, BLOCK=1024)
bins = torch.zeros(16, dtype=torch.int32, device=DEVICE)
count[grid](x, bins, PLANT == "race", BLOCK=1024)
del z
z = torch.full((N,), 7.0 if PLANT == "uninitialised" else 3.0, device=DEVICE)
half[grid](y, z, BLOCK=1024)
side = torch.cuda.Stream()
torch.cuda.synchronize()
with torch.cuda.stream(side):
    if PLANT == "stream":  # before what it should have waited for
        scale[grid](y, w, 3.0, BLOCK=1024)
scale[grid](z, y, 2.0, BLOCK=1024)
side.wait_stream(torch.cuda.current_stream())
with torch.cuda.stream(side):
    if PLANT != "stream":
        scale[grid](y, w, 3.0, BLOCK=1024)
torch.cuda.synchronize()
"""

# What libraries and compilers launch, with --native.
LIBRARIES = """
from torch.nn.attention import SDPBackend, sdpa_kernel
PLANT = os.environ.get("PLANT", "")

@triton.jit
def scale(x, y, factor, BLOCK: tl.constexpr):
    i = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    tl.store(y + i, tl.load(x + i) * factor)

def in_graph(work):
    side = torch.cuda.Stream()
    side.wait_stream(torch.cuda.current_stream())
    with torch.cuda.stream(side):
        work()  # what is loaded at a first launch
        graph = torch.cuda.CUDAGraph()
        with torch.cuda.graph(graph, stream=side):
            work()
    torch.cuda.current_stream().wait_stream(side)
    graph.replay()

torch.manual_seed(0)
if PLANT == "addresses":
    kept = [torch.empty(1 << 20, device=DEVICE) for _ in range(3)]
a = torch.randn(512, 512, device=DEVICE)
b = a @ a
q = b.view(1, 8, 256, 128).half()
backend = SDPBackend.MATH if PLANT == "algorithm" else SDPBackend.FLASH_ATTENTION
with sdpa_kernel(backend):
    c = torch.nn.functional.scaled_dot_product_attention(q, q, q).float().view(512, 512)
d = torch.empty_like(c)
in_graph(lambda: scale[(256,)](c, d, 2.0, BLOCK=1024))
in_graph(lambda: scale[(256,)](d, c, 0.75 if PLANT == "graph" else 0.25, BLOCK=1024))
torch.cuda.synchronize()
"""

COMPILED = """
import torch._inductor.config
torch._inductor.config.triton.autotune_pointwise = False  # a cold cache would be a difference of its own
PLANT = os.environ.get("PLANT", "")
x = torch.arange(1 << 16, device=DEVICE, dtype=torch.float32)
constant = 1.25 if PLANT == "compiled" else 1.5
y = torch.compile(lambda t: torch.sin(t) * constant + t)(x)
other = 0.5 if PLANT == "compiled-graph" else 0.25
replayed = torch.compile(lambda t: torch.cos(t) * other, mode="reduce-overhead")
for _ in range(4):
    z = replayed(y)
torch.cuda.synchronize()
"""


def recorded(kerncap: CommandLine, text: str, name: str, *options: str) -> list[str]:
    """The plain side, recorded once for all pairs; returns the arguments of `diverge`."""
    program = [sys.executable, str(kerncap.target(text, f"{name}.py"))]
    done = kerncap("trace", *options, "-o", f"{name}.json", "--", *program)
    assert done.status == 0, done.stderr
    return [*options, "--a", f"{name}.json", "--", *program]


@pytest.fixture(scope="module")
def kernels(kerncap_of_module: CommandLine) -> list[str]:
    return recorded(kerncap_of_module, KERNELS, "kernels")


@pytest.fixture(scope="module")
def libraries(kerncap_of_module: CommandLine) -> list[str]:
    return recorded(kerncap_of_module, LIBRARIES, "libraries", "--native")


@pytest.fixture(scope="module")
def compiled(kerncap_of_module: CommandLine) -> list[str]:
    return recorded(kerncap_of_module, COMPILED, "compiled", "--native")


def diverged(kerncap: CommandLine, pair: list[str], variable: str = "OTHER=1") -> dict[str, Any]:
    name, _, value = variable.partition("=")
    options = ("--no-noise", "--rounds", "2", "-o", f"out-{value}")
    done = kerncap("diverge", "--json", *options, *pair, env={name: value}, timeout=280)
    found = done.document
    print(done.status, json.dumps({key: found[key] for key in ("named", "uncompared", "notes", "a", "b")}))
    return found


def names_of(found: dict[str, Any]) -> set[str]:
    named = found["named"]
    assert named is not None and found["result"] == "different", found
    return {one["kernel"] for one in (named["a"], named["b"]) if one is not None}


def test_a_race_is_named(kerncap_of_module: CommandLine, kernels: list[str]) -> None:
    found = diverged(kerncap_of_module, kernels, "PLANT=race")
    assert names_of(found) == {"count"} and found["named"]["kind"] == "arguments", found["named"]
    assert found["named"]["b"]["ordinal"] == 0


@pytest.mark.parametrize("plant, kind", [("uninitialised", "memory"), ("stream", "arguments")])
def test_what_only_both_sides_memory_tells_is_named(
    kerncap_of_module: CommandLine, kernels: list[str], plant: str, kind: str
) -> None:
    """What is read before it is written, and a stream that waits for nothing: neither side is recorded."""
    program = kernels[kernels.index("--") :]
    found = diverged(kerncap_of_module, ["--env", f"PLANT={plant}", *program], f"OTHER={plant}")
    assert names_of(found) == {"scale"} and found["named"]["kind"] == kind, found["named"]
    assert found["named"]["b"]["ordinal"] == 1


@pytest.mark.parametrize(
    "variable, parts",
    [
        ("PLANT=algorithm", ("flash", "elementwise")),
        ("NVIDIA_TF32_OVERRIDE=1", ("gemm", "cutlass", "nvjet", "sm80", "sm90")),
        ("PLANT=graph", ("scale",)),
    ],
)
def test_a_librarys_launch_is_named(
    kerncap_of_module: CommandLine, libraries: list[str], variable: str, parts: tuple[str, ...]
) -> None:
    names = names_of(diverged(kerncap_of_module, libraries, variable))
    assert any(part in each for part in parts for each in names), names
    assert not any("distribution" in each for each in names), names


@pytest.mark.parametrize("plant, part", [("compiled", "sin"), ("compiled-graph", "cos")])
def test_a_compiled_kernel_is_named(
    kerncap_of_module: CommandLine, compiled: list[str], plant: str, part: str
) -> None:
    """Its results are in new memory, which held something else on each side."""
    names = names_of(diverged(kerncap_of_module, compiled, f"PLANT={plant}"))
    assert all(each.startswith("triton_poi") and part in each for each in names), names


def test_another_tritons_kernel_is_named(kerncap: CommandLine, tmp_path: Path) -> None:
    """Its optimiser folds a constant wrongly."""
    python = planted.python_with(tmp_path / "env", planted.WRONG_FOLD)
    cache = f"TRITON_CACHE_DIR={kerncap.folder / 'cache'}"
    pair = ["--env", cache, "--", sys.executable, str(TARGET), "--", str(python), str(TARGET)]
    found = diverged(kerncap, pair)
    assert names_of(found) == {"scaled"} and found["named"]["kind"] == "launch", found["named"]
    assert found["named"]["after"] == ["out"]


def test_nothing_is_named_without_a_difference(
    kerncap_of_module: CommandLine, kernels: list[str], libraries: list[str], compiled: list[str]
) -> None:
    """Everything is elsewhere in memory, or the same."""
    for pair, variable in ((kernels, "OTHER=1"), (libraries, "PLANT=addresses"), (compiled, "OTHER=1")):
        found = diverged(kerncap_of_module, pair, variable)
        assert found["named"] is None and found["aligned"] >= 5, found

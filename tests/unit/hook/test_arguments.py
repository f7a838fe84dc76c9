"""Arguments, options, grids, configurations as they are written down."""

from __future__ import annotations

import json

from .conftest import ADD, Run

MANY = """
import enum, typing
import numpy as np, torch, triton, triton.language as tl

class Color(enum.IntEnum):
    RED = 3

class Pair(typing.NamedTuple):
    first: torch.Tensor
    second: int

@triton.jit
def helper(a):
    return a

@triton.jit
def many(t, pair, n, flag, scale, nothing, limit: tl.constexpr, kind: tl.constexpr, torch_kind: tl.constexpr,
         shape: tl.constexpr, text: tl.constexpr, fn: tl.constexpr, color: tl.constexpr,
         wrapped: tl.constexpr, unknown: tl.constexpr, nan: tl.constexpr, last: tl.constexpr = 5):
    pass

x = torch.arange(4.)
many[(1,)](x, Pair(x, 7), np.int64(2**40), True, 0.1, None, limit=float("-inf"), kind=tl.float16,
           torch_kind=torch.bfloat16, shape=(1, (2, None)), text="none", fn=helper, color=Color.RED,
           wrapped=tl.constexpr(9), unknown=object(), nan=float("nan"), num_warps=8, num_stages=2)
"""


def test_values_of_every_kind(run: Run) -> None:
    process = run(MANY).only
    values = {a["name"]: a["value"] for a in process.launches[0]["arguments"]}
    assert values["t"] == {"kind": "tensor", "view": 0}
    assert values["pair"] == {
        "kind": "sequence", "type": "namedtuple", "type_name": "Pair", "fields": ["first", "second"],
        "items": [{"kind": "tensor", "view": 1}, {"kind": "int", "value": "7"}],
    }  # fmt: skip
    assert process.launches[0]["views"][1]["name"] == "pair[0]"
    assert values["n"] == {"kind": "int", "value": str(2**40)}
    assert values["flag"] == {"kind": "bool", "value": True}
    assert float.fromhex(values["scale"]["value"]) == 0.1
    assert values["nothing"] == {"kind": "none"}
    assert values["limit"] == {"kind": "float", "value": "-inf"}
    assert values["nan"] == {"kind": "float", "value": "nan"}
    assert values["kind"] == {"kind": "dtype", "name": "fp16", "library": "triton"}
    assert values["torch_kind"] == {"kind": "dtype", "name": "bfloat16", "library": "torch"}
    assert values["shape"]["items"][1]["items"] == [{"kind": "int", "value": "2"}, {"kind": "none"}]
    assert values["text"] == {"kind": "str", "value": "none"}
    assert values["fn"] == {"kind": "function", "name": "helper"}
    assert values["color"] == {"kind": "int", "value": "3"}
    assert values["wrapped"] == {"kind": "int", "value": "9"}
    assert values["unknown"]["kind"] == "opaque" and values["unknown"]["type_name"] == "builtins.object"
    assert values["last"] == {"kind": "int", "value": "5"}  # the signature's default
    roles = {a["name"]: a["role"] for a in process.launches[0]["arguments"]}
    assert roles["n"] == "runtime" and roles["limit"] == roles["last"] == "constexpr"
    options = process.launches[0]["options"]
    assert options == {
        "num_warps": {"kind": "int", "value": "8"},
        "num_stages": {"kind": "int", "value": "2"},
    }


def test_descriptors_and_reinterpreted_tensors(run: Run) -> None:
    process = run(
        """
import torch, triton, triton.language as tl
from triton.tools.tensor_descriptor import TensorDescriptor

@triton.jit
def both(d, w, out):
    tl.store(out, tl.sum(tl.sum(d.load([0, 0]), 0), 0))

x = torch.arange(64.).reshape(4, 16)
out = torch.zeros(1)
bytes_ = triton.reinterpret(torch.zeros(8, dtype=torch.uint8), tl.int8)
both[(1,)](TensorDescriptor.from_tensor(x, [4, 8]), bytes_, out)
"""
    ).only
    descriptor = process.argument("d")["value"]
    assert descriptor == {
        "kind": "descriptor", "view": 0, "shape": [4, 16], "strides": [16, 1], "block_shape": [4, 8],
        "padding": "zero",
    }  # fmt: skip
    assert process.argument("w")["value"]["wrapped_dtype"] == "int8"
    assert len(process.launches[0]["regions"]) == 3


def test_a_callable_grid_is_stored_with_what_it_reads(run: Run) -> None:
    process = run(
        ADD + "x = torch.ones(100)\nSTEP = 2\n"
        "def launch(limit):\n"
        "    grid = lambda meta: (triton.cdiv(limit, meta['BLOCK']) * STEP, 2)\n"
        "    add[grid](x, x, x, 100, BLOCK=16)\nlaunch(100)\n"
    ).only
    assert process.launches[0]["grid"] == [14, 2, 1]
    source = process.launches[0]["grid_source"]
    assert "triton.cdiv" in source["source"]
    assert source["bindings"] == {
        "limit": {"kind": "int", "value": "100"},
        "STEP": {"kind": "int", "value": "2"},
    }


TUNED = """
import torch, triton, triton.language as tl

def do_bench(call, quantiles):
    call()
    call()
    return [DELAYS.pop(0)] * 3

DELAYS = [3.0, 1.0]

def before(arguments):
    arguments["out"].zero_()

@triton.autotune(
    configs=[triton.Config({"BLOCK": 32}), triton.Config({"BLOCK": 64}, num_warps=8, pre_hook=before)],
    key=["n"], do_bench=do_bench, reset_to_zero=["out"],
)
@triton.heuristics({"EVEN": lambda args: args["n"] % 2 == 0})
@triton.jit
def accumulate(x, out, n, BLOCK: tl.constexpr, EVEN: tl.constexpr):
    i = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    tl.atomic_add(out + i, tl.load(x + i, mask=i < n), mask=i < n)

x = torch.ones(100)
out = torch.zeros(100)
grid = lambda meta: (triton.cdiv(100, meta["BLOCK"]),)
for _ in range(3):
    accumulate[grid](x, out, 100)
print(out.sum().item())
"""


def test_an_autotuners_own_launches_are_not_the_applications(run: Run) -> None:
    plain = run(TUNED, hooked=False)
    outcome = run(TUNED, kernel="accumulate", launch=[0, 2])
    process = outcome.only
    assert (outcome.status, outcome.stdout) == (plain.status, plain.stdout)
    assert [launch["ordinal"] for launch in process.launches] == [0, 1]
    counts = process.counts("__main__.accumulate")
    assert counts["filtered"] == {"autotuner": 4, "ordinal": 1}
    assert (counts["launches"], counts["matched"], counts["captured"]) == (7, 3, 2)
    launch = process.launches[0]
    assert launch["grid"] == [2, 1, 1]
    assert process.argument("BLOCK")["value"]["value"] == "64"
    assert process.argument("EVEN")["value"] == {"kind": "bool", "value": True}
    tune = launch["autotune"]
    assert tune["chosen"] == 1 and tune["key"] == ["n"] and tune["reset_to_zero"] == ["out"]
    assert [config["grid"] for config in tune["configs"]] == [[4, 1, 1], [2, 1, 1]]
    assert "zero_" in tune["configs"][1]["pre_hook"]["source"] and "pre_hook" not in tune["configs"][0]
    assert set(process.pre(0, "out")) == {0}  # after the autotuner's reset, not before


def test_ordinals_skip_the_autotuner_also_far_ahead(run: Run) -> None:
    """The quick count up to a wanted ordinal stops while an autotuner measures."""
    script = TUNED.replace("range(3)", "range(30)").replace(
        "    accumulate[grid](x, out, 100)\n",
        "    if _ in (10, 20):\n        DELAYS[:] = [3.0, 1.0]\n"
        "    accumulate[grid](x, out, 100 - _ // 10)\n",
    )
    process = run(script, kernel="accumulate", launch=[25, 26]).only
    assert [launch["ordinal"] for launch in process.launches] == [25]
    assert process.argument("n")["value"]["value"] == "98"
    counts = process.counts("__main__.accumulate")
    assert counts["filtered"] == {"autotuner": 12, "ordinal": 29} and counts["launches"] == 42


def test_the_source_graph_is_written_once_per_kernel(run: Run) -> None:
    process = run(
        ADD + "x = torch.ones(8)\nfor _ in range(3): add[(1,)](x, x, x, 8, BLOCK=8)", launch=[0, 3]
    ).only
    assert {launch["source"] for launch in process.launches} == {"source-0.json"}
    graph = json.loads((process.folder / "source-0.json").read_text())
    assert "def add(" in graph["nodes"][graph["entry"]]["source"]


def test_each_set_of_passed_functions_has_its_own_graph(run: Run) -> None:
    process = run(
        """
import torch, triton, triton.language as tl
@triton.jit
def one(v): return v + 1
@triton.jit
def two(v): return v + 2
@triton.jit
def apply(x, F: tl.constexpr, PAIR: tl.constexpr):
    tl.store(x, F(PAIR[1](tl.load(x))))
x = torch.ones(1)
for f, g in [(one, two), (two, one), (one, two)]:
    apply[(1,)](x, f, PAIR=(0, g))
""",
        kernel="apply",
        launch=[0, 3],
    ).only
    assert [launch["source"] for launch in process.launches] == [
        "source-0.json",
        "source-1.json",
        "source-0.json",
    ]
    for name, order in [("source-0.json", ["one", "two"]), ("source-1.json", ["two", "one"])]:
        graph = json.loads((process.folder / name).read_text())
        assert [graph["nodes"][key]["name"] for key in graph["extra"]] == order
        assert graph["nodes"][graph["entry"]]["name"] == "apply"
    values = [process.argument("PAIR", launch)["value"]["items"][1]["name"] for launch in range(3)]
    assert values == ["two", "one", "two"]


def test_the_stack_ends_at_the_users_line_under_an_autotuner(run: Run) -> None:
    process = run(TUNED, kernel="accumulate").only
    file, line, _ = process.launches[0]["python_stack"][-1]
    assert TUNED.splitlines()[line - 1].strip() == "accumulate[grid](x, out, 100)" and file.endswith(
        "target.py"
    )

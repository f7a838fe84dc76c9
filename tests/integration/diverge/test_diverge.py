"""`kerncap diverge` on programs with one planted difference, and on pairs without one."""

from __future__ import annotations

import sys
from pathlib import Path
from typing import Any

import pytest

from tests.integration.conftest import CommandLine, Finished
from tests.parameters import first_of

pytestmark = pytest.mark.timeout(1200)  # up to seven runs of a program that imports torch

# One difference is chosen by PLANT; without it, the program does what it did in every other run.
PROGRAM = '''
from triton.runtime import interpreter
PLANT = os.environ.get("PLANT", "")
BLOCK = 32
N = 64

@triton.jit
def scale(x, y, factor, n, BLOCK: tl.constexpr):
    i = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    tl.store(y + i, tl.load(x + i, mask=i < n) * factor * 1.5, mask=i < n)

@triton.jit
def total(x, out, n, BLOCK: tl.constexpr):
    i = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    tl.atomic_add(out, tl.sum(tl.load(x + i, mask=i < n, other=0.0)))

@triton.jit
def accumulate(x, y, BLOCK: tl.constexpr):
    i = tl.arange(0, BLOCK)
    tl.store(y + i, tl.load(y + i) + tl.load(x + i))

@triton.autotune(
    configs=[triton.Config({"BLOCK": 4}), triton.Config({"BLOCK": 8})], key=["n"],
    prune_configs_by={"early_config_prune": lambda configs, *_, **__: [configs[PLANT == "autotune"]]},
)
@triton.jit
def tuned(x, out, n, BLOCK: tl.constexpr):
    i = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    tl.atomic_add(out, tl.sum(tl.load(x + i, mask=i < n, other=0.0)))

@triton.jit
def indirect(addresses, BLOCK: tl.constexpr):
    y = tl.load(addresses).to(tl.pointer_type(tl.float32))
    tl.store(y + tl.arange(0, BLOCK), 1.0)

@triton.jit
def first_half(x, y, BLOCK: tl.constexpr):
    i = tl.arange(0, BLOCK)
    tl.store(y + i, tl.load(x + i) + 1.0)

def order(number):
    """Programs in another order, as a GPU has it for atomics."""
    set_grid_idx = interpreter.interpreter_builder.set_grid_idx
    def other(x, y, z):
        last = interpreter.interpreter_builder.grid_dim[0] - 1
        set_grid_idx((last - x if number else x), y, z)
    interpreter.interpreter_builder.set_grid_idx = other

if PLANT == "addresses":
    kept = [torch.zeros(1000 + 77 * k, device=DEVICE) for k in range(50)]
if PLANT == "order":
    order(1)
if PLANT == "nondeterministic":  # ORDERS has one for each run
    with open(os.environ["COUNTER"], "a") as counter:
        order(int(os.environ["ORDERS"][counter.tell()]))
        counter.write("x")

def run():
    x = torch.rand(N, device=DEVICE) * 1000
    y = torch.full((N,), 9.0 if PLANT == "overwritten" else 0.0, device=DEVICE)
    factor = 3.0 if PLANT in ("environment", "overwritten") else 2.0
    scale[(triton.cdiv(N, BLOCK),)](x, y, factor, N, BLOCK=BLOCK)
    if PLANT == "seed":
        torch.manual_seed(7)
    noise = torch.rand(N, device=DEVICE)
    if PLANT == "host":
        y[5] += 1
    if PLANT != "missing":
        accumulate[(1,)](noise, y, BLOCK=N)
    if PLANT == "extra":
        accumulate[(1,)](noise, y, BLOCK=N)
    if PLANT == "dtype":
        y = y.half().float().double()
    sums = [torch.zeros(1, dtype=y.dtype, device=DEVICE) for _ in range(2)]
    block = 8 if PLANT == "block" else 4
    other = torch.zeros(N, device=DEVICE)
    def one():
        total[(triton.cdiv(N, block),)](y, sums[0], N, BLOCK=block)
    def two():
        scale[(2,)](x, other, 1.0, N, BLOCK=64 if PLANT == "same-results" else BLOCK)
    for each in (two, one) if PLANT == "swapped" else (one, two):
        each()
    tuned[lambda meta: (triton.cdiv(N, meta["BLOCK"]),)](y, sums[1], N)
    if PLANT == "pointers":
        indirect[(1,)](torch.tensor([other.data_ptr()], device=DEVICE), BLOCK=N)
    garbage = torch.full((2 * N,), 3.0 if PLANT in ("garbage", "uninitialised") else 1.0, device=DEVICE)
    first_half[(1,)](None if PLANT == "raises" else x, garbage, BLOCK=N)
    if PLANT.startswith("uninitialised"):
        accumulate[(1,)](x, garbage[N:], BLOCK=N)

if __name__ == "__main__":
    run()
'''


@pytest.fixture(scope="module")
def program(kerncap_of_module: CommandLine) -> list[str]:
    return [sys.executable, str(kerncap_of_module.target(PROGRAM))]


def diverged(
    kerncap: CommandLine, program: list[str], *options: str, status: int, **env: str
) -> dict[str, Any]:
    # A folder for each: tests of one file may run side by side.
    output = "-".join(["out", *options, *env.values()]).replace("=", "-").replace("/", "")
    done = kerncap("diverge", "--json", "-o", output, *options, "--", *program, env=env, timeout=900)
    assert done.status == status, (done.status, done.stdout, done.stderr)
    return done.document


# A difference in B: how it is planted, in which kernel, and what the report says.
PLANTS = [
    ("host", "memory", "accumulate", {"before": ["y"], "since": "scale"}),
    ("environment", "arguments", "scale", {"changed": ["factor"], "after": ["y"]}),
    ("seed", "memory", "accumulate", {"before": ["x"], "since": None}),
    ("missing", "only", "accumulate", {"sides": (True, False)}),
    ("extra", "only", "accumulate", {"sides": (False, True)}),
    ("dtype", "arguments", "total", {"changed": ["x", "out"]}),
    ("block", "arguments", "total", {"changed": ["grid", "BLOCK"], "after": ["out"]}),
    ("autotune", "arguments", "tuned", {"changed": ["grid", "BLOCK"]}),
    ("order", "launch", "total", {"before": [], "after": ["out"]}),
    ("swapped", "moved", "total", {"sides": (True, True)}),
    ("raises", "raised", "first_half", {"changed": ["x"]}),
]


@first_of("plant, kind, kernel, facts", PLANTS)
def test_a_planted_difference_is_named(
    kerncap_of_module: CommandLine,
    program: list[str],
    plant: str,
    kind: str,
    kernel: str,
    facts: dict[str, Any],
) -> None:
    found = diverged(kerncap_of_module, program, "--no-noise", "--env", f"PLANT={plant}", status=1)
    named = found["named"]
    there = [named["a"], named["b"]]
    assert (named["kind"], {one["kernel"] for one in there if one}) == (kind, {kernel}), named
    for one in there:
        if one is not None and kind != "raised":
            assert (kerncap_of_module.folder / one["reproducer"] / "manifest.json").is_file()
    assert tuple(one is not None for one in there) == facts.get("sides", (True, True))
    assert [change["what"] for change in named["changed"]] == facts.get("changed", [])
    for key in ("before", "after"):
        assert key not in facts or named[key] == facts[key]
    if "since" in facts:
        since = named["since"]
        assert (since and since["kernel"]) == facts["since"]
    if None not in there:
        assert named["a"]["launched_from"][0].endswith("target.py") and named["a"]["line"] > 0
    assert kind in ("only", "moved", "raised") or "memory after" in named["diff"]["differing"]


@pytest.mark.long
def test_what_is_read_before_it_is_written_is_named(
    kerncap_of_module: CommandLine, program: list[str]
) -> None:
    found = diverged(
        kerncap_of_module,
        program,
        "--no-noise",
        "--env",
        "PLANT=uninitialised",
        status=1,
        PLANT="uninitialised-a",
    )
    named = found["named"]
    assert (named["kind"], named["a"]["kernel"], named["before"]) == ("memory", "accumulate", ["y"])
    assert [one["kernel"] for one in found["harmless"]] == ["first_half"]  # it shares the storage


@pytest.mark.long
@pytest.mark.parametrize(
    "old, new",
    [("factor * 1.5", "factor * 1.25"), ("* 1.5, mask=i < n)", "* 1.5, mask=i < n - 1)")],
    ids=["a constant", "a mask"],
)
def test_an_edited_kernel_is_named_with_its_source(
    kerncap_of_module: CommandLine, program: list[str], old: str, new: str
) -> None:
    assert old in PROGRAM
    edited = kerncap_of_module.target(PROGRAM.replace(old, new), f"edited-{len(new)}.py")
    words = ("-o", f"out-edited-{len(new)}", "--no-noise", "--", *program, "--", sys.executable, edited)
    done = kerncap_of_module("diverge", *words, timeout=900)
    assert done.status == 1, done.stderr
    assert "its inputs agree, its results differ: y; its source differs" in done.stdout
    assert any(line.startswith("  source: +") and new in line for line in done.stdout.splitlines())
    assert done.result_line == "Result: DIFFERENT (scale, launch 0)"


# --- pairs without a difference --------------------------------------------------------------------


def test_one_command_agrees_with_itself_and_with_what_was_recorded_of_it(
    kerncap_of_module: CommandLine, program: list[str]
) -> None:
    kerncap = kerncap_of_module
    done = kerncap("trace", "-o", "a.json", "--", *program)
    assert done.status == 0 and "6 launches" in done.stderr, done.stderr
    found = diverged(kerncap, program, "--a", "a.json", status=0)
    assert (found["result"], found["aligned"], found["named"], found["uncompared"]) == ("equal", 6, None, [])
    assert found["a"]["recorded"] == "a.json" and not found["once"]
    other = kerncap("diverge", "--a", "a.json", "-k", "scale", "--", *program)
    assert other.status == 2 and "recorded with other -k and --launch" in other.stderr


AGREEING = [
    ("same-results", "changed", ["scale"]),  # another block size
    ("garbage", "harmless", ["first_half"]),  # bytes of its storage that it neither reads nor writes
    ("addresses", "changed", []),  # everything is elsewhere in memory
]


@pytest.mark.long
@pytest.mark.parametrize("plant, told, kernels", AGREEING)
def test_what_is_no_difference_is_not_named(
    kerncap_of_module: CommandLine, program: list[str], plant: str, told: str, kernels: list[str]
) -> None:
    found = diverged(kerncap_of_module, program, "--no-noise", "--env", f"PLANT={plant}", status=0)
    assert found["named"] is None and [one["kernel"] for one in found[told]] == kernels


def test_a_search_ends_within_its_budget(kerncap_of_module: CommandLine, program: list[str]) -> None:
    """Both traces take what the programs do, so once that is the limit there is no time for a round."""
    found = diverged(
        kerncap_of_module, program, "--budget", "1x", "--env", "PLANT=environment", status=5
    )  # fmt: skip
    [said] = found["uncompared"]
    assert found["named"] is None and said.endswith("were not captured; a larger --budget captures more")
    assert said.startswith("scale, launch 0 and ") and found["search_ns"] >= found["plain_ns"] > 0


@pytest.mark.long
def test_what_is_within_the_tolerance_is_not_named(
    kerncap_of_module: CommandLine, program: list[str]
) -> None:
    found = diverged(
        kerncap_of_module, program, "--no-noise", "--ulps", "8", "--env", "PLANT=order", status=0
    )
    assert found["named"] is None and {one["kernel"] for one in found["within"]} >= {"total"}


# --- nondeterminism, and what can't be compared ----------------------------------------------------


@pytest.mark.long
def test_nondeterminism_is_no_difference(kerncap_of_module: CommandLine, program: list[str]) -> None:
    found = diverged(
        kerncap_of_module, program, "--env", "OTHER=1", status=5,
        PLANT="nondeterministic", ORDERS="0111", COUNTER=str(kerncap_of_module.folder / "counter"),
    )  # fmt: skip
    assert found["named"] is None and found["result"] == "undecided"
    assert {one["a"]["kernel"] for one in found["nondeterministic"]} >= {"total"}


def test_the_run_that_captures_a_launch_says_whether_it_is_deterministic(
    kerncap_of_module: CommandLine, program: list[str]
) -> None:
    counter = kerncap_of_module.folder / "counter-of-four"
    found = diverged(
        kerncap_of_module, program, "--env", "OTHER=2", status=1,
        PLANT="nondeterministic", ORDERS="0101", COUNTER=str(counter),
    )  # fmt: skip
    assert (found["named"]["kind"], found["named"]["a"]["kernel"]) == ("launch", "total"), found["named"]
    assert not found["nondeterministic"] and counter.stat().st_size == 4, "runs of the program"


@pytest.mark.long
@pytest.mark.parametrize("orders, again", [("0101", True), ("0100", False)])
def test_one_command_that_differs_from_itself(
    kerncap_of_module: CommandLine, program: list[str], orders: str, again: bool
) -> None:
    found = diverged(
        kerncap_of_module, program, status=1,
        PLANT="nondeterministic", ORDERS=orders, COUNTER=str(kerncap_of_module.folder / f"counter-{orders}"),
    )  # fmt: skip
    named = found["named"]
    assert found["once"] and (named["kind"], named["a"]["kernel"]) == ("launch", "total")
    assert ("in the runs that captured it, both sides agreed" in named["problems"]) != again


@pytest.mark.long
def test_memory_behind_addresses_is_not_compared(kerncap_of_module: CommandLine, program: list[str]) -> None:
    found = diverged(kerncap_of_module, program, status=5, PLANT="pointers")
    assert found["named"] is None and found["aligned"] == 7
    [said] = found["uncompared"]
    assert said == "indirect: addresses holds addresses, and the memory behind them was not hashed"


@pytest.fixture(scope="module")
def recorded(kerncap_of_module: CommandLine, program: list[str]) -> str:
    assert kerncap_of_module("trace", "-o", "old.json", "--", *program).status == 0
    return "old.json"


@first_of(
    "plant, kind, kernel, before, after",
    [
        ("overwritten", "arguments", "scale", [], ["y"]),  # what was there before is not read
        ("environment", "arguments", "scale", [], ["y"]),
        ("host", "memory", "accumulate", ["y"], ["y"]),  # all of it is read
        ("garbage", None, "first_half", [], []),  # a part of it is written, and nothing of it read
    ],
)
def test_a_recorded_side_has_no_reproducer(
    kerncap_of_module: CommandLine, program: list[str], recorded: str, plant: str, kind: str | None,
    kernel: str, before: list[str], after: list[str],
) -> None:  # fmt: skip
    """The reproducer of the other side shows which of the bytes that differ are read, and written."""
    options = ("--a", recorded, "--no-noise", "--env", f"PLANT={plant}")
    found = diverged(kerncap_of_module, program, *options, status=5 if kind is None else 1)
    named = found["named"]
    if kind is None:
        assert named is None and any(said.startswith(kernel) for said in found["uncompared"]), found
        return
    assert (named["kind"], named["a"]["kernel"]) == (kind, kernel), named
    assert (named["before"], named["after"]) == (before, after), named
    assert named["a"]["reproducer"] is None and named["b"]["reproducer"]
    pattern = f"^__main__\\.{kernel}$"
    assert f"kerncap capture -k '{pattern}' --launch 0 -- " in named["problems"][0]


def usage(kerncap: CommandLine, *words: str) -> str:
    done: Finished = kerncap("diverge", *words)
    assert done.status == 2, done.stderr
    return done.stderr


def test_what_is_no_pair_of_runs_is_refused(kerncap: CommandLine) -> None:
    assert "A: no command; give a program after --, or --a FILE" in usage(kerncap)
    assert "more than two commands" in usage(kerncap, "--", "true", "--", "true", "--", "true")
    assert "--env X: expected NAME=VALUE" in usage(kerncap, "--env", "X", "--", "true")
    assert "no-such-program" in usage(kerncap, "--", "no-such-program")
    assert "3y is not a factor, such as 3x" in usage(kerncap, "--budget", "3y", "--", "true")
    (kerncap.folder / "a.json").write_text('{"format": "kerncap-trace", "version": 99}')
    done = kerncap("diverge", "--a", "a.json", "--b", "a.json")
    assert done.status == 3 and "trace of version 99" in done.stderr


RANKS = """
import os
import os
import sys

import torch
import triton
import triton.language as tl


@triton.jit
def step(x_ptr, by, N: tl.constexpr):
    at = tl.arange(0, N)
    tl.store(x_ptr + at, tl.load(x_ptr + at) * by)


x = torch.ones(16)
for rank in range(2):
    if os.fork() == 0:
        os.environ["RANK"] = str(rank)
        step[(1,)](x, 2.0, N=16)
        step[(1,)](x, 3.0 + rank, N=16)
        sys.exit(0)
for _ in range(2):
    os.wait()
"""


@pytest.mark.long
def test_two_ranks_of_one_run(kerncap: CommandLine) -> None:
    program = [sys.executable, str(kerncap.target(RANKS, name="ranks.py"))]
    done = kerncap("diverge", "--json", "--ranks", "0,1", "--", *program, timeout=900)
    found = done.judged
    named = found["named"]
    assert found["result"] == "different" and done.status == 1, found
    assert (named["kind"], named["a"]["kernel"], named["a"]["ordinal"]) == ("arguments", "step", 1)
    assert [one["what"] for one in named["changed"]] == ["by"] and found["a"]["rank"] == 0
    assert Path(named["b"]["reproducer"]).parent.name == "rank1", named
    done = kerncap("diverge", "-k", "other", "--ranks", "0,1", "--", *program, timeout=900)
    assert done.status == 2 and "A: rank 0 launched nothing that was traced" in done.stderr, done.stderr
    equal = kerncap("diverge", "--launch", "0", "--ranks", "0,1", "--", *program, timeout=900)
    assert equal.status == 0 and "A: rank 0 of " in equal.stdout, equal.stdout
    assert found["plain_ns"] <= found["a"]["wall_ns"] == found["b"]["wall_ns"], "one run, not two"

"""`kerncap diverge --native`: launches that the CUDA shim sees are compared, also those of a graph."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

from tests.integration.conftest import Finished
from tests.integration.cuda.conftest import Bench


def diverged(bench: Bench, *sides: tuple[str, ...], options: tuple[str, ...] = ("--native",)) -> Finished:
    words: list[str | Path] = []
    for name, *rest in sides:
        words += ["--", bench.rig.client(name), *rest]
    return bench("diverge", "--json", *options, *words)


def test_what_the_host_changed_is_named_at_the_launch_that_reads_it(bench: Bench) -> None:
    done = diverged(bench, ("chain",), ("chain", "alone"))
    found = done.document
    assert done.status == 1 and found["aligned"] == 4 and not found["uncompared"], found
    named = found["named"]
    assert (named["kind"], named["a"]["kernel"], named["a"]["ordinal"]) == ("memory", "vector_add", 2)
    assert (named["before"], named["after"]) == (["arg1"], ["arg2"])
    assert not named["problems"] and (bench.kerncap.folder / named["a"]["reproducer"]).is_dir()
    # The first two launches left it equal on both sides.
    assert named["since"]["position"] == 1, named["since"]
    assert found["a"]["hashing_ns"] <= found["a"]["wall_ns"]


def test_one_program_twice(bench: Bench) -> None:
    for client in (("chain",), ("graphs",)):
        done = diverged(bench, client)
        found = done.document
        assert (done.status, found["result"]) == (0, "equal") and found["aligned"] >= 4, found


def test_without_it_native_launches_are_not_compared(bench: Bench) -> None:
    found = diverged(bench, ("chain",), options=("--no-noise",))
    assert found.status == 5
    assert "A: 3 native launches of vector_add(float const*, float const*, float*, int): not hashed" in str(
        found.document["uncompared"]
    )


def test_addresses_in_memory_are_not_compared(bench: Bench) -> None:
    """A list's nodes point to each other: these bytes are others in each process."""
    found = diverged(bench, ("pointers", "list"), options=("--native", "--no-noise"))
    assert found.status == 5 and found.document["named"] is None, found.document
    assert "holds addresses, which are others in each process" in str(found.document["uncompared"])


def test_what_was_recorded(bench: Bench) -> None:
    chain = bench.rig.client("chain")
    assert bench("trace", "--native", "-o", "a.json", "--", chain).status == 0
    [process] = json.loads((bench.kerncap.folder / "a.json").read_text())["processes"]
    assert [launch["launch"] for launch in process["launches"]] == [0, 1, 2, 3] and not process["native"]
    parameters: Any = process["launches"][2]["arguments"][0]["value"]["value"]
    assert parameters == "-" * 16 + "00004040" + "e8030000", "what is no address counts"
    assert bench("diverge", "--native", "--a", "a.json", "--", chain).status == 0
    other = bench("diverge", "--a", "a.json", "--", chain)
    assert other.status == 2 and "recorded with --native" in other.stderr, other.stderr
    only = bench("trace", "--native", "-k", "^scale", "--launch", "0", "-o", "b.json", "--", chain)
    assert only.status == 0 and "1 launches" in only.stderr

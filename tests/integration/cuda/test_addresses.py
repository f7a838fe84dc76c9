"""The captured address first; where it is taken, the second plan, by name."""

from __future__ import annotations

import pytest

from tests.integration.cuda.conftest import Bench, Captured
from tests.parameters import first_of


def bases(captured: Captured) -> list[int]:
    return [region.base for region in captured.manifest().regions if region.kind == "device"]


@pytest.mark.long
def test_every_address_is_honoured(bench: Bench) -> None:
    captured = bench.capture("-k", "sum_of_list", client=("pointers", "list"))
    for _ in range(3):  # each replay is a process whose own allocations begin somewhere else
        document = bench.judge(captured.path, command="replay")
        assert document["result"] == "pass" and "relocated" not in str(document["reasons"])


@first_of("case", [("values", "in_place", "scale_in_place"), ("pointers", "list", "sum_of_list")])
def test_a_taken_address(bench: Bench, case: tuple[str, str, str]) -> None:
    program, name, kernel = case
    captured = bench.capture("-k", kernel, client=(program, name))
    taken = {"KERNCAP_RIG_TAKEN": f"{min(bases(captured)):#x}:{2 << 20:#x}"}
    done = bench("replay", captured.path, extra=taken)
    told = done.stdout + done.stderr
    if name == "in_place":
        # Only arguments point there: they are known, so the launch is moved, and that is said.
        assert done.result_line.startswith("Result: PASS"), told
        assert "relocated" in told or "another address" in told or "elsewhere" in told, told
    else:
        # Pointers inside the list can't all be known: moved with care, or refused by name.
        assert "reloc" in told or "address" in told, told


@pytest.mark.long
def test_a_new_process_helps_where_the_place_is_taken_by_chance(bench: Bench) -> None:
    captured = bench.capture(
        "-k", "vector_add", client=("vector_add", "1000"), extra={"KERNCAP_RIG_SEED": "5"}
    )
    # The worker's own allocations begin at the captured ones: with another seed they would not.
    bench.passes(captured.path, extra={"KERNCAP_RIG_SEED": "5"})

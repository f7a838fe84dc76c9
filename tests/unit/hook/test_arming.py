"""A dormant session: nothing is taken until the page says so, then what its generation selects."""

from __future__ import annotations

import json
from typing import Any

from .conftest import ADD, Outcome, Process, Run, options

# The target plays the part of `kerncap arm`: it writes the selection, then raises the page.
ARMING = (
    ADD
    + """
@triton.jit
def twice(x, BLOCK: tl.constexpr):
    i = tl.arange(0, BLOCK)
    tl.store(x + i, tl.load(x + i) * 2)

import json, mmap, os
FOLDER = os.path.dirname(os.environ["KERNCAP_SESSION"])
x = torch.ones(8)

def arm(generation, text):
    if text is not None:
        with open(f"{FOLDER}/session-{generation}.json", "w") as file:
            file.write(text)
    with open(f"{FOLDER}/arm", "r+b") as file, mmap.mmap(file.fileno(), 4096) as page:
        page[:8] = generation.to_bytes(8, "little")

def steps(count):
    for _ in range(count):
        add[(1,)](x, x, x, 8, 8)
        twice[(1,)](x, 8)
"""
)


def selection(generation: int, **changes: Any) -> str:
    return repr(json.dumps({**options(**changes), "generation": generation}))


def dormant(run: Run, script: str) -> Outcome:
    prepare = (
        "import os\n"
        "with open(os.path.join(os.path.dirname(os.environ['KERNCAP_SESSION']), 'arm'), 'wb') as file:\n"
        "    file.write(bytes(4096))\n"
    )
    return run(prepare + ARMING + script, dormant=True)


def captured(process: Process) -> list[tuple[str, int, int]]:
    return [(each["kernel"]["name"], each["ordinal"], each["generation"]) for each in process.launches]


def test_nothing_is_taken_before_it_is_armed(run: Run) -> None:
    process = dormant(run, "steps(50)").only
    assert not process.launches and not process.failures
    assert process.counts("__main__.add")["filtered"] == {"dormant": 50}


def test_each_arming_starts_anew(run: Run) -> None:
    script = f"""
steps(30)                      # far enough that launches go straight through
arm(1, {selection(1, kernel="add")})
steps(4)
arm(2, {selection(2, kernel="twice", launch=[2, 4])})
steps(6)
arm(3, {selection(3, kernel="add")})
steps(2)
"""
    process = dormant(run, script).only
    assert captured(process) == [("add", 0, 1), ("twice", 2, 2), ("twice", 3, 2), ("add", 0, 3)]
    add, twice = process.counts("__main__.add"), process.counts("__main__.twice")
    assert (add["launches"], add["captured"], twice["launches"], twice["captured"]) == (42, 2, 42, 2)
    for counts in (add, twice):
        assert counts["captured"] + sum(counts["filtered"].values()) == 42, counts["filtered"]
    assert add["filtered"]["dormant"] == twice["filtered"]["dormant"] == 30


def test_a_process_that_starts_later_takes_what_holds_then(run: Run) -> None:
    outcome = dormant(
        run, f"arm(1, {selection(1, kernel='twice')})\nsteps(2)\nif os.fork() == 0: steps(1)\nelse: os.wait()"
    )
    assert [captured(process) for process in outcome.processes] == [[("twice", 0, 1)]] * 2


def test_the_default_selection_takes_each_kernel_again(run: Run) -> None:
    process = dormant(run, f"arm(1, {selection(1)})\nsteps(2)\narm(2, {selection(2)})\nsteps(2)").only
    assert captured(process) == [("add", 0, 1), ("twice", 0, 1), ("add", 0, 2), ("twice", 0, 2)]


def test_a_selection_that_cannot_be_read_changes_nothing(run: Run) -> None:
    script = f"""
arm(1, {selection(1, kernel="add", launch=[0, 2])})
steps(1)
arm(2, "nonsense")
steps(1)
arm(3, None)
steps(1)
arm(4, {selection(3)})
steps(1)
"""
    process = dormant(run, script).only
    assert [(name, ordinal) for name, ordinal, _ in captured(process)] == [("add", 0), ("add", 1)]
    reasons = process.failures
    assert len(reasons) == 3
    for generation, reason in zip((2, 3, 4), reasons, strict=True):
        assert f"generation {generation} could not be armed" in reason


def test_without_a_page_the_program_runs_as_ever(run: Run) -> None:
    outcome = run(ADD + "x = torch.ones(8)\nadd[(1,)](x, x, x, 8, 8)\nprint('done')\n", dormant=True)
    assert outcome.stdout == "done\n" and not outcome.only.launches

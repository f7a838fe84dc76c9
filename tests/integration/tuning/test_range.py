"""`tune RANGE --candidate`: a module for several launches, searched in the interpreter."""

from __future__ import annotations

import json
import re
import subprocess
from itertools import product
from pathlib import Path
from typing import Any

import pytest

from tests.integration.conftest import CommandLine
from tests.parameters import first_of

MLP = Path(__file__).parents[3] / "samples" / "mlp"
DEAD = ("--intermediate", "0.y", "--intermediate", "1.c")


def text(*changes: tuple[str, str]) -> str:
    found = (MLP / "fused_rows.py").read_text()
    for old, new in changes:
        assert old in found, old
        found = found.replace(old, new)
    return found


@pytest.fixture(scope="module")
def mlp(kerncap_of_module: CommandLine) -> Path:
    [path] = kerncap_of_module.capture("--launches", "0:3", target=MLP / "run.py")
    return path


def test_the_fastest_that_is_right_is_verified(kerncap: CommandLine, mlp: Path) -> None:
    # HALF is right as it is, and wrong as anything else.
    factor = ("gate * tl.sigmoid(gate) * up, mask", "gate * tl.sigmoid(gate) * up * (HALF / 2), mask")
    (kerncap.folder / "fused.py").write_text(
        text(('"ROWS": 4,', '"ROWS": 4, "HALF": 2,'), ("ROWS: tl.", "HALF: tl.constexpr, ROWS: tl."), factor)
    )
    options = ("--bound", "ROWS=4:8", "--bound", "HALF=2:4", "--apply", "--json")
    done = kerncap("tune", mlp, "--candidate", "fused.py", *DEAD, *options)
    document = done.document
    assert done.status == 0 and document["result"] == "pass", done.stderr
    states = {
        (trial["point"]["ROWS"], trial["point"]["HALF"]): trial["state"] for trial in document["trials"]
    }
    assert states.keys() == {(rows, half) for rows in (4, 8) for half in (2, 4)}, states
    assert {state for (_, half), state in states.items() if half == 4} <= {"wrong", "pruned"}, states
    assert {state for (_, half), state in states.items() if half == 2} <= {"timed", "slow"}, states
    [shape] = document["shapes"]
    assert shape["best"]["config"]["HALF"] == 2 and shape["captured_ms"] > 0 and shape["best"]["speedup"]
    assert any(note.startswith("verify says pass of ROWS=") for note in document["notes"]), document["notes"]
    rows = shape["best"]["config"]["ROWS"]
    assert rows == 4 or f'+            "N": "2.columns", "ROWS": {rows}, "HALF": 2,' in document["patch"]


def test_a_module_with_several_launches(kerncap: CommandLine, mlp: Path) -> None:
    """HALF of each is right as it is, and wrong as anything else; no launch has another one's numbers."""
    candidate = kerncap.folder / "halves.py"
    candidate.write_text((Path(__file__).parent / "halves.py").read_text())
    space = {"norm.ROWS": [4, 8], "half[0].ROWS": 2, "half[1].ROWS": [4, 3], "HALF": [2, 4]}
    (kerncap.folder / "space.json").write_text(json.dumps({"parameters": space}))
    options = ("--space", "space.json", "--apply", "--json")
    done = kerncap("tune", mlp, "--candidate", candidate, *DEAD, *options)
    document = done.document
    assert done.status == 0 and document["result"] == "pass", done.stderr
    states = {
        tuple(trial["point"][name] for name in ("norm.ROWS", "half[0].HALF", "half[1].HALF")): trial
        for trial in document["trials"]
        if trial["point"]["half[1].ROWS"] == 4
    }
    pruned = [trial for trial in document["trials"] if trial["point"]["half[1].ROWS"] == 3]
    assert pruned and all(trial["state"] == "pruned" for trial in pruned)
    assert re.fullmatch(r"half\[1\]: line \d+: a range of 3 is not a power of two", pruned[0]["reason"])
    assert states.keys() == {(rows, *halves) for rows in (4, 8) for halves in product((2, 4), repeat=2)}
    for (_, *halves), trial in states.items():
        assert trial["state"] in (("timed", "slow") if halves == [2, 2] else ("wrong",)), trial
        if halves == [2, 4]:
            assert "first at 2.out[8, 0]" in trial["reason"], trial
    [shape] = document["shapes"]
    assert shape["best"]["config"]["half[1].ROWS"] == 4 and shape["best"]["speedup"], shape
    assert any(note.startswith("verify says pass of norm.ROWS=") for note in document["notes"]), document[
        "notes"
    ]
    rows = shape["best"]["config"]["norm.ROWS"]
    subprocess.run(["patch", candidate, document["patch_path"]], check=True)
    scope: dict[str, list[dict[str, Any]]] = {}
    exec(candidate.read_text().partition("]  # fmt: skip")[0] + "]", scope)
    assert [launch["arguments"]["ROWS"] for launch in scope["LAUNCHES"]] == [rows, 2, 4]


@pytest.mark.long
def test_a_hostile_module_is_judged_by_what_timed_launches_leave(kerncap: CommandLine, mlp: Path) -> None:
    """Of that too, what nothing needs is no result."""
    (kerncap.folder / "fused.py").write_text(text())
    options = ("--candidate", "fused.py", *DEAD, "--bound", "ROWS=4:8", "--hostile", "--json")
    document = kerncap("tune", mlp, *options).document
    assert document["result"] == "pass" and document["shapes"][0]["best"]["speedup"], document["notes"]
    assert not [note for note in document["notes"] if "dropped" in note], document["notes"]


def test_a_module_that_is_not_right_is_not_tuned(kerncap: CommandLine, mlp: Path) -> None:
    candidate = kerncap.folder / "fused.py"
    candidate.write_text(text(("1e-6", "1e-1")))
    done = kerncap("tune", mlp, "--candidate", candidate, *DEAD)
    assert done.status == 2 and "as it is, verify says fail: 2.out: " in done.stderr, done.stderr
    candidate.write_text(text())
    done = kerncap("tune", mlp, "--candidate", candidate)
    assert done.status == 2 and "verify says undecided: whether anything after" in done.stderr, done.stderr


def test_what_is_refused(kerncap: CommandLine, mlp: Path) -> None:
    (kerncap.folder / "c.cu").write_text("// kerncap: launch k<<<1, 32>>>(0.x)\n")
    (kerncap.folder / "fused.py").write_text(text())
    for options, said in (
        ((), "a range; --candidate names a module for several of its launches"),
        (("--candidate", "fused.py", "--workers", "2"), "--workers: a range is tuned on one device"),
    ):
        done = kerncap("tune", mlp, *options)
        assert done.status == 2 and said in done.stderr, done.stderr
    done = kerncap("tune", mlp, mlp, "--candidate", "fused.py")
    assert done.status == 2 and "--candidate: for one range" in done.stderr, done.stderr


@first_of(
    ("grid", "said"),
    [
        ("lambda meta: (__import__('os').abort(),)", ""),
        ("lambda meta: (meta['M'] - 16,)", "it is (0, 1, 1): expected 1 to"),
        ("no lambda", "no function could be read"),
        ("lambda meta: (meta['columns'],)", ""),
    ],
)
def test_a_grid_is_worked_out_and_not_executed(kerncap: CommandLine, mlp: Path, grid: str, said: str) -> None:
    candidate = kerncap.folder / "fused.py"
    candidate.write_text(text(("lambda meta: (triton.cdiv(meta['M'], meta['ROWS']),)", grid)))
    done = kerncap("verify", mlp, "--candidate", candidate, *DEAD)
    assert done.status == 2 and f"LAUNCHES[0]: grid: {said}" in done.stderr, done.stderr

"""The table of a save: what is known, with its change, and nothing that is not."""

from __future__ import annotations

import json
import sys

import pytest

from kerncap.replay.outcome import Compiled
from kerncap.report.edit_screens import JsonLines, Plain, Terminal
from kerncap.report.edit_text import block, rows

from .judgements import broken, changed, failed, on_device, passed


def test_every_fact_stands_beside_the_originals() -> None:
    found = {row.name: row for row in rows(on_device())}
    assert found["time"][1:] == ("41.2 us", "35.8 us", "0.87x (0.85 to 0.89)", True)
    assert found["registers"][1:] == ("40", "38", "-2", True)
    assert found["spills"][1:] == ("0 B", "16 B", "+16 B", False)
    assert found["shared memory"][1:4] == ("1.0 KiB", "2.0 KiB", "+1.0 KiB")
    assert found["occupancy"][1:] == ("62 %", "75 %", "+12 points", True)
    assert found["num_warps"][1:4] == ("4", "8", "changed")
    assert found["block"][1:4] == ("128x1x1", "256x1x1", "changed")
    assert "grid" not in found, "what did not change in the launch is not said"


def test_on_the_interpreter_no_fact_is_invented() -> None:
    """No zeros for registers that nobody counted."""
    nothing = Compiled(grid=(64, 1, 1), compile_ms=90.0)
    result = passed(original=nothing, candidate=nothing)
    assert rows(result) == []
    assert "registers" not in block(result) and result.as_dict()["candidate"] == {"grid": [64, 1, 1]}
    assert Compiled() and passed(original=Compiled(), candidate=Compiled()).as_dict()["original"] is None


def test_an_interval_around_one_claims_nothing() -> None:
    result = on_device()
    assert result.times is not None
    for low, high, better in ((0.9, 1.1, None), (1.01, 1.2, False), (0.8, 0.99, True)):
        times = type(result.times)(9, "host clock", 1.0, 1.0, 1.0, low, high)
        [row] = rows(passed(times=times))
        assert row.better is better


def test_a_block_says_all_in_a_few_lines() -> None:
    lines = block(on_device()).splitlines()
    assert lines[0] == "save 4 PASS (10 bytes identical)"
    assert lines[-1] == "compile 412 ms; save to verdict 84 ms; best so far: save 2, 0.80x"
    assert len(lines) <= 12


def test_the_first_wrong_element_is_named() -> None:
    result = failed()
    assert block(result).startswith(
        "save 2 FAIL (out_ptr: 12 of 6,400 elements differ, first at out_ptr[3, 17]"
    )
    first = result.first_wrong
    assert first is not None
    assert (first.buffer, first.index, first.expected, first.found) == ("out_ptr", (3, 17), "0.5", "nan")


def test_never_written_bytes_have_a_first_element_too() -> None:
    result = failed()
    result.verdict.reasons = ["40 bytes of z_ptr were never written (first at z_ptr[8])"]
    first = result.first_wrong
    assert first is not None and (first.buffer, first.index, first.found) == ("z_ptr", (8,), None)
    assert passed().first_wrong is None


def test_an_error_shows_its_line_and_a_caret() -> None:
    lines = block(broken()).splitlines()
    assert lines[1:] == [
        "kernel.py:2:5: SyntaxError: invalid syntax",
        "  1 | a",
        "  2 | b = = c",
        "    |     ^",
    ]


def test_control_characters_of_a_candidate_do_not_reach_the_terminal() -> None:
    result = broken()
    result.verdict.summary = "bad \x1b[2J\nname"
    result.verdict.notes = ["a\n\x1b]0;x\x07b\nc"]
    result.diagnostics = []
    assert "\x1b" not in block(result) and "\x07" not in block(result)


def test_json_is_one_line_for_each_save(capsys: pytest.CaptureFixture[str]) -> None:
    screen = JsonLines()
    for result in (passed(), failed(), broken(), on_device()):
        screen.result(result)
    documents = [json.loads(line) for line in capsys.readouterr().out.splitlines()]
    assert [each["result"] for each in documents] == ["pass", "fail", "fail", "pass"]
    assert documents[1]["first_wrong"]["index"] == [3, 17]
    assert documents[2]["diagnostics"][0]["line"] == 2
    assert documents[3]["times"]["low"] == 0.85 and documents[3]["launch_changes"]["num_warps"] == [4, 8]


def test_a_pipe_gets_plain_blocks(capsys: pytest.CaptureFixture[str]) -> None:
    for result in (passed(), failed()):
        Plain().result(result)
    blocks = capsys.readouterr().out.split("\n\n")
    assert blocks[0].startswith("save 1 PASS") and blocks[1].startswith("save 2 FAIL")


def test_a_terminal_gets_the_same_words(
    capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("COLUMNS", "120")
    monkeypatch.setenv("TERM", "dumb")
    assert sys.stdout is not None
    for result in (on_device(), failed(), broken(), changed(passed(), edited=False)):
        Terminal().result(result)
    out = capsys.readouterr().out
    for text in (
        "save 4 PASS (10 bytes identical)", "0.87x (0.85 to 0.89)", "+12 points", "out_ptr[3, 17]",
        "not edited yet",
        "kernel.py:2:5: SyntaxError",
    ):  # fmt: skip
        assert text in out

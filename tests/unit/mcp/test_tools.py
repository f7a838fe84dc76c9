"""Tools become command lines: paths inside of the roots, never --trust, every word an option's or its own."""

from __future__ import annotations

import dataclasses
import shutil
from pathlib import Path
from typing import Any

import click
import msgspec
import pytest

from kerncap.api.schemas import DOCUMENTS
from kerncap.cli import COMMANDS, group
from kerncap.errors import UsageError
from kerncap.mcp import resources
from kerncap.mcp.allowed import Allowed
from kerncap.mcp.answers import answer
from kerncap.mcp.bounded import Results, size
from kerncap.mcp.child import Ran
from kerncap.mcp.tools import TOOLS, Context, Tool, chosen

GOLDEN = Path(__file__).resolve().parents[2] / "golden"
# One full set of arguments for each tool.
FULL: dict[str, dict[str, Any]] = {
    "doctor": {},
    "list": {"command": ["python", "run.py", "--trust"], "by": "rank", "top": 3},
    "capture": {
        "command": ["python", "-c", "1"], "kernel": "-x", "launch": "1:3", "where": "n > 1",
        "range": "step", "rank": "0,1",
        "when": "nonfinite", "on_fault": False, "memory": "args", "max_size": "1GB", "stop": True,
        "no_values": True, "output": "out", "timeout_s": 5,
    },
    "from_core": {"core": "c", "exe": "p"},
    "from_recording": {"recording": "r", "kernel": "-x", "launch": 1, "max_size": "1GB", "output": "o"},
    "inspect": {"repro": "r"},
    "replay": {"repro": "r", "candidate": "c.py", "device": "cpu", "timed_runs": 3, "rtol": 0.1, "atol": 0},
    "verify": {"repro": "r", "stages": "all", "reference": "ref.py", "expect": "finite"},
    "prove": {"a": ".", "b": ".", "launch": ".", "same": {"x": "y"}, "result": {"out": "y"}, "then": ["."]},
    "sanitize": {"repro": "r", "checks": "oob", "bounds": "view", "baseline": "old.sarif"},
    "sanitize_program": {"command": ["python", "run.py"], "checks": "race", "baseline": "old.sarif"},
    "blame": {"repro": "r", "candidate": "c.py", "exact": True, "output": "o"},
    "tune": {"repros": ["r"], "trials": 3, "seconds": 5},
    "diverge": {
        "command": ["python", "a.py", "--trust"], "other": ["python", "b.py"], "env": {"A": "--trust"},
        "kernel": "-x", "ulps": 2, "rtol": 0.1, "atol": 0, "rounds": 3, "output": "out",
    },
    "diff": {"a": ".", "b": "."},
    "export": {"repro": "r", "kind": "script"},
    "report": {"repro": "r", "output": "r.html"},
    "minimize": {"repro": "r", "output": "o", "seconds": 5},
    "pack": {"repro": "r", "output": "r.zip", "dry_run": True},
    "unpack": {"archive": "r.zip", "output": "o"},
}  # fmt: skip


@pytest.fixture
def context(tmp_path: Path) -> Context:
    return Context(Allowed.of((tmp_path,)), "python3")


def words(tool: Tool, arguments: dict[str, Any], context: Context) -> list[str]:
    return tool.words(msgspec.convert(arguments, tool.takes), context)


@pytest.mark.parametrize("tool", TOOLS, ids=lambda tool: tool.name)
def test_the_command_line_understands_it(tool: Tool, context: Context) -> None:
    name, *rest = words(tool, FULL[tool.name], context)
    assert name in COMMANDS and tool.document in DOCUMENTS
    command = group.get_command(click.Context(group), name)
    assert command is not None
    parsed = command.make_context(name, rest, resilient_parsing=False)
    assert parsed.params["as_json"] is True
    assert not parsed.params.get("trust")


def test_a_process_that_stays_is_for_verify_only_and_if_asked(context: Context) -> None:
    stays = dataclasses.replace(context, resident=True)
    assert {tool.name for tool in TOOLS if "--resident" in words(tool, FULL[tool.name], stays)} == {"verify"}
    assert not any("--resident" in words(tool, FULL[tool.name], context) for tool in TOOLS)


def test_every_tool_is_tried() -> None:
    assert {tool.name for tool in TOOLS} == set(FULL)


@pytest.mark.parametrize("tool", [tool for tool in TOOLS if "repro" in FULL[tool.name]], ids=lambda t: t.name)
@pytest.mark.parametrize("path", ["/etc", "../x", "link/x", "", "a\0b"])
def test_no_path_leads_out(tool: Tool, path: str, context: Context) -> None:
    (context.allowed.home / "link").symlink_to("/")
    with pytest.raises(UsageError, match="repro"):
        words(tool, {**FULL[tool.name], "repro": path}, context)


@pytest.mark.parametrize(
    ("name", "option"),
    [("replay", "candidate"), ("verify", "reference"), ("blame", "candidate"),
     ("blame", "output"), ("pack", "output"), ("capture", "output"),
     ("minimize", "output"), ("unpack", "output"), ("unpack", "archive"), ("diff", "a"), ("diff", "b"),
     ("from_core", "core"), ("from_core", "exe"),
     ("from_recording", "recording"), ("from_recording", "output"),
     ("prove", "a"), ("prove", "b"), ("prove", "launch"), ("prove", "then"),
     ("diverge", "output"), ("export", "output"), ("report", "output"), ("sanitize", "baseline"),
     ("sanitize_program", "baseline")],
)  # fmt: skip
def test_nor_does_one_of_an_option(name: str, option: str, context: Context) -> None:
    with pytest.raises(UsageError, match=f"{option} ../x: outside"):
        words(chosen(False)[name], {**FULL[name], option: ["../x"] if option == "then" else "../x"}, context)


def test_a_separator_among_a_programs_words_is_refused(context: Context) -> None:
    with pytest.raises(UsageError, match="command: holds --"):
        words(chosen(False)["diverge"], {"command": ["env", "--", "python"]}, context)


def test_two_roots(tmp_path: Path) -> None:
    first, second = tmp_path / "a", tmp_path / "b"
    first.mkdir()
    second.mkdir()
    allowed = Allowed.of((first, second))
    assert allowed.path("x", "repro") == first / "x"
    assert allowed.path(str(second / "y"), "repro") == second / "y"
    with pytest.raises(UsageError, match="outside"):
        allowed.path(str(tmp_path / "c"), "repro")
    with pytest.raises(UsageError, match="no such folder"):
        Allowed.of((tmp_path / "none",))


def test_read_only_leaves_out_what_runs_something() -> None:
    assert set(chosen(True)) == {"doctor", "from_core", "inspect", "sanitize", "diff"}
    for tool in TOOLS:
        assert not (tool.read_only and tool.destructive)
        takes_a_program = "command" in tool.takes.__struct_fields__
        assert tool.destructive == tool.open_world == takes_a_program


def ran(status: int | None, stdout: str, *lines: str) -> Ran:
    return Ran(status, stdout, lines)


def test_an_error_is_its_line() -> None:
    found = answer(chosen(False)["inspect"], ran(3, "", "kerncap: m: byte 4: no"), 5, Results(), 8000)
    assert found.failed and found.content["lines"] == ["kerncap: m: byte 4: no"]


def test_a_refused_stranger_is_a_persons_matter() -> None:
    line = "kerncap: r was not captured here. … repeat with --trust"
    found = answer(chosen(False)["replay"], ran(2, "", line), 5, Results(), 8000)
    assert found.failed and "This server never trusts a reproducer" in found.content["lines"][-1]


def test_the_time_was_up() -> None:
    found = answer(chosen(False)["replay"], ran(None, ""), 5, Results(), 8000)
    assert found.failed and "not done after 5 s" in found.content["lines"][-1]


def test_long_pointers_have_no_room_of_their_own() -> None:
    document = msgspec.json.encode(
        {f"{number}{'k' * 900}": ["p" * 50] * 300 for number in range(12)}
    ).decode()
    found = answer(chosen(False)["capture"], ran(0, document), 5, Results(), 30_000)
    assert size(found.content) <= 30_000 and found.content["result"] == 1 and found.content["left_out"]


def test_lines_and_document_share_the_bytes() -> None:
    document = msgspec.json.encode({"captured": ["p" * 100] * 3000}).decode()
    results = Results()
    lines = ["é" * 1999] * 300
    found = answer(chosen(False)["capture"], ran(0, document, *lines), 5, results, 8000)
    assert not found.failed and size(found.content) <= 8000
    assert found.content["left_out"] and found.content["result"] == 1
    assert results.read(1, "/captured", 2990, 8000)["value"] == ["p" * 100] * 10


def test_every_text_that_the_manifest_lists_is_a_resource(tmp_path: Path) -> None:
    shutil.copytree(GOLDEN / "v1.1", tmp_path / "repro")
    allowed = Allowed.of((tmp_path,))
    text, _ = resources.read("kerncap://file/repro?name=code/kernel.ptx", allowed, 1 << 20)
    assert ".version" in text
    part, _ = resources.read("kerncap://file/repro?name=code/kernel.ptx", allowed, 40)
    uri = part.split("read ")[1].strip()
    assert uri.endswith("?name=code/kernel.ptx&offset=40")
    assert text.startswith(part.split("\n…")[0] + resources.read(uri, allowed, 1 << 20)[0][:5])
    for name in ("memory/index", "../outside", "", "/etc/passwd"):
        with pytest.raises(UsageError, match="not a file of it; there are README.md, code/kernel.cubin"):
            resources.read(f"kerncap://file/repro?name={name}", allowed, 100)
    with pytest.raises(UsageError, match="bytes that are not text"):
        resources.read("kerncap://file/repro?name=code/kernel.cubin", allowed, 100)


def test_an_error_has_the_status_of_the_command_line() -> None:
    from kerncap.mcp import server  # the SDK loads slower than torch, in each of pytest's workers

    shown = server._error("one\ntwo", 3)
    assert shown.is_error and shown.structured_content is not None
    assert (shown.structured_content["exit_status"], shown.structured_content["lines"]) == (3, ["one", "two"])

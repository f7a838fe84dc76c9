"""What an agent gets over MCP: valid JSON, nothing unseen in its text, and one odd name spoils no list."""

from __future__ import annotations

import json
import shutil
from pathlib import Path
from typing import Any

import pytest

from kerncap.mcp import resources
from kerncap.mcp.allowed import Allowed
from kerncap.printable import printable, printable_json
from tests.hostile.terminal.stranger import ALL, CHARACTERS, GOLDEN

DOCUMENTS: list[Any] = [
    {ALL: [ALL, {"a": ALL}]},
    *CHARACTERS.values(),
    "\udcff",
    ["é я 核", "a\nb\tc"],
    1.5,
    None,
]


@pytest.mark.parametrize("document", DOCUMENTS, ids=ascii)
@pytest.mark.parametrize("indent", [None, 1])
def test_json_means_the_same(document: Any, indent: int | None) -> None:
    text = printable_json(json.dumps(document, ensure_ascii=False, indent=indent))
    assert json.loads(text) == document
    assert printable(text) == text
    assert printable_json(text) == text


@pytest.mark.parametrize(
    "name", ["bad\udcff", "esc\x1b[31m", "bidi\u202e", "tag\U000e0041", "plain"], ids=ascii
)
def test_odd_names_are_listed_and_read(name: str, tmp_path: Path) -> None:
    shutil.copytree(GOLDEN / "v1.0", tmp_path / name)
    allowed = Allowed((tmp_path,))
    ((uri, shown),) = resources.listed(allowed)
    assert uri.isascii() and shown == printable(name)
    text, _ = resources.read(uri, allowed, 100_000)
    assert json.loads(text)["kernel"]["name"] == "scale"


@pytest.mark.parametrize("content", [{"a": "\udcff"}, {"a": ALL}, {ALL: {"b": ["x\udc80y"]}}], ids=ascii)
def test_an_answer_can_be_sent(content: dict[str, Any]) -> None:
    pytest.importorskip("mcp")
    from kerncap.mcp.server import _error, _result

    for made in (_result(content, failed=False), _error(json.dumps(content, ensure_ascii=False), 2)):
        assert json.loads(made.model_dump_json())
        text = made.content[0].text
        assert printable(text) == text
    assert json.loads(_result(content, failed=False).content[0].text)

"""From a finished run to what the client gets."""

from __future__ import annotations

import json
from dataclasses import dataclass
from typing import Any

from kerncap.mcp.bounded import Results, cut, size
from kerncap.mcp.child import Ran
from kerncap.mcp.tools import Tool

_TOLD_LINES = 40
_TOLD_BYTES = 4000
_ENVELOPE_BYTES = 800  # of an answer, besides document and lines
_TRUST = (
    "This server never trusts a reproducer. A person who has read it can allow it once, in a terminal: "
    "kerncap replay --trust REPRO"
)


@dataclass(frozen=True)
class Answer:
    """``document`` is None for an error, whose lines say why."""

    content: dict[str, Any]
    failed: bool


def answer(tool: Tool, ran: Ran, timeout_s: float, results: Results, max_bytes: int) -> Answer:
    """What the tool found, in at most ``max_bytes``; or why it found nothing."""
    document = _document(ran)
    lines = _last(list(ran.lines))
    if ran.status is None:
        lines.append(f"{tool.name}: not done after {timeout_s:g} s and ended, with all that it had started")
    elif any("--trust" in line for line in ran.lines):
        lines.append(_TRUST)
    if document is None and not lines:
        lines.append(f"{tool.name}: ended with status {ran.status} and no message")
    spent = sum(len(line.encode()) + 4 for line in lines)
    shown, left_out = cut(document, max_bytes - _ENVELOPE_BYTES - spent)
    number = None
    if left_out:
        number = results.keep(document)
        left_out = left_out[: max(1, (max_bytes // 16) // 100)]
        shown, _ = cut(document, max_bytes - _ENVELOPE_BYTES - spent - 100 * len(left_out))
    content = {
        "exit_status": ran.status, "document": shown, "lines": lines, "left_out": left_out, "result": number,
    }  # fmt: skip
    while left_out and size(content) > max_bytes:  # long pointers: those left out are still in the document
        left_out.pop()
    return Answer(content, failed=document is None)


def output_schema(document: dict[str, Any]) -> dict[str, Any]:
    """The schema of an answer around that of its document."""
    parts = dict(document.get("$defs", {}))
    own = {name: value for name, value in document.items() if name not in ("$defs", "$schema", "$id")}
    return {
        "type": "object",
        "properties": {
            "exit_status": {
                "type": ["integer", "null"],
                "description": "0 yes, 1 the answer is no, 2 usage, 3 malformed, 4 missing here, "
                "5 undecided: neither yes nor no was shown; a program's own where that failed. "
                "Null: the time was up.",
            },
            "document": {"anyOf": [own, {"type": "null"}]},
            "lines": {
                "type": "array",
                "items": {"type": "string"},
                "description": "The last lines that the command and its program printed to stderr.",
            },
            "left_out": {
                "type": "array",
                "description": "Lists, texts and maps that were cut to fit; read_result has them.",
                "items": {
                    "type": "object",
                    "properties": {
                        "at": {"type": "string", "description": "A JSON pointer."},
                        "kept": {"type": "integer"},
                        "of": {"type": "integer"},
                    },
                    "required": ["at", "kept", "of"],
                },
            },
            "result": {
                "type": ["integer", "null"],
                "description": "For read_result, if something was left out.",
            },
        },
        "required": ["exit_status", "document", "lines", "left_out", "result"],
        **({"$defs": parts} if parts else {}),
    }


def _document(ran: Ran) -> dict[str, Any] | None:
    try:
        found = json.loads(ran.stdout)
    except ValueError:
        return None
    return found if isinstance(found, dict) else None


def _last(lines: list[str]) -> list[str]:
    """The last of them, in few bytes."""
    kept: list[str] = []
    room = _TOLD_BYTES
    for line in reversed(lines[-_TOLD_LINES:]):
        room -= len(line.encode()) + 4
        if room < 0:
            break
        kept.append(line)
    return kept[::-1]

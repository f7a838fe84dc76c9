"""Options of a capture and a session.json, from flat keywords."""

from __future__ import annotations

from dataclasses import fields
from typing import Any

import msgspec

from kerncap.capture.options import CaptureOptions, Keep, Run, Selection
from kerncap.capture.parse_where import parse_where, postfix
from kerncap.capture.session_file import VERSION, SessionFile

_SELECTION, _KEEP, _RUN = ({field.name for field in fields(part)} for part in (Selection, Keep, Run))


def capture_options(*command: str, **changes: Any) -> CaptureOptions:
    """The options of ``kerncap capture -- COMMAND``, each keyword in the part that has it."""
    given = {"command": command or ("app",), **changes}

    def part(names: set[str]) -> dict[str, Any]:
        return {name: given.pop(name) for name in list(given) if name in names}

    options = CaptureOptions(Run(**part(_RUN)), Selection(**part(_SELECTION)), Keep(**part(_KEEP)))
    assert not given, given
    return options


def session_json(**changes: Any) -> dict[str, Any]:
    """What session.json holds, unchecked; ``where`` is an expression, as text or parsed."""
    empty = SessionFile(VERSION, "secret", "", Selection(), Keep(), "auto")
    session: dict[str, Any] = msgspec.to_builtins(empty)
    where = changes.get("where")
    if where:
        changes["where"] = postfix(parse_where(where) if isinstance(where, str) else where)
    for name, value in changes.items():
        group = session
        if name in _SELECTION or name in _KEEP:
            group = session["selection" if name in _SELECTION else "keep"]
        assert name in group, f"{name}: no option of a session"
        group[name] = value
    return session

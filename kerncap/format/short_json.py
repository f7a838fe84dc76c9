"""JSON for people to read: what fits on a line is on one."""

from __future__ import annotations

import json
from typing import Any

_WIDTH = 110


def short_json(value: Any, indent: int = 0, before: int = 0) -> str:
    """``value`` with sorted keys; ``before``: characters of the line in front of it."""
    line = json.dumps(value, sort_keys=True)
    if not value or not isinstance(value, dict | list) or indent + before + len(line) < _WIDTH:
        return line
    inner = indent + 1
    if isinstance(value, dict):
        heads = {key: f"{json.dumps(key)}: " for key in sorted(value)}
        parts = [head + short_json(value[key], inner, len(head)) for key, head in heads.items()]
    else:
        parts = [short_json(one, inner) for one in value]
    opening, closing = "{}" if isinstance(value, dict) else "[]"
    return f"{opening}\n" + ",\n".join(" " * inner + part for part in parts) + f"\n{' ' * indent}{closing}"

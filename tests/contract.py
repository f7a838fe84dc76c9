"""The session's contract as tools/contract.py reads it, and what it says of payloads."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from kerncap.format.records import RecordKind
from tests import modules

ROOT = Path(__file__).parents[1]


def load(name: str = "contract") -> Any:
    """A tool as a module, under the name by which others of its folder import it."""
    return modules.load(ROOT / "tools" / f"{name}.py", name)


CONTRACT = load().Contract.read()
_KEYS = {name: {one.name for one in fields} for name, fields in CONTRACT.objects.items()}


def check_keys(kind: RecordKind, payload: dict[str, Any]) -> None:
    """Fails for a record with a key that its kind does not have."""
    assert set(payload) <= _KEYS[kind.name], (kind.name, set(payload) - _KEYS[kind.name])

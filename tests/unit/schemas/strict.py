"""A document held against its schema, where a key that the schema does not know is a failure.

Readers are told to ignore such keys; we are not: what a command prints is described.
"""

from __future__ import annotations

import json
from functools import cache
from typing import Any

from jsonschema import Draft202012Validator

from kerncap.api.schemas import schema


def check(name: str, document: Any) -> None:
    """Fails with every place where ``document`` is another than the schema ``name`` says."""
    document = json.loads(json.dumps(document))  # as it is printed: tuples are lists
    wrong = [f"{error.json_path}: {error.message[:300]}" for error in _validator(name).iter_errors(document)]
    assert not wrong, f"{name}:\n" + "\n".join(wrong[:20])


@cache
def _validator(name: str) -> Draft202012Validator:
    return Draft202012Validator(closed(schema(name)))


def closed(value: Any) -> Any:
    """The schema with no other keys allowed in any object of its own."""
    if isinstance(value, list):
        return [closed(each) for each in value]
    if not isinstance(value, dict):
        return value
    found = {name: closed(each) for name, each in value.items()}
    if isinstance(found.get("properties"), dict) and found.get("type") == "object":
        found.setdefault("additionalProperties", False)
    return found

"""JSON that is written for people: the same document, in lines of a page's width."""

from __future__ import annotations

import json
from typing import Any

from hypothesis import given
from hypothesis import strategies as st

from kerncap.format.short_json import short_json

VALUES = st.recursive(
    st.none() | st.booleans() | st.integers() | st.text(max_size=40),
    lambda inner: st.lists(inner, max_size=8) | st.dictionaries(st.text(max_size=20), inner, max_size=8),
    max_leaves=60,
)


@given(VALUES)
def test_the_document_is_the_same(value: Any) -> None:
    assert json.loads(short_json(value)) == value


def test_what_fits_is_on_one_line() -> None:
    long = {f"key{number}": "x" * 20 for number in range(6)}
    lines = short_json({"short": {"a": [1, 2]}, "long": long}).splitlines()
    assert lines[0] == "{" and lines[-1] == "}"
    assert ' "short": {"a": [1, 2]}' in lines
    assert '  "key0": "xxxxxxxxxxxxxxxxxxxx",' in lines
    assert max(map(len, lines)) < 110

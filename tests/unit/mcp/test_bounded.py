"""Answers keep to their bytes, say what was left out, and give the rest on request."""

from __future__ import annotations

import json

import pytest
from hypothesis import given
from hypothesis import strategies as st

from kerncap.errors import UsageError
from kerncap.mcp.bounded import Results, cut, size

JSON = st.recursive(
    st.none() | st.booleans() | st.integers() | st.text(max_size=60),
    lambda inner: st.lists(inner, max_size=40) | st.dictionaries(st.text(max_size=9), inner, max_size=40),
    max_leaves=120,
)


@given(JSON, st.integers(200, 4000))
def test_never_longer_than_asked_and_whole_where_it_fits(document: object, limit: int) -> None:
    shown, left_out = cut(document, limit)
    assert size(shown) <= limit
    assert bool(left_out) == (shown != document)


def test_says_where_and_how_much() -> None:
    document = {"result": "pass", "rows": list(range(5000)), "deep": {"a/b": ["x" * 9000]}}
    shown, left_out = cut(document, 6000)
    assert shown["result"] == "pass" and shown["rows"] == list(range(200))
    assert {"at": "/rows", "kept": 200, "of": 5000} in left_out
    assert {place["at"] for place in left_out} == {"/rows", "/deep/a~1b/0"}


def test_tuples_and_objects_of_a_schema_stay_whole() -> None:
    """What has a fixed length has less than the shortest cut: a cut document still fits its schema."""
    document = {"rows": [{"grid": [1, 2, 3], "name": "n" * 300} for _ in range(500)]}
    shown, _ = cut(document, 8000)
    assert len(shown["rows"]) >= 16 and all(row["grid"] == [1, 2, 3] for row in shown["rows"])


def test_the_rest_can_be_read_in_parts() -> None:
    document = {"rows": [{"number": number, "text": "t" * 50} for number in range(1000)]}
    results = Results()
    number = results.keep(document)
    rows: list[object] = []
    offset: int | None = 0
    while offset is not None:
        part = results.read(number, "/rows", offset, 3000)
        assert len(json.dumps(part["value"])) < 4000 and part["of"] == 1000
        rows += part["value"]
        offset = part["next_offset"]
    assert rows == document["rows"]


def test_texts_are_read_in_parts_too() -> None:
    results = Results()
    number = results.keep({"patch": "0123456789" * 2000})
    part = results.read(number, "/patch", 5, 1000)
    assert part["value"].startswith("56789") and part["next_offset"] == 5 + len(part["value"])
    assert not part["left_out"]


@pytest.mark.parametrize("at", ["rows", "/none", "/rows/7", "/rows/x", "/rows/0/0/0"])
def test_a_wrong_pointer_is_one_line(at: str) -> None:
    results = Results()
    number = results.keep({"rows": [[1]]})
    with pytest.raises(UsageError, match="at "):
        results.read(number, at, 0, 1000)


def test_old_results_are_forgotten() -> None:
    results = Results()
    first = results.keep({})
    for _ in range(40):
        results.keep({})
    with pytest.raises(UsageError, match="not kept any more"):
        results.read(first, "", 0, 1000)

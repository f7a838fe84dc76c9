"""`--where`: what the grammar gives, and what it refuses with the place."""

from __future__ import annotations

import json

import pytest
from hypothesis import given
from hypothesis import strategies as st

from kerncap.capture.parse_where import parse_where
from kerncap.errors import UsageError


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("n > 4", [">", ["name", "n"], ["const", 4]]),
        ("n == -1", ["==", ["name", "n"], ["const", -1]]),
        ("-n < 0", ["<", ["-", ["const", 0], ["name", "n"]], ["const", 0]]),
        ("0 < n <= 8", ["and", ["<", ["const", 0], ["name", "n"]], ["<=", ["name", "n"], ["const", 8]]]),
        ("not causal", ["not", ["name", "causal"]]),
        (
            "x.shape[0] % 128 == 0",
            ["==", ["%", ["item", ["attr", ["name", "x"], "shape"], 0], ["const", 128]], ["const", 0]],
        ),
        (
            "x.shape[-1] // 2 != 3",
            ["!=", ["//", ["item", ["attr", ["name", "x"], "shape"], -1], ["const", 2]], ["const", 3]],
        ),
        ("x.dtype == 'float16'", ["==", ["attr", ["name", "x"], "dtype"], ["const", "float16"]]),
        (
            "x.dtype in ('float16', 'bfloat16')",
            ["in", ["attr", ["name", "x"], "dtype"], ["const", ["float16", "bfloat16"]]],
        ),
        ("n not in [1, 2]", ["not", ["in", ["name", "n"], ["const", [1, 2]]]]),
        ("a and b and c", ["and", ["and", ["name", "a"], ["name", "b"]], ["name", "c"]]),
        ("a or b", ["or", ["name", "a"], ["name", "b"]]),
        (
            "grid[0] * num_warps - 1 >= 2.5",
            [
                ">=",
                ["-", ["*", ["item", ["name", "grid"], 0], ["name", "num_warps"]], ["const", 1]],
                ["const", 2.5],
            ],
        ),
        ("bias == None", ["==", ["name", "bias"], ["const", None]]),
        ("  n + 1 == 2", ["==", ["+", ["name", "n"], ["const", 1]], ["const", 2]]),
    ],
)
def test_the_nested_lists(text: str, expected: list[object]) -> None:
    assert parse_where(text) == expected
    assert json.loads(json.dumps(expected)) == expected, "they travel as JSON"


@pytest.mark.parametrize(
    ("text", "column", "what"),
    [
        ("f(n) > 1", 1, "not allowed"),
        ("n > 1 and x.__class__ == 2", 11, "attribute .__class__"),
        ("n ** 2 > 1", 1, "operator"),
        ("n is None", 1, "use =="),
        ("x[n] == 1", 3, "index"),
        ("x[True] == 1", 3, "index"),
        ("x[0:2] == 1", 3, "index"),
        ("[n for n in x]", 1, "not allowed"),
        ("(lambda: 1) == 1", 2, "not allowed"),
        ("f'{n}' == 'a'", 1, "not allowed"),
        ("n == b'a'", 6, "not a constant"),
        ("n in (1, m)", 10, "not a constant"),
        ("n == 1j", 6, "not a constant"),
        ("~n == 1", 1, "operator"),
        ("n := 1", 3, "invalid syntax"),
        ("n >", 4, "invalid syntax"),
    ],
)
def test_everything_else_is_refused_with_its_column(text: str, column: int, what: str) -> None:
    with pytest.raises(UsageError) as refused:
        parse_where(text)
    message = str(refused.value)
    assert f"column {column}:" in message and what in message, message


@pytest.mark.parametrize(
    "text", ["", " ", "\0", "n\n== 1 2", "(" * 300, "-" * 3000 + "n", "n" * 5000, "not " * 900 + "n"]
)
def test_odd_text_is_refused_in_one_way(text: str) -> None:
    with pytest.raises(UsageError):
        parse_where(text)


@given(st.text(alphabet="nx.shape[]()'\"0123456789 <>=!+-*/%andornotin,:{}\\\n\t~@", max_size=40))
def test_any_text_parses_to_data_or_is_refused(text: str) -> None:
    try:
        parsed = parse_where(text)
    except UsageError:
        return
    assert json.loads(json.dumps(parsed)) is not None

"""Stored grid callables, recomputed without running them."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from kerncap.format import schema
from kerncap.format.schema import GridSource
from kerncap.replay.tuning.formula import Evaluator, TensorFacts, Unknown, cdiv, parse
from kerncap.replay.tuning.grid import GridFunction, GridUnknown, read_names, recompute


def source(text: str, unresolved: tuple[str, ...] = (), **bindings: int) -> GridSource:
    values = {name: schema.IntValue(value=str(value)) for name, value in bindings.items()}
    return GridSource(source=text, bindings=values, unresolved=unresolved)


DEF = '''def grid(meta):
        """How many."""
        rows = triton.cdiv(m, meta["BLOCK"])
        if rows > 100:
            return rows, 2
        return rows, 1
'''


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ('grid = lambda META: (triton.cdiv(n, META["BLOCK"]),)', (32, 1, 1)),
        ('kernel[lambda meta: (triton.cdiv(n, meta["BLOCK"]), 2)](x, y, n,', (32, 2, 1)),
        ('lambda meta: (tl.cdiv(n, meta["BLOCK"]) * m, 1, 3),', (320, 1, 3)),
        (DEF, (1, 1, 1)),
        ('lambda meta: (min(n, m) if meta["BLOCK"] > 16 else 1,)', (10, 1, 1)),
        ('lambda meta: meta["BLOCK"]', (32, 1, 1)),
        ('lambda meta: (meta["x"].shape[0] // 2, meta["x"].numel())', (4, 32, 1)),
        ('lambda meta: [meta.get("SPLIT", 5)]', (5, 1, 1)),
    ],
)
def test_what_grids_are_made_of(text: str, expected: tuple[int, int, int]) -> None:
    tensor = TensorFacts((8, 4), (4, 1), 2)
    assert recompute(source(text, n=1000, m=10), {"BLOCK": 32, "x": tensor}) == expected


@pytest.mark.parametrize(
    ("text", "reason"),
    [
        ('lambda meta: (self.n // meta["BLOCK"],)', "self, whose value was not stored"),
        ("lambda meta: (torch.cuda.get_device_properties(0).multi_processor_count,)", "torch"),
        ("lambda meta: (__import__('os').system('true'),)", "__import__"),
        ("lambda meta: ((1).__class__,)", "__class__"),
        ("lambda meta: (2 ** 10 ** 10,)", "too large"),
        ("lambda meta: ((1,) * 10 ** 9,)", "repeats a tuple"),
        ('lambda meta: (meta["OTHER"],)', "'OTHER', which the launch does not have"),
        ("lambda meta: (1, 1, 1, 1)", "4 dimensions"),
        ("lambda meta: (-1,)", "a dimension of -1"),
        ("def grid(meta):\n    while True:\n        pass\n", "While"),
        ("n = 3", "no function"),
    ],
)
def test_what_is_refused_is_named(text: str, reason: str) -> None:
    with pytest.raises(GridUnknown, match=reason.replace("(", r"\(")):
        recompute(source(text, unresolved=("self",)), {"BLOCK": 32})


def test_a_line_with_two_functions_is_refused_where_they_differ() -> None:
    with pytest.raises(GridUnknown, match="several functions"):
        recompute(source("f(lambda m: (1,), lambda m: (2,))"), {})
    assert GridFunction(source("f(lambda m: (2,), lambda m: (2,))")).grid({}) == (2, 1, 1)


def test_other_values_of_what_it_closed_over() -> None:
    one = source('lambda meta: (triton.cdiv(n, meta["BLOCK"]),)', n=1000)
    assert recompute(one, {"BLOCK": 100}, {"n": 50}) == (1, 1, 1)
    assert read_names(one) == {"BLOCK"}


@given(st.text(max_size=200))
def test_any_text_gives_a_grid_or_a_reason(text: str) -> None:
    try:
        found = recompute(GridSource(source=text), {"BLOCK": 16})
    except GridUnknown as error:
        assert str(error)
    else:
        assert len(found) == 3


@given(st.integers(-(10**6), 10**6), st.integers(1, 10**6))
def test_cdiv_rounds_up(a: int, b: int) -> None:
    assert cdiv(a, b) == -(-a // b)
    assert Evaluator({"a": a, "b": b}).value(parse("cdiv(a, b)")) == -(-a // b)


def test_an_expression_without_end_is_given_up() -> None:
    with pytest.raises(Unknown):
        Evaluator({}).value(parse("(" * 80 + "1" + ",)" * 80))

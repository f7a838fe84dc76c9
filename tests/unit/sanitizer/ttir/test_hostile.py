"""Texts from a stranger: cut, changed, or made to hurt. A Module or a FormatError, soon, and nothing else."""

from __future__ import annotations

import re
import sys

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from kerncap.errors import FormatError
from kerncap.sanitizer.ttir import read_module
from kerncap.sanitizer.ttir.ir import Module

from .texts import NAMES, around, text

_HEAD = "module {\n tt.func public @f(%a: i32, %c: i1) {\n"
_WORDS = {name: re.split(r"(\W)", text(name)) for name in NAMES}
_SETTINGS = settings(
    max_examples=120,
    deadline=None,
    derandomize=True,
    suppress_health_check=[HealthCheck.too_slow],
    database=None,
)


def _reads(source: str) -> None:
    try:
        assert isinstance(read_module(source), Module)
    except FormatError as error:
        assert "\n" not in str(error)


@_SETTINGS
@given(st.sampled_from(NAMES), st.floats(0, 1, exclude_max=True))
def test_a_text_that_is_cut(name: str, share: float) -> None:
    source = text(name)
    _reads(source[: int(len(source) * share)])


@_SETTINGS
@given(st.sampled_from(NAMES), st.lists(st.tuples(st.floats(0, 1), st.floats(0, 1)), min_size=1, max_size=4))
def test_a_text_with_words_of_other_places(name: str, changes: list[tuple[float, float]]) -> None:
    words = list(_WORDS[name])
    for there, here in changes:
        words[int(there * (len(words) - 1))] = words[int(here * (len(words) - 1))]
    _reads("".join(words))


@_SETTINGS
@given(st.sampled_from(NAMES), st.floats(0, 1), st.text('<>(){}[]%^#!@"\\:=,-x0 \n', max_size=6))
def test_a_text_with_characters_put_in(name: str, share: float, extra: str) -> None:
    source = text(name)
    place = int(len(source) * share)
    _reads(source[:place] + extra + source[place:])


@_SETTINGS
@given(st.text(max_size=60))
def test_any_text(source: str) -> None:
    _reads(source)
    _reads(around(source))


_HOSTILE = {
    "regions": _HEAD + "scf.if %c {" * 20_000,
    "brackets": _HEAD + '"x.y"() {a = ' + "[" * 50_000,
    "dictionaries": _HEAD + '"x.y"() ' + "{a = " * 50_000,
    "types": _HEAD + "%x = arith.constant 1 : " + "tensor<" * 50_000,
    "closed types": _HEAD + "%x = arith.constant 1 : " + "tensor<1x" * 300 + "f32" + ">" * 300,
    "axes": _HEAD + "%x = a.b : tensor<" + "1x" * 100_000 + "f32>",
    "locations": _HEAD + "tt.return loc(" + "(" * 100_000,
    "strings": _HEAD + '"\\' * 100_000,
    "dense": _HEAD + "dense<" * 50_000,
    "unclosed": _HEAD + "a<b<>" * 50_000,
    "operands": _HEAD + "a.b %a" + ",%a" * 100_000 + "\ntt.return\n}}",
    "names": _HEAD + "%a, " * 50_000,
    "digits": _HEAD + "%x = arith.constant " + "9" * 1_000_000 + " : i32",
    "elements": _HEAD + "%x = arith.constant dense<[" + "1," * 500_000 + "1]> : tensor<3xi32>",
    "blob": _HEAD + '%x = arith.constant dense<"0x' + "00" * 500_000 + '"> : tensor<3xi32>',
    "doubling call sites": _HEAD
    + "tt.return loc(#loc0)\n}}\n"
    + "\n".join(f"#loc{i} = loc(callsite(#loc{i + 1} at #loc{i + 1}))" for i in range(5_000)),
    "a location of itself": _HEAD + 'tt.return loc(#loc0)\n}}\n#loc0 = loc("x"(#loc0))',
    "type aliases": "".join(f"!t{i} = tensor<1x!t{i - 1}>\n" for i in range(1, 5_000)),
}


@pytest.mark.timeout(200)  # below a second each; anything quadratic or exponential takes many minutes
@pytest.mark.parametrize("case", _HOSTILE)
def test_a_text_that_is_made_to_hurt(case: str) -> None:
    _reads(_HOSTILE[case])


def test_a_long_block_needs_no_recursion() -> None:
    lines = "\n".join(f"%x{index} = arith.addi %a, %a : i32 loc(#loc)" for index in range(20_000))
    limit = sys.getrecursionlimit()
    sys.setrecursionlimit(limit if sys.gettrace() else 400)
    try:
        module = read_module(around(lines))
    finally:
        sys.setrecursionlimit(limit)
    assert module.kernel.body is not None
    assert len(module.kernel.body.entry.operations) == 20_001

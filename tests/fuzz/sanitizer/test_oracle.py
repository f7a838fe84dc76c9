"""Brute force itself, on kernels of which the answer is known."""

from __future__ import annotations

import pytest

from tests.fuzz.sanitizer.case import Case, Tensor, brute_force
from tests.fuzz.sanitizer.judge import Verdict

HEAD = "@triton.jit\ndef kernel(x, y, n):\n    p = tl.program_id(0)\n    o = p * 4 + tl.arange(0, 4)\n"


def verdict(
    body: str, x: int = 12, y: int = 12, programs: int = 3, n: int = 12, fresh: bool = False
) -> Verdict:
    source = HEAD + "".join(f"    {line}\n" for line in body.splitlines())
    tensors = (Tensor("x", "f32", size=x, fresh=fresh), Tensor("y", "f32", size=y))
    return brute_force(Case(1, source, tensors, {"n": n}, grid=(programs, 1, 1)))[1]


def test_a_kernel_that_fits_is_clean() -> None:
    assert not verdict("tl.store(y + o, tl.load(x + o))").must


def test_one_element_too_few_is_found_where_it_is() -> None:
    assert verdict("tl.store(y + o, tl.load(x + o))", x=11).must == {("oob", 5, "x"): {((2, 0, 0), (3,), 11)}}


def test_a_mask_that_is_one_off_is_found() -> None:
    found = verdict("tl.store(y + o, 1.0, mask=o <= n)", y=10, n=10).must
    assert found == {("oob", 5, "y"): {((2, 0, 0), (2,), 10)}}


def test_overlapping_tiles_race() -> None:
    found = verdict("tl.store(y + (o - p), o.to(tl.float32))")
    assert {key[0] for key in found.must} == {"race"}
    assert found.races == {((5, "store", "y"), (5, "store", "y"))}


def test_equal_values_are_no_race() -> None:
    found = verdict("tl.store(y + tl.arange(0, 4), 1.0)")
    assert not found.must
    assert found.identical == {((5, "store", "y"), (5, "store", "y"))}


def test_a_lane_without_other_is_undefined_where_it_is_stored() -> None:
    found = verdict("v = tl.load(x + o, mask=o < 11)\ntl.store(y + o, v)").must
    assert found == {("uninit", 6, "y"): {((2, 0, 0), (3,), 11)}}


def test_fresh_memory_is_unwritten_until_somebody_writes() -> None:
    assert set(verdict("tl.store(y + o, tl.load(x + o))", fresh=True).must) == {("uninit", 5, "x")}
    assert not verdict("tl.store(x + o, 1.0)\ntl.store(y + o, tl.load(x + o))", fresh=True).must


@pytest.mark.parametrize("text, key", [("o * 1000000000", "overflow"), ("(o * 1000000000) & 7", None)])
def test_wrap_around_counts_where_it_makes_the_address(text: str, key: str | None) -> None:
    body = f"w = {text}\ntl.store(y + o, tl.load(x + w, mask=o < 4, other=0))"
    found = {one[0] for one in verdict(body).must}
    assert found - {"oob"} == ({key} if key else set())

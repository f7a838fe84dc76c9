"""Brute force itself, on kernels of which the answer is known."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest

from tests.fuzz.sanitizer.case import Case, Tensor, brute_force, contents_of, interpret, with_zeros
from tests.fuzz.sanitizer.judge import Verdict

HEAD = "@triton.jit\ndef kernel(x, y, n):\n    p = tl.program_id(0)\n    o = p * 4 + tl.arange(0, 4)\n"


def verdict(
    body: str, x: int = 12, y: int = 12, programs: int = 3, n: int = 12, fresh: bool = False
) -> Verdict:
    source = HEAD + "".join(f"    {line}\n" for line in body.splitlines())
    tensors = (Tensor("x", "f32", size=x, fresh=fresh), Tensor("y", "f32", size=y))
    return brute_force(Case(1, source, tensors, {"n": n}, grid=(programs, 1, 1)))


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


@pytest.mark.parametrize(
    ("text", "lanes"),
    [
        ("y + o // 2, o", {0, 1, 2, 3}),
        ("y + o // 2, o // 2", set()),
        ("y + o // 2, o, mask=o % 2 == 0", set()),
        ("y + tl.where(o < 2, 0, o), o", {0, 1}),
    ],
)
def test_lanes_that_store_different_values_to_one_place(text: str, lanes: set[int]) -> None:
    found = verdict(f"tl.store({text})", programs=1)
    assert {lane for _, (lane,), _ in found.must.get(("race", 5, "y"), set())} == lanes
    assert found.lanes == ({(5, "store", "y")} if lanes else set())
    assert not verdict("tl.atomic_add(y + o // 2, 1.0)", programs=1).lanes


def test_a_lane_without_other_is_undefined_where_it_is_stored() -> None:
    found = verdict("v = tl.load(x + o, mask=o < 11)\ntl.store(y + o, v)").must
    assert found == {("uninit", 6, "y"): {((2, 0, 0), (3,), 11)}}


def test_fresh_memory_is_unwritten_until_somebody_writes() -> None:
    assert set(verdict("tl.store(y + o, tl.load(x + o))", fresh=True).must) == {("uninit", 5, "x")}
    assert not verdict("tl.store(x + o, 1.0)\ntl.store(y + o, tl.load(x + o))", fresh=True).must


@pytest.mark.parametrize("operation", ["tl.atomic_max(x + o, 1.0)", "tl.atomic_add(x + o, 1.0)"])
def test_garbage_is_larger_than_what_the_contents_are_taken_from(operation: str) -> None:
    assert verdict(operation, fresh=True).uses_unwritten


def test_left_out_lanes_of_a_sum_are_zeros_where_that_is_asked_for() -> None:
    body = "v = tl.sum(tl.load(x + o, mask=o < 11), 0)\ntl.store(y + p, v)"
    source = HEAD + "".join(f"    {line}\n" for line in body.splitlines())
    case = Case(1, source, (Tensor("x", "f32", size=12), Tensor("y", "f32", size=3)), grid=(3, 1, 1))
    case = replace(case, numbers={"n": 12})
    assert ("uninit", 6, "y") in brute_force(case).must
    assert not with_zeros(case).must


@pytest.mark.parametrize(("value", "is_zero"), [("v * 2.0", True), ("v + 1.0", False)])
def test_a_left_out_lane_that_is_stored_as_zero_is_one_where_that_is_asked_for(
    value: str, is_zero: bool
) -> None:
    body = f"v = tl.load(x + o, mask=o < 11)\ntl.store(x + o, {value})"
    source = HEAD + "".join(f"    {line}\n" for line in body.splitlines())
    case = Case(1, source, (Tensor("x", "f32", size=12), Tensor("y", "f32", size=3)), grid=(3, 1, 1))
    case = replace(case, numbers={"n": 12})
    assert ("uninit", 6, "x") in brute_force(case).must
    assert (("uninit", 6, "x") not in with_zeros(case).must) is is_zero


def test_what_gave_no_value_is_told_by_line_and_operation() -> None:
    assert verdict("w = o % (p - 1)\ntl.store(y + (w & 7), 1.0)").failed == {(5, "rem")}
    assert verdict("w = o << (p + 31)\ntl.store(y + (w & 7), 1.0)").failed == {(5, "shl")}


@pytest.mark.parametrize(
    "text, key",
    [
        ("o * 1000000000", "overflow"),
        ("(o * 1000000000) & 7", None),
        ("(o - 2).to(tl.uint32).to(tl.int32)", None),  # the same bits
        ("(o - 2).to(tl.uint32).to(tl.int16)", None),
        ("(o + 40000).to(tl.uint32).to(tl.int16)", "overflow"),
    ],
)
def test_wrap_around_counts_where_it_makes_the_address(text: str, key: str | None) -> None:
    body = f"w = {text}\ntl.store(y + o, tl.load(x + w, mask=o < 4, other=0))"
    found = {one[0] for one in verdict(body).must}
    assert found - {"oob"} == ({key} if key else set())


@pytest.mark.parametrize("text, must", [("o + 120", True), ("p + 126", True), ("(o + 12) * (o + 12)", False)])
def test_wrap_around_of_a_mask_counts_if_the_address_steps_by_it(text: str, must: bool) -> None:
    body = f"i = ({text}).to(tl.int8).to(tl.int32)\ntl.store(y + o, 1.0, mask=(i < 0) & (o < n))"
    found = verdict(body)
    assert any(one[0] == "overflow" for one in found.must) == must
    assert any(one[0] == "overflow" for one in found.may)


@pytest.mark.parametrize(
    "text, broken",
    [
        ("b = tl.multiple_of(p * 6, 4)", {((1, 0, 0), ())}),
        ("b = tl.multiple_of(o, 4)", set()),  # tiles that count up from a multiple
        ("b = tl.multiple_of(o + 4 * p, 8)", set()),
        ("b = tl.multiple_of(o * 6, 4)", {((p, 0, 0), (lane,)) for p in range(3) for lane in (1, 3)}),
        ("b = tl.max_contiguous(o ^ p, 2)", {((1, 0, 0), (0,)), ((1, 0, 0), (2,))}),
        ("b = tl.max_constancy(o // 2, 4)", {((p, 0, 0), (1,)) for p in range(3)}),
        ("tl.assume(p != 1)", {((1, 0, 0), ())}),
    ],
)
def test_promises_hold_or_are_broken_where_they_are(text: str, broken: set[object]) -> None:
    found = verdict(text).must.get(("promise", 5, None), set())
    assert {point[:2] for point in found} == broken


def test_a_descriptor_leaves_out_what_is_outside_of_its_shape() -> None:
    body = (
        "d = tl.make_tensor_descriptor(x, [n, 4], [4, 1], [2, 4])\ntl.store(y + o, tl.sum(d.load([p, 2]), 0))"
    )
    assert not verdict(body, n=3).must
    assert verdict(body, n=4).must == {
        ("oob", 6, "x"): {((2, 0, 0), (1, lane), 14 + lane) for lane in range(2)}
    }


@pytest.mark.parametrize("change", ["x + 1, [3, 4], [4, 1]", "x, [3, 4], [3, 1]"])
def test_a_descriptor_has_aligned_rows(change: str) -> None:
    body = f"d = tl.make_tensor_descriptor({change}, [1, 4])\ntl.store(y + o, tl.sum(d.load([0, 0]), 0))"
    assert {(*key, len(points)) for key, points in verdict(body).must.items()} == {("descriptor", 5, "x", 3)}


def test_a_view_of_rows_ends_with_each_row() -> None:
    source = HEAD + "    tl.store(y + o, tl.load(x + o, mask=o < n, other=0))\n"
    tensors = (Tensor("x", "f32", size=12, columns=3, pitch=4), Tensor("y", "f32", size=12))
    found = brute_force(Case(1, source, tensors, {"n": 8}, grid=(3, 1, 1), view_bounds=True))
    assert found.must == {("oob", 5, "x"): {((row, 0, 0), (3,), 4 * row + 3) for row in range(2)}}


def test_distinct_contents_are_distinct() -> None:
    tensor = Tensor("x", "i32", distinct=True)
    values = contents_of(Case(1, "", (tensor,)), tensor, 500)
    assert np.unique(values).size == 500


@pytest.mark.parametrize(
    "text", ["o // (p - 1)", "o % (p - 1)", "o << (p + 31)", "o >> (-p)", "(o << 40) % (n - 13)"]
)
def test_an_address_by_what_has_no_value_is_undefined(text: str) -> None:
    assert ("uninit", 6, "y") in verdict(f"w = {text}\ntl.store(y + (w & 7), 1.0)").must


@pytest.mark.parametrize(
    ("text", "offsets"),
    [
        ("(o.to(tl.int8) * 50).to(tl.int32)", [0, 50, 100, -106]),  # a small type and a number: the type
        ("(o - 6).to(tl.uint8).to(tl.int32)", [250, 251, 252, 253]),
        ("(o - 6) // 4", [-1, -1, -1, 0]),  # towards zero
        ("(o - 6) % 4", [-2, -1, 0, -3]),
        ("(o - 6) >> 1", [-3, -3, -2, -2]),
        ("tl.flip(o, 0)", [3, 2, 1, 0]),
        ("tl.gather(o, o ^ 1, 0)", [1, 0, 3, 2]),
        ("(o.to(tl.float32) * 1.5).to(tl.int32)", [0, 1, 3, 4]),
        ("tl.sqrt((o * o).to(tl.float32)).to(tl.int32)", [0, 1, 2, 3]),
    ],
)
def test_offsets_of_the_first_program(text: str, offsets: list[int]) -> None:
    source = HEAD + f"    tl.store(x + ({text}), 1.0)\n"
    tensors = (Tensor("x", "f32", size=12), Tensor("y", "f32", size=12))
    machine = interpret(Case(1, source, tensors, {"n": 8}, grid=(1, 1, 1)))
    assert machine.events[0].relative.tolist() == offsets


def test_what_an_atomic_gave_back_is_tried_in_several_orders() -> None:
    source = HEAD + "    s = tl.atomic_add(x, p)\n    tl.store(y + s, 1.0)\n"
    tensors = (Tensor("x", "i32", (0, 1), size=1), Tensor("y", "f32", size=3))
    case = Case(1, source, tensors, {"n": 8}, grid=(3, 1, 1))
    assert ("oob", 6, "y") not in brute_force(case).must  # 0, 0, 1
    found = brute_force(replace(case, any_order=True)).must
    assert ("oob", 6, "y") in found  # the last program first: 0, 2, 3

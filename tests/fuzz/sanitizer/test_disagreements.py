"""Launches of which the hunt found that the sanitizer or brute force was wrong: they agree now."""

from __future__ import annotations

import pytest

pytest.importorskip("torch")
pytest.importorskip("triton")

from tests.fuzz.sanitizer.campaign import complaint
from tests.fuzz.sanitizer.case import Case, Tensor
from tests.fuzz.sanitizer.compare import Outcome, compare
from tests.parameters import first_of


def outcome(body: str, tensors: tuple[Tensor, ...], programs: int = 4, **numbers: int) -> Outcome:
    head = f"@triton.jit\ndef kernel({', '.join([*(one.name for one in tensors), *numbers])}):\n"
    source = head + "    p = tl.program_id(0)\n" + "".join(f"    {line}\n" for line in body.splitlines())
    found = compare(Case(1, source, tensors, dict(numbers), grid=(programs, 1, 1)))
    assert not found.disagreements, complaint(found)
    return found


X, Y = Tensor("x", "f32", size=64), Tensor("y", "f32", size=64)


def test_an_address_without_a_value_is_no_side_of_a_race() -> None:
    """It has no place at which it meets anybody: that it has none is the finding."""
    body = "tl.store(y + p, tl.load(x + p // n))\ntl.store(x + p + 1, 1.0)"
    assert outcome(body, (X, Y), n=0).answer == "fail"


def test_a_left_out_lane_as_an_address_is_no_side_of_a_race() -> None:
    body = "i = tl.load(z + p, mask=p < n)\ntl.store(y + i, 1.0)\ntl.store(y + p, p * 1.0)"
    outcome(body, (Tensor("z", "i32", (20, 30), size=4), Y), n=2)


@first_of("text", ["p % p", "0 // (p - n)", "0 % (p - n)"])
def test_what_the_compiler_has_removed_has_a_value(text: str) -> None:
    found = outcome(f"tl.store(y + p + ({text}), 1.0)", (Y,), n=2)
    assert found.skipped == "the compiler has removed what gives no value"


def test_modulo_1_may_leave_poison_what_it_is() -> None:
    found = outcome("tl.store(y + p + (p << (n + p)) % (n - 30), 1.0)", (Y,), n=31)
    assert found.answer == "fail"


def test_a_step_below_zero_is_not_what_it_is_in_python() -> None:
    """Seen on an H100: the loop that Python does not enter counts down, and reads far outside.

    One that starts above its end, which Python enters, is left out by compiled code.
    """
    body = "for i in range({}, n, step):\n    tl.store(y + i + 53, 1.0)\ntl.store(x + p, 1.0)"
    below = outcome(body.format("p"), (X, Y), n=11, step=-1)
    assert below.skipped == "a loop that counts down from below its end"
    assert outcome(body.format("n + p"), (X, Y), n=11, step=-1).answer == "pass"


def test_a_sum_that_is_right_by_zeros_need_not_be_noted() -> None:
    body = (
        "total = tl.sum(tl.load(x + p * 4 + tl.arange(0, 4), mask=p * 4 + tl.arange(0, 4) < n), 0)\n"
        "low = p * 0\nhigh = p * 0 + 4\n"
        "while low < high:\n    middle = (low + high) // 2\n    if tl.load(z + middle) < p:\n"
        "        low = middle + 1\n    else:\n        high = middle - 1\n"
        "tl.store(y + p, total + tl.load(x + low))"
    )
    found = outcome(body, (X, Y, Tensor("z", "i32", (0, 3), rising=True, size=5)), n=15)
    assert found.answer == "pass", found.reasons


def test_the_least_number_by_minus_one_has_no_quotient() -> None:
    body = "i = (p - 4) * 536870912\ntl.store(y + (i // d) // 536870912, 1.0)"
    found = outcome(body, (Tensor("y", "f32", size=64),), d=-1)
    assert found.answer == "fail"


def test_a_sum_of_lanes_that_are_all_left_out_is_zero_here() -> None:
    """As one with some of them: right by the zeros of a target, which need not be noted."""
    body = (
        "total = 0.0\nfor k in range(0, (p + 2) * 4, 4):\n    o = k + tl.arange(0, 4)\n"
        "    total += tl.sum(tl.load(x + o, mask=o < n), 0)\n"
        "low = p * 0\nhigh = p * 0 + 4\n"
        "while low < high:\n    middle = (low + high) // 2\n    if tl.load(z + middle) < p:\n"
        "        low = middle + 1\n    else:\n        high = middle - 1\n"
        "tl.store(y + p, total + tl.load(x + low))"
    )
    found = outcome(body, (X, Y, Tensor("z", "i32", (0, 3), rising=True, size=5)), n=16)
    assert found.answer == "pass", found.reasons


def test_a_place_that_a_float_gives_is_not_told() -> None:
    """A GPU's root may be rounded to another integer, so that the value's own finding has no offset."""
    body = (
        "v = tl.sum(tl.load(x + p * 4 + tl.arange(0, 4), mask=tl.arange(0, 4) < n), 0)\n"
        "r = tl.sqrt((tl.arange(0, 8) * 8 + p).to(tl.float32)).to(tl.int32)\n"
        "tl.store(y + p * 16 + r, v + 1.0)"
    )
    assert outcome(body, (X, Y), n=-1).answer == "fail"


def test_a_mask_that_is_right_by_zeros_is_noted() -> None:
    body = (
        "o = p * 4 + tl.arange(0, 4)\ni = tl.load(z + o, mask=o < n)\n"
        "tl.store(y + o, tl.load(x + o, mask=(2 % (i + 7)) == 0, other=0))"
    )
    found = outcome(body, (X, Y, Tensor("z", "i32", (0, 3), size=16)), n=5)
    assert found.answer == "pass", found.reasons


@first_of("number", ["-1", "n"])
def test_a_shift_too_far_wraps_to_nothing(number: str) -> None:
    """That an address has no value is said of it, and no overflow, by whatever it was shifted."""
    body = f"i = ((p + 100) << {number}) - p.to(tl.int8)\ntl.store(y + i, 1.0, mask=(i >= 0) & (i < 8))"
    found = outcome(body, (Y,), n=-1)
    assert found.answer == "fail" and found.checks["violated"] == 1


@first_of("number", ["o * i", "o + i + 120"])
def test_a_wrap_of_a_number_beside_the_address_is_no_overflow(number: str) -> None:
    """What lets an access happen counts if the address steps by it."""
    body = (
        "o = p * 8 + tl.arange(0, 8)\ni = tl.load(z + o)\n"
        f"tl.store(y + o, 1.0, mask=((({number}).to(tl.int8)).to(tl.int64) < n) & (o < 8))"
    )
    found = outcome(body, (Y, Tensor("z", "i64", (0, 16), size=32)), n=0)
    assert found.answer == "pass", found.reasons
    found = outcome(body.replace(number, "o + 124"), (Y, Tensor("z", "i64", (0, 16), size=32)), n=0)
    assert found.answer == "fail" and found.checks["violated"] == 1


def test_what_a_narrower_type_loses_behind_a_shift() -> None:
    """All of it: whatever the program, the index is 0."""
    body = "i = ((p + 1).to(tl.int64) * 67108864 >> 3).to(tl.int16)\ntl.store(y + i + p, 1.0)"
    found = outcome(body, (Y,))
    assert found.answer == "fail" and found.checks["violated"] == 1


def test_a_race_of_two_tensors_of_one_storage_is_told_once() -> None:
    """By one of the two that the load takes its pointers from."""
    body = "o = p * 8 + tl.arange(0, 8)\ntl.store(y + p, tl.sum(tl.load(tl.where(o < n, x + o, z + o)), 0))\n"
    shared = Tensor("z", "f32", size=64, same_as="x")
    found = outcome(body + "tl.store(x + 31 - o, 1.0)", (X, Y, shared), n=4)
    assert found.answer == "fail"


def test_lanes_differ_beside_a_sum_that_they_have_in_common() -> None:
    """By 1 in 200, which sums of their own may be rounded by."""
    body = "o = tl.arange(0, 8)\ntl.store(y + p * 8 + o // 2, tl.sum(tl.load(x + o), 0) + o + n)"
    found = outcome(body, (X, Y), n=200)
    assert found.answer == "fail"


def test_a_launch_that_accesses_nothing_is_none_that_could_be_decided() -> None:
    found = outcome("if p >= 0:\n    return\ntl.store(y + p, 1.0)", (Y,))
    assert (found.answer, found.decided) == ("undecided", False)


def test_values_that_are_not_there_are_not_known_to_be_equal() -> None:
    """Of two programs that store to one place, one loads its value from where a division by zero leads."""
    body = "v = tl.load(x + (p + 100) % n, mask=p > 1, other=0)\ntl.store(y + p % 2, v)"
    assert outcome(body, (Tensor("x", "f32", (1, 8), size=64), Y), n=0).answer == "fail"


@first_of("text", ["tl.flip(i, 0)", "tl.gather(i, i, 0)"])
def test_a_value_that_is_not_there_is_told_by_place(text: str) -> None:
    """Also if only the evaluation knows where it is stored."""
    body = (
        "o = tl.arange(0, 8)\ni = tl.load(z + o)\n"
        f"tl.store(y + p * 8 + {text}, tl.load(x + o, mask=o < n) + 1.0)"
    )
    found = outcome(body, (X, Y, Tensor("z", "i32", (0, 8), size=8)), n=4)
    assert found.answer == "fail"

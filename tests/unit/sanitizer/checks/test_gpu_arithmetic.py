"""What a GPU computes is not what IEEE 754 or Python says: no proof rests on a value that it may not have."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
import triton
import triton.language as tl

from kerncap.sanitizer import engine
from kerncap.sanitizer.findings import LaunchReport, Proved, Unproven, Violated
from tests.unit.sanitizer.checks.memory_runs import with_memory
from tests.unit.sanitizer.compiled import launch_of

BLOCK = 64


def report_of(
    kernel: Any, contents: dict[str, Any], signature: dict[str, str], grid: int = 1, **values: Any
) -> LaunchReport:
    launch = launch_of(kernel, (grid,), signature, {"BLOCK": BLOCK}, **values)
    return engine.sanitize(with_memory(launch, contents))


def findings(report: LaunchReport) -> list[str]:
    found = [one.verdict for one in report.settled]
    return [f"{f.check}: {f.message}" for one in found if isinstance(one, Violated) for f in one.findings]


def unproven(report: LaunchReport) -> list[str]:
    return [one.verdict.reason for one in report.settled if isinstance(one.verdict, Unproven)]


def is_proved(report: LaunchReport) -> bool:
    return all(isinstance(one.verdict, Proved) for one in report.settled)


# --- integers without a value ------------------------------------------------------------------------


@triton.jit
def at_quotient(by, out, HOW: tl.constexpr, BLOCK: tl.constexpr):
    lane = tl.arange(0, BLOCK)
    divisor = tl.load(by + lane)
    if HOW == "quotient":
        index = lane // divisor
    elif HOW == "remainder":
        index = lane % divisor
    elif HOW == "left":
        index = (lane << divisor) & 63
    else:
        index = lane >> divisor
    tl.store(out + index, lane)


def divided(how: str, divisors: Any) -> LaunchReport:
    launch = launch_of(
        at_quotient, (1,), {"by": "*i32", "out": "*i32"}, {"HOW": how, "BLOCK": BLOCK}, by=(64,), out=(64,)
    )
    return engine.sanitize(with_memory(launch, {"by": np.array(divisors, np.int32)}))


@pytest.mark.parametrize("how", ["quotient", "remainder"])
def test_an_address_by_a_division_by_zero_is_a_finding(how: str) -> None:
    (text,) = [one for one in findings(divided(how, [1] * 40 + [0] + [1] * 23)) if one.startswith("uninit")]
    assert "a division by zero at line" in text


@pytest.mark.parametrize("how", ["left", "right"])
def test_an_address_by_a_shift_too_far_is_a_finding(how: str) -> None:
    (text,) = [one for one in findings(divided(how, [0] * 63 + [32])) if one.startswith("uninit")]
    assert "a shift by the width of its type or more at line" in text


@pytest.mark.parametrize(("how", "by"), [("quotient", 1), ("remainder", 64), ("left", 31), ("right", 31)])
def test_what_has_a_value_is_no_finding(how: str, by: int) -> None:
    assert not [one for one in findings(divided(how, [by] * 64)) if one.startswith("uninit")]


@triton.jit
def masked_quotient(x, by, out, n, BLOCK: tl.constexpr):
    lane = tl.arange(0, BLOCK)
    mask = lane < n
    quotient = tl.load(x + lane, mask, other=0) // tl.load(by + lane, mask, other=0)
    tl.store(out + lane, quotient, mask)


def test_lanes_that_nothing_is_stored_of_may_divide_by_zero() -> None:
    report = report_of(
        masked_quotient,
        {"x": np.arange(50, dtype=np.int32), "by": np.full(50, 3, np.int32)},
        {"x": "*i32", "by": "*i32", "out": "*i32", "n": "i32"},
        x=(50,), by=(50,), out=(50,), n=50,
    )  # fmt: skip
    assert is_proved(report), (findings(report), unproven(report))


@triton.jit
def by_argument(out, n, d, BLOCK: tl.constexpr):
    lane = tl.arange(0, BLOCK)
    tl.store(out + (lane // d) % BLOCK, lane, lane < n)


@pytest.mark.parametrize(("d", "is_found"), [(0, True), (4, False)])
def test_a_divisor_that_is_an_argument(d: int, is_found: bool) -> None:
    report = report_of(by_argument, {}, {"out": "*i32", "n": "i32", "d": "i32"}, out=(64,), n=64, d=d)
    assert any("a division by zero" in one for one in findings(report)) == is_found


@triton.jit
def negated_quotient(x, out, BLOCK: tl.constexpr):
    lane = tl.arange(0, BLOCK)
    tl.store(out + lane, lane, tl.load(x + lane) // -1 != 5)


def test_the_least_number_by_minus_one_is_named() -> None:
    x = np.array([1, 2, -(2**31)] * 21 + [0], np.int32)
    report = report_of(negated_quotient, {"x": x}, {"x": "*i32", "out": "*i32"}, x=(64,), out=(64,))
    [text] = findings(report)
    assert "depend on a division of the least number by -1 at line" in text


# --- floats that decide an address -------------------------------------------------------------------


@triton.jit
def at_float(x, out, HOW: tl.constexpr, BLOCK: tl.constexpr):
    lane = tl.arange(0, BLOCK)
    value = tl.load(x + lane)
    if HOW == "as it is":
        index = value.to(tl.int32)
    elif HOW == "quotient":
        index = (value / 3.0).to(tl.int32)
    elif HOW == "half up":
        index = (value / 3.0 + 0.5).to(tl.int32)
    elif HOW == "fused":
        index = (value * 0.1 + 0.9).to(tl.int32)
    elif HOW == "root":
        index = tl.sqrt(value).to(tl.int32)
    elif HOW == "clamped":
        index = tl.minimum(tl.maximum((value / 3.0).to(tl.int32), 0), BLOCK - 1)
    elif HOW == "compared":
        index = tl.where(value / 3.0 >= 1.0, lane, lane + 1)
    elif HOW == "tiny power":
        index = tl.where(tl.exp2(value) > 0.0, lane, lane + 1)
    elif HOW == "sine":
        index = (tl.sin(value) * 4.0).to(tl.int32) + 8
    else:
        index = tl.sum(value).to(tl.int32) + lane * 0
    tl.store(out + index, lane)


def indexed(how: str, values: Any, size: int = 64) -> LaunchReport:
    launch = launch_of(
        at_float, (1,), {"x": "*fp32", "out": "*i32"}, {"HOW": how, "BLOCK": BLOCK}, x=(64,), out=(size,)
    )
    return engine.sanitize(with_memory(launch, {"x": np.array(values, np.float32)}))


def bounds(report: LaunchReport) -> list[Any]:
    return [one.verdict for one in report.settled if one.check == "oob" and one.access == "store"]


MULTIPLES = np.arange(64) * 3.0


@pytest.mark.parametrize(
    ("how", "values"),
    [
        ("as it is", np.arange(64)),
        ("half up", MULTIPLES),  # far from where it would round to another integer
        ("quotient", MULTIPLES + 1.5),
        ("clamped", MULTIPLES),
        ("compared", np.full(64, 30.0)),
        ("root", (np.arange(64) * 15 + 0.5) ** 2),
        ("sum", [1.0] * 20 + [0.0] * 44),  # whole numbers are added exactly in any order
    ],
)
def test_what_no_rounding_changes_is_proved(how: str, values: Any) -> None:
    (verdict,) = bounds(indexed(how, values, 1024))
    assert isinstance(verdict, Proved), verdict


@pytest.mark.parametrize(
    ("how", "values", "name"),
    [
        ("quotient", MULTIPLES, "arith.divf"),  # 2.9999998 is 2
        ("fused", np.arange(1, 65), "arith.addf"),
        ("root", np.arange(64) ** 2, "math.sqrt"),
        ("root", [1e-40] * 64, "math.sqrt"),  # a subnormal number may be zero
        ("compared", [3.0] * 64, "arith.divf"),
        ("tiny power", [-130.0] * 64, "math.exp2"),
        ("sine", np.arange(64), "math.sin"),
        ("sum", [0.3] * 64, "tt.reduce"),
        ("as it is", [1e10] * 64, "arith.fptosi"),  # no int32
        ("as it is", [np.nan] * 64, "arith.fptosi"),
    ],
)
def test_what_rounding_may_change_is_unproven_by_name(how: str, values: Any, name: str) -> None:
    (verdict,) = bounds(indexed(how, values))
    assert isinstance(verdict, Unproven), verdict
    said = "has no integer value" if name == "arith.fptosi" else "a GPU may round"
    assert name in verdict.reason and said in verdict.reason


def test_what_is_outside_however_it_is_rounded_stays_a_finding() -> None:
    (verdict,) = bounds(indexed("quotient", MULTIPLES + 1.5, size=40))
    assert isinstance(verdict, Violated)


@triton.jit
def loop_by_float(x, out, BLOCK: tl.constexpr):
    lane = tl.arange(0, BLOCK)
    trips = (tl.load(x) / 3.0).to(tl.int32)
    for i in range(trips):
        tl.store(out + i * BLOCK + lane, lane)


@pytest.mark.parametrize(("value", "is_proved"), [(6.0, False), (7.0, True)])
def test_a_trip_count_by_a_quotient(value: float, is_proved: bool) -> None:
    report = report_of(
        loop_by_float, {"x": np.array([value], np.float32)}, {"x": "*fp32", "out": "*i32"}, x=(1,), out=(128,)
    )
    (verdict,) = bounds(report)
    assert isinstance(verdict, Proved if is_proved else Unproven), verdict


@triton.jit
def read_again(x, scratch, out, BLOCK: tl.constexpr):
    lane = tl.arange(0, BLOCK)
    tl.store(scratch + lane, tl.load(x + lane) / 3.0)
    tl.debug_barrier()
    tl.store(out + tl.load(scratch + lane).to(tl.int32), lane)


def test_what_is_stored_and_read_again_is_no_more_certain() -> None:
    report = report_of(
        read_again, {"x": MULTIPLES.astype(np.float32)}, {"x": "*fp32", "scratch": "*fp32", "out": "*i32"},
        x=(64,), scratch=(64,), out=(64,),
    )  # fmt: skip
    assert not isinstance(bounds(report)[-1], Proved)


# --- operations of tiles without a value -------------------------------------------------------------


@triton.jit
def at_gathered(x, out, HOW: tl.constexpr, BLOCK: tl.constexpr):
    lane = tl.arange(0, BLOCK)
    value = tl.load(x + lane)
    if HOW == "gather":
        index = tl.gather(lane, value, 0)
    else:
        index = tl.histogram(value, BLOCK) - 1
    tl.store(out + index, lane)


@pytest.mark.parametrize("how", ["gather", "histogram"])
def test_a_tile_is_left_by_no_index(how: str) -> None:
    signature = {"x": "*i32", "out": "*i32"}
    launch = launch_of(at_gathered, (1,), signature, {"HOW": how, "BLOCK": BLOCK}, x=(64,), out=(64,))
    inside = np.random.default_rng(0).permutation(64).astype(np.int32)
    (verdict,) = bounds(engine.sanitize(with_memory(launch, {"x": inside})))
    assert isinstance(verdict, Proved), verdict
    for index in (64, -1):
        outside = np.where(inside == 9, index, inside).astype(np.int32)
        (verdict,) = bounds(engine.sanitize(with_memory(launch, {"x": outside})))
        assert isinstance(verdict, Unproven), verdict
        assert f"the result of tt.{how}" in verdict.reason


@triton.jit
def in_any_order(x, out, HOW: tl.constexpr, BLOCK: tl.constexpr):
    lane = tl.arange(0, BLOCK)
    if HOW == "cat":
        both = tl.cat(lane, lane + BLOCK, can_reorder=True)
    else:
        both = tl.reshape(tl.arange(0, 2 * BLOCK), (2 * BLOCK, 1), can_reorder=True).reshape(2 * BLOCK)
    tl.store(out + both, 1, mask=tl.arange(0, 2 * BLOCK) < BLOCK)


@pytest.mark.filterwarnings("ignore:tl.(cat|reshape)")
@pytest.mark.parametrize("how", ["cat", "reshape"])
def test_an_order_that_the_compiler_chooses(how: str) -> None:
    signature, constants = {"x": "*i32", "out": "*i32"}, {"HOW": how, "BLOCK": BLOCK}
    for size, wanted in ((2 * BLOCK, Proved), (BLOCK, Unproven)):
        launch = launch_of(in_any_order, (1,), signature, constants, x=(64,), out=(size,))
        (verdict,) = bounds(engine.sanitize(with_memory(launch, {})))
        assert isinstance(verdict, wanted), verdict


@triton.jit
def _difference(a, b):
    return a - b


@triton.jit
def at_a_difference(x, out, SCAN: tl.constexpr, BLOCK: tl.constexpr):
    value = tl.load(x + tl.arange(0, BLOCK))
    index = tl.associative_scan(value, 0, _difference) if SCAN else tl.reduce(value, 0, _difference)
    tl.store(out + index, index)


@pytest.mark.parametrize("scan", [False, True])
def test_a_reduction_that_depends_on_its_order(scan: bool) -> None:
    constants = {"SCAN": scan, "BLOCK": BLOCK}
    launch = launch_of(at_a_difference, (1,), {"x": "*i32", "out": "*i32"}, constants, x=(64,), out=(64,))
    for value, wanted in ((0, Proved), (1, Unproven)):
        given = np.zeros(64, np.int32)
        given[5] = value
        verdict = bounds(engine.sanitize(with_memory(launch, {"x": given})))[-1]
        assert isinstance(verdict, wanted), verdict


@triton.jit
def difference(a, b):
    return a - b


@triton.jit
def at_differences(x, out, REVERSE: tl.constexpr, BLOCK: tl.constexpr):
    """A function that is not associative: its scan is whatever the threads make of it."""
    lane = tl.arange(0, BLOCK)
    tl.store(out + tl.associative_scan(tl.load(x + lane), 0, difference, reverse=REVERSE), 1)


@pytest.mark.parametrize("reverse", [False, True])
def test_a_scan_in_the_order_of_a_thread(reverse: bool) -> None:
    """In order, the third result is 9, outside of the nine places; combined as in a warp, it is 3."""
    constants = {"REVERSE": reverse, "BLOCK": 4}
    launch = launch_of(at_differences, (1,), {"x": "*i32", "out": "*i32"}, constants, x=(4,), out=(9,))
    for last, safe in ((-3, False), (0, True)):
        contents = np.array([7, 1, last, last], np.int32)
        report = engine.sanitize(with_memory(launch, {"x": contents[:: -1 if reverse else 1].copy()}))
        (verdict,) = bounds(report)
        assert isinstance(verdict, Proved) == safe, verdict

"""The corners of single operations: wrap-around, division, shifts, predicates, widths."""

from __future__ import annotations

import numpy as np
import pytest

from tests.unit.sanitizer.concrete.text import binary, run_text

LOW = -(2**31)
I4 = np.array([7, -7, 7, -7, LOW, LOW, 5, 0], dtype=np.int32)
BY = np.array([2, 2, -2, -2, -1, 2, 0, 0], dtype=np.int32)


@pytest.mark.parametrize(
    ("operation", "wanted"),
    [
        ("arith.divsi", [3, -3, -3, 3, LOW, -(2**30), 0, 0]),
        ("arith.remsi", [1, -1, 1, -1, 0, 0, 0, 0]),
        ("arith.floordivsi", [3, -4, -4, 3, LOW, -(2**30), 0, 0]),
        ("arith.ceildivsi", [4, -3, -3, 4, LOW, -(2**30), 0, 0]),
        ("arith.divui", [3, 2147483644, 0, 0, 0, 2**30, 0, 0]),
        ("arith.addi", [9, -5, 5, -9, 2**31 - 1, LOW + 2, 5, 0]),
        ("arith.muli", [14, -14, -14, 14, LOW, 0, 0, 0]),
        ("arith.minui", [2, 2, 7, -7, LOW, 2, 0, 0]),
        ("arith.maxsi", [7, 2, 7, -2, -1, 2, 5, 0]),
    ],
)
def test_integers(operation: str, wanted: list[int]) -> None:
    assert binary(operation, I4, BY).tolist() == wanted


@pytest.mark.parametrize(
    ("operation", "wanted"),
    [
        ("arith.shli", [-2, LOW, 0, 0, 0]),
        ("arith.shrsi", [-1, -1, -1, -1, -1]),
        ("arith.shrui", [2**31 - 1, 1, 0, 0, 0]),
    ],
)
def test_shifts_by_the_width_or_more(operation: str, wanted: list[int]) -> None:
    x = np.full(5, -1, dtype=np.int32)
    assert binary(operation, x, np.array([1, 31, 32, 77, -1], dtype=np.int32)).tolist() == wanted


def test_64_bit_high_product() -> None:
    x = np.array([2**63 - 1, -1, 3, 2**40], dtype=np.int64)
    y = np.array([2**63 - 1, -1, -1, 2**40], dtype=np.int64)
    wanted = [((int(a) % 2**64) * (int(b) % 2**64)) >> 64 for a, b in zip(x, y, strict=True)]
    assert [int(v) % 2**64 for v in binary("tt.mulhiui", x, y)] == wanted


NAN = float("nan")
X = np.array([1, 2, NAN, NAN, 1], dtype=np.float32)
Y = np.array([2, 1, 1, NAN, 1], dtype=np.float32)


@pytest.mark.parametrize(
    ("predicate", "wanted"),
    [
        ("olt", [1, 0, 0, 0, 0]),
        ("ult", [1, 0, 1, 1, 0]),
        ("one", [1, 1, 0, 0, 0]),
        ("une", [1, 1, 1, 1, 0]),
        ("ueq", [0, 0, 1, 1, 1]),
        ("ord", [1, 1, 0, 0, 1]),
        ("uno", [0, 0, 1, 1, 0]),
        ("oge", [0, 1, 0, 0, 1]),
    ],
)
def test_float_predicates(predicate: str, wanted: list[int]) -> None:
    assert binary(f"arith.cmpf {predicate},", X, Y, "i1").tolist() == wanted


def test_the_two_maxima_differ_on_nan() -> None:
    assert binary("arith.maxnumf", X, Y).tolist()[:3] == [2, 2, 1]
    assert np.isnan(binary("arith.maximumf", X, Y)[2])


@pytest.mark.parametrize(
    ("value", "kind", "wanted"),
    [
        (1e20, "i32", 2**31 - 1),
        (-1e20, "i32", LOW),
        (NAN, "i32", 0),
        (-2.9, "i32", -2),
        (float("inf"), "i64", 2**63 - 1),
    ],
)
def test_floats_out_of_range_saturate(value: float, kind: str, wanted: int) -> None:
    out = np.zeros(1, dtype=f"i{int(kind[1:]) // 8}")
    body = f"""
    %r = arith.fptosi %x : f32 to {kind}
    tt.store %out, %r : !tt.ptr<{kind}>
    tt.return
    """
    outcome, after = run_text(body, {"x": value, "out": out})
    assert outcome.complete
    assert after["out"].tolist() == [wanted]


def test_sign_of_a_truth_value() -> None:
    body = """
    %zero = arith.constant 0 : i32
    %one = arith.constant 1 : i32
    %t = arith.cmpi sgt, %n, %zero : i32
    %f = arith.constant false
    %a = arith.extsi %t : i1 to i32
    %b = arith.extui %t : i1 to i32
    %c = arith.cmpi slt, %t, %f : i1
    %d = arith.extui %c : i1 to i32
    %e = arith.addi %t, %t : i1
    %g = arith.extui %e : i1 to i32
    tt.store %out, %a : !tt.ptr<i32>
    %p = tt.addptr %out, %one : !tt.ptr<i32>, i32
    tt.store %p, %b : !tt.ptr<i32>
    %q = tt.addptr %p, %one : !tt.ptr<i32>, i32
    tt.store %q, %d : !tt.ptr<i32>
    %r = tt.addptr %q, %one : !tt.ptr<i32>, i32
    tt.store %r, %g : !tt.ptr<i32>
    tt.return
    """
    _, after = run_text(body, {"n": 3, "out": np.full(4, 9, dtype=np.int32)})
    assert after["out"].tolist() == [-1, 1, 1, 0]


def test_a_division_by_zero_is_told_where_a_program_comes_to_it() -> None:
    body = """
    %p = tt.get_program_id x : i32
    %zero = arith.constant 0 : i32
    %here = arith.cmpi sgt, %p, %zero : i32
    scf.if %here {
      %q = arith.divsi %n, %p : i32
      tt.store %out, %q : !tt.ptr<i32>
    }
    tt.return
    """
    out = np.zeros(1, dtype=np.int32)
    outcome, after = run_text(body, {"n": 12, "out": out}, (4,))
    assert outcome.notes == () and after["out"].tolist() == [4]
    outcome, _ = run_text(body.replace("sgt", "sge"), {"n": 12, "out": out}, (4,))
    assert "divides by zero" in outcome.notes[0]


def test_an_unknown_operation_is_named_and_only_matters_where_it_is_needed() -> None:
    harmless = """
    %v = "tt.mystery"(%n) : (i32) -> i32
    tt.store %out, %v : !tt.ptr<i32>
    tt.return
    """
    out = np.zeros(2, dtype=np.int32)
    outcome, _ = run_text(harmless, {"n": 1, "out": out})
    assert outcome.complete
    assert "tt.mystery" in outcome.notes[0]
    assert outcome.unknown_contents[0][0] == 0
    outcome, _ = run_text(harmless, {"n": 1, "out": out}, addresses_only=True)
    assert outcome.complete and outcome.notes == ()

    address = harmless.replace(
        "tt.store %out,", "%p = tt.addptr %out, %v : !tt.ptr<i32>, i32\n    tt.store %p,"
    )
    for addresses_only in (False, True):
        outcome, _ = run_text(address, {"n": 1, "out": out}, addresses_only=addresses_only)
        assert not outcome.complete
        assert outcome.reason is not None and "tt.mystery" in outcome.reason


@pytest.mark.parametrize("addresses_only", [False, True])
def test_what_an_unknown_operation_may_write_is_unknown(addresses_only: bool) -> None:
    body = """
    %zero = arith.constant 0 : i32
    "tt.mystery"(%x) : (!tt.ptr<i32>) -> ()
    %i = tt.load %x : !tt.ptr<i32>
    %p = tt.addptr %out, %i : !tt.ptr<i32>, i32
    tt.store %p, %zero : !tt.ptr<i32>
    tt.return
    """
    arrays = {"x": np.zeros(1, "i4"), "out": np.zeros(1, "i4")}
    outcome, _ = run_text(body, arrays, addresses_only=addresses_only)
    assert not outcome.complete and outcome.reason is not None and "tt.mystery" in outcome.reason


def test_branches_to_blocks_with_a_way_back() -> None:
    body = """
    %p = tt.get_program_id x : i32
    %zero = arith.constant 0 : i32
    %one = arith.constant 1 : i32
    cf.br ^head(%zero, %zero : i32, i32)
  ^head(%i: i32, %sum: i32):
    %next = arith.addi %i, %one : i32
    %more = arith.addi %sum, %i : i32
    %go = arith.cmpi slt, %i, %p : i32
    cf.cond_br %go, ^head(%next, %more : i32, i32), ^end
  ^end:
    %q = tt.addptr %out, %p : !tt.ptr<i32>, i32
    tt.store %q, %more : !tt.ptr<i32>
    tt.return
    """
    outcome, after = run_text(body, {"out": np.zeros(6, "i4")}, (6,))
    assert outcome.complete, outcome.reason
    assert after["out"].tolist() == [0, 1, 3, 6, 10, 15]


@pytest.mark.parametrize(
    ("start", "step", "runs"), [(5, -1, True), (4, 0, True), (3, -1, False), (3, 0, False)]
)
def test_a_step_that_is_not_positive(start: int, step: int, runs: bool) -> None:
    body = f"""
    %start = arith.constant {start} : i32
    %end = arith.constant 4 : i32
    %step = arith.constant {step} : i32
    scf.for %i = %start to %end step %step : i32 {{
      tt.store %out, %i : !tt.ptr<i32>
    }}
    tt.return
    """
    outcome, after = run_text(body, {"out": np.full(1, 9, "i4")})
    assert outcome.complete is runs and after["out"].tolist() == [9]
    assert runs or "is not positive" in str(outcome.reason)


def test_block_pointers_check_only_the_axes_that_are_named() -> None:
    body = """
    %one = arith.constant 1 : i64
    %four = arith.constant 4 : i64
    %three = arith.constant 3 : i64
    %zero = arith.constant 0 : i32
    %two = arith.constant 2 : i32
    %b = tt.make_tensor_ptr %x, [%three, %three], [%four, %one], [%zero, %zero]
      {order = array<i32: 1, 0>} : <tensor<4x4xi32>>
    %a = tt.advance %b, [%zero, %two] : <tensor<4x4xi32>>
    %v = tt.load %a {boundaryCheck = array<i32: 1>, padding = 1 : i32} : !tt.ptr<tensor<4x4xi32>>
    %o = tt.make_tensor_ptr %out, [%four, %four], [%four, %one], [%zero, %zero]
      {order = array<i32: 1, 0>} : <tensor<4x4xi32>>
    tt.store %o, %v : !tt.ptr<tensor<4x4xi32>>
    tt.return
    """
    x = np.arange(1, 17, dtype=np.int32)
    outcome, after = run_text(body, {"x": x, "out": np.zeros(16, "i4")})
    assert outcome.complete, outcome.reason
    # Column 2 is the last one inside; the fourth row is read although it lies outside.
    assert after["out"].reshape(4, 4).tolist() == [[3, 0, 0, 0], [7, 0, 0, 0], [11, 0, 0, 0], [15, 0, 0, 0]]


def test_pointers_are_told_apart_by_their_arguments() -> None:
    body = """
    %p = tt.get_program_id x : i32
    %zero = arith.constant 0 : i32
    %c = arith.cmpi eq, %p, %zero : i32
    %s = arith.select %c, %x, %y : !tt.ptr<i32>
    %n = tt.ptr_to_int %s : !tt.ptr<i32> -> i64
    %t = tt.int_to_ptr %n : i64 -> !tt.ptr<i32>
    %v = tt.load %s : !tt.ptr<i32>
    %w = tt.load %t : !tt.ptr<i32>
    %r = arith.addi %v, %w : i32
    tt.store %s, %r : !tt.ptr<i32>
    tt.return
    """
    outcome, after = run_text(body, {"x": np.array([5], "i4"), "y": np.array([8], "i4")}, (2,))
    assert outcome.complete, outcome.reason
    assert (after["x"].tolist(), after["y"].tolist()) == ([10], [16])

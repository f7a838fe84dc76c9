"""Addresses and masks in the kernel's own names, and the lines around a place."""

from __future__ import annotations

from pathlib import Path

import pytest

from kerncap.sanitizer.diagnose.render import address_expression, mask_expression, source_context
from kerncap.sanitizer.ttir import read_module
from kerncap.sanitizer.ttir.ir import Frame, Location, Operation

from ..ttir.texts import around, operations, real

_ACCESSES = ("tt.load", "tt.store", "tt.atomic_rmw")


def _rendered(name: str) -> list[tuple[int, str, str]]:
    """Of every access: its line, its address, its mask."""
    return [_both(one) for one in operations(real(name)) if one.name in _ACCESSES]


def _both(operation: Operation) -> tuple[int, str, str]:
    mask = operation.segment("mask")
    line = operation.location.frames[-1].line
    return line, address_expression(operation.operands[0]), "" if mask is None else mask_expression(mask)


@pytest.mark.parametrize("name", ["add_36", "add_39"])
def test_an_addition(name: str) -> None:
    assert [one[1:] for one in _rendered(name)] == [
        ("x_ptr + offs", "offs < n"),
        ("y_ptr + offs", "offs < n"),
        ("o_ptr + offs", "offs < n"),
    ]


def test_a_matmul_with_bumped_pointers_and_shared_subexpressions() -> None:
    assert _rendered("matmul_39") == [
        (24, "a_ptr + offs_m * sam + offs_k + k * 32", "offs_k < K - k * 32"),
        (25, "b_ptr + offs_k * sbk + offs_n + k * (sbk * 32)", "offs_k < K - k * 32"),
        (32, "idx_ptr + arange(0, 64)", ""),
        (33, "c_ptr + g", "g > 0"),
        (44, "c_ptr + offs_m * scm + offs_n", "(offs_m < M) & (offs_n < N)"),
    ]


def test_a_value_of_the_same_name_is_unfolded() -> None:
    values = {value.name: value for o in operations(real("matmul_39")) for value in o.results}
    assert address_expression(values["%pm_7"]) == "first + pid % ng % gs"
    assert address_expression(values["%offs_m_12"]) == "(pm * 64 + arange(0, 64)) % M"
    assert address_expression(values["%num_m_3"]) == "(M + 63) // 64"


def test_a_value_that_is_widened_where_it_is_named_keeps_the_name() -> None:
    module = read_module(
        around(
            '%row = tt.get_program_id x : i32 loc("row"("k.py":1:2))\n'
            '%wide = arith.extsi %row : i32 to i64 loc("row"("k.py":1:2))\n'
            '%step = arith.muli %wide, %w : i64 loc("k.py":2:3)\n'
            '%q = tt.addptr %p, %step : !tt.ptr<f32>, i64 loc("k.py":2:4)\n',
            "%p: !tt.ptr<f32>, %w: i64",
        )
    )
    (pointer,) = operations(module, "tt.addptr")
    assert address_expression(pointer.results[0]) == "p + row * w"


def _value(lines: str, name: str = "%r") -> str:
    module = read_module(around(lines))
    return address_expression({value.name: value for o in operations(module) for value in o.results}[name])


@pytest.mark.parametrize(
    ("lines", "shown"),
    [
        ("%x = arith.addi %a, %b : i32\n%r = arith.muli %x, %a : i32", "(a + b) * a"),
        ("%x = arith.addi %a, %b : i32\n%r = arith.subi %a, %x : i32", "a - (a + b)"),
        ("%x = arith.subi %a, %b : i32\n%r = arith.addi %x, %a : i32", "a - b + a"),
        ("%x = arith.muli %a, %b : i32\n%r = arith.divsi %a, %x : i32", "a // (a * b)"),
        ("%k = arith.constant -3 : i32\n%r = arith.addi %a, %k : i32", "a - 3"),
        (
            "%x = arith.cmpi ult, %a, %b : i32\n%t = arith.constant true\n%r = arith.xori %x, %t : i1",
            "~(a < b)",
        ),
        ("%x = arith.cmpi eq, %a, %b : i32\n%r = arith.ori %x, %c : i1", "(a == b) | c"),
        ("%r = arith.minsi %a, %b : i32", "min(a, b)"),
        ("%r = arith.select %c, %a, %b : i32", "where(c, a, b)"),
        ("%r = tt.call @m.helper__i32(%a, %b) : (i32, i32) -> i32", "helper(a, b)"),
        ("%r = tt.get_program_id y : i32", "program_id(1)"),
        ("%x = arith.extsi %a : i32 to i64\n%r = arith.addi %x, %x : i64", "a + a"),
        ("%r = foo.bar %a : i32 -> i32", "bar(a)"),
        (
            "%t = tt.make_range {end = 4 : i32, start = 0 : i32} : tensor<4xi32>\n%r = "
            '"tt.reduce"(%t) <{axis = 0 : i32}> '
            "({\n^bb0(%m: i32, %n: i32):\n%s = arith.addi %m, %n : i32\ntt.reduce.return %s : i32\n}) "
            ": (tensor<4xi32>) -> i32",
            "sum(arange(0, 4))",
        ),
        ("%x = tt.int_to_ptr %w : i64 -> !tt.ptr<i32>\n%r = tt.load %x : !tt.ptr<i32>", "load(w)"),
    ],
)
def test_operations(lines: str, shown: str) -> None:
    module = read_module(around(lines, "%a: i32, %b: i32, %w: i64, %c: i1"))
    values = {value.name: value for o in operations(module) for value in o.results}
    assert address_expression(values["%r"]) == shown


@pytest.mark.parametrize(
    ("step", "moved_by", "shown"), [("%s", "%u", "p + ((i - a) // 4) * 8"), ("%a", "%i", "q")]
)
def test_a_pointer_that_a_loop_moves(step: str, moved_by: str, shown: str) -> None:
    """By the same each time, from a number that is not zero; in another way it keeps its name."""
    module = read_module(
        around(
            "%s = arith.constant 4 : i32\n%u = arith.constant 8 : i32\n"
            f"%l = scf.for %i = %a to %b step {step} iter_args(%q = %p) -> (!tt.ptr<f32>)  : i32 {{\n"
            f"%x = tt.load %q : !tt.ptr<f32>\n%n = tt.addptr %q, {moved_by} : !tt.ptr<f32>, i32\n"
            "scf.yield %n : !tt.ptr<f32>\n}"
        )
    )
    (load,) = operations(module, "tt.load")
    assert address_expression(load.operands[0]) == shown


def test_a_long_expression_is_cut() -> None:
    # Each value is the sum of the one before with itself: unfolded it has 2**40 terms.
    lines = "%x0 = arith.addi %a, %b : i32\n" + "\n".join(
        f"%x{index + 1} = arith.addi %x{index}, %x{index} : i32" for index in range(40)
    )
    for limit in (200, 40, 10):
        shown = _value(lines, "%x40")
        assert len(shown) <= 200
        module = read_module(around(lines))
        last = {value.name: value for o in operations(module) for value in o.results}["%x40"]
        assert 0 < len(address_expression(last, limit)) <= limit


# --- the source around a place ---------------------------------------------------------------------

_SOURCE = "one\ntwo\nthree\nfour\nfive\nsix\n"


def test_lines_around_a_place() -> None:
    place = Location((Frame("library.py", 3, 1), Frame("kernel.py", 2, 5)))
    assert source_context(place, {"kernel.py": _SOURCE}) == [
        (1, "one", False),
        (2, "two", True),
        (3, "three", False),
        (4, "four", False),
    ]


def test_a_file_of_this_machine(tmp_path: Path) -> None:
    path = tmp_path / "kernel.py"
    path.write_text(_SOURCE)
    found = source_context(Location((Frame(str(path), 6, 1),)), {})
    assert [line for line in found if line[2]] == [(6, "six", True)]


def test_what_is_no_source_is_not_shown(tmp_path: Path) -> None:
    secret = tmp_path / "secret.txt"
    secret.write_text(_SOURCE)
    large = tmp_path / "large.py"
    large.write_bytes(b"\n" * (5 << 20))
    for name, line in (
        (str(secret), 1),
        (str(large), 1),
        (str(tmp_path), 1),
        ("absent.py", 1),
        ("a\0.py", 1),
    ):
        assert source_context(Location((Frame(name, line, 1),)), {}) == []
    assert source_context(Location((Frame("kernel.py", 99, 1),)), {"kernel.py": _SOURCE}) == []
    assert source_context(Location(), {}) == []

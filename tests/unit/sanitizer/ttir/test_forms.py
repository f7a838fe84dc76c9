"""Single forms of the assembly: constants, generic operations, aliases, what is not known or malformed."""

from __future__ import annotations

import math
from typing import Any

import pytest

from kerncap.errors import FormatError
from kerncap.sanitizer.ttir import TtirError, read_module
from kerncap.sanitizer.ttir.constants import float_from_bits
from kerncap.sanitizer.ttir.ir import Dense, FloatType, Frame, IntType, OpaqueType, PointerType, TensorType

from .texts import around, one, operations

I1, I32, I64, F32 = IntType(1), IntType(32), IntType(64), FloatType("f32", 32)


@pytest.mark.parametrize(
    ("literal", "value"),
    [
        ("5 : i32", 5),
        ("-7 : i64", -7),
        ("4294967295 : i32", -1),
        ("0xFFFFFFFF : i32", -1),
        ("255 : i8", -1),
        ("true", True),
        ("false", False),
        ("1 : i1", True),
        ("1.500000e+00 : f32", 1.5),
        ("0x7F800000 : f32", math.inf),
        ("0xFF80 : bf16", -math.inf),
        ("0xFC00 : f16", -math.inf),
        ("0x3FF0000000000000 : f64", 1.0),
        ("0x38 : f8E4M3FN", 1.0),
        ("0x7C : f8E5M2", math.inf),
    ],
)
def test_scalar_constants(literal: str, value: object) -> None:
    found = one(f"%x = arith.constant {literal}", "arith.constant")
    assert found.attributes["value"] == value
    assert type(found.attributes["value"]) is type(value)


def test_a_constant_has_its_type() -> None:
    assert one("%x = arith.constant true", "arith.constant").results[0].type == I1
    assert one("%x = arith.constant 0 : index", "arith.constant").results[0].type == I64
    assert one("%x = arith.constant {a.b} 1.0 : f32", "arith.constant").results[0].type == F32


@pytest.mark.parametrize(
    ("literal", "values"),
    [
        ("dense<3> : tensor<4x2xi32>", (3,)),
        ("dense<true> : tensor<4xi1>", (True,)),
        ("dense<0xFF800000> : tensor<4xf32>", (-math.inf,)),
        ("dense<[1, -2]> : tensor<2xi32>", (1, -2)),
        ("dense<[[1.0, 0x7F800000], [2.5, -1.0]]> : tensor<2x2xf32>", (1.0, math.inf, 2.5, -1.0)),
        ("dense<[\n1,\n2]> : tensor<2xi64>", (1, 2)),
        ('dense<"0x01000000FFFFFFFF"> : tensor<2xi32>', (1, -1)),
        ('dense<"0x0000803F"> : tensor<4xf32>', (1.0,)),
        ('dense<"0x0100"> : tensor<2xi1>', (True, False)),
        ("dense<> : tensor<0xi32>", ()),
    ],
)
def test_dense_constants(literal: str, values: tuple[object, ...]) -> None:
    found = one(f"%x = arith.constant {literal}", "arith.constant").attributes["value"]
    assert isinstance(found, Dense)
    assert found.values == values
    assert found.type == one(f"%x = arith.constant {literal}", "arith.constant").results[0].type


@pytest.mark.parametrize(
    ("name", "width", "bits", "value"),
    [
        ("f16", 16, 0x0001, 2.0**-24),
        ("bf16", 16, 0x3F80, 1.0),
        ("f32", 32, 0x80000000, -0.0),
        ("f8E4M3FN", 8, 0x7E, 448.0),
        ("f8E4M3FNUZ", 8, 0x40, 1.0),
        ("f8E5M2FNUZ", 8, 0x40, 1.0),
        ("f8E8M0FNU", 8, 127, 1.0),
        ("f4E2M1FN", 4, 0x7, 6.0),
    ],
)
def test_bits_of_floats(name: str, width: int, bits: int, value: float) -> None:
    assert float_from_bits(bits, FloatType(name, width)) == value


@pytest.mark.parametrize(
    ("name", "bits"), [("f8E4M3FN", 0x7F), ("f8E4M3FNUZ", 0x80), ("f32", 0x7FC00000), ("f16", 0x7E00)]
)
def test_bits_that_are_no_number(name: str, bits: int) -> None:
    assert math.isnan(float_from_bits(bits, FloatType(name, 8)))


def test_the_generic_form_reads_as_the_custom_one() -> None:
    generic = """
    "builtin.module"() ({
      "tt.func"() <{function_type = (!tt.ptr<f32>, i32) -> (), sym_name = "k", sym_visibility = "public",
                    arg_attrs = [{tt.divisibility = 16 : i32}, {}]}> ({
      ^bb0(%p: !tt.ptr<f32> loc("p"), %n: i32):
        %c = "arith.constant"() <{value = 3 : i32}> : () -> i32
        %i = "tt.get_program_id"() <{axis = 1 : i32}> : () -> i32
        %m = "arith.cmpi"(%i, %n) <{predicate = 2 : i64}> : (i32, i32) -> i1
        %q = "tt.addptr"(%p, %i) : (!tt.ptr<f32>, i32) -> !tt.ptr<f32>
        %x = "tt.load"(%q, %m) <{boundaryCheck = array<i32>, cache = 3 : i32, evict = 2 : i32,
              isVolatile = false, operandSegmentSizes = array<i32: 1, 1, 0>}> : (!tt.ptr<f32>, i1) -> f32
        %o = "tt.atomic_rmw"(%q, %x) <{atomic_rmw_op = 5 : i32, scope = 1 : i32, sem = 4 : i32}>
             : (!tt.ptr<f32>, f32) -> f32
        "scf.if"(%m) ({
          "tt.store"(%q, %x, %m) <{cache = 1 : i32, evict = 1 : i32}> : (!tt.ptr<f32>, f32, i1) -> ()
          "scf.yield"() : () -> ()
        }, {
        }) : (i1) -> ()
        "cf.br"()[^bb1] : () -> ()
      ^bb1:
        "tt.return"() : () -> ()
      }) {noinline = false} : () -> ()
    }) {"ttg.num-warps" = 4 : i32} : () -> ()
    """
    module = read_module(generic)
    assert module.attributes == {"ttg.num-warps": 4}
    kernel = module.kernel
    assert kernel.name == "k"
    assert kernel.argument_attributes == ({"tt.divisibility": 16}, {})
    assert [value.name for value in kernel.arguments] == ["%p", "%n"]
    found = {operation.name: operation for operation in operations(module)}
    assert found["tt.get_program_id"].attributes["axis"] == 1
    assert found["arith.cmpi"].attributes["predicate"] == "slt"
    load = found["tt.load"]
    assert (load.attributes["cache"], load.attributes["evict"]) == ("cg", "evict_first")
    assert load.attributes["operand_segments"] == {"ptr": 0, "mask": 1}
    assert [found["tt.atomic_rmw"].attributes[key] for key in ("rmw_op", "sem", "scope")] == [
        "fadd",
        "acq_rel",
        "gpu",
    ]
    assert len(found["scf.if"].regions) == 1
    assert found["cf.br"].successors[0][0].label == "^bb1"


def test_a_module_has_attributes_and_aliases() -> None:
    module = read_module(
        "!block = tensor<4x!tt.ptr<f32>>\n#mine = #ttg.blocked<{sizePerThread = [1], order = [0]}>\n"
        'module @m attributes {"ttg.target" = "cuda:90", tt.mine = #mine, tt.flag} {\n'
        "  tt.func private @g(i32) -> i32\n"
        "  tt.func public @k(%p: !block) -> (f32, i32) attributes {noinline = false} {\n    tt.return\n  }\n}"
    )
    assert module.attributes["ttg.target"] == "cuda:90" and module.attributes["tt.flag"] is None
    assert module.attributes["tt.mine"] == "#ttg.blocked<{sizePerThread = [1], order = [0]}>"
    assert module.kernel.arguments[0].type == TensorType((4,), PointerType(F32))
    assert module.kernel.result_types == (F32, I32)
    assert module.functions["g"].body is None and not module.functions["g"].public


def test_locations_in_all_their_forms() -> None:
    module = read_module(
        around(
            '%x = arith.addi %a, %b : i32 loc("f.py":3:4)\n'
            '%y = arith.addi %a, %b : i32 loc(callsite("g.py":1:2 at callsite("h.py":3:4 at #loc1)))\n'
            '%z = arith.addi %a, %b : i32 loc(fused<"note">[unknown, #loc1, "q.py":9:9])\n'
            "%w = arith.addi %a, %b : i32 loc(#loc3)\n"
            "%v = arith.addi %a, %b : i32 loc(#missing)\n"
        )
        + '#loc1 = loc("main.py":7:8)\n#loc2 = loc("inner"(#loc1))\n#loc3 = loc("outer"(#loc2))\n'
    )
    found = {value.name: value.location for o in operations(module, "arith.addi") for value in o.results}
    main = Frame("main.py", 7, 8)
    assert found["%x"].frames == (Frame("f.py", 3, 4),)
    assert found["%y"].frames == (Frame("g.py", 1, 2), Frame("h.py", 3, 4), main)
    assert found["%z"].frames == (main,)
    assert (found["%w"].name, found["%w"].frames) == ("outer", (main,))
    assert found["%v"].frames == ()


def test_control_flow_has_its_terminators() -> None:
    module = read_module(
        around(
            "scf.if %c {\n tt.store %p, %f : !tt.ptr<f32>\n}\n"
            "%r:2 = scf.if %c -> (i32, i32) {\n scf.yield %a, %b : i32, i32\n} else {\n"
            " scf.yield %b, %a : i32, i32\n}\n"
            "scf.for unsigned %i = %a to %b step %a  : i32 {\n}\n"
            "cf.switch %a : i32, [\n default: ^bb2,\n 5: ^bb1(%r#1 : i32)\n]\n"
            "^bb1(%q: i32):\n cf.cond_br %c, ^bb2, ^bb1(%q : i32)\n^bb2:",
            "%a: i32, %b: i32, %p: !tt.ptr<f32>, %c: i1, %f: f32",
        )
    )
    plain, valued = operations(module, "scf.if")
    assert len(plain.regions) == 1 and plain.regions[0].entry.operations[-1].name == "scf.yield"
    assert len(valued.regions) == 2 and [value.name for value in valued.results] == ["%r#0", "%r#1"]
    (loop,) = operations(module, "scf.for")
    assert loop.attributes["unsigned"] is True
    assert [o.name for o in loop.regions[0].entry.operations] == ["scf.yield"]
    (switch,) = operations(module, "cf.switch")
    assert switch.attributes["cases"] == (5,)
    assert [block.label for block, _ in switch.successors] == ["^bb2", "^bb1"]
    assert switch.successors[1][1] == (valued.results[1],)


def test_a_block_may_use_what_a_later_block_defines() -> None:
    module = read_module(
        around(
            "cf.br ^bb2\n^bb1:\n%y = arith.addi %x, %a : i32\ncf.br ^bb3\n"
            "^bb2:\n%x = arith.addi %a, %b : i32\ncf.br ^bb1\n^bb3:"
        )
    )
    use, definition = operations(module, "arith.addi")
    assert use.operands[0] is definition.results[0]
    assert use.operands[0].type == I32 and use.operands[0].owner is definition


def test_names_may_come_again_in_sibling_regions() -> None:
    module = read_module(
        around(
            "scf.if %c {\n%x = arith.addi %a, %a : i32\n} else {\n"
            "%x = arith.muli %a, %a : i32\n%y = arith.addi %x, %a : i32\n}"
        )
    )
    last = operations(module, "arith.addi")[-1]
    assert last.operands[0].owner is operations(module, "arith.muli")[0]


@pytest.mark.parametrize(
    ("lines", "name", "operands", "types"),
    [
        ("%x = foo.bar %a, %b {k = 1 : i32} : i32 -> i64 loc(unknown)", "foo.bar", ["%a", "%b"], [I64]),
        ("%x:2 = foo.bar fast[%a] with(%b) : (i32, i32) -> (i64, f32)", "foo.bar", ["%a", "%b"], [I64, F32]),
        ("%x = foo.bar %a", "foo.bar", ["%a"], [OpaqueType("?")]),
        ("%x = foo.bar %a\n%y = arith.addi %a, %b : i32", "foo.bar", ["%a"], [OpaqueType("?")]),
        ("foo.bar %a, %b\n%y, %z = foo.qux %a : i32 -> i32, i32", "foo.bar", ["%a", "%b"], []),
        (
            "%x = foo.bar %a : !other.thing<3, <f32>>",
            "foo.bar",
            ["%a"],
            [OpaqueType("!other.thing<3, <f32>>")],
        ),
        ("foo.region %a {\n tt.store %p, %f : !tt.ptr<f32>\n foo.end\n}", "foo.region", ["%a"], []),
        ("ttg.barrier local|global", "ttg.barrier", [], []),
        ("gpu.barrier", "gpu.barrier", [], []),
        ("%x = ub.poison : tensor<4xf32>", "ub.poison", [], [TensorType((4,), F32)]),
        ("%x = tt.load %p cacheModifier = ca : !tt.ptr<f32>", "tt.load", ["%p"], [F32]),
        ("%x:2 = arith.mului_extended %a, %b : i32", "arith.mului_extended", ["%a", "%b"], [I32, I32]),
        ("%x = arith.select %c, %a, %b : i32", "arith.select", ["%c", "%a", "%b"], [I32]),
        ("%x = arith.extsi %a : i32 to i64", "arith.extsi", ["%a"], [I64]),
        ("%x = tt.unsplat %t : tensor<1xf32>", "tt.unsplat", ["%t"], [F32]),
    ],
)
def test_operations_by_their_types(lines: str, name: str, operands: list[str], types: list[Any]) -> None:
    found = one(lines, name, "%a: i32, %b: i32, %p: !tt.ptr<f32>, %c: i1, %f: f32, %t: tensor<1xf32>")
    assert [value.name for value in found.operands] == operands
    assert [value.type for value in found.results] == types


def test_flags() -> None:
    added = one("%x = arith.addi %a, %b overflow<nsw, nuw> : i32", "arith.addi")
    assert added.attributes["overflow"] == ("nsw", "nuw")
    converted = one("%x = tt.fp_to_fp %f, rounding = rtne : f32 -> f16", "tt.fp_to_fp", "%f: f32")
    assert converted.attributes["rounding"] == "rtne"
    clamped = one("%x = tt.clampf %f, %f, %f, propagateNan = none : f32", "tt.clampf", "%f: f32")
    assert clamped.attributes["propagateNan"] == "none" and clamped.results[0].type == F32
    checked = one('tt.assert %c, "a \\22quoted\\22 text" : i1', "tt.assert")
    assert checked.attributes["string"] == 'a "quoted" text'


@pytest.mark.parametrize(
    ("text", "line", "message"),
    [
        ("", 1, "no tt.func"),
        ("module {\n  tt.func public @k() {\n    tt.return\n", 4, "ends too early"),
        (around("%x = arith.addi %a, %nope : i32"), 3, "%nope is not defined"),
        (around("%x = arith.addi %a, %a : i32\n%x = arith.addi %a, %a : i32"), 4, "%x is defined twice"),
        (around("cf.br ^bb9"), 5, "the block ^bb9 is not defined"),
        (around("^bb1:\n^bb1:"), 4, "defined twice"),
        (around("%x = arith.constant 300 : i8"), 3, "does not fit i8"),
        (around("%x = arith.constant dense<[1, 2]> : tensor<3xi32>"), 3, "2 elements, but its type has 3"),
        (around("%x = arith.constant dense<0> : tensor<99999x99999xi32>"), 3, "more than"),
        (around("scf.for %i = %a up %b step %a {\n}"), 3, "expected 'to'"),
        (around("scf.if %c {\n" * 100 + "}" * 100), 49, "nested deeper"),
        (around("%x:99999999 = foo.bar"), 3, "not a number of results"),
    ],
)
def test_malformed_text_is_one_line_with_its_place(text: str, line: int, message: str) -> None:
    with pytest.raises(TtirError) as caught:
        read_module(text)
    assert message in str(caught.value)
    assert caught.value.line == line and f"line {line}:" in str(caught.value)
    assert "\n" not in str(caught.value)
    assert isinstance(caught.value, FormatError) and caught.value.exit_status == 3

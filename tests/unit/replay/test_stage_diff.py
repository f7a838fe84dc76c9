"""Differences of compiled stages: what is not drowned by numbers, what is not hidden by leaving them out."""

from __future__ import annotations

import pytest

from kerncap.replay.stage_diff import compare_stage, normalised

_TTGIR = """\
#blocked = #ttg.blocked<{sizePerThread = [1], warpsPerCTA = [2], order = [0]}>
#loc = loc("/a/scale.py":6:0)
#loc3 = loc("x_ptr"(#loc))
module attributes {"ttg.num-warps" = 2 : i32} {
  tt.func public @scale(%x_ptr: !tt.ptr<f32> loc("x_ptr"(#loc)), %n: i32 loc("n"(#loc))) {
    %i = tt.get_program_id x : i32 loc(#loc1)
    %0 = tt.splat %n : i32 -> tensor<128xi32, #blocked> loc(#loc1)
    %1 = arith.subi %0, %i : i32 loc(fused["a (b)"(#loc1), #loc3])
    "tt.reduce"(%1) <{axis = 0 : i32}> ({
    tt.return loc(#loc1)
  } loc(#loc)
} loc(#loc)
"""


def test_places_and_numbers_are_no_difference() -> None:
    other = _TTGIR.replace("/a/scale.py", "/b/other.py").replace("%0", "%17").replace("#loc1)", "#loc99)")
    found = compare_stage("ttgir", _TTGIR, other)
    assert found.same and not found.changed and not found.diff
    assert found.instructions == (6, 6)
    assert not any("loc(" in line for line in normalised("ttgir", _TTGIR))


def test_an_instruction_more_is_one_line_and_one_count() -> None:
    more = _TTGIR.replace(
        "    %0 = tt.splat", "    %0 = arith.constant 3 : i32 loc(#loc1)\n    %9 = tt.splat"
    ).replace("%0, %i", "%9, %i")
    found = compare_stage("ttgir", _TTGIR, more)
    assert found.changed == {"arith.constant": (0, 1)}
    assert [line for line in found.diff if line[0] in "+-" and line[1] not in "+-"] == [
        "+    % = arith.constant 3 : i32"
    ]


def test_swapped_operands_are_a_difference() -> None:
    found = compare_stage("ttgir", _TTGIR, _TTGIR.replace("%0, %i", "%i, %0"))
    assert not found.same and not found.changed
    assert sum(line[0] == "+" for line in found.diff) == 2  # the header and the one line


def test_a_long_diff_is_cut_and_counted() -> None:
    text = "\n".join(f"add.f32 %r{i}, %r1, {i}f;" for i in range(500))
    found = compare_stage("ptx", text, text.replace("add", "mul"), most_lines=10)
    assert len(found.diff) == 10 < found.diff_lines
    assert found.changed == {"add.f32": (500, 0), "mul.f32": (0, 500)}


_PTX = """\
.visible .entry scale(
	.param .u64 scale_param_0
)
{
	.reg .b32 	%r<12>;
$L__BB0_1:
	.loc	1 6 0                           // scale.py:6:0
$L__tmp3:
	@%p1 ld.global.b32 	%r4, [%rd1+4];
	add.f32 	%r3, %r4, %r4;
	@!%p1 bra 	$L__BB0_1;
}
	.section	.debug_abbrev
	{
.b8 1                                   // Abbreviation Code
	}
"""


def test_registers_labels_and_debug_sections_of_ptx() -> None:
    lines = normalised("ptx", _PTX)
    assert lines[-5:] == [
        "$L:", "@%p ld.global.b32 %r, [%rd+4];", "add.f32 %r, %r, %r;", "@!%p bra $L;", "}"
    ]  # fmt: skip
    renumbered = _PTX.replace("%r4", "%r7").replace("%r<12>", "%r<99>").replace("BB0_1", "BB3_8")
    assert compare_stage("ptx", _PTX, renumbered).same
    assert compare_stage("ptx", _PTX, _PTX.replace("ld.global.b32", "ld.global.nc.b32")).changed == {
        "ld.global.b32": (1, 0), "ld.global.nc.b32": (0, 1)
    }  # fmt: skip


_SASS = """\
	.headerflags	@"EF_CUDA_SM90"
.text.scale:
        /*0000*/                   LDC R1, c[0x0][0x28] ;
        /*0010*/              @!P0 LDG.E R0, desc[UR4][R4.64+0x100] ;
.L_x_0:
        /*0180*/                   BRA `(.L_x_0);
"""


def test_addresses_and_registers_of_sass() -> None:
    assert normalised("sass", _SASS) == [
        "LDC R, c[0x0][0x28] ;", "@!P LDG.E R, desc[UR][R.64+0x100] ;", ".L:", "BRA `(.L);"
    ]  # fmt: skip
    moved = _SASS.replace("/*0010*/", "/*0450*/").replace("R4.64", "R12.64").replace("_x_0", "_x_7")
    assert compare_stage("sass", _SASS, moved).same
    elsewhere = _SASS.replace("(.L_x_0)", "(.L_x_1)")
    assert not compare_stage("sass", _SASS, elsewhere).same
    assert compare_stage("sass", _SASS, _SASS.replace("LDG.E ", "LDG.E.128 ")).changed == {
        "LDG.E": (1, 0), "LDG.E.128": (0, 1)
    }  # fmt: skip


@pytest.mark.parametrize("number", ["!dbg !12", "#3"])
def test_metadata_of_llir_is_left_out(number: str) -> None:
    line = f"  %5 = fmul float %4, 2.0, {number}" if "dbg" in number else f"  %5 = call i32 @f() {number}"
    other = line.replace("12", "99").replace("#3", "#8").replace("%5", "%7")
    assert compare_stage("llir", line, other + "\n!12 = !DILocation(line: 3)").same

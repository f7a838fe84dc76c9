"""From lines of compiled stages to lines of the source."""

from __future__ import annotations

from kerncap.report.html.stage_lines import link, matcher

MLIR = """\
#loc = loc("/a/k.py":1:1)
module {
  %a = tt.load %p loc(#loc2)
  %b = tt.dot %a loc("/a/k.py":9:3)
  %c = tt.add %b loc(#loc4)
  %d = tt.loop %c loc(#loc5)
  tt.return
}
#loc2 = loc("/a/k.py":5:7)
#loc3 = loc("name"(#loc2))
#loc4 = loc(callsite(#loc3 at #loc))
#loc5 = loc("itself"(#loc5))
"""
LLVM = """\
define void @k() !dbg !4 {
  %1 = add i32 1, 2, !dbg !7
  ret void
}
!1 = !DIFile(filename: "k.py", directory: "/a")
!4 = distinct !DISubprogram(name: "k", scope: !1, file: !1, line: 3)
!7 = !DILocation(line: 12, column: 5, scope: !8)
!8 = !DILexicalBlockFile(scope: !4, file: !1, discriminator: 0)
!9 = !DILocation(line: 1, scope: !9)
"""
PTX = """\
.visible .entry k(
{
\t.loc\t1 12 5
\tadd.s32 %r1, %r2;
$L1:
\t.loc\t1 0 0
\tret;
\t.loc\t7 4 1
\tmov.u32 %r1, 0;
}
\t.file\t1 "/a/k.py"
"""
AMD = """\
\t.file\t1 "/a" "k.py"
\t.loc\t1 38 0 prologue_end             ; k.py:38:0
\ts_load_dwordx2 s[0:1], s[0:1], 0x0
"""


def places(stage: str, text: str) -> list[tuple[str, int] | None]:
    return link(stage, text.splitlines()).places


def test_mlir_follows_names_and_calls() -> None:
    found = link("ttgir", MLIR.splitlines())
    at = [None, ("/a/k.py", 5), ("/a/k.py", 9), ("/a/k.py", 5), None, None, None]
    assert found.places == at
    assert found.lines[1] == "  %a = tt.load %p"
    assert found.left_out == "5 lines that define locations"


def test_llvm_metadata() -> None:
    assert places("llir", LLVM) == [("/a/k.py", 3), ("/a/k.py", 12), None, None]


def test_loc_directives() -> None:
    line = ("/a/k.py", 12)
    assert places("ptx", PTX) == [None, None, line, line, line, None, None, None, None, None, None]
    assert places("amdgcn", AMD) == [None, ("/a/k.py", 38), ("/a/k.py", 38)]


def test_files_are_told_by_their_ends() -> None:
    find = matcher(["/home/a/project/kernels.py", "/home/a/project/other/kernels.py"])
    assert find("/home/a/project/kernels.py") == 0
    assert find("/elsewhere/other/kernels.py") == 1
    assert find("../other/./kernels.py") == 1
    assert find("/elsewhere/none.py") is None


def test_hostile_text_links_to_nothing() -> None:
    for stage in ("ttir", "llir", "ptx"):
        text = [
            'loc("' * 4000,
            " " * 100_000 + "loc(",
            '"' + '\\"' * 20_000,
            "!1 = !DILocation(" + "line: " * 9000,
        ]
        assert link(stage, text).places == [None] * 4

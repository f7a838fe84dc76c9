"""Blocks of a cluster that use each other's memory, and elements of a buffer by their indices."""

from __future__ import annotations

from functools import cache

import pytest

from kerncap.sanitizer.shared.clusters import Cluster
from kerncap.sanitizer.ttir import read_module
from kerncap.sanitizer.ttir.type_text import Types
from tests.unit.sanitizer.compiled import ttir_of
from tests.unit.sanitizer.shared.test_clusters import reasons
from tests.unit.sanitizer.shared.test_shared import answers_of, findings, is_proved

kernels = pytest.importorskip("tests.unit.sanitizer.shared.exchange_kernels", reason="no Triton with Gluon")

_ROWS = "NVMMASharedLayout(swizzle_byte_width=128, element_bitwidth=16, rank=2, cga_layout=[[1, 0]])"
_ALL = _ROWS.replace("1, 0", "0, 0")
_SIGNATURES = {
    "exchanged": {"x_ptr": "*fp32", "out_ptr": "*fp32"},
    "sent": {"out_ptr": "*fp32", "n": "i32"},
    "announced": {"desc": f"tensordesc<fp16[64,64],{_ALL}>", "out_ptr": "*fp16", "n": "i32"},
    "mirrored": {"at_ptr": "*i32", "out_ptr": "*i32"},
    "picked": {"x_ptr": "*i32", "out_ptr": "*i32", "n": "i32"},
    "picked_by_halves": {"x_ptr": "*i32", "out_ptr": "*i32"},
    "taken_by_clusters": {"out_ptr": "*i32"},
    "rows_by_halves": {"desc": f"tensordesc<fp16[1,64],{_ROWS}>", "at_ptr": "*i32"},
}


@cache
def exchange(name: str, case: str) -> str:
    target = ("cuda", 100 if name in ("taken_by_clusters", "rows_by_halves") else 90, 32)
    blocks = 1 if name == "picked" else 4 if case.startswith("given back") else 2
    signature = _SIGNATURES[name]
    if case == "for both":
        signature = {one: kind.replace(_ROWS, _ALL) for one, kind in signature.items()}
    return ttir_of(getattr(kernels, name), signature, {"CASE": case}, target, "ttgir", num_ctas=blocks)


RIGHT = [
    ("exchanged", ""),
    ("exchanged", "loaded by rows"),
    ("sent", ""),
    ("announced", ""),
    ("mirrored", ""),
    ("mirrored", "scattered"),
    ("picked", ""),
    ("picked_by_halves", ""),
    ("picked_by_halves", "followed together"),
    ("taken_by_clusters", ""),
    ("taken_by_clusters", "given back by all"),
    ("rows_by_halves", ""),
    ("rows_by_halves", "for both"),
]


@pytest.mark.parametrize(("name", "case"), RIGHT)
def test_without_a_mistake_all_is_proved(name: str, case: str) -> None:
    answers = answers_of(exchange(name, case), n=3)
    assert is_proved(answers), reasons(answers) or findings(answers)


BROKEN = [
    ("exchanged", "no barrier", "memory of block 0, which local_store may still be writing: nothing orders"),
    ("exchanged", "relaxed", "memory of block 0, which local_store may still be writing: nothing orders"),
    ("exchanged", "stored again", "overwrites memory of block 0, which local_load may still be reading"),
    ("sent", "own bytes", "local_load reads memory of block 1 before anything is written there"),
    ("sent", "no barrier", "async_shared_store overwrites memory of block 1, which async_shared_store may"),
    ("sent", "no wait", "local_load reads memory of block 1, which async_shared_store may still be writing"),
    (
        "announced",
        "no barrier",
        "a TMA copy overwrites tile of block 1, which a TMA copy may still be writing",
    ),
    ("announced", "no wait", "local_load reads tile of block 1 before anything is written there"),
    ("announced", "count", "the wait for phase 0 of bar of block 0 never ends: it lacks 1 of 2 arrivals"),
    ("announced", "announced by each too", "tile of block 1 before anything is written there"),
    ("mirrored", "no barrier", "memory of block 0, which local_store may still be writing: nothing orders"),
    ("mirrored", "stored again", "local_store overwrites memory of block 0, which local_gather may still"),
    ("mirrored", "one too far", "index 256 of memory is out of bounds: axis 0 has 256 elements"),
    ("picked", "into the copy", "local_gather reads memory, which async_copy may still be writing"),
    ("picked_by_halves", "into the copy", "local_gather reads memory, which async_copy may still be writing"),
    ("taken_by_clusters", "no wait", "clc_load_result reads answer of block 1 before anything is written"),
    ("taken_by_clusters", "no barrier", "clc_try_cancel overwrites answer of block 1, which clc_try_cancel"),
    ("taken_by_clusters", "given back in pairs", "answer of block 2, which clc_load_result may still be"),
    ("taken_by_clusters", "bytes", "never ends: it lacks an announcement of 8 bytes that copies bring"),
    ("rows_by_halves", "no wait", "a TMA store reads tile, which a TMA copy may still be writing"),
    ("rows_by_halves", "all bytes", "phase 0 of bar never ends: it lacks 2,048 announced bytes"),
]

# The rows of docs/shared-memory.md about this: kernels of the list above.
ROWS = {
    "cluster: memory of another block used without a barrier of the cluster, or with a relaxed one": [
        ("exchanged", "no barrier"), ("exchanged", "relaxed"), ("exchanged", "stored again")
    ],
    "cluster: stores to other blocks (`async_store`) not waited for, or other bytes announced": [
        ("sent", "no wait"), ("sent", "own bytes")
    ],
    "elements by index (`gather`, `scatter`) that are written meanwhile, also of other blocks": [
        ("mirrored", "no barrier"), ("mirrored", "stored again"), ("picked", "into the copy")
    ],
    "cluster launch control in a cluster: answer read before its barrier, or overwritten by the next one": [
        ("taken_by_clusters", "no wait"), ("taken_by_clusters", "given back in pairs")
    ],
    "cluster: rows gathered by the TMA and used before their barrier": [("rows_by_halves", "no wait")],
}  # fmt: skip


def test_the_rows_of_the_page_are_tested() -> None:
    assert {one for row in ROWS.values() for one in row} <= {(name, case) for name, case, _ in BROKEN}


@pytest.mark.parametrize(("name", "case", "said"), BROKEN)
def test_a_mistake_is_found(name: str, case: str, said: str) -> None:
    found = findings(answers_of(exchange(name, case), n=3))
    assert any(said in one.message for one in found), [one.message for one in found]


LEFT_OPEN = [
    ("exchanged", "not begun", "nothing shows that block 1 has begun"),
    ("exchanged", "both store all", "local_store between blocks of a cluster is not modelled"),
    ("mirrored", "indices from memory", "which blocks local_gather reaches rests on tt.load"),
    ("picked", "by the program", "which part of its buffer it uses is not known"),
    ("picked", "every other one", "which part of its buffer it uses is not known"),
]


@pytest.mark.parametrize(("name", "case", "said"), LEFT_OPEN)
def test_what_is_not_known_is_undecided_by_name(name: str, case: str, said: str) -> None:
    answers = answers_of(exchange(name, case), n=3)
    assert any(said in one for one in reasons(answers)), (reasons(answers), findings(answers))
    assert not is_proved(answers)


def test_computed_indices_count_as_operations(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("kerncap.sanitizer.shared.check.MAX_STEPS", 2000)
    assert is_proved(answers_of(exchange("picked", ""), n=3))
    monkeypatch.setattr("kerncap.sanitizer.shared.program_path.ELEMENTS_A_STEP", 1)
    answers = answers_of(exchange("picked", ""), n=3)
    assert set(reasons(answers)) == {"the kernel runs for more operations than are followed"}


_ROWS_OF_ONE = """
#cut = #ttg.nvmma_shared<{swizzlingByteWidth = 128, CGALayout = [[CUT]]}>
#own = #ttg.swizzled_shared<{vec = 1, perPhase = 1, maxPhase = 1, order = [0], CGALayout = [[BAR]]}>
#at = #ttg.blocked<{sizePerThread = [1, 4], order = [1, 0], CGALayout = [[0, AT]]}>
module attributes {"ttg.num-ctas" = 2 : i32, "ttg.num-warps" = 4 : i32, "ttng.two-ctas" = true} {
  tt.func public @kernel(%desc: DESC, %at: tensor<32xi32, ROWS>, %y: i32, %flag: i1) {
    %bar = ttg.local_alloc : () -> !ttg.memdesc<WORDS, #own, #smem, mutable>
    %tile = ttg.local_alloc : () -> !ttg.memdesc<32x64xf16, #cut, #smem, mutable>
    ttng.async_tma_gather %desc[%at, %y] %tile, %bar, %flag : DESC, tensor<32xi32, ROWS>, i32,
      !ttg.memdesc<WORDS, #own, #smem, mutable>, !ttg.memdesc<32x64xf16, #cut, #smem, mutable>, i1
    tt.return
  }
}
"""


@pytest.mark.parametrize(
    ("cut", "at", "barrier", "reason"),
    [
        ("1, 0", "1", "1", ""),
        ("0, 1", "0", "1", ""),
        ("1, 0", "0", "1", "async_tma_gather between blocks of a cluster is not modelled"),
        ("0, 1", "1", "1", "async_tma_gather between blocks of a cluster is not modelled"),
        ("1, 0", "1", "0", "a barrier that several blocks of a cluster share is not modelled"),
    ],
)
def test_rows_that_the_tma_gathers_are_the_block_s_own(cut: str, at: str, barrier: str, reason: str) -> None:
    text = _ROWS_OF_ONE.replace("CUT", cut).replace("AT", at).replace("BAR", barrier)
    text = text.replace("ROWS", "#ttg.slice<{dim = 0, parent = #at}>").replace(
        "DESC", "!tt.tensordesc<1x64xf16>"
    )
    module = read_module(text.replace("WORDS", "2xi64" if barrier == "1" else "1xi64"))
    assert Cluster.of(module).reached(module, {"ttng.async_tma_gather"}, 2) == reason


_ALIASES = {
    "#rows": "#ttg.blocked<{sizePerThread = [1, 1], order = [1, 0], CGALayout = [[1, 0], [2, 0]]}>",
    "#turned": "#ttg.blocked<{sizePerThread = [1, 1], order = [1, 0], CGALayout = [[2, 0], [1, 0]]}>",
    "#both": "#ttg.blocked<{sizePerThread = [1, 1], order = [1, 0], CGALayout = [[1, 0], [0, 1]]}>",
    "#shared": "#ttg.nvmma_shared<{swizzlingByteWidth = 128, CGALayout = [[0, 1], [0, 2]]}>",
    "#woven": "#ttg.linear<{register = [[2, 0]], lane = [[0, 1], [0, 2]], block = [[1, 0], [4, 0]]}>",
}


def test_parts_of_blocks() -> None:
    cluster = Cluster(4, False, _ALIASES)
    types = Types()
    assert cluster.part(types.read("tensor<8x16xf16, #both>"), 2) == ((0, 4), (8, 16))
    assert cluster.part(types.read("!ttg.memdesc<3x8x16xf16, #shared, #smem>"), 3) == (
        (0, 3),
        (0, 8),
        (12, 16),
    )
    assert cluster.part(types.read("tensor<8x4xf16, #woven>"), 1) is None


@pytest.mark.parametrize(
    ("registers", "block", "found"),
    [
        # By columns at the memory: each block's rows go to all of them, 2 by 4 elements.
        ("#rows", 1, [(other, ((2, 4), (0, 16)), 8) for other in range(4)]),
        # Half of the rows of one half of the columns: to the two blocks that have these.
        ("#both", 2, [(2, ((0, 4), (0, 16)), 16), (3, ((0, 4), (0, 16)), 16)]),
    ],
)
def test_routes_from_registers_to_memory(registers: str, block: int, found: list[object]) -> None:
    cluster = Cluster(4, False, _ALIASES)
    tensor = Types().read(f"tensor<8x16xf16, {registers}>")
    memory = Types().read("!ttg.memdesc<8x16xf16, #shared, #smem>")
    assert cluster.routes(tensor, memory, block) == found


def test_a_route_to_all_that_one_block_has() -> None:
    cluster = Cluster(
        4, False, {**_ALIASES, "#mine": _ALIASES["#turned"].replace("blocked", "swizzled_shared")}
    )
    tensor = Types().read("tensor<8x16xf16, #rows>")
    memory = Types().read("!ttg.memdesc<8x16xf16, #mine, #smem>")
    assert cluster.routes(tensor, memory, 1) == [(2, ((0, 8), (0, 16)), 32)]

"""Clusters of blocks: as one block while each keeps to its part, else undecided by name."""

from __future__ import annotations

import re
from functools import cache
from typing import Any

import pytest

from kerncap.sanitizer.findings import Settled, Unproven
from kerncap.sanitizer.shared.clusters import Cluster, Share
from kerncap.sanitizer.ttir import read_module
from kerncap.sanitizer.ttir.ir import OpaqueType
from kerncap.sanitizer.ttir.type_text import Types
from tests.unit.sanitizer.compiled import ttir_of
from tests.unit.sanitizer.shared.test_shared import answers_of, findings, is_proved

kernels = pytest.importorskip("tests.unit.sanitizer.shared.cluster_kernels", reason="no Triton with Gluon")


def _tile(rows: int, cut: list[list[int]], columns: int = 64) -> str:
    layout = "NVMMASharedLayout(swizzle_byte_width=128, element_bitwidth=16, rank=2"
    return f"tensordesc<fp16[{rows},{columns}],{layout}, cga_layout={cut})>"


_ROWS, _ALL, _COLUMNS = [[1, 0]], [[0, 0]], [[0, 1]]
_SIGNATURES = {
    "fetched_by_halves": {"desc": _tile(64, _ROWS), "out_desc": _tile(64, _ROWS), "n": "i32"},
    "copied_by_halves": {"x_ptr": "*fp32", "out_ptr": "*fp32"},
    "multiplied_by_halves": {"a_desc": _tile(128, _ROWS), "b_desc": _tile(64, _ALL)},
    "tensor_by_halves": {"a_desc": _tile(256, _ROWS), "b_desc": _tile(64, _ALL), "n": "i32"},
    "sent_to_both": {"desc": _tile(64, _ALL), "out_ptr": "*fp16", "n": "i32"},
    "stored_for_both": {},
    "met": {},
}
_BLACKWELL = ("tensor_by_halves", "stored_for_both")
_N = 5


@cache
def clustered(name: str, case: str) -> str:
    """``case``: of tensor_by_halves with what it is done by before a colon."""
    signature = dict(_SIGNATURES[name])
    constants: dict[str, Any] = {"CASE": case}
    if name == "tensor_by_halves":
        by, _, case = case.partition(": ")
        constants = {"CASE": case, "PAIR": by == "pair", "SEVERAL": by != "each"}
        if by == "pair":
            signature["b_desc"] = _tile(64, _COLUMNS, 128)
    target = ("cuda", 100 if name in _BLACKWELL else 90, 32)
    return ttir_of(getattr(kernels, name), signature, constants, target, "ttgir", num_ctas=2)


def reasons(answers: list[Settled]) -> list[str]:
    return [one.verdict.reason for one in answers if isinstance(one.verdict, Unproven)]


RIGHT = [
    ("fetched_by_halves", ""),
    ("fetched_by_halves", "cluster barrier"),
    ("copied_by_halves", ""),
    ("copied_by_halves", "columns"),
    ("multiplied_by_halves", ""),
    ("multiplied_by_halves", "registers"),
    ("tensor_by_halves", "each: "),
    ("tensor_by_halves", "several: "),
    ("tensor_by_halves", "several: commit"),
    ("tensor_by_halves", "pair: "),
    ("stored_for_both", "fenced"),
    ("sent_to_both", ""),
    ("met", "own"),
    ("met", "one barrier"),
]


@pytest.mark.parametrize(("name", "case"), RIGHT)
def test_without_a_mistake_all_is_proved(name: str, case: str) -> None:
    answers = answers_of(clustered(name, case), n=_N)
    assert is_proved(answers), reasons(answers) or findings(answers)


BROKEN = [
    ("fetched_by_halves", "no wait", "local_load reads slots[0], which a TMA copy may still be writing"),
    ("fetched_by_halves", "no store wait", "overwrites slots[0], which a TMA store may still be reading"),
    ("fetched_by_halves", "all bytes", "phase 0 of bar[0] never ends: it lacks 4,096 announced bytes"),
    ("copied_by_halves", "no wait", "local_load reads memory, which async_copy may still be writing"),
    ("multiplied_by_halves", "slot in use", "a TMA copy overwrites b, which warp_group_dot may still be"),
    ("tensor_by_halves", "each: no wait for the product", "a TMA copy overwrites b, which tc_gen5_mma may"),
    ("tensor_by_halves", "several: no wait", "tc_gen5_mma reads a of block 1, which a TMA copy may still be"),
    ("tensor_by_halves", "several: own commit", "a TMA copy overwrites b of block 1, which a TMA copy may"),
    ("tensor_by_halves", "several: count", "phase 0 of bar of block 0 never ends: it lacks 1 of 3 arrivals"),
    ("tensor_by_halves", "pair: no wait", "tc_gen5_mma reads b of block 0, which a TMA copy may still be"),
    ("tensor_by_halves", "pair: no wait for the product", "a TMA copy overwrites a of block 1, which a TMA"),
    ("tensor_by_halves", "pair: count", "phase 0 of bar of block 0 never ends: it lacks 1 of 2 arrivals"),
    ("tensor_by_halves", "pair: own barrier", "tc_gen5_mma reads a of block 1, which a TMA copy may still"),
    ("stored_for_both", "no barrier", "a of block 1, which tc_gen5_mma may still be reading: nothing orders"),
    ("sent_to_both", "no barrier", "a TMA copy overwrites tile of block 1, which a TMA copy may still be"),
    (
        "sent_to_both",
        "no wait",
        "a TMA copy overwrites tile of block 1, which local_load may still be reading",
    ),
    (
        "sent_to_both",
        "stored meanwhile",
        "local_store overwrites tile of block 0, which a TMA copy may still",
    ),
    (
        "sent_to_both",
        "behind the barriers",
        "tile of block 1, which local_store may still be writing: nothing",
    ),
    ("fetched_by_halves", "other halves", "local_load reads slots[0] of block 1 before anything is written"),
    ("copied_by_halves", "allocated with other halves", "again of block 1, which local_alloc may still be"),
    ("sent_to_both", "relaxed", "tile of block 1, which local_load may still be reading: nothing orders"),
    ("met", "count", "the wait for phase 0 of bar of block 0 never ends: it lacks 2 of 4 arrivals"),
    ("met", "used", "local_store overwrites memory of block 1, which local_store may still be writing"),
]


# The rows of docs/shared-memory.md about clusters: kernels of the list above.
ROWS = {
    "cluster: multicast copy read before its barrier, or memory overwritten that another block still uses": [
        ("sent_to_both", case) for case in ("no wait", "no barrier", "stored meanwhile")
    ],
    "cluster: operand fetched again after a commit that the other blocks don't get": [
        ("tensor_by_halves", "several: own commit")
    ],
    "cluster: tcgen05 by two blocks before both have their operands": [
        ("tensor_by_halves", "pair: no wait"), ("tensor_by_halves", "pair: own barrier")
    ],
    "cluster: memory used after a wait that only the first block does": [("met", "used")],
    "cluster: too few arrivals at a barrier that blocks share": [("met", "count")],
}  # fmt: skip


def test_the_rows_of_the_page_are_tested() -> None:
    assert {one for row in ROWS.values() for one in row} <= {(name, case) for name, case, _ in BROKEN}


@pytest.mark.parametrize(("name", "case", "said"), BROKEN)
def test_a_mistake_is_found(name: str, case: str, said: str) -> None:
    found = findings(answers_of(clustered(name, case), n=_N))
    assert any(said in one.message for one in found), [one.message for one in found]


LEFT_OPEN = [
    ("copied_by_halves", "copy of other halves", "async_copy_global_to_local between blocks of a cluster is"),
    ("copied_by_halves", "allocated with all of it", "local_alloc between blocks of a cluster is not"),
    ("copied_by_halves", "rows", "a part of a buffer that is cut across blocks of a cluster is not"),
    ("tensor_by_halves", "each: commit", "a block uses a barrier of another block that is not initialised"),
    ("tensor_by_halves", "several: again", "a second barrier in bar of block 1, which other blocks may"),
]


@pytest.mark.parametrize(("name", "case", "said"), LEFT_OPEN)
def test_what_is_not_followed_is_undecided_by_name(name: str, case: str, said: str) -> None:
    answers = answers_of(clustered(name, case), n=_N)
    assert answers and {type(one.verdict) for one in answers} == {Unproven}
    assert any(said in one for one in reasons(answers)), reasons(answers)


def test_an_order_that_is_not_seen_undoes_a_finding() -> None:
    """A conversion between blocks adds a barrier; making barriers has the blocks meet."""
    for case, name in (("reduced", "ttg.convert_layout"), ("summed", "tt.reduce")):
        answers = answers_of(clustered("sent_to_both", case), n=_N)
        assert not findings(answers)
        said = f"{name} between blocks of a cluster is not modelled, and may order them"
        assert any(said in one for one in reasons(answers))
    answers = answers_of(clustered("sent_to_both", "before the barriers"), n=_N)
    assert reasons(answers) == ["local_store of another block comes before its barriers are made"]
    assert not findings(answers)


def _changed(name: str, case: str, before: str, after: str, n: int = _N) -> list[Settled]:
    text, count = re.subn(before, after, clustered(name, case))
    assert count
    return answers_of(text, n=n)


def test_an_operation_that_is_not_followed_undoes_a_finding() -> None:
    wait = r"(ttg.async_wait.*num = )0"
    answers = _changed("copied_by_halves", "allocated with all of it", wait, r"\g<1>1")
    assert not findings(answers)
    said = "but local_alloc between blocks of a cluster is not modelled, and may order them"
    assert any(said in one for one in reasons(answers))


def test_an_arrival_in_no_certain_phase_is_undecided() -> None:
    answers = answers_of(clustered("met", "again"))
    said = "nothing shows that phase 0 of bar of block 0 is over for an arrival"
    assert said in reasons(answers) and {type(one.verdict) for one in answers} == {Unproven}


def test_a_fence_of_another_block_is_not_missed_for_sure() -> None:
    answers = answers_of(clustered("stored_for_both", ""))
    assert not findings(answers)
    assert reasons(answers) == ["no fence_async_shared is between it and local_store"]


_COMMIT = """
#own = #ttg.swizzled_shared<{vec = 1, perPhase = 1, maxPhase = 1, order = [0], CGALayout = [[1]]}>
#one = #ttg.swizzled_shared<{vec = 1, perPhase = 1, maxPhase = 1, order = [0], CGALayout = [[0]]}>
#tile = #ttg.nvmma_shared<{swizzlingByteWidth = 128, CGALayout = [[0, 0]]}>
#older = #ttg.nvmma_shared<{swizzlingByteWidth = 128, CTASplitNum = [2, 1]}>
module attributes {"ttg.num-ctas" = 2 : i32, "ttg.num-warps" = 4 : i32, "ttng.two-ctas" = true} {
  tt.func public @kernel(%flag: i1) {
    %bar = ttg.local_alloc : () -> !ttg.memdesc<BAR, #smem>
    %a = ttg.local_alloc : () -> !ttg.memdesc<64x64xf16, OPERAND, #smem>
    OPERATION
    tt.return
  }
}
"""
_ALL_KNOW = "ttng.tc_gen5_commit %bar, %flag descs %a"
_FROM_FIRST = "ttng.arrive_barrier %bar, 1, %flag {fromCTA = 0 : i32}"
_ARRIVE = "ttng.arrive_barrier %bar, 1, %flag {multicastCTA = 1 : i32}"


@pytest.mark.parametrize(
    ("operation", "barrier", "operand", "reason"),
    [
        (_ALL_KNOW, "2xi64, #own", "#tile", ""),
        (_ALL_KNOW, "1xi64, #one", "#tile", "a barrier that several blocks of a cluster share is not"),
        (_ALL_KNOW, "2xi64, #own", "#older", "the layout of tc_gen5_commit across blocks of a cluster"),
        (_FROM_FIRST, "2xi64, #own", "#tile", ""),
        (_FROM_FIRST, "1xi64, #one", "#tile", "a barrier that several blocks of a cluster share is not"),
        (_ARRIVE, "2xi64, #own", "#tile", "arrive_barrier with multicast is not modelled"),
    ],
)
def test_what_several_followed_blocks_may_do(operation: str, barrier: str, operand: str, reason: str) -> None:
    types = "!ttg.memdesc<BAR, #smem>, !ttg.memdesc<64x64xf16, OPERAND, #smem>"
    text = _COMMIT.replace("OPERATION", f"{operation} : {types}")
    module = read_module(text.replace("BAR", barrier).replace("OPERAND", operand))
    found = Cluster.of(module).reached(module, {operation.partition(" ")[0]}, 2)
    assert found.startswith(reason) and bool(found) == bool(reason)


_HALVES = r"ttng.cluster_arrive {relaxed = false}\n ttng.cluster_wait"


def test_a_cluster_barrier_in_two_halves() -> None:
    assert is_proved(_changed("sent_to_both", "", "ttng.cluster_barrier", _HALVES))
    for half in ("ttng.cluster_wait", r"ttng.cluster_arrive {relaxed = false}"):
        answers = _changed("fetched_by_halves", "cluster barrier", "ttng.cluster_barrier", half)
        assert any("without its other half is not modelled" in one for one in reasons(answers))
        assert not findings(answers)


def test_a_barrier_that_others_may_still_use_is_not_invalidated() -> None:
    answers = _changed("tensor_by_halves", "several: ", r"(?m)^.*ttng.wait_barrier %bar_0.*$", "", n=1)
    said = "nothing shows that other blocks are done with bar of block 0 when it is invalidated"
    assert said in reasons(answers)
    assert "tmem_load reads acc of block 0, which tc_gen5_mma may" in findings(answers)[0].message


def test_barriers_of_an_older_triton_are_not_taken_for_known() -> None:
    for name, case in (("sent_to_both", ""), ("met", "one barrier"), ("tensor_by_halves", "each: ")):
        answers = _changed(name, case, r", \"ttng.two-ctas\" = false", "")
        assert {type(one.verdict) for one in answers} == {Unproven}
        assert any("of an older Triton is not modelled" in one for one in reasons(answers))


@pytest.mark.parametrize("blocks", ["0", "3", "-2", '"two"'])
def test_a_number_of_blocks_that_no_cluster_has(blocks: str) -> None:
    for name, case in (("sent_to_both", ""), ("met", "own")):
        answers = _changed(name, case, r'"ttg.num-ctas" = 2 : i32', f'"ttg.num-ctas" = {blocks}')
        assert answers and {type(one.verdict) for one in answers} == {Unproven}


def test_a_cluster_may_be_too_large(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("kerncap.sanitizer.shared.check.MAX_BLOCKS", 1)
    assert set(reasons(answers_of(clustered("sent_to_both", ""), n=_N))) == {
        "a cluster has more than 1 blocks"
    }
    assert is_proved(answers_of(clustered("fetched_by_halves", "")))


_ALIASES = {
    "#rows": "#ttg.blocked<{sizePerThread = [1, 1], order = [1, 0], CGALayout = [[1, 0], [2, 0]]}>",
    "#both": "#ttg.blocked<{sizePerThread = [1, 1], order = [1, 0], CGALayout = [[1, 0], [0, 1]]}>",
    "#shared": "#ttg.nvmma_shared<{swizzlingByteWidth = 128, CGALayout = [[0, 1], [0, 0]]}>",
    "#mma": "#ttg.nvidia_mma<{versionMajor = 3, instrShape = [16, 64, 16], CGALayout = [[1, 0], [0, 1]]}>",
    "#linear": "#ttg.linear<{register = [[1, 0], [0, 2]], lane = [], block = [[0, 1], [2, 0]]}>",
    "#mixed": "#ttg.linear<{register = [[1, 0], [2, 1]], lane = [], block = [[0, 1], [2, 0]]}>",
    "#diagonal": "#ttg.blocked<{CGALayout = [[1, 1], [0, 0]]}>",
    "#gap": "#ttg.blocked<{CGALayout = [[2, 0], [0, 0]]}>",
    "#twice": "#ttg.blocked<{CGALayout = [[1, 0], [1, 0]]}>",
    "#pair": "#ttg.blocked<{CGALayout = [[1, 0]]}>",
    "#older": "#ttg.blocked<{CTAsPerCGA = [4, 1], CTASplitNum = [4, 1], CTAOrder = [1, 0]}>",
}
_SHARES: list[tuple[str, Share | None]] = [
    ("tensor<64x32xf16, #rows>", ((0, 16), (0, 32))),
    ("tensor<64x32xf16, #both>", ((0, 32), (1, 16))),
    ("tensor<64xf16, #ttg.slice<{dim = 1, parent = #both}>>", ((0, 32), None)),
    ("tensor<64xf16, #ttg.slice<{dim = 0, parent = #both}>>", (None, (0, 32))),
    ("tensor<64x32xf16, #ttg.dot_op<{opIdx = 0, parent = #mma, kWidth = 2}>>", ((0, 32), None)),
    ("tensor<64x32xf16, #ttg.dot_op<{opIdx = 1, parent = #mma, kWidth = 2}>>", (None, (1, 16))),
    ("!ttg.memdesc<3x64x32xf16, #shared, #smem, mutable>", ((2, 16), None)),
    ("!ttg.memdesc<64x32xf16, #shared, #smem, mutable, 64x32>", ((1, 16), None)),
    ("tensor<4x4xf16, #linear>", ((1, 1), (0, 2))),
    ("tensor<4x4xf16, #mixed>", None),
    ("tensor<64x32xf16, #diagonal>", None),
    ("tensor<64x32xf16, #gap>", None),
    ("tensor<64x32xf16, #twice>", None),
    ("tensor<64x32xf16, #pair>", None),
    ("tensor<2x32xf16, #rows>", None),
    ("tensor<64xf16, #rows>", None),
    ("tensor<64x32xf16, #older>", None),
    ("tensor<64x32xf16>", None),
]  # fmt: skip


@pytest.mark.parametrize(("text", "share"), _SHARES)
def test_the_part_of_a_block_by_its_layout(text: str, share: Share | None) -> None:
    assert Cluster(4, False, _ALIASES).share(Types().read(text)) == share


def test_the_bytes_of_a_block() -> None:
    buffer = OpaqueType("!ttg.memdesc<3x64x32xf16, #shared, #smem, mutable>")
    assert Cluster(4, False, _ALIASES).size_bytes(buffer) == 3 * 64 * 16 * 2
    assert Cluster(1, False, _ALIASES).size_bytes(buffer) == 3 * 64 * 32 * 2
    assert Cluster(8, False, _ALIASES).size_bytes(buffer) is None


@pytest.mark.parametrize("name", ["fetched_by_halves", "copied_by_halves", "multiplied_by_halves"])
def test_a_layout_that_is_not_understood_is_undecided(name: str) -> None:
    text = clustered(name, "")
    unknown = text.replace("CGALayout = [[1, 0]]", "CTASplitNum = [2, 1]")
    assert unknown != text
    answers = answers_of(unknown)
    assert answers and {type(one.verdict) for one in answers} == {Unproven}

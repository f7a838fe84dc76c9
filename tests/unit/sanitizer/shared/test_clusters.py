"""Clusters of blocks: as one block while each keeps to its part, else undecided by name."""

from __future__ import annotations

from functools import cache
from typing import Any

import pytest

from kerncap.sanitizer.findings import Unproven
from kerncap.sanitizer.shared.clusters import Cluster, Share
from kerncap.sanitizer.ttir.ir import OpaqueType
from kerncap.sanitizer.ttir.type_text import Types
from tests.unit.sanitizer.compiled import ttir_of
from tests.unit.sanitizer.shared.test_shared import answers_of, findings, is_proved

kernels = pytest.importorskip("tests.unit.sanitizer.shared.cluster_kernels", reason="no Triton with Gluon")
long = pytest.mark.long


def _tile(rows: int, cut: list[list[int]], columns: int = 64) -> str:
    layout = "NVMMASharedLayout(swizzle_byte_width=128, element_bitwidth=16, rank=2"
    return f"tensordesc<fp16[{rows},{columns}],{layout}, cga_layout={cut})>"


_ROWS, _ALL, _COLUMNS = [[1, 0]], [[0, 0]], [[0, 1]]
_SIGNATURES = {
    "fetched_by_halves": {"desc": _tile(64, _ROWS), "out_desc": _tile(64, _ROWS), "n": "i32"},
    "copied_by_halves": {"x_ptr": "*fp32", "out_ptr": "*fp32"},
    "multiplied_by_halves": {"a_desc": _tile(128, _ROWS), "b_desc": _tile(64, _ALL)},
    "tensor_by_halves": {"a_desc": _tile(256, _ROWS), "b_desc": _tile(64, _ALL)},
    "taken_over": {"n": "i32"},
    "met": {},
}


@cache
def clustered(name: str, case: str) -> str:
    signature = dict(_SIGNATURES[name])
    if case == "pair":
        signature["b_desc"] = _tile(64, _COLUMNS, 128)
    constants: dict[str, Any] = {} if name == "taken_over" else {"CASE": case}
    target = ("cuda", 100 if name in ("tensor_by_halves", "taken_over") else 90, 32)
    return ttir_of(getattr(kernels, name), signature, constants, target, "ttgir", num_ctas=2)


RIGHT = [
    ("fetched_by_halves", ""),
    ("fetched_by_halves", "cluster barrier"),
    ("copied_by_halves", ""),
    ("copied_by_halves", "columns"),
    ("multiplied_by_halves", ""),
    ("multiplied_by_halves", "registers"),
    ("tensor_by_halves", ""),
    ("met", ""),
]


@pytest.mark.parametrize(("name", "case"), RIGHT)
def test_blocks_that_keep_to_their_parts_are_proved(name: str, case: str) -> None:
    answers = answers_of(clustered(name, case))
    assert is_proved(answers), [one for one in answers if isinstance(one.verdict, Unproven)]


BROKEN = [
    ("fetched_by_halves", "no wait", "local_load reads slots[0], which a TMA copy may still be writing"),
    ("fetched_by_halves", "no store wait", "overwrites slots[0], which a TMA store may still be reading"),
    ("fetched_by_halves", "all bytes", "phase 0 of bar[0] never ends: it lacks 4,096 announced bytes"),
    ("copied_by_halves", "no wait", "local_load reads memory, which async_copy may still be writing"),
    ("multiplied_by_halves", "slot in use", "a TMA copy overwrites b, which warp_group_dot may still be"),
    ("tensor_by_halves", "no wait", "tmem_load reads acc, which tc_gen5_mma may still be writing"),
]


@pytest.mark.parametrize(("name", "case", "said"), BROKEN)
def test_a_mistake_within_the_parts_is_found(name: str, case: str, said: str) -> None:
    assert any(said in one.message for one in findings(answers_of(clustered(name, case))))


LEFT_OPEN = [
    ("fetched_by_halves", "other halves", "local_load between blocks of a cluster is not modelled"),
    ("met", "one barrier", "a barrier that several blocks of a cluster share is not modelled"),
    (
        "fetched_by_halves",
        "arrival from the first",
        "arrive_barrier from another block of the cluster is not",
    ),
    ("copied_by_halves", "copy of other halves", "async_copy_global_to_local between blocks of a cluster is"),
    ("copied_by_halves", "store of other halves", "local_store between blocks of a cluster is not modelled"),
    ("copied_by_halves", "allocated with other halves", "local_alloc between blocks of a cluster is not"),
    ("copied_by_halves", "rows", "a part of a buffer that is cut across blocks of a cluster is not"),
    ("copied_by_halves", "gather", "local_gather in a cluster of several blocks is not modelled"),
    ("copied_by_halves", "sent to the other", "ttng.async_shared_store is not modelled"),
    ("tensor_by_halves", "pair", "tcgen05 by two blocks of a cluster is not modelled"),
    ("tensor_by_halves", "multicast copy", "async_tma_copy_global_to_local with multicast is not modelled"),
    ("tensor_by_halves", "multicast commit", "tc_gen5_mma with multicast is not modelled"),
    ("tensor_by_halves", "commit for several", "tc_gen5_commit for several blocks of a cluster is not"),
    ("taken_over", "", "clc_try_cancel in a cluster of several blocks is not modelled"),
]


@pytest.mark.parametrize(("name", "case", "said"), LEFT_OPEN)
def test_what_leaves_a_part_is_undecided_by_name(name: str, case: str, said: str) -> None:
    answers = answers_of(clustered(name, case))
    assert answers and {type(one.verdict) for one in answers} == {Unproven}
    assert any(said in one.verdict.reason for one in answers if isinstance(one.verdict, Unproven))


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

"""The mistakes that Triton's ConSan is tested with: the table of docs/shared-memory.md, row by row."""

from __future__ import annotations

import re
from pathlib import Path
from typing import Any

import pytest

from kerncap.sanitizer.findings import Unproven
from tests.unit.sanitizer.compiled import ttir_of
from tests.unit.sanitizer.shared import test_clusters, test_exchange
from tests.unit.sanitizer.shared.test_shared import answers_of, findings, is_proved

seeded = pytest.importorskip("tests.unit.sanitizer.shared.seeded", reason="no Triton with Gluon")

_PAGE = Path(__file__).parents[4] / "docs/shared-memory.md"
_SWIZZLED = "NVMMASharedLayout(swizzle_byte_width=128, element_bitwidth=16, rank=2)"
_TILE, _TALL = (f"tensordesc<fp16[{rows},64],{_SWIZZLED}>" for rows in (64, 128))
_SIGNATURES: dict[str, dict[str, str]] = {
    "loaded": {"desc": _TILE, "out_ptr": "*fp16"},
    "stored": {"desc": _TILE},
    "tensor": {"desc": _TALL},
    "moved": {"in_ptr": "*i32", "out_ptr": "*i32"},
    "again": {"desc": _TALL, "in_ptr": "*fp16", "n": "i32"},
    "ring": {"a_desc": _TALL, "b_desc": _TILE, "n": "i32"},
    "warp_group": {"a_desc": _TILE, "b_desc": _TILE, "n": "i32"},
    "copies": {"in_ptr": "*fp32"},
    "partitions": {"n": "i32"},
    "copied_apart": {"in_ptr": "*fp32"},
    "fenced": {"desc": _TILE},
    "cancelled": {"out_ptr": "*i1"},
}
_BLACKWELL = ("tensor", "moved", "again", "ring", "tensor_parts", "cancelled")
_ARRIVES, _WAITS = ("arrive", 0), ("wait", 1, 0)


def _plan(one: tuple[Any, ...], other: tuple[Any, ...], count: int = 1, before: bool = False) -> Any:
    return {"ONE": one, "OTHER": other, "COUNT": count, "BEFORE": before}


# For each row of the page: kernels, constants, and what a message says ("": proved).
ROWS: dict[str, list[tuple[str, Any, str]]] = {
    "asynchronous copy into a slot whose copy is in flight": [
        ("copies", "too many in flight", "async_copy overwrites slots[0], which async_copy may still")],
    "asynchronous copy read by another partition before its group is waited for": [
        ("copied_apart", "second copy", "local_load reads slots[1], which async_copy may still be writing")],
    "TMA copy read before its barrier": [
        ("loaded", "one barrier", "local_load reads slots[1], which a TMA copy may still be writing")],
    "one of two barriers not waited for": [
        ("loaded", "one of two", "local_load reads slots[1], which a TMA copy may still be writing")],
    "wait for another barrier": [("loaded", "other barrier", "and the default warps waited for none")],
    "wait for the barrier of an earlier copy into the slot": [
        ("loaded", "older barrier", "it ends with phase 0 of bars[1], and the default warps waited for")],
    "a store into a slot that a TMA copy is writing": [
        ("loaded", "stored meanwhile", "local_store overwrites slots[1], which a TMA copy may still be")],
    "more or fewer bytes announced than copied": [
        ("loaded", "bytes over", "never ends: it lacks 16 announced bytes"),
        ("loaded", "bytes of one", "8,192 bytes were announced and 16,384 are copied")],
    "source of a TMA store overwritten": [
        ("stored", "second source", "local_store overwrites slots[1], which a TMA store may still be")],
    "wgmma operand overwritten before its wait": [
        ("warp_group", "stored", "local_store overwrites a[0], which warp_group_dot may still be reading"),
        ("warp_group", "stored, one in flight", "overwrites a[0], which warp_group_dot may still")],
    "wgmma operand overwritten by another partition": [
        ("multiplied_apart", "second product", "which warp_group_dot may still be reading: no wait for")],
    "wgmma pipeline with a slot too few": [
        ("warp_group", "two slots", "a TMA copy overwrites a[0], which warp_group_dot may still be reading")],
    "tcgen05 operand overwritten by a TMA copy, a store or an asynchronous copy": [
        ("tensor", "operand fetched", "a TMA copy overwrites a, which tc_gen5_mma may still be reading"),
        ("tensor", "operand stored", "local_store overwrites a, which tc_gen5_mma may still be reading"),
        ("again", "copied", "async_copy overwrites a, which tc_gen5_mma may still be reading: no commit")],
    "tcgen05 operand allocated in a loop, without a wait for the product": [
        ("again", "allocated", "local_alloc overwrites operand, which tc_gen5_mma may still be reading")],
    "tcgen05 accumulator read or overwritten before its commit": [
        ("tensor", "accumulator read", "tmem_load reads acc[0], which tc_gen5_mma may still be writing"),
        ("tensor", "accumulator written", "tmem_store overwrites acc[1], which tc_gen5_mma may still be")],
    "wait for the commit of an earlier product": [
        ("tensor", "first product", "tmem_store overwrites acc[1], which tc_gen5_mma may still be writing")],
    "tcgen05 pipeline with a slot too few": [
        ("ring", 2, "a TMA copy overwrites a[0], which tc_gen5_mma may still be reading")],
    "tcgen05 copy: source overwritten, or result read, before its commit": [
        ("moved", "source stored", "local_store overwrites source, which tmem_copy may still be reading"),
        ("moved", "result read", "tmem_load reads target, which tmem_copy may still be writing")],
    "partitions that write and read a slot without a wait": [
        ("partitions", "one wait", "overwrites slots[0], which local_load may still be reading: nothing"),
        ("partitions", "no wait of a reader", "reads slots[0], which local_store may still be writing"),
        ("partitions", "no wait of the writer", "never ends: it lacks 1 of 1 arrivals")],
    "partition that reads a slot whose barrier comes later": [
        ("partitions", "other slot", "local_load reads slots[1], which local_store may still be writing")],
    "no `fence_async_shared` between a partition's store and another's TMA store": [
        ("fenced", "none", "which local_store has written, without fence_async_shared between"),
        ("fenced", "fence after the arrival", "without fence_async_shared between"),
        ("fenced", "fence before the wait", "without fence_async_shared between")],
    "partitions that use overlapping parts of a buffer in no order": [
        ("parts", "no order", "local_load reads memory, which local_store may still be writing"),
        ("tensor_parts", "no order", "tmem_store overwrites memory, which tmem_load may still be reading")],
    "partitions that wait for each other, or for no one": [
        ("waits", _plan((("wait", 1, 0), _ARRIVES), (("wait", 0, 0), ("arrive", 1))), "never ends"),
        ("waits", _plan((_WAITS,), (("wait", 0, 0),)), "never ends"),
        ("waits", _plan((("arrive", 1),), (("wait", 0, 0),)), "phase 0 of bars[0] never ends: it lacks 1")],
    "too few arrivals": [
        ("barriers", "too few", "phase 0 of bars[0] never ends: it lacks 1 of 2 arrivals"),
        ("waits", _plan((_ARRIVES, _WAITS), (("arrive", 1), ("wait", 0, 0)), 2), "it lacks 1 of 2 arrivals")],
    "too many arrivals, so that the phase has passed": [
        ("barriers", "too many", "the wait for phase 2 of bars[0] never ends")],
    "arrival with a count above what is pending": [
        ("barriers", "underflow", "arrives 3 times at bars[0], whose phase 0 lacks 1 arrivals")],
    "barrier used before `init`": [
        ("barriers", ("no init", use), "uses the barrier bars[0], which is not initialised")
        for use in ("arrive", "wait", "expect", "invalidate")],
    "barrier used after `invalidate`": [
        ("barriers", ("invalid", use), "uses the barrier bars[0], which is not initialised")
        for use in ("arrive", "wait", "expect")],
    "barrier initialised again without `invalidate`": [
        ("barriers", "again", "bars[0] is a barrier already: it is not invalidated before")],
    "memory read before anything is written": [
        ("tensor", "uninitialised", "tc_gen5_mma reads acc[0] before anything is written there")],
    "cluster launch control: answer read before its barrier": [
        ("cancelled", "no wait", "clc_load_result reads result, which clc_try_cancel may still be writing"),
        ("cancelled", "half the bytes", "never ends: it lacks an announcement of 8 bytes that copies bring")],
    "phases in turn, a TMA copy that ends a wait": [
        ("waits", _plan((("wait", 0, 0), _ARRIVES), (("wait", 0, 1),), before=True), ""),
        ("waits", _plan((_ARRIVES, _WAITS), (("arrive", 1), ("wait", 0, 0))), ""),
        ("loaded", "right", "")],
}  # fmt: skip
# The same kernels without a mistake.
RIGHT = [
    *((name, "right") for name in ("tensor", "moved", "again", "warp_group", "copies", "partitions")),
    *((name, "right") for name in ("stored", "copied_apart", "multiplied_apart", "cancelled", "barriers")),
    *(("loaded", case) for case in ("right newer barrier", "right one barrier")),
    *(("fenced", f"right fence of the {one}") for one in ("reader", "writer")),
    *((name, case) for name in ("parts", "tensor_parts") for case in ("right order", "right apart")),
    ("tensor", "right first product"), ("partitions", "right two slots"), ("barriers", "right again"),
    ("ring", 3),
]  # fmt: skip


def compiled(name: str, case: Any) -> str:
    constants: dict[str, Any] = {"ring": {"SLOTS": case}}.get(name) or {"CASE": case}
    if name == "waits":
        constants = case
    if name == "barriers":
        constants = dict(
            zip(("CASE", "USE"), case if isinstance(case, tuple) else (case, "arrive"), strict=True)
        )
    target = ("cuda", 100 if name in _BLACKWELL else 90, 32)
    return ttir_of(getattr(seeded, name), _SIGNATURES.get(name, {}), constants, target, "ttgir")


def table() -> dict[str, str]:
    """The page's rows: what kerncap answers."""
    rows = re.findall(r"^\| (.+?) \| .+? \| (\w+) \|$", _PAGE.read_text(), re.MULTILINE)
    return {name: answer for name, answer in rows if name != "mistake"}


def test_the_page_has_every_row() -> None:
    expected = {name: "found" if cases[0][2] else "proved" for name, cases in ROWS.items()}
    expected |= dict.fromkeys((*test_clusters.ROWS, *test_exchange.ROWS), "found")
    assert table() == expected


@pytest.mark.parametrize("row", sorted(ROWS))
def test_a_row(row: str) -> None:
    for name, case, said in ROWS[row]:
        answers = answers_of(compiled(name, case), n=5)
        if said:
            assert any(said in one.message for one in findings(answers)), (name, case, findings(answers))
        else:
            assert is_proved(answers), (name, case, answers)


@pytest.mark.parametrize(("name", "case"), RIGHT)
def test_without_the_mistake_all_is_proved(name: str, case: Any) -> None:
    answers = answers_of(compiled(name, case), n=5)
    assert is_proved(answers), [one for one in answers if isinstance(one.verdict, Unproven)] or findings(
        answers
    )

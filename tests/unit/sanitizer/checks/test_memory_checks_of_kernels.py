"""The memory checks on real kernels, from Triton's source to a verdict; both tiers."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import numpy as np
import numpy.typing as npt
import pytest
import triton
import triton.language as tl

from kerncap.sanitizer.analysis import Analysis, Options
from kerncap.sanitizer.checks import alignment, descriptor, promises, uninit
from kerncap.sanitizer.checks.concrete_tier import settle
from kerncap.sanitizer.checks.events.watchers import FOREIGN, VALUE_NOT_KNOWN
from kerncap.sanitizer.checks.read_source import ContentsSource
from kerncap.sanitizer.engine import sanitize
from kerncap.sanitizer.findings import Finding, Proved, Unproven, Verdict, Violated
from kerncap.sanitizer.launch import Launch
from kerncap.sanitizer.symbolic.solve import Solver
from kerncap.sanitizer.ttir import read_module
from kerncap.sanitizer.ttir.ir import Operation
from kerncap.sanitizer.walk import walk
from kerncap.sanitizer.walk.access import Access
from tests.unit.sanitizer.checks.memory_launches import ArrayContents
from tests.unit.sanitizer.compiled import launch_of
from tests.unit.sanitizer.concrete.launches import launch_of as launch_of_text

BLOCK = 64


def analysis_of(launch: Launch, **options: Any) -> Analysis:
    module = read_module(launch.ttir)
    solver = Solver(ContentsSource(launch))
    walked = walk(module, module.kernel, launch, solver)
    return Analysis(launch, module, module.kernel, walked, solver, Options(**options))


def with_memory(
    launch: Launch, contents: dict[str, npt.NDArray[Any]] | None = None, fresh: dict[str, Any] | None = None
) -> Launch:
    """``fresh``: per storage the slices of bytes that nobody wrote; all else was written."""
    written = []
    for one in launch.storages:
        mask = np.ones(one.size_bytes, np.bool_)
        for part in (fresh or {}).get(one.name, ()):
            mask[part] = False
        written.append(mask)
    arrays = [(contents or {}).get(one.name) for one in launch.storages]
    return replace(launch, contents=ArrayContents(arrays, written))


def accesses(analysis: Analysis, kind: str) -> list[Access]:
    return [one for one in analysis.walked.accesses if one.kind == kind]


def finding_of(verdict: Verdict | None) -> Finding:
    assert isinstance(verdict, Violated), verdict
    (finding,) = verdict.findings
    return finding


def settled(analysis: Analysis, operation: Operation, check: str) -> Verdict:
    return settle(analysis, [(operation, check)]).verdicts[operation, check]


@triton.jit
def copy(x, y, n, m, BLOCK: tl.constexpr, EXP: tl.constexpr):
    offs = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    value = tl.load(x + offs, mask=offs < n)
    tl.store(y + offs, tl.exp(value) if EXP else value, mask=offs < m)


def copied(n: int, m: int, exp: bool = True, **memory: Any) -> Analysis:
    launch = launch_of(
        copy, (4,), {"x": "*fp32", "y": "*fp32", "n": "i32", "m": "i32"}, {"BLOCK": BLOCK, "EXP": exp},
        x=(256,), y=(256,), n=n, m=m,
    )  # fmt: skip
    return analysis_of(with_memory(launch, **memory))


def test_fresh_memory_that_is_loaded() -> None:
    fresh = {"x": [slice(800, 1024)]}
    dirty, clean = copied(256, 256, fresh=fresh), copied(200, 200, fresh=fresh)
    (load,) = accesses(dirty, "load")
    for verdict in (uninit.check(dirty, load), settled(dirty, load.operation, "uninit")):
        finding = finding_of(verdict)
        assert (finding.argument, finding.access) == ("x", "load")
        assert (finding.place.program_id, finding.place.lane) == ((3, 0, 0), (8,))
        assert finding.place.element == 200
    (load,) = accesses(clean, "load")
    assert isinstance(uninit.check(clean, load), Proved)
    assert isinstance(settled(clean, load.operation, "uninit"), Proved)


@triton.jit
def drops(x, table, y, n, HOW: tl.constexpr, BLOCK: tl.constexpr):
    offs = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    inside = offs < n
    value = tl.load(x + offs)
    if HOW == "where":
        tl.store(y + offs, tl.where(inside, tl.exp(value), 0.0))
    elif HOW == "mask":
        tl.store(y + offs, value, mask=inside)
    elif HOW == "masked sum":
        tl.atomic_add(y, tl.sum(tl.where(inside, value, 0.0)))
    elif HOW == "integer times zero":
        tl.store(y + offs, value.to(tl.int32) * inside.to(tl.int32))
    elif HOW == "sum":
        tl.atomic_add(y, tl.sum(value))
    elif HOW == "times zero":
        tl.store(y + offs, value * inside.to(tl.float32))
    elif HOW == "one too many":
        tl.store(y + offs, tl.where(offs <= n, value, 0.0))
    elif HOW == "address":
        tl.store(y + offs, tl.load(table + (value > 0).to(tl.int32)), mask=inside)
    elif HOW == "mask of it":
        tl.store(y + offs, 1.0, mask=(value > 0) | inside)
    elif HOW == "branch":
        if tl.max(tl.abs(value)) > 0:
            tl.store(y + offs, 1.0)
    else:
        tl.store(y + offs, tl.where(value > 0, 1.0, 0.0))


_DROPPED = ("where", "mask", "masked sum", "integer times zero")
_USED = ("sum", "times zero", "one too many", "address", "mask of it", "branch", "condition")


@pytest.mark.parametrize("how", [*_DROPPED, *_USED])
def test_memory_that_nobody_wrote_is_a_finding_where_it_is_used(how: str) -> None:
    launch = launch_of(
        drops, (4,), {"x": "*fp32", "table": "*fp32", "y": "*fp32", "n": "i32"},
        {"BLOCK": BLOCK, "HOW": how}, x=(256,), table=(2,), y=(256,), n=200,
    )  # fmt: skip
    contents = {"x": np.ones(256, np.float32), "table": np.ones(2, np.float32), "y": np.ones(256, np.float32)}
    report = sanitize(with_memory(launch, contents=contents, fresh={"x": [slice(800, 1024)]}))
    found = [(one.check, one.access, one.argument) for one in report.findings]
    assert found == ([("uninit", "load", "x")] if how in _USED else [])
    assert not [one for one in report.settled if isinstance(one.verdict, Unproven)]


@triton.jit
def either(x, y, out, n, BLOCK: tl.constexpr):
    offs = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    tl.store(out + offs, tl.load(tl.where(offs < n, x + offs, y + (offs - n))))


def test_each_of_two_fresh_tensors_that_one_load_reads() -> None:
    launch = launch_of(
        either, (4,), {"x": "*fp32", "y": "*fp32", "out": "*fp32", "n": "i32"}, {"BLOCK": BLOCK},
        x=(100,), y=(156,), out=(256,), n=100,
    )  # fmt: skip
    whole = [slice(None)]
    for fresh, expected in (({"x": whole, "y": whole}, {"x", "y"}), ({"y": whole}, {"y"})):
        analysis = analysis_of(with_memory(launch, fresh=fresh))
        (load,) = accesses(analysis, "load")
        verdict = uninit.check(analysis, load)
        assert isinstance(verdict, Violated)
        assert {finding.argument for finding in verdict.findings} == expected


def test_undefined_lanes_that_are_stored() -> None:
    contents = {"x": np.ones(256, np.float32)}
    dirty, clean = copied(200, 201, contents=contents), copied(200, 200, contents=contents)
    (store,) = accesses(dirty, "store")
    for verdict in (uninit.check(dirty, store), settled(dirty, store.operation, "uninit")):
        finding = finding_of(verdict)
        assert (finding.argument, finding.place.element) == ("y", 200)
        assert "the masked load of value at line" in finding.message
    (store,) = accesses(clean, "store")
    assert isinstance(uninit.check(clean, store), Proved)
    assert isinstance(settled(clean, store.operation, "uninit"), Proved)


def test_a_left_out_lane_that_is_stored_as_the_zero_that_it_is() -> None:
    analysis = copied(200, 201, exp=False)
    (store,) = accesses(analysis, "store")
    finding = finding_of(uninit.check(analysis, store))
    assert (finding.note, finding.place.element) == ("portability", 200)
    assert "puts zeros into lanes" in finding.message and "load of value at line" in finding.message


def test_without_contents_the_expressions_confirm_what_is_undefined() -> None:
    dirty = copied(200, 201)
    (store,) = accesses(dirty, "store")
    assert finding_of(uninit.check(dirty, store)).place.element == 200
    assert settled(dirty, store.operation, "uninit") == Unproven(VALUE_NOT_KNOWN)


@triton.jit
def flagged(flags, y, n, least, BLOCK: tl.constexpr, GUARD: tl.constexpr):
    offs = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    flag = tl.load(flags + offs, mask=offs < n) >= least
    if GUARD:
        flag = flag & (offs < n)
    tl.store(y + offs, 1.0, mask=flag)


@pytest.mark.parametrize("value", [0, 1])
def test_a_mask_made_of_undefined_lanes(value: int) -> None:
    flags = np.full(256, value, np.int32)
    for guard, least in ((False, 0), (False, 1), (True, 0)):
        launch = launch_of(
            flagged, (4,), {"flags": "*i32", "y": "*fp32", "n": "i32", "least": "i32"},
            {"BLOCK": BLOCK, "GUARD": guard}, flags=(256,), y=(256,), n=200, least=least,
        )  # fmt: skip
        analysis = analysis_of(with_memory(launch, contents={"flags": flags}))
        (store,) = accesses(analysis, "store")
        verdict = uninit.check(analysis, store)
        if guard:
            assert verdict is None
            assert isinstance(settled(analysis, store.operation, "uninit"), Proved)
        elif least:  # of a zero the mask says no
            assert finding_of(verdict).note == "portability"
        else:
            finding = finding_of(verdict)
            assert (finding.note, finding.place.program_id, finding.place.lane) == (None, (3, 0, 0), (8,))
            assert "address or mask depend on lanes that the masked load" in finding.message
            assert not isinstance(settled(analysis, store.operation, "uninit"), Proved)


@triton.jit
def in_rows(x, w, y, n, HOW: tl.constexpr, BLOCK: tl.constexpr):
    row = tl.program_id(0)
    offs = tl.arange(0, BLOCK)
    value = tl.load(x + row * n + offs, mask=offs < n)
    if HOW == "sum":
        made = tl.sum(value)
    elif HOW == "dropped":
        made = tl.sum(tl.where(offs < n, tl.exp(value), 0.0))
    elif HOW == "weighted":
        made = tl.sum(value * tl.load(w + offs, mask=offs < n))
    elif HOW == "scaled":
        made = tl.sum(value * tl.load(w + row) * tl.rsqrt(tl.sum(value * value) + 1.0))
    elif HOW == "scan weighted":
        made = tl.sum(tl.exp(tl.cumsum(value, 0)) * tl.load(w + offs, mask=offs < n))
    elif HOW == "exp of scan":
        made = tl.sum(tl.exp(tl.cumsum(value, 0)))
    elif HOW == "absmax":
        made = tl.max(tl.abs(value))
    elif HOW == "softmax":
        top = tl.max(tl.where(offs < n, value, -float("inf")))
        made = tl.sum(tl.exp(tl.where(offs < n, value, -float("inf")) - top))
    elif HOW == "max":
        made = tl.max(value)
    elif HOW == "min":
        made = tl.min(tl.abs(value))
    elif HOW == "argmax":
        made = tl.argmax(value, 0).to(tl.float32)
    elif HOW == "exp":
        made = tl.sum(tl.exp(value))
    elif HOW == "shifted":
        made = tl.sum(value - tl.load(w + row))
    else:
        made = tl.sum(tl.sort(value) * tl.where(offs == 0, 1.0, 0.0))
    tl.store(y + row, made)


# What left-out lanes, which hold zeros, do to what a row comes to.
NOTHING = ("sum", "weighted", "scaled", "absmax", "scan weighted")
SOMETHING = ("exp of scan", "max", "min", "argmax", "exp", "shifted")


@pytest.mark.parametrize(
    "how",
    [*NOTHING, *SOMETHING, pytest.param("first of sorted", marks=pytest.mark.long), "dropped", "softmax"],
)
def test_left_out_lanes_that_are_combined(how: str) -> None:
    launch = launch_of(
        in_rows, (4,), {"x": "*fp32", "w": "*fp32", "y": "*fp32", "n": "i32"},
        {"BLOCK": BLOCK, "HOW": how}, x=(4, 50), w=(64,), y=(4,), n=50,
    )  # fmt: skip
    contents = {"x": np.ones(200, np.float32), "w": np.ones(64, np.float32)}
    analysis = analysis_of(with_memory(launch, contents=contents))
    store = accesses(analysis, "store")[-1]
    verdict = uninit.check(analysis, store)
    if how in NOTHING:
        assert finding_of(verdict).note == "portability"
        assert isinstance(settled(analysis, store.operation, "uninit"), Proved)
    elif how in (*SOMETHING, "first of sorted"):
        if how != "first of sorted":  # which is too long a formula
            assert finding_of(verdict).note is None
        assert isinstance(settled(analysis, store.operation, "uninit"), Violated)
    else:
        assert verdict is None


@pytest.mark.parametrize("padding", ["", ", padding = 1 : i32"])
def test_lanes_outside_of_a_block_pointer_s_shape(padding: str) -> None:
    """Triton 3.9 has no block pointers any more; older texts have."""
    body = f"""
    %one = arith.constant 1 : i64
    %three = arith.constant 3 : i64
    %zero = arith.constant 0 : i32
    %b = tt.make_tensor_ptr %x, [%three], [%one], [%zero] {{order = array<i32: 0>}} : <tensor<4xi32>>
    %v = tt.load %b {{boundaryCheck = array<i32: 0>{padding}}} : !tt.ptr<tensor<4xi32>>
    %i = tt.make_range {{end = 4 : i32, start = 0 : i32}} : tensor<4xi32>
    %s = tt.splat %out : !tt.ptr<i32> -> tensor<4x!tt.ptr<i32>>
    %p = tt.addptr %s, %i : tensor<4x!tt.ptr<i32>>, tensor<4xi32>
    tt.store %p, %v : tensor<4x!tt.ptr<i32>>
    tt.return
    """
    text = "module {\n  tt.func public @kernel(%x: !tt.ptr<i32>, %out: !tt.ptr<i32>) {\n" + body + "  }\n}\n"
    arguments = {"x": np.arange(3, dtype=np.int32), "out": np.zeros(4, np.int32)}
    report = sanitize(launch_of_text(text, (1,), arguments, frozenset()))
    assert not report.findings
    noted = [f for one in report.settled if isinstance(one.verdict, Violated) for f in one.verdict.findings]
    assert [(one.note, one.place.lane) for one in noted] == ([] if padding else [("portability", (3,))])
    assert all("load by block pointer" in one.message for one in noted)


@triton.jit
def in_a_branch(x, count, y, n, BLOCK: tl.constexpr):
    offs = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    value = tl.load(x + offs, mask=offs < n)
    if n // tl.load(count) > -1:
        tl.store(y + offs, tl.load(x + offs, mask=offs < n), mask=offs < n)
    tl.store(y + offs, value, mask=offs < n)


def test_a_branch_on_what_has_no_value_is_told_from_one_by_a_left_out_lane() -> None:
    """The evaluation, which decides it, tells a division by zero and no left-out lane."""
    for count, verdict in ((1, Proved), (0, Violated)):
        launch = launch_of(
            in_a_branch, (4,), {"x": "*fp32", "count": "*i32", "y": "*fp32", "n": "i32"}, {"BLOCK": BLOCK},
            x=(256,), count=(1,), y=(256,), n=200,
        )  # fmt: skip
        contents = {"x": np.ones(256, np.float32), "count": np.full(1, count, np.int32)}
        analysis = analysis_of(with_memory(launch, contents=contents))
        load = accesses(analysis, "load")[-1]
        assert isinstance(settled(analysis, load.operation, "uninit"), verdict)


@triton.jit
def in_blocks(x, y, n, HOW: tl.constexpr, BLOCK: tl.constexpr):
    offs = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    if HOW == "shifted":
        value = tl.load(x + offs - 1, mask=offs > 0)
    else:
        value = tl.load(x + offs, mask=offs < n)
    total = tl.sum(value)
    tl.store(y + tl.program_id(0), tl.exp(total) if HOW != "sum" else total)


@pytest.mark.parametrize(
    ("how", "n", "counts"),
    [("exp", 200, False), ("exp", 100, True), ("sum", 100, False), ("shifted", 256, False)],
)
def test_a_block_that_is_left_out_whole(how: str, n: int, counts: bool) -> None:
    """Of four blocks of 64: the last one's zeros hold no data, and neither does the result."""
    launch = launch_of(
        in_blocks, (4,), {"x": "*fp32", "y": "*fp32", "n": "i32"}, {"BLOCK": BLOCK, "HOW": how},
        x=(256,), y=(4,), n=n,
    )  # fmt: skip
    analysis = analysis_of(with_memory(launch, contents={"x": np.ones(256, np.float32)}))
    store = accesses(analysis, "store")[-1]
    assert finding_of(uninit.check(analysis, store)).note == (None if counts else "portability")


@triton.jit
def in_a_loop(x, y, n, HOW: tl.constexpr, BLOCK: tl.constexpr):
    row = tl.program_id(0)
    total = tl.zeros((BLOCK,), tl.float32)
    for start in range(0, n, BLOCK):
        offs = start + tl.arange(0, BLOCK)
        value = tl.load(x + row * n + offs, mask=offs < n)
        if HOW == "exp":
            value = tl.exp(value)
        total += value * value
    if HOW == "exp of the sum":
        total = tl.exp(total)
    tl.store(y + row, tl.sum(total))


@pytest.mark.parametrize(
    ("how", "n", "counts"),
    [
        ("sum", 150, False),
        ("sum", 50, False),
        ("exp of the sum", 150, False),  # every lane has an iteration with data
        ("exp of the sum", 50, True),  # of others none has
        ("exp", 150, True),
    ],
)
def test_left_out_lanes_that_a_loop_adds_up(how: str, n: int, counts: bool) -> None:
    launch = launch_of(
        in_a_loop, (4,), {"x": "*fp32", "y": "*fp32", "n": "i32"}, {"BLOCK": BLOCK, "HOW": how},
        x=(4, n), y=(4,), n=n,
    )  # fmt: skip
    analysis = analysis_of(with_memory(launch, contents={"x": np.ones(4 * n, np.float32)}))
    store = accesses(analysis, "store")[-1]
    assert finding_of(uninit.check(analysis, store)).note == (None if counts else "portability")


@triton.jit
def product(a, b, y, n, HOW: tl.constexpr, BLOCK: tl.constexpr):
    i, j = tl.arange(0, BLOCK)[:, None], tl.arange(0, BLOCK)[None, :]
    rows = tl.load(a + i * BLOCK + j, mask=(i < n) & (j < n))
    columns = tl.load(b + i * BLOCK + j, mask=(i < n) & (j < n))
    made = tl.dot(rows, columns)
    if HOW == "exp":
        made = tl.dot(tl.exp(made), columns)
    elif HOW == "exp and ones":
        made = tl.dot(tl.exp(made), tl.load(b + i * BLOCK + j, mask=(i < n) & (j < n), other=1.0))
    elif HOW == "sum of exp":
        made = tl.exp(made) / tl.sum(tl.exp(made), 1)[:, None]
    elif HOW == "twice":
        made = tl.dot(tl.where(i >= j, made, 0.0), columns)
    tl.store(y + i * BLOCK + j, made, mask=(i < n) & (j < n))


@pytest.mark.parametrize(
    ("how", "counts"),
    [
        ("plain", False),
        ("twice", False),
        ("exp", False),  # exp(0) times 0
        ("exp and ones", True),
        ("sum of exp", True),
    ],
)
def test_left_out_lanes_in_a_product_of_matrices(how: str, counts: bool) -> None:
    launch = launch_of(
        product, (1,), {"a": "*fp32", "b": "*fp32", "y": "*fp32", "n": "i32"},
        {"BLOCK": 16, "HOW": how}, a=(16, 16), b=(16, 16), y=(16, 16), n=10,
    )  # fmt: skip
    contents = {name: np.ones(256, np.float32) for name in "ab"}
    analysis = analysis_of(with_memory(launch, contents=contents))
    (store,) = accesses(analysis, "store")
    assert finding_of(uninit.check(analysis, store)).note == (None if counts else "portability")


@triton.jit
def gather(index, x, y, n, BLOCK: tl.constexpr):
    offs = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    at = tl.load(index + offs, mask=offs < n)
    tl.store(y + offs, tl.load(x + at, mask=offs < n, other=0.0), mask=offs < n)


def gathered(indices: npt.NDArray[np.int32], **memory: Any) -> Analysis:
    launch = launch_of(
        gather, (4,), {"index": "*i32", "x": "*fp32", "y": "*fp32", "n": "i32"}, {"BLOCK": BLOCK},
        index=(256,), x=(100,), y=(256,), n=200,
    )  # fmt: skip
    return analysis_of(with_memory(launch, contents={"index": indices}, **memory))


def test_an_undefined_index_under_the_same_mask_is_harmless() -> None:
    analysis = gathered(np.arange(256, dtype=np.int32) % 100)
    for access in analysis.walked.accesses:
        assert isinstance(uninit.check(analysis, access), Proved | None), access.location  # type: ignore[arg-type]
        for check in ("uninit", "oob", "alignment", "overflow"):
            verdict = settled(analysis, access.operation, check)
            assert verdict == Proved("evaluated", contents=True)


def test_an_index_from_memory_that_leaves_the_tensor() -> None:
    indices = np.arange(256, dtype=np.int32) % 100
    indices[[70, 130]] = 103, -5
    analysis = gathered(indices)
    load = accesses(analysis, "load")[1]
    finding = finding_of(settled(analysis, load.operation, "oob"))
    assert (finding.argument, finding.access, finding.contents) == ("x", "load", True)
    assert (finding.place.program_id, finding.place.lane) == ((1, 0, 0), (6,))
    assert (finding.place.element, finding.beyond_bytes) == (103, 12)
    assert "12 bytes past the end of x" in finding.message
    # the masked-off tail of the indices may hold anything
    indices = np.arange(256, dtype=np.int32) % 100
    indices[200:] = 1 << 30
    analysis = gathered(indices)
    load = accesses(analysis, "load")[1]
    assert isinstance(settled(analysis, load.operation, "oob"), Proved)


@triton.jit
def scaled_gather(index, x, y, step, BLOCK: tl.constexpr):
    offs = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    at = tl.load(index + offs)
    tl.store(y + offs, tl.load(x + at * step))


def test_what_only_an_overflow_puts_outside_says_so_beside_the_overflow() -> None:
    indices = np.zeros(256, np.int32)
    indices[70] = 3
    for outside in (False, True):
        indices[200] = 1 if outside else 0  # 1 << 30 elements: outside without any overflow
        launch = launch_of(
            scaled_gather, (4,), {"index": "*i32", "x": "*fp32", "y": "*fp32", "step": "i32"},
            {"BLOCK": BLOCK}, index=(256,), x=(100,), y=(256,), step=1 << 30,
        )  # fmt: skip
        analysis = analysis_of(with_memory(launch, contents={"index": indices}))
        load = accesses(analysis, "load")[1].operation
        verdicts = settle(analysis, [(load, "oob"), (load, "overflow")]).verdicts
        overflow, bounds = finding_of(verdicts[load, "overflow"]), finding_of(verdicts[load, "oob"])
        assert overflow.place.lane == (6,)
        only = "only where an integer overflows" in bounds.message
        assert not bounds.note
        assert (only, bounds.place.lane) == ((False, (8,)) if outside else (True, (6,)))


def test_a_race_with_what_left_its_tensor_is_no_race() -> None:
    indices = np.arange(256, dtype=np.int32) % 100
    analysis = gathered(indices)
    addresses = [one.address for one in analysis.launch.storages]
    load = accesses(analysis, "load")[1].operation
    (store,) = accesses(analysis, "store")
    indices[70] = (addresses[2] - addresses[1]) // 4  # the first element of y, which program 0 writes
    verdicts = settle(analysis, [(load, "race"), (load, "oob"), (store.operation, "race")]).verdicts
    assert isinstance(verdicts[load, "oob"], Violated)
    assert isinstance(verdicts[load, "race"], Proved)
    assert isinstance(verdicts[store.operation, "race"], Proved)


def test_fresh_memory_reached_by_indices() -> None:
    indices = np.arange(256, dtype=np.int32) % 50
    analysis = gathered(indices, fresh={"x": [slice(200, 400)]})
    load = accesses(analysis, "load")[1]
    assert isinstance(settled(analysis, load.operation, "uninit"), Proved)
    indices[66] = 50
    analysis = gathered(indices, fresh={"x": [slice(200, 400)]})
    load = accesses(analysis, "load")[1]
    finding = finding_of(settled(analysis, load.operation, "uninit"))
    assert (finding.place.program_id, finding.place.lane) == ((1, 0, 0), (2,))


@triton.jit
def workspace(scratch, y, shift, BLOCK: tl.constexpr):
    pid = tl.program_id(0)
    lane = tl.arange(0, BLOCK)
    tl.store(scratch + pid * BLOCK + lane, lane.to(tl.float32))
    tl.debug_barrier()
    tl.store(y + pid * BLOCK + lane, tl.load(scratch + pid * BLOCK + (lane + shift)))


def worked(shift: int) -> tuple[Analysis, Operation]:
    launch = launch_of(
        workspace, (4,), {"scratch": "*fp32", "y": "*fp32", "shift": "i32"}, {"BLOCK": BLOCK},
        scratch=(5 * BLOCK,), y=(4 * BLOCK,), shift=shift,
    )  # fmt: skip
    analysis = analysis_of(with_memory(launch, fresh={"scratch": [slice(None)]}))
    (load,) = accesses(analysis, "load")
    return analysis, load.operation


def test_a_workspace_is_read_by_whom_it_was_written() -> None:
    analysis, load = worked(0)
    assert uninit.check(analysis, accesses(analysis, "load")[0]) == Unproven(uninit.WRITTEN_BY_LAUNCH)
    assert settled(analysis, load, "uninit") == Proved("evaluated", contents=True)


def test_a_workspace_of_which_others_wrote_a_part() -> None:
    analysis, load = worked(1)
    # the last program reads one element that nobody writes
    assert finding_of(settled(analysis, load, "uninit")).place.program_id == (3, 0, 0)
    smaller = replace(analysis.launch, grid=(3, 1, 1))
    contents = with_memory(smaller, fresh={"scratch": [slice(0, 3 * BLOCK * 4)]})
    analysis = analysis_of(contents)
    (load_again,) = accesses(analysis, "load")
    assert settled(analysis, load_again.operation, "uninit") == Unproven(FOREIGN)


@triton.jit
def accumulate(x, total, BLOCK: tl.constexpr):
    offs = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    tl.atomic_add(total, tl.sum(tl.load(x + offs)))


def test_an_accumulator_that_nobody_zeroed() -> None:
    launch = launch_of(
        accumulate, (4,), {"x": "*fp32", "total": "*fp32"}, {"BLOCK": BLOCK}, x=(256,), total=(1,)
    )
    for fresh, expected in (({"total": [slice(None)]}, Violated), ({}, Proved)):
        analysis = analysis_of(with_memory(launch, fresh=fresh))
        (atomic,) = accesses(analysis, "atomic")
        assert isinstance(uninit.check(analysis, atomic), expected)
        assert isinstance(settled(analysis, atomic.operation, "uninit"), expected)


@triton.jit
def promised(x, y, M, BLOCK: tl.constexpr):
    offs = (tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)) % M
    offs = tl.max_contiguous(tl.multiple_of(offs, BLOCK), BLOCK)
    tl.assume(M > 200)
    tl.store(y + offs, tl.load(x + offs))


@pytest.mark.parametrize("size, broken", [(256, set()), (250, {"contiguity"}), (192, {"assume"})])
def test_promises_of_a_kernel(size: int, broken: set[str]) -> None:
    launch = launch_of(
        promised, (4,), {"x": "*fp32", "y": "*fp32", "M": "i32"}, {"BLOCK": BLOCK}, x=(256,), y=(256,), M=size
    )
    analysis = analysis_of(launch)
    verdicts = {one.kind: promises.check(analysis, one) for one in analysis.walked.promises}
    assert {"contiguity", "divisibility", "assume"} <= set(verdicts)
    assert {kind for kind, one in verdicts.items() if isinstance(one, Violated)} == broken


@triton.jit
def described(x, y, rows, columns, stride, BLOCK: tl.constexpr):
    source = tl.make_tensor_descriptor(x, [rows, columns], [stride, 1], [BLOCK, BLOCK])
    tile = source.load([tl.program_id(0) * BLOCK, 0])
    i = tl.arange(0, BLOCK)
    tl.store(y + i[:, None] * BLOCK + i[None, :], tile)


@pytest.mark.parametrize("stride, expected", [(64, Proved), (66, Violated)])
def test_a_descriptor_made_in_a_kernel(stride: int, expected: Any) -> None:
    launch = launch_of(
        described, (2,), {"x": "*fp16", "y": "*fp16", "rows": "i32", "columns": "i32", "stride": "i32"},
        {"BLOCK": 32}, x=(64, 66), y=(32, 32), rows=64, columns=60, stride=stride,
    )  # fmt: skip
    analysis = analysis_of(launch)
    verdicts = [descriptor.check(analysis, one) for one in accesses(analysis, "load")]
    assert [type(one) for one in verdicts] == [expected]
    if expected is Violated:
        finding = finding_of(verdicts[0])
        assert "132 bytes, no multiple of 16" in finding.message
        first = described.fn.__code__.co_firstlineno
        assert finding.location.frames[0].line == first + 2


@triton.jit
def reinterpreted(x, y, step, BLOCK: tl.constexpr):
    lane = tl.arange(0, BLOCK)
    words = (x + tl.program_id(0) * step).to(tl.pointer_type(tl.int32))
    tl.store(y + tl.program_id(0) * BLOCK + lane, tl.load(words + lane))


@pytest.mark.parametrize("step, expected", [(256, Proved), (254, Violated)])
def test_a_cast_pointer_is_aligned_for_what_it_points_to(step: int, expected: Any) -> None:
    launch = launch_of(
        reinterpreted, (4,), {"x": "*i8", "y": "*i32", "step": "i32"}, {"BLOCK": BLOCK},
        x=(1024,), y=(256,), step=step,
    )  # fmt: skip
    analysis = analysis_of(with_memory(launch))
    (load,) = accesses(analysis, "load")
    for verdict in (alignment.check(analysis, load), settled(analysis, load.operation, "alignment")):
        assert isinstance(verdict, expected)
        if isinstance(verdict, Violated):
            finding = finding_of(verdict)
            assert (finding.place.program_id, finding.argument) == ((1, 0, 0), "x")


def test_a_limit_leaves_what_was_not_seen_unproven() -> None:
    analysis = gathered(np.full(256, 1000, np.int32))
    stopped = replace(analysis, options=replace(analysis.options, evaluation_limit=10))
    store = accesses(stopped, "store")[0]
    result = settle(stopped, [(store.operation, "oob")])
    assert result.reason is not None and "too large" in result.reason
    assert result.verdicts[store.operation, "oob"] == Unproven(result.reason)


def test_what_events_cannot_tell_is_unproven() -> None:
    analysis = copied(256, 256)
    (store,) = accesses(analysis, "store")
    assert isinstance(settled(analysis, store.operation, "descriptor"), Unproven)

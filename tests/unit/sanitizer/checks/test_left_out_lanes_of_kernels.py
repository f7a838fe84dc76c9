"""Lanes that loads of real kernels leave out, from Triton's source to a verdict; both tiers."""

from __future__ import annotations

import numpy as np
import pytest
import triton
import triton.language as tl

from kerncap.sanitizer.checks import uninit
from kerncap.sanitizer.checks.events.watchers import VALUE_NOT_KNOWN
from kerncap.sanitizer.engine import sanitize
from kerncap.sanitizer.findings import Proved, Unproven, Violated
from tests.unit.sanitizer.checks.memory_runs import BLOCK, accesses, copied, finding_of, settled, with_memory
from tests.unit.sanitizer.compiled import analysis_of, launch_of
from tests.unit.sanitizer.concrete.launches import launch_of as launch_of_text


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
def counted(x, out, n, limit, BLOCK: tl.constexpr):
    offs = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    bins = tl.histogram(tl.load(x + offs, mask=offs < n), 16, mask=offs < limit)
    tl.atomic_add(out + tl.arange(0, 16), bins)


@pytest.mark.parametrize("known", [True, False])
def test_a_histogram_counts_what_its_mask_says(known: bool) -> None:
    for limit, right in ((200, True), (201, False)):
        launch = launch_of(
            counted, (4,), {"x": "*i32", "out": "*i32", "n": "i32", "limit": "i32"}, {"BLOCK": BLOCK},
            x=(256,), out=(16,), n=200, limit=limit,
        )  # fmt: skip
        contents = {"x": np.ones(256, np.int32), "out": np.zeros(16, np.int32)}
        report = sanitize(with_memory(launch, contents=contents if known else {}))
        verdicts = [one.verdict for one in report.settled if one.check == "uninit"]
        assert all(isinstance(one, Proved) for one in verdicts) == right, verdicts
        assert any(isinstance(one, Violated) for one in verdicts) != right, verdicts

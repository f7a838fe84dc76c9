"""Products of fragments, and matrices in shared memory, against numpy with the layouts of the PTX manual.

Each layout is written as the manual has it: for each element of a lane its row and its column.
"""

from __future__ import annotations

import re
from collections.abc import Callable
from dataclasses import dataclass, replace

import numpy as np
import pytest

from kerncap.sanitizer.equality.numbers import NotModelled
from kerncap.sanitizer.equality.ptx.reader import read
from kerncap.sanitizer.equality.ptx.run import PtxRun
from kerncap.sanitizer.equality.readable_inputs import INPUTS, Reals
from kerncap.sanitizer.launch import Unwritten
from kerncap.sanitizer.paged_bytes import PagedBytes
from tests.integration.equality.cuda.launches import Tensor, launched
from tests.unit.sanitizer.equality.ptx.test_machine import LIMITS, STORE, outcome

NAMES = ("a", "b", "c", "out")
Place = Callable[[int, int, int], tuple[int, int]]  # element, groupID, threadID_in_group
WHOLE = INPUTS[1]  # numbers of which sums of products are exact
assert "whole numbers" in WHOLE.words


def accumulator(i: int, g: int, t: int) -> tuple[int, int]:
    return (g if i < 2 else g + 8), 2 * t + (i & 1)


def b_of_halves(i: int, g: int, t: int) -> tuple[int, int]:
    return (2 * t + (i & 1) if i < 2 else 2 * t + (i & 1) + 8), g


def b_of_bytes(i: int, g: int, t: int) -> tuple[int, int]:
    return (4 * t + (i & 3) if i < 4 else 4 * t + (i & 3) + 16), g


def a_of_halves(i: int, g: int, t: int) -> tuple[int, int]:
    row = g if i < 2 or 4 <= i < 6 else g + 8
    return row, (2 * t + (i & 1) if i < 4 else 2 * t + (i & 1) + 8)


def a_of_bytes(i: int, g: int, t: int) -> tuple[int, int]:
    row = g if i < 4 or 8 <= i < 12 else g + 8
    return row, (4 * t + (i & 3) if i < 8 else 4 * t + (i & 3) + 16)


def a_of_tf32(i: int, g: int, t: int) -> tuple[int, int]:
    return (g if i in (0, 2) else g + 8), (t if i in (0, 1) else t + 4)


def b_of_tf32(i: int, g: int, t: int) -> tuple[int, int]:
    return (t if i == 0 else t + 4), g


def a_of_doubles(i: int, g: int, t: int) -> tuple[int, int]:
    return (g if i % 2 == 0 else g + 8), t + 4 * (i // 2)


@dataclass(frozen=True)
class Case:
    """``name``: of the shape and the types; registers of A, B and C; elements of a register of A and B."""

    name: str
    registers: tuple[int, int, int]
    elements: int
    a: Place
    b: Place
    dtypes: tuple[str, str]  # of A and B, of C

    @property
    def sizes(self) -> tuple[int, int, int]:
        rows, columns, depth = map(int, re.findall(r"\d+", self.name.partition(".")[0]))
        return rows, columns, depth


def t4(i: int, g: int, t: int) -> tuple[int, int]:
    return t + 4 * i, g


CASES = [
    Case("m16n8k16.row.col.f32.f16.f16.f32", (4, 2, 4), 2, a_of_halves, b_of_halves, ("float16", "float32")),
    Case("m16n8k8.row.col.f32.f16.f16.f32", (2, 1, 4), 2, a_of_halves, b_of_halves, ("float16", "float32")),
    Case("m16n8k16.row.col.f16.f16.f16.f16", (4, 2, 2), 2, a_of_halves, b_of_halves, ("float16", "float16")),
    Case(
        "m16n8k16.row.col.f32.bf16.bf16.f32", (4, 2, 4), 2, a_of_halves, b_of_halves, ("bfloat16", "float32")
    ),
    Case("m16n8k8.row.col.f32.tf32.tf32.f32", (4, 2, 4), 1, a_of_tf32, b_of_tf32, ("float32", "float32")),
    Case("m16n8k4.row.col.f32.tf32.tf32.f32", (2, 1, 4), 1, a_of_tf32, b_of_tf32, ("float32", "float32")),
    Case("m8n8k4.row.col.f64.f64.f64.f64", (1, 1, 2), 1, lambda i, g, t: (g, t), t4, ("float64", "float64")),
    Case("m16n8k16.row.col.f64.f64.f64.f64", (8, 4, 4), 1, a_of_doubles, t4, ("float64", "float64")),
    Case("m16n8k32.row.col.s32.s8.s8.s32", (4, 2, 4), 4, a_of_bytes, b_of_bytes, ("int32", "int32")),
    Case(
        "m16n8k32.row.col.satfinite.s32.s8.u8.s32", (4, 2, 4), 4, a_of_bytes, b_of_bytes, ("int32", "int32"),
    ),
    Case(
        "m16n8k16.row.col.s32.u8.u8.s32", (2, 1, 4), 4,
        lambda i, g, t: ((g if i < 4 else g + 8), 4 * t + (i & 3)), b_of_bytes, ("int32", "int32"),
    ),
]  # fmt: skip


class Random:
    """Integers: products of bytes whose sums fit, and numbers near the ends of 32 bits for C."""

    def __init__(self, words: list[np.ndarray]) -> None:  # type: ignore[type-arg]
        self._words = words

    def read(self, storage: int) -> PagedBytes | None:
        data = self._words[storage].astype(np.uint32).view(np.uint8)
        return PagedBytes.of(np.concatenate([data, np.zeros(8, np.uint8)]))

    def unwritten(self, storage: int) -> Unwritten | None:
        return None


def kernel(case: Case, wide: bool) -> str:
    """Each lane has its registers one after another in a, b and c, and those of the result in out."""
    size, kind = (8, "f64") if wide else (4, "b32")
    prefix = "%fd" if wide else "%r"
    text = [
        ".visible .entry k(.param .u64 a, .param .u64 b, .param .u64 c, .param .u64 out) {",
        ".reg .b32 %r<40>; .reg .b64 %rd<9>; .reg .f64 %fd<40>; mov.u32 %r30, %tid.x;",
    ]
    groups, number = [], 0
    for at, (name, count) in enumerate(zip("abc", case.registers, strict=True)):
        text.append(f"ld.param.u64 %rd{at}, [{name}];")
        text.append(f"mul.wide.u32 %rd5, %r30, {size * count}; add.s64 %rd{at}, %rd{at}, %rd5;")
        names = [f"{prefix}{number + one}" for one in range(count)]
        text += [f"ld.global.{kind} {one}, [%rd{at}+{size * i}];" for i, one in enumerate(names)]
        groups.append("{" + ", ".join(names) + "}")
        number += count
    text.append(f"mma.sync.aligned.{case.name} {groups[2]}, {', '.join(groups)};")
    text.append("ld.param.u64 %rd3, [out];")
    text.append(f"mul.wide.u32 %rd5, %r30, {size * case.registers[2]}; add.s64 %rd3, %rd3, %rd5;")
    results = groups[2][1:-1].split(", ")
    text += [f"st.global.{kind} [%rd3+{size * i}], {one};" for i, one in enumerate(results)]
    return "\n".join([*text, "ret;", "}"])


def matrix(held: np.ndarray, place: Place, rows: int, columns: int) -> np.ndarray:  # type: ignore[type-arg]
    """Of the elements of each lane."""
    found = np.full((rows, columns), np.nan)
    for lane, elements in enumerate(held.reshape(32, -1)):
        for i, one in enumerate(elements):
            found[place(i, lane // 4, lane % 4)] = one
    assert not np.isnan(found).any()
    return found


@pytest.mark.parametrize("case", CASES, ids=lambda case: case.name)
def test_products_of_fragments(case: Case) -> None:
    of_a, of_c = case.dtypes
    per_c = 2 if of_c == "float16" else 1
    counts = [32 * n * e for n, e in zip(case.registers, (case.elements, case.elements, per_c), strict=True)]
    if of_a == "int32":
        counts = [32 * n for n in case.registers]
    counts.append(counts[2])
    dtypes = (of_a, of_a, of_c, of_c)
    tensors = [Tensor(*one) for one in zip(NAMES, counts, dtypes, strict=True)]
    text = kernel(case, of_a == "float64")
    launch = launched("k", tensors, (1, 1, 1), (32, 1, 1), ptx=text)
    generator = np.random.default_rng(3)
    words = [generator.integers(0, 1 << 32, one) for one in counts]
    words[2][:4] = 0x7FFFFFFF, 0x80000000, 0x7FFFFFF0, 0x80000010
    ran = PtxRun(read(text, "k"), replace(launch, contents=Random(words)), Reals(WHOLE, 1), NAMES)
    ran.run(LIMITS)
    rows, columns, depth = case.sizes
    if of_a == "int32":
        types = case.name.split(".")[-3:-1]
        data = [one.astype(np.uint32).view(np.uint8) for one in words[:2]]
        a, b = (one.view(np.int8) if type_ == "s8" else one for one, type_ in zip(data, types, strict=True))
        c = words[2].astype(np.uint32).view(np.int32)
        found = ran.memory.storage(3).view(4)[: counts[2]].view(np.int32)
    else:
        a, b, c = (ran.floats.storages[at].read(np.arange(counts[at])) for at in range(3))
        found = ran.floats.storages[3].read(np.arange(counts[2]))
    wanted = matrix(a, case.a, rows, depth) @ matrix(b, case.b, depth, columns)
    wanted = wanted + matrix(c, accumulator, rows, columns)
    if of_a == "int32":
        low, high = -(2.0**31), 2.0**31 - 1
        saturates = "satfinite" in case.name
        wanted = np.clip(wanted, low, high) if saturates else (wanted - low) % 2.0**32 + low
    assert np.array_equal(matrix(np.asarray(found), accumulator, rows, columns), wanted)


FOUR = "{%r2,%r3,%r4,%r5}"


@pytest.mark.parametrize(
    ("name", "reason"),
    [
        ("m8n8k4.row.col.f32.f16.f16.f32", "not modelled"),
        ("m16n8k16.row.col.f32.e4m3.e4m3.f32", "not modelled"),
        ("m16n8k16.col.row.f32.f16.f16.f32", "not modelled"),
        ("m16n8k16.row.col.f32.f16.f16.f16", "not modelled"),
    ],
)
def test_products_that_are_refused(name: str, reason: str) -> None:
    with pytest.raises(NotModelled, match=reason):
        outcome(f"mma.sync.aligned.{name} {FOUR}, {FOUR}, {{%r2,%r3}}, {FOUR};")


def test_a_product_takes_whole_warps() -> None:
    body = "mma.sync.aligned.m8n8k4.row.col.f64.f64.f64.f64 {%rd6,%rd7}, {%rd6}, {%rd6}, {%rd6,%rd7};"
    with pytest.raises(NotModelled, match="a warp of fewer threads"):
        outcome(body, 48)


# --- matrices in shared memory ------------------------------------------------------------------------------

# Number 8 t + i in row t of 32 rows of eight halves.
ROWS = """
    shl.b32 %r7, %r1, 4;
    mov.u32 %r8, tile;
    add.s32 %r7, %r7, %r8;
    shl.b32 %r6, %r1, 3;
""" + "".join(
    f"add.u32 %r5, %r6, {i};\ncvt.rn.f16.u32 %r4, %r5;\nst.shared.b16 [%r7+{2 * i}], %r4;\n" for i in range(8)
)
# Both halves of %r2 in one number.
BOTH = """
    mov.b32 {%r3, %r4}, %r2;
    cvt.f32.f16 %f2, %r3;
    cvt.f32.f16 %f3, %r4;
    fma.rn.f32 %f1, %f3, 0f43800000, %f2;
"""
LANE = np.arange(32)


@pytest.mark.parametrize("number", range(4))
@pytest.mark.parametrize("transposed", [False, True])
def test_loads_of_matrices(number: int, transposed: bool) -> None:
    form = "x4.trans" if transposed else "x4"
    body = f"""{ROWS}
        bar.sync 0;
        ldmatrix.sync.aligned.m8n8.{form}.shared.b16 {{%r10,%r11,%r12,%r13}}, [%r7];
        mov.b32 %r2, %r1{number};
        {BOTH}
    """
    held = np.arange(256).reshape(4, 8, 8)[number]
    held = held.T if transposed else held
    row, column = LANE // 4, 2 * (LANE % 4)
    assert (outcome(body, 32) == held[row, column] + 256 * held[row, column + 1]).all()


@pytest.mark.parametrize("transposed", [False, True])
def test_stores_of_matrices(transposed: bool) -> None:
    """What a load finds, a store puts back: here into the other of two matrices."""
    form = ".trans" if transposed else ""
    body = f"""{ROWS}
        bar.sync 0;
        ldmatrix.sync.aligned.m8n8.x2.shared.b16 {{%r10,%r11}}, [%r7];
        bar.sync 0;
        xor.b32 %r6, %r1, 8;
        shl.b32 %r6, %r6, 4;
        add.s32 %r7, %r6, %r8;
        stmatrix.sync.aligned.m8n8.x2{form}.shared.b16 [%r7], {{%r10,%r11}};
        bar.sync 0;
        shl.b32 %r6, %r1, 4;
        add.s32 %r7, %r6, %r8;
        ld.shared.b32 %r2, [%r7+4];
        {BOTH}
    """
    held = np.arange(256).reshape(4, 8, 8)
    held[[0, 1]] = held[[1, 0]].transpose(0, 2, 1) if transposed else held[[1, 0]]
    rows = held.reshape(32, 8)
    assert (outcome(body, 32) == rows[:, 2] + 256 * rows[:, 3]).all()


def test_rows_are_aligned_and_ordered() -> None:
    load = "ldmatrix.sync.aligned.m8n8.x1.shared.b16 {%r2}, [%r7+8];"
    with pytest.raises(NotModelled, match="not a multiple"):
        outcome(f"{ROWS}bar.sync 0;\n{load}", 32)
    load = "ldmatrix.sync.aligned.m8n8.x1.shared.b16 {%r2}, [%r7];"
    with pytest.raises(NotModelled, match="no barrier between them"):
        outcome(f"{ROWS}{load}", 32)


# --- copies -------------------------------------------------------------------------------------------------

COPY = """
    setp.lt.u32 %p1, %r1, 16;
    shl.b32 %r6, %r1, 4;
    mov.u32 %r8, tile;
    add.s32 %r5, %r6, %r8;
    cvt.u64.u32 %rd6, %r6;
    add.s64 %rd6, %rd1, %rd6;
    {copy}
    {wait}
    xor.b32 %r6, %r1, 33;
    shl.b32 %r6, %r6, 2;
    add.s32 %r6, %r6, %r8;
    ld.shared.f32 %f1, [%r6];
"""
SIXTEEN = "@%p1 cp.async.cg.shared.global [%r5], [%rd6], 16;"
T = np.arange(64)


@pytest.mark.parametrize(
    "wait",
    [
        "cp.async.commit_group;\ncp.async.wait_group 0;\nbar.sync 0;",
        "cp.async.wait_all;\nbar.sync 0;",
        "cp.async.commit_group;\ncp.async.commit_group;\ncp.async.wait_group 1;\nbar.sync 0;",
    ],
)
def test_copies_that_are_waited_for(wait: str) -> None:
    assert (outcome(COPY.format(copy=SIXTEEN, wait=wait)) == (T ^ 33) / 64).all()


def test_copies_of_less_are_filled_with_zeros() -> None:
    copy = "and.b32 %r3, %r1, 3;\nshl.b32 %r3, %r3, 2;\n" + SIXTEEN.replace("16;", "16, %r3;")
    body = COPY.format(copy=copy, wait="cp.async.wait_all;\nbar.sync 0;")
    at = T ^ 33
    assert (outcome(body) == np.where(at % 4 < at // 4 % 4, at / 64, 0)).all()


@pytest.mark.parametrize(
    ("copy", "wait", "reason"),
    [
        (SIXTEEN, "bar.sync 0;", "to which a copy goes on"),
        (SIXTEEN, "cp.async.wait_group 0;\nbar.sync 0;", "to which a copy goes on"),
        (SIXTEEN, "cp.async.commit_group;\ncp.async.wait_group 1;\nbar.sync 0;", "to which a copy goes on"),
        (SIXTEEN, "cp.async.wait_all;", "with no barrier between them"),
        (f"{SIXTEEN}\n@%p1 st.shared.f32 [%r5+4], %f1;", "cp.async.wait_all;\nbar.sync 0;", "a copy goes on"),
        (
            f"{SIXTEEN}\nst.global.f32 [%rd4], %f1;", "cp.async.wait_all;\nbar.sync 0;",
            "no barrier between them",
        ),
        (
            SIXTEEN, "bar.sync 0;\n@%p1 st.global.f32 [%rd6], %f1;\ncp.async.wait_all;\nbar.sync 0;",
            "what does not change",
        ),
        (SIXTEEN.replace("16;", "16, 3;"), "cp.async.wait_all;\nbar.sync 0;", "a part of a number"),
        (SIXTEEN.replace("[%rd6]", "[%rd6+4]"), "cp.async.wait_all;\nbar.sync 0;", "not a multiple"),
        ("cp.async.bulk.commit_group;", "", "not modelled"),
    ],
)  # fmt: skip
def test_copies_that_are_refused(copy: str, wait: str, reason: str) -> None:
    with pytest.raises(NotModelled, match=reason):
        outcome(COPY.format(copy=copy, wait=wait), store=STORE)

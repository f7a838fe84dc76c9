"""Threads that part and meet, shuffles, the order of accesses, and what is refused by name."""

from __future__ import annotations

import numpy as np
import pytest

from kerncap.sanitizer.concrete.run import Limits
from kerncap.sanitizer.equality.numbers import NotModelled
from kerncap.sanitizer.equality.ptx.reader import read
from kerncap.sanitizer.equality.ptx.run import PtxRun
from kerncap.sanitizer.equality.readable_inputs import Inputs, Reals
from tests.integration.equality.cuda.launches import Tensor, launched

HEAD = """
.version 8.0
.target sm_80
.address_size 64
.visible .entry k(.param .u64 x, .param .u64 out, .param .u32 n) {
    .reg .pred %p<9>;
    .reg .f32 %f<9>;
    .reg .b32 %r<19>;
    .reg .b64 %rd<9>;
    .shared .align 16 .b8 tile[512];
    ld.param.u64 %rd1, [x];
    ld.param.u64 %rd2, [out];
    ld.param.u32 %r9, [n];
    mov.u32 %r1, %tid.x;
    mul.wide.u32 %rd3, %r1, 4;
    add.s64 %rd4, %rd1, %rd3;
    add.s64 %rd5, %rd2, %rd3;
    shl.b32 %r8, %r1, 2;
    mov.u32 %r7, tile;
    add.s32 %r7, %r7, %r8;
    ld.global.f32 %f1, [%rd4];
"""
STORE = "\n    st.global.f32 [%rd5], %f1;\n    ret;\n}\n"
THREADS = 64
X = np.arange(THREADS) / 64.0
LIMITS = Limits(element_operations=1 << 26, seconds=60.0)
RISING = Inputs("x", lambda u, v, at: at / 64.0)


def outcome(body: str, threads: int = THREADS, store: str = STORE) -> np.ndarray:  # type: ignore[type-arg]
    arguments = (Tensor("x", THREADS), Tensor("out", THREADS), ("n", THREADS))
    text = HEAD + body + store
    launch = launched("k", arguments, (1, 1, 1), (threads, 1, 1), ptx=text)
    ran = PtxRun(read(text, "k"), launch, Reals(RISING, 1), ("x", "out"))
    ran.run(LIMITS)
    return np.asarray(ran.floats.storages[1].read(np.arange(threads)))


def test_threads_that_part_meet_again() -> None:
    found = outcome("""
        setp.lt.u32 %p1, %r1, 10;
        @%p1 bra few;
        add.f32 %f1, %f1, 0f3F800000;
        bra.uni both;
    few:
        mov.u32 %r2, %r1;
    again:
        setp.eq.u32 %p2, %r2, 0;
        @%p2 bra both;
        add.f32 %f1, %f1, 0f41200000;
        sub.u32 %r2, %r2, 1;
        bra.uni again;
    both:
        bar.sync 0;
        mul.f32 %f1, %f1, 0f40000000;
    """)
    few = np.arange(THREADS) < 10
    assert (found == 2 * np.where(few, X + 10 * np.arange(THREADS), X + 1)).all()


def test_a_predicate_leaves_the_others_as_they_are() -> None:
    found = outcome("setp.ge.s32 %p1, %r1, 60;\n @!%p1 neg.f32 %f1, %f1;")
    assert (found == np.where(np.arange(THREADS) >= 60, X, -X)).all()


@pytest.mark.parametrize(
    ("form", "by", "clamp", "wanted"),
    [
        ("bfly", 5, 31, lambda t: t ^ 5),
        ("down", 3, 31, lambda t: np.where(t % 32 + 3 > 31, t, t + 3)),
        ("up", 3, 0, lambda t: np.where(t % 32 < 3, t, t - 3)),
        ("idx", 9, 31, lambda t: t // 32 * 32 + 9),
        ("idx", 9, 0x181F, lambda t: t // 8 * 8 + 1),  # of eight
        ("down", 3, 0x181F, lambda t: np.where(t % 8 + 3 > 7, t, t + 3)),
        ("up", 3, 0x1800, lambda t: np.where(t % 8 < 3, t, t - 3)),
    ],
)
def test_shuffles(form: str, by: int, clamp: int, wanted: object) -> None:
    found = outcome(f"shfl.sync.{form}.b32 %f1|%p1, %f1, {by}, {clamp}, -1;")
    assert callable(wanted)
    assert (found == X[wanted(np.arange(THREADS))]).all()


def test_two_numbers_in_a_register() -> None:
    found = outcome("""
        ld.global.f32 %f2, [%rd1+4];
        mov.b64 %rd6, {%f1, %f2};
        mov.b64 {%f3, %f1}, %rd6;
        add.f32 %f1, %f1, %f3;
    """)
    assert (found == X + X[1]).all()


SHARED_NEIGHBOUR = """
    st.shared.f32 [%r7], %f1;
    {wait}
    xor.b32 %r2, %r1, 1;
    shl.b32 %r2, %r2, 2;
    mov.u32 %r3, tile;
    add.s32 %r3, %r3, %r2;
    ld.shared.f32 %f1, [%r3];
"""


@pytest.mark.parametrize("wait", ["bar.sync 0;", "bar.warp.sync -1;", "barrier.sync 0;"])
def test_a_neighbours_store_is_read_after_a_barrier(wait: str) -> None:
    assert (outcome(SHARED_NEIGHBOUR.format(wait=wait)) == X[np.arange(THREADS) ^ 1]).all()


@pytest.mark.parametrize("wait", ["", "membar.cta;", "shfl.sync.idx.b32 %f3, %f1, 0, 31, -1;"])
def test_nothing_else_orders_accesses(wait: str) -> None:
    with pytest.raises(NotModelled, match="access shared memory with no barrier between them"):
        outcome(SHARED_NEIGHBOUR.format(wait=wait))


def test_a_warp_does_not_wait_for_another() -> None:
    body = SHARED_NEIGHBOUR.format(wait="bar.warp.sync -1;").replace("%r1, 1;", "%r1, 32;")
    with pytest.raises(NotModelled, match="with no barrier"):
        outcome(body)


@pytest.mark.parametrize(
    ("body", "reason"),
    [
        ("add.f32 %f1, %f1, %f8;", "%f8 is not set"),
        ("setp.lt.u32 %p1, %r1, 3;\n @%p1 mov.f32 %f8, %f1;\n add.f32 %f1, %f1, %f8;", "not set in all"),
        ("setp.lt.f32 %p1, %f1, 0f3F000000;\n @%p1 bra.uni end;\n end:\n", "depends on floats"),
        ("setp.lt.f32 %p1, %f1, 0f3F000000;\n @%p1 st.global.f32 [%rd5], %f1;", "depends on floats"),
        (
            "testp.finite.f32 %p1, %f1;\n selp.b32 %r2, 1, 0, %p1;\n setp.ne.u32 %p2, %r2, 0;\n @%p2 ret;",
            "depends on floats",
        ),
        (
            "setp.lt.f32 %p1, %f1, 0f3F000000;\n selp.b32 %r2, 4, 8, %p1;\n cvt.u64.u32 %rd6, %r2;\n"
            "add.s64 %rd6, %rd1, %rd6;\n ld.global.f32 %f1, [%rd6];",
            "an address that depends on floats",
        ),
        (
            "setp.lt.f32 %p1, %f1, 0f3F000000;\n selp.b32 %r2, 4, 8, %p1;\n"
            "shfl.sync.bfly.b32 %f1, %f1, %r2, 31, -1;",
            "depends on floats",
        ),
        ("st.global.f32 [%rd4], %f1;\n ld.global.nc.f32 %f1, [%rd4];", "which was stored to"),
        ("ld.global.v2.f32 {%f1, %f2}, [%rd1+4];", "not a multiple of the access's size"),
        ("ld.global.f32 %f1, [%rd1+2];", "not a multiple"),
        ("ld.global.f32 %f1, [%rd1+256];", "an access outside of x"),
        ("ld.global.f32 %f1, [%rd1+-4];", "an access outside of x"),
        ("sub.s64 %rd6, %rd2, %rd1;\n ld.global.f32 %f1, [%rd6];", "not one of an argument's memory"),
        ("ld.volatile.global.f32 %f1, [%rd4];", "not modelled"),
        ("ld.local.f32 %f1, [%rd4];", "not modelled"),
        ("ld.shared.f32 %f1, [%rd4];", "an address in another memory"),
        ("fma.rm.f32 %f1, %f1, %f1, %f1;", "the rounding or form rm"),
        ("add.cc.u32 %r2, %r1, %r1;", "not modelled"),
        ("cvt.rzi.s32.f32 %r2, %f1;", "an integer of a float"),
        ("div.u32 %r2, %r9, %r1;", "a division by zero"),
        ("setp.lt.u32 %p1, %r1, 3;\n @%p1 bar.sync 0;", "with a predicate"),
        ("setp.lt.u32 %p1, %r1, 3;\n @%p1 ret;\n bar.sync 0;", "not all threads come there"),
        (
            "setp.lt.u32 %p1, %r1, 3;\n @%p1 ret;\n shfl.sync.idx.b32 %f1, %f1, 0, 31, -1;",
            "does not take part",
        ),
        ("bar.sync 0, 32;", "not modelled"),
        ("bar.red.popc.u32 %r2, 0, %p1;", "not modelled"),
        ("mov.u32 %r2, %clock;", "is not set"),
        ("wmma.load.a.sync %r1, [%rd1];", "not modelled"),
        ("call.uni (%f1), helper, (%f1);", "the function helper"),
        ("atom.global.add.f32 %f1, [%rd2], %f1;", "depends on the order of threads"),
        ("bra.uni nowhere;", "the label is not there"),
    ],
)  # fmt: skip
def test_what_is_refused(body: str, reason: str) -> None:
    with pytest.raises(NotModelled) as error:
        outcome(body)
    assert reason in str(error.value)


def test_lines_of_the_source_hide_no_instruction() -> None:
    """nvcc -lineinfo writes them, without a semicolon."""
    inlined = ".loc 1 25 15, function_name $L__info_string0, inlined_at 1 34 10"
    found = outcome(
        f"\n.loc 1 12 5\nneg.f32 %f1, %f1;\n  {inlined}\n$there:\n.loc 1 13 5\nadd.f32 %f1, %f1, %f1;"
    )
    assert (found == -2 * X).all()


def test_another_layout_of_parameters() -> None:
    launch = launched("k", (Tensor("x", THREADS), ("n", 1)), (1, 1, 1), (THREADS, 1, 1), ptx=HEAD + STORE)
    with pytest.raises(NotModelled, match="other parameters than the captured kernel"):
        PtxRun(read(HEAD + STORE, "k"), launch, Reals(RISING, 1), ("x",)).run(LIMITS)


@pytest.mark.parametrize(
    ("text", "reason"),
    [
        ("", "without the kernel"),
        (".entry k(", "without a body"),
        (".entry k() { ret;", "ends in the middle"),
        (".entry k() { mov.u32 %r1, #; }", "the operands"),
        (".entry k() { a: ret; a: ret; }", "two labels a"),
        (".entry k() { .reg .b32 %r<2>; { .reg .b32 %r<2>; } }", "registers of an inner block"),
        (".entry k() { mov.u32 {{{{{{%r1}}}}}}, %r2; }", "operands in each other"),
        (".entry k() { .maxnreg 3 ret; }", "the directive .maxnreg"),
    ],
)
def test_what_is_no_ptx(text: str, reason: str) -> None:
    with pytest.raises(NotModelled, match=reason):
        read(text, "k")

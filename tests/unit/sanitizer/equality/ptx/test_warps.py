"""Votes, matches and sums of warps, and atomic instructions on integers."""

from __future__ import annotations

import numpy as np
import pytest

from kerncap.sanitizer.equality.numbers import NotModelled
from tests.unit.sanitizer.equality.ptx.test_machine import STORE, THREADS, outcome

T = np.arange(THREADS)
AS_FLOAT = "\n    cvt.rn.f32.u32 %f1, %r2;" + STORE
MASK = np.array([sum(1 << int(lane) for lane in range(32) if lane % 3 == 0)])


def integers(body: str, threads: int = THREADS) -> list[int]:
    """%r2 of each thread, in two parts that float64 holds."""
    parts = []
    for take in ("and.b32 %r2, %r2, 0xFFFF;", "shr.u32 %r2, %r2, 16;"):
        parts.append(outcome(f"{body}\n{take}", threads, AS_FLOAT).astype(np.int64))
    return list(map(int, parts[0] + (parts[1] << 16)))


THIRDS = "rem.u32 %r2, %r1, 32;\nrem.u32 %r2, %r2, 3;\nsetp.eq.u32 %p1, %r2, 0;\n"


def test_votes() -> None:
    assert integers(f"{THIRDS}vote.sync.ballot.b32 %r2, %p1, -1;") == [int(MASK[0])] * THREADS
    inverse = int(MASK[0]) ^ 0xFFFFFFFF
    assert integers(f"{THIRDS}vote.sync.ballot.b32 %r2, !%p1, -1;") == [inverse] * THREADS
    for mode, least, wanted in (
        ("any", 40, [0, 1]), ("all", 32, [0, 1]), ("all", 40, [0, 0]), ("uni", 40, [1, 0]),
        ("uni", 32, [1, 1]),
    ):  # fmt: skip
        body = f"""
            setp.ge.u32 %p1, %r1, {least};
            vote.sync.{mode}.pred %p2, %p1, -1;
            selp.b32 %r2, 1, 0, %p2;
        """
        assert integers(body) == list(np.repeat(wanted, 32)), (mode, least)


def test_a_vote_of_some() -> None:
    body = """
        mov.u32 %r2, 7;
        setp.lt.u32 %p1, %r1, 8;
        setp.ne.u32 %p2, %r1, 3;
        @%p1 bra few;
        bra.uni end;
    few:
        vote.sync.ballot.b32 %r2, %p2, 255;
    end:
        bar.sync 0;
    """
    assert integers(body) == [0b11110111] * 8 + [7] * 56


def test_matches() -> None:
    equal = [sum(1 << int(o % 32) for o in T if o // 32 == t // 32 and o % 5 == t % 5) for t in T]
    assert integers("rem.u32 %r2, %r1, 5;\nmatch.any.sync.b32 %r2, %r2, -1;") == equal
    body = """
        min.u32 %r2, %r1, 32;
        match.all.sync.b32 %r3|%p1, %r2, -1;
        mov.u32 %r2, %r3;
        @%p1 sub.u32 %r2, %r2, 1;
    """
    assert integers(body) == [0] * 32 + [0xFFFFFFFE] * 32


def test_sums_of_a_warp() -> None:
    assert integers("redux.sync.add.u32 %r2, %r1, -1;") == [496] * 32 + [1520] * 32
    assert integers("redux.sync.max.s32 %r2, %r1, -1;") == [31] * 32 + [63] * 32
    assert integers("redux.sync.xor.b32 %r2, %r1, -1;") == [0] * THREADS


def test_who_is_there() -> None:
    assert integers("activemask.b32 %r2;", 48) == [0xFFFFFFFF] * 32 + [0xFFFF] * 16
    with pytest.raises(NotModelled, match="a warp that has parted"):
        outcome("setp.lt.u32 %p1, %r1, 8;\n@%p1 activemask.b32 %r2;")


SHARED_COUNT = """
    setp.lt.u32 %p1, %r1, 4;
    mov.u32 %r3, 0;
    @%p1 st.shared.u32 [%r7], %r3;
    bar.sync 0;
    mov.u32 %r3, tile;
    and.b32 %r4, %r1, 3;
    shl.b32 %r4, %r4, 2;
    add.s32 %r3, %r3, %r4;
    {atomic}
    bar.sync 0;
    ld.shared.u32 %r2, [%r3];
"""


@pytest.mark.parametrize(
    ("word", "type_", "wanted"),
    [
        ("add", "u32", lambda mine: sum(mine)),
        ("max", "u32", max),
        ("or", "b32", lambda mine: int(np.bitwise_or.reduce(mine))),
        ("xor", "b32", lambda mine: int(np.bitwise_xor.reduce(mine))),
        ("and", "b32", lambda mine: 0),
        ("min", "u32", lambda mine: 0),
    ],
)
def test_atomics_in_shared_memory(word: str, type_: str, wanted: object) -> None:
    found = integers(SHARED_COUNT.format(atomic=f"red.shared.{word}.{type_} [%r3], %r1;"))
    assert callable(wanted)
    assert found == [wanted([int(o) for o in T if o % 4 == t % 4]) for t in T]


@pytest.mark.parametrize(
    ("atomic", "reason"),
    [
        ("atom.shared.add.u32 %r2, [%r3], %r1;\nadd.u32 %r2, %r2, 1;", "depends on the order of threads"),
        ("red.shared.add.u32 [%r3], %r1;\nred.shared.max.u32 [%r3], %r1;", "atomics of two kinds"),
        ("red.shared.inc.u32 [%r3], %r1;", "not modelled"),
        ("atom.shared.cas.b32 %r2, [%r3], %r1, %r1;", "not modelled"),
        ("atom.shared.exch.b32 %r2, [%r3], %r1;", "not modelled"),
        ("red.shared.add.u32 [%r3], %r1;\nld.shared.u32 %r2, [%r3];", "no barrier between them"),
        ("st.shared.u32 [%r3], %r1;\nred.shared.add.u32 [%r3], %r1;", "no barrier between them"),
        ("red.shared.add.f32 [%r3], %f1;", "numbers of other types"),
        ("red.global.add.u32 [%r3], %r1;", "an address in another memory"),
        ("red.global.add.u32 [%rd5], %r1;", "holds floats, which are taken for integers"),
    ],
)
def test_atomics_that_are_refused(atomic: str, reason: str) -> None:
    with pytest.raises(NotModelled) as error:
        outcome(SHARED_COUNT.format(atomic=atomic))
    assert reason in str(error.value)


def test_integers_in_shared_memory_are_their_bytes() -> None:
    body = """
        mul.lo.u32 %r2, %r1, 0x01020408;
        st.shared.u32 [%r7], %r2;
        ld.shared.u16 %r3, [%r7+2];
        ld.shared.s8 %r4, [%r7];
        st.shared.u8 [%r7+3], %r3;
        ld.shared.u32 %r5, [%r7];
        xor.b32 %r2, %r5, %r4;
        xor.b32 %r2, %r2, %r3;
    """
    wanted = []
    for t in range(THREADS):
        number = t * 0x01020408 & 0xFFFFFFFF
        half, byte = number >> 16, (number & 0x7F) - (number & 0x80)
        wanted.append((number & 0xFFFFFF | (half & 0xFF) << 24) ^ byte & 0xFFFFFFFF ^ half)
    assert integers(body) == wanted


def test_atomic_sums_of_floats_in_shared_memory() -> None:
    found = outcome("""
        setp.eq.u32 %p1, %r1, 0;
        @%p1 st.shared.f32 [tile], 0f3F800000;
        bar.sync 0;
        red.shared.add.f32 [tile], %f1;
        bar.sync 0;
        ld.shared.f32 %f1, [tile];
    """)
    assert (found == 1 + T.sum() / 64).all()

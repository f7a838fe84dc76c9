"""A report on a launch, made by hand: one finding of each form, a note, two reasons."""

from __future__ import annotations

from dataclasses import replace

from kerncap.sanitizer.findings import (
    NOT_KNOWN,
    Finding,
    LaunchReport,
    OtherAccess,
    Place,
    Proved,
    Settled,
    Unproven,
    Violated,
)
from kerncap.sanitizer.ttir.ir import Frame, Location

SOURCE = """import triton.language as tl

@triton.jit
def scale(x_ptr, out_ptr, n, BLOCK: tl.constexpr):
\toffsets = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
\tx = tl.load(x_ptr + offsets, mask=offsets < n)\x1b[31m
\ttl.store(out_ptr + offsets, x * 2.0)

"""


def at(line: int, column: int = 2, *callers: int) -> Location:
    return Location((Frame("/app/k.py", line, column), *(Frame("/app/k.py", one, 5) for one in callers)))


STORE = Finding(
    check="oob",
    access="store",
    location=at(7, 2, 20),
    message="store of 4 bytes at out_ptr + 1000 (byte 4,000): just past the end of out_ptr "
    "(float32[1000], 4,000 bytes); program (3, 0, 0), lane 232",
    place=Place((3, 0, 0), (232,), (), "out_ptr", 4000, 1000, True),
    argument="out_ptr",
    shape=(10, 100),
    strides=(100, 1),
    width_bytes=4,
    beyond_bytes=96,
    lands_in="y_ptr",
    expression="out_ptr + offsets",
    mask_expression="offsets < m",
    suggestion="mask=offsets < n",
    contents=True,
    python_stack=(("train.py", 3, "<module>"), ("/app/layer.py", 80, "forward")),
)
HERE = Place((0, 0, 0), (6,), (("i", 2), ("k", 5)), "out_ptr", 280, 70, True)
THERE = Place((1, 0, 0), (0,), (("i", 0), ("k", 0)), "out_ptr", 280, 70, True)
LOAD_RACE = Finding(
    check="race",
    access="load",
    location=at(6),
    message="program (0, 0, 0), lane 6, i = 2 loads out_ptr + 70 (byte 280), and …",
    place=HERE,
    argument="out_ptr",
    width_bytes=4,
    other=OtherAccess("store", at(7), THERE),
)
STORE_RACE = replace(
    LOAD_RACE, access="store", location=at(7), place=THERE, other=OtherAccess("load", at(6), HERE)
)
NOTE = Finding(
    check="race",
    access="store",
    location=at(7),
    message="programs (0, 0, 0) and (1, 0, 0) both store to out_ptr + 5; they store the same value",
    place=Place((0, 0, 0), (5,), (), "out_ptr", 20, 5, True),
    argument="out_ptr",
    width_bytes=4,
    other=OtherAccess("store", at(7), Place((1, 0, 0), (0,), (), "out_ptr", 20, 5, True)),
    note="same-value",
)


def report(*settled: Settled, **changes: object) -> LaunchReport:
    made = LaunchReport(
        kernel="scale",
        grid=(4, 1, 1),
        settled=settled,
        notes=("compiled for cuda:90",),
        python_stack=(("train.py", 3, "<module>"), ("/app/layer.py", 80, "forward")),
        sources={"/app/k.py": SOURCE},
    )
    return replace(made, **changes)  # type: ignore[arg-type]


def full() -> LaunchReport:
    """Three operations: a load that is proved but for a race, a store with everything, a load left open."""
    return report(
        Settled("oob", "load", at(6), Proved("affine", contents=True), 1),
        Settled("race", "load", at(6), Violated((LOAD_RACE,)), 1),
        Settled("uninit", "load", at(6), Unproven(NOT_KNOWN), 1),
        Settled("oob", "store", at(7), Violated((STORE,)), 2),
        Settled("race", "store", at(7), Violated((STORE_RACE, NOTE)), 2),
        Settled("oob", "load", at(8), Unproven("contents of i are not available"), 3),
        Settled("oob", "load", at(9), Proved("interval"), 4),
        Settled("uninit", "load", at(9), Unproven(NOT_KNOWN), 4),
        Settled("oob", "load", at(10), Proved("evaluated", contents=True), 5),
    )

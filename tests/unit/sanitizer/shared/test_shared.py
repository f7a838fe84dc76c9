"""Shared memory of compiled kernels: right ones are proved, broken ones are accused of what is broken."""

from __future__ import annotations

import re
from collections.abc import Mapping
from functools import cache
from typing import Any

import pytest

from kerncap.sanitizer.findings import Finding, Proved, Settled, Unproven, Violated
from kerncap.sanitizer.launch import Launch, ScalarArgument
from kerncap.sanitizer.shared.check import check
from kerncap.sanitizer.ttir import read_module
from tests.unit.sanitizer.compiled import ttir_of

kernels = pytest.importorskip("tests.unit.sanitizer.shared.kernels", reason="no Triton with Gluon")

_LAYOUT = "NVMMASharedLayout(swizzle_byte_width=128, element_bitwidth=16, rank=2)"
_BLOCK = f"tensordesc<fp16[64,64],{_LAYOUT}>"
_SIGNATURES: dict[str, dict[str, str]] = {
    "copied": {"x_ptr": "*fp32", "out_ptr": "*fp32", "n": "i32"},
    "fetched": {"desc": _BLOCK, "out_desc": _BLOCK, "n": "i32"},
    "multiplied": {"a_desc": _BLOCK, "b_desc": _BLOCK, "c_ptr": "*fp32", "n": "i32"},
    "specialised": {"desc": _BLOCK, "out_ptr": "*fp16", "n": "i32"},
    "released": {"n": "i32"},
}
long = pytest.mark.long


def answers_of(text: str, grid: tuple[int, int, int] = (2, 1, 1), **values: int) -> list[Settled]:
    module = read_module(text)
    names = [one.source_name for one in module.kernel.arguments]
    arguments = tuple(ScalarArgument(name, values.get(name, 9)) for name in names)
    return check(module, Launch("kernel", text, grid, arguments, ()))


@cache
def gluon(name: str, broken: str = "") -> str:
    constants = {"BROKEN": broken, **({"BLOCK": 512} if name == "copied" else {})}
    return ttir_of(getattr(kernels, name), _SIGNATURES[name], constants, stage="ttgir")


def findings(answers: list[Settled]) -> list[Finding]:
    return [f for one in answers if isinstance(one.verdict, Violated) for f in one.verdict.findings]


def is_proved(answers: list[Settled]) -> bool:
    assert answers
    return all(isinstance(one.verdict, Proved) for one in answers)


@pytest.mark.parametrize("name", sorted(_SIGNATURES))
@pytest.mark.parametrize("n", [1, 9])
def test_operations_in_order_are_proved(name: str, n: int) -> None:
    answers = answers_of(gluon(name), n=n)
    assert is_proved(answers), [one for one in answers if not isinstance(one.verdict, Proved)]


BROKEN = [
    ("copied", "no wait", "local_load reads slots[0], which async_copy may still be writing: no"),
    ("copied", "same slot", "async_copy overwrites slots[0], which async_copy may still be writing"),
    ("copied", "out of bounds", "index 2 of slots is out of bounds: it has 2 slots"),
    ("released", "first", "index -1 of empty is out of bounds: it has 2 slots"),
    pytest.param("copied", "uncommitted", "local_load reads slots[0], which async_copy may", marks=long),
    ("fetched", "no wait", "local_load reads slots[0], which a TMA copy may still be writing: it ends"),
    ("fetched", "wrong phase", "the wait for phase 1 of full[0] never ends: it lacks 1 of 1 arrivals"),
    ("fetched", "half the bytes", "never ends: it lacks an announcement of 4,096 bytes that copies bring"),
    ("fetched", "no store wait", "overwrites slots[0], which a TMA store may still be reading"),
    ("fetched", "no init", "uses the barrier full[0], which is not initialised"),
    pytest.param("fetched", "no expect", "it lacks 1 of 1 arrivals and an announcement of 8,192", marks=long),
    pytest.param("fetched", "count", "phase 0 of full[0] never ends: it lacks 1 of 2", marks=long),
    pytest.param("fetched", "phase of the slot", "the wait for phase 1 of full[1] never ends", marks=long),
    ("multiplied", "slot in use", "a TMA copy overwrites a[0], which warp_group_dot may still be reading"),
    ("multiplied", "pending", "tt.store uses the result of warp_group_dot, which may not be there yet"),
    ("specialised", "early arrive", "overwrites slots[0], which local_load may still be reading"),
    ("specialised", "no free", "local_load reads slots[0], which a TMA copy may still be writing"),
    pytest.param("specialised", "no arrive", "the wait for phase 0 of free[0] never ends", marks=long),
]  # fmt: skip


@pytest.mark.parametrize(("name", "broken", "said"), BROKEN)
def test_what_is_broken_is_found_with_its_witness(name: str, broken: str, said: str) -> None:
    found = [one for one in findings(answers_of(gluon(name, broken))) if said in one.message]
    assert found
    for one in found:
        assert one.check == "shared" and one.location.frame is not None
        assert one.location.frame.file.endswith("kernels.py") and one.place.program_id == (0, 0, 0)
        if "may still be" in one.message:
            assert one.other is not None and one.other.location.frame is not None
            assert one.other.location.frame.line != one.location.frame.line or name == "copied"


def test_a_witness_has_its_iteration() -> None:
    (load,) = [
        one
        for one in findings(answers_of(gluon("copied", "no wait")))
        if one.message.startswith("local_load reads slots[1]")
    ]
    assert load.place.iterations == (("block", 1),)
    assert load.other is not None and load.other.place.iterations == (("block", 0),)


# --- what Triton's compiler makes ---------------------------------------------------------------------

_WIDE = "tensordesc<fp16[128,64]>"
_MATMUL = {
    "a_desc": _WIDE,
    "b_desc": _WIDE,
    "c_desc": "tensordesc<fp16[128,128]>",
    "M": "i32",
    "N": "i32",
    "K": "i32",
}
_ATTENTION = {"q_desc": _WIDE, "k_desc": _WIDE, "v_desc": _WIDE, "o_desc": _WIDE, "n": "i32"}


@cache
def compiled(name: str, generation: int, stages: int, apart: bool = False) -> str:
    signature: Mapping[str, str] = {
        "a_ptr": "*fp16",
        "b_ptr": "*fp16",
        "c_ptr": "*fp32",
        "K": "i32",
        "stride": "i32",
    }
    constants: dict[str, Any] = {}
    if name == "matmul":
        signature, constants = _MATMUL, {"PROGRAMS": 2, "APART": apart}
    if name == "attention":
        signature, constants = _ATTENTION, {"APART": apart}
    target = ("cuda", generation, 32)
    return ttir_of(getattr(kernels, name), signature, constants, target, "ttgir", num_stages=stages)


_MADE = [
    ("matmul", 90, 3, False),
    ("matmul", 100, 3, True),
    pytest.param("attention", 90, 3, False, marks=long),
    *(
        pytest.param(name, generation, stages, apart, marks=long)
        for name, generation, stages, apart in (
            [("matmul", 90, stages, False) for stages in (1, 2, 4)]
            + [("matmul", 100, stages, apart) for stages in (2, 3, 4) for apart in (False, True)]
            + [("attention", 90, stages, False) for stages in (2, 4)]
            + [("attention", 100, stages, apart) for stages in (2, 3) for apart in (False, True)]
            + [("matmul_by_pointers", arch, stages, False) for arch in (80, 90, 100) for stages in (1, 2, 5)]
        )
        if (name, generation, stages, apart) != ("matmul", 100, 3, True)
    ),
]  # fmt: skip


@pytest.mark.parametrize(("name", "generation", "stages", "apart"), _MADE)
def test_what_the_compiler_pipelines_is_proved(name: str, generation: int, stages: int, apart: bool) -> None:
    text = compiled(name, generation, stages, apart)
    if stages == 1 and "ttg.local_alloc" not in text:
        return
    for size in (64, 640):
        answers = answers_of(text, M=512, N=384, K=size, n=size, stride=1024)
        assert is_proved(answers), [one for one in answers if not isinstance(one.verdict, Proved)]


@pytest.mark.parametrize(
    ("before", "after"),
    [
        (r"(barrier_expect %\w+), 32768", r"\1, 16384"),
        (r"pendings = 0 : i32, read_only", "pendings = 1 : i32, read_only"),
    ],
)
def test_a_pass_that_breaks_the_pipeline_is_found(before: str, after: str) -> None:
    broken, count = re.subn(before, after, compiled("matmul", 90, 3))
    assert count and findings(answers_of(broken, M=512, N=384, K=640))


# --- what is not decided ------------------------------------------------------------------------------


def test_what_is_not_modelled_is_named() -> None:
    text = gluon("copied").replace("ttg.async_wait", "ttg.some_other_wait")
    answers = answers_of(text)
    assert not findings(answers)
    reasons = {one.verdict.reason for one in answers if isinstance(one.verdict, Unproven)}
    assert "ttg.some_other_wait is not modelled" in reasons
    assert any("ttg.some_other_wait is not modelled, and may order them" in reason for reason in reasons)


def test_a_trip_count_from_memory_is_not_guessed() -> None:
    text = gluon("copied")
    module = read_module(text)
    answers = check(module, Launch("kernel", text, (2, 1, 1), (ScalarArgument("x_ptr", 1.5),) * 3, ()))
    reasons = {one.verdict.reason for one in answers if isinstance(one.verdict, Unproven)}
    assert reasons == {"how often a loop runs rests on n, which is not an integer of the launch"}


def test_long_kernels_stay_open(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("kerncap.sanitizer.shared.check.MAX_STEPS", 1000)
    assert {type(one.verdict) for one in answers_of(gluon("copied"), n=999)} == {Unproven}

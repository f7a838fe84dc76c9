"""Whole pipelines, as Triton's tutorials for Gluon build them: right, and with a mistake in each step."""

from __future__ import annotations

from functools import cache

import pytest

from kerncap.sanitizer.findings import Proved, Settled, Unproven
from tests.parameters import first_of
from tests.unit.sanitizer.compiled import ttir_of
from tests.unit.sanitizer.shared.test_shared import answers_of, findings, is_proved

pipelines = pytest.importorskip("tests.unit.sanitizer.shared.pipelines", reason="no Triton with Gluon")


def _tile(shape: str, kind: str = "fp16", bits: int = 16, descriptor: str = "tensordesc") -> str:
    layout = f"NVMMASharedLayout(swizzle_byte_width=128, element_bitwidth={bits}, rank=2)"
    return f"{descriptor}<{kind}[{shape}],{layout}>"


_BYTES = _tile("128,128", "fp8e4nv", 8)
_SIGNATURES = {
    "gathered": {"desc": _tile("1,64"), "at_ptr": "*i32"},
    "convolved": {
        "desc": _tile("64,64", descriptor="tensordesc_im2col"), "out_desc": _tile("64,64"), "taps": "i32",
    },
    "scaled": {"a_desc": _BYTES, "b_desc": _BYTES, "a_ptr": "*fp32", "n": "i32"},
    "persistent": {
        "a_desc": _tile("128,64"), "b_desc": _tile("128,64"), "c_desc": _tile("128,128"), "tiles": "i32",
        "steps": "i32",
    },
    "attended": {
        "q_desc": _tile("128,64"), "k_desc": _tile("128,64"), "v_desc": _tile("128,64"), "out_ptr": "*fp32",
        "n": "i32",
    },
    "stolen": {"out_ptr": "*i32"},
}  # fmt: skip
# By kernel and mistake, what a message says.
MISTAKES = [
    ("gathered", "no wait", "local_load reads source, which a TMA copy may still be writing"),
    ("gathered", "bytes of half the rows", "it lacks an announcement of 2,048 bytes that copies bring"),
    ("gathered", "source written again", "local_store overwrites result, which a TMA store may still"),
    ("gathered", "used after invalidate", "uses the barrier bar, which is not initialised"),
    ("convolved", "no wait", "a TMA store reads slots[0], which a TMA copy may still be writing"),
    ("convolved", "phase of the tap", "the wait for phase 1 of bars[1] never ends"),
    ("convolved", "slot still sent", "a TMA copy overwrites slots[0], which a TMA store may still be"),
    ("scaled", "operands not waited for", "tc_gen5_mma reads a, which a TMA copy may still be writing"),
    ("scaled", "scales in use", "tmem_store overwrites a_scale, which tc_gen5_mma may still be reading"),
    ("scaled", "products not waited for", "tmem_store overwrites b_scale, which tc_gen5_mma may still"),
    ("persistent", "operands overwritten", "a TMA copy overwrites a[0], which a TMA copy may still be"),
    ("persistent", "operands given back early", "a TMA copy overwrites b[0], which tc_gen5_mma may still"),
    ("persistent", "accumulator overwritten", "overwrites acc[0], which tmem_load may still be reading"),
    ("persistent", "accumulator given back early", "overwrites acc[0], which tmem_load may still be reading"),
    ("persistent", "accumulator not given back", "the wait for phase 0 of free[0] never ends"),
    ("persistent", "other accumulator given back", "free[1] never ends if it begins after phase 1 is over"),
    ("persistent", "arrival without a commit", "tmem_load reads acc[0], which tc_gen5_mma may still be"),
    ("persistent", "phase of the other slot", "tmem_load reads acc[1], which tc_gen5_mma may still be"),
    ("persistent", "result still sent", "local_store overwrites out, which a TMA store may still be reading"),
    ("attended", "queries not waited for", "tc_gen5_mma reads q, which a TMA copy may still be writing"),
    ("attended", "scores not waited for", "tmem_load reads scores, which tc_gen5_mma may still be writing"),
    ("attended", "rescaled meanwhile", "tmem_store overwrites acc, which tc_gen5_mma may still be reading"),
    ("attended", "values not waited for", "a TMA copy overwrites v, which tc_gen5_mma may still be reading"),
    ("stolen", "no wait", "clc_load_result reads answer, which clc_try_cancel may still be writing"),
    ("stolen", "the same phase", "the wait for phase 2 of bar never ends"),
]


@cache
def _text(name: str, case: str) -> str:
    constants = {"CASE": case}
    return ttir_of(getattr(pipelines, name), _SIGNATURES[name], constants, ("cuda", 100, 32), "ttgir")


def _answers(name: str, case: str, programs: int = 4) -> list[Settled]:
    return answers_of(_text(name, case), (programs, 1, 1), n=5, taps=7, tiles=5, steps=4)


@pytest.mark.parametrize("name", _SIGNATURES)
def test_a_right_one_is_proved(name: str) -> None:
    answers = _answers(name, "right")
    assert is_proved(answers), [one for one in answers if not isinstance(one.verdict, Proved)]


@first_of(("name", "case", "said"), MISTAKES)
def test_a_mistake_is_found(name: str, case: str, said: str) -> None:
    found = [one.message for one in findings(_answers(name, case))]
    assert any(said in one for one in found), found


def test_each_number_of_blocks_that_are_taken_over_is_followed(monkeypatch: pytest.MonkeyPatch) -> None:
    assert not findings(_answers("stolen", "the same phase", 1))
    assert findings(_answers("stolen", "the same phase", 2))
    monkeypatch.setattr("kerncap.sanitizer.shared.check.MAX_STEPS", 1000)
    answers = _answers("stolen", "right", 99)
    reasons = {one.verdict.reason for one in answers if isinstance(one.verdict, Unproven)}
    assert reasons == {"the kernel runs for more operations than are followed"}

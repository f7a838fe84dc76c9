"""Kernels that are equal over the reals are proved to be, and no kernel that is not."""

from __future__ import annotations

from functools import cache
from typing import Any

import pytest
import torch

from kerncap.sanitizer.concrete.run import Limits
from kerncap.sanitizer.equality.kernel_runs import kernel_of
from kerncap.sanitizer.equality.proof import CONFIDENCE_BITS, prove
from tests.integration.equality.kernels import hidden
from tests.integration.equality.pairs import EQUAL, HIDDEN, UNEQUAL, Run, launched, proved

# No filling has its largest number at the place that is left out.
WITHOUT_WITNESS = ("place of the largest",)


@cache
def proof(name: str) -> Any:
    make, first, second = EQUAL[name]
    return proved(make(), first, second)


# What takes seconds, and has a relative that takes less.
LONG = {
    "layer norm, Welford", "RMS norm in passes", "matmul by rows", "attention, other tiles", "divergence",
    "log-softmax", "largest", "place by lanes", "top four", "RMS norm in place",
}  # fmt: skip


@pytest.mark.parametrize(
    "name", [pytest.param(name, marks=pytest.mark.long if name in LONG else ()) for name in EQUAL]
)
def test_equal_ones_are_proved(name: str) -> None:
    found = proof(name)
    assert found.equal, found.reason
    assert found.trials * 29 > CONFIDENCE_BITS
    assert found.elements


@pytest.mark.parametrize("name", UNEQUAL)
def test_a_mistake_is_never_proved(name: str) -> None:
    make, first, second = UNEQUAL[name]
    found = proved(make(), first, second)
    assert not found.equal
    if name in WITHOUT_WITNESS:
        assert found.equal is None
        assert found.reason
    else:
        assert found.witness is not None
        assert found.witness.first != found.witness.second


@pytest.mark.parametrize("name", HIDDEN)
def test_what_few_inputs_show_is_never_proved(name: str) -> None:
    make, first, second = HIDDEN[name]
    found = proved(make(), first, second)
    assert not found.equal
    assert found.reason or found.witness


@pytest.mark.parametrize(("name", "functions"), [("RMS norm with its epsilon", None), ("gelu", "erf")])
def test_only_what_is_not_interpreted_is_said_to_be(name: str, functions: str | None) -> None:
    said = [one for one in proof(name).assumptions if "equal arguments" in one]
    wanted = f"of {functions} it is only known that equal arguments give equal results"
    assert said == ([] if functions is None else [wanted])


@pytest.mark.parametrize("dtype", [torch.float32, torch.int8])
@pytest.mark.parametrize(
    ("kernel", "hangs"), [(hidden.total_with_left_out, True), (hidden.total_of_chosen, False)]
)
def test_lanes_that_are_left_out_are_zero_by_assumption(kernel: Any, hangs: bool, dtype: torch.dtype) -> None:
    arguments = torch.ones(100, dtype=dtype), torch.zeros(1), 100
    first, second = (Run(one, (1,), {"BLOCK": 128}) for one in (hidden.total, kernel))
    found = proved(arguments, first, second)
    assert found.equal
    assert ("lanes that a load leaves out hold zero, as on this target" in found.assumptions) == hangs


@pytest.mark.filterwarnings("ignore:tl.reshape")  # of an option that Triton will give up
def test_an_order_that_the_compiler_chooses_is_not_known() -> None:
    found = proved((torch.ones(128), torch.zeros(128), 128), *(Run(hidden.flat, (1,), {"BLOCK": 128}),) * 2)
    assert found.equal is None
    assert "the elements of tt.reshape at hidden.py:" in found.reason
    assert found.reason.endswith(" in any order")


def test_time_is_limited_for_all_runs_together() -> None:
    make, first, second = EQUAL["swiglu"]
    launches = [launched(make(), one) for one in (first, second)]
    found = prove(*(kernel_of(one) for one in launches), limits=Limits(seconds=1e-9))
    assert found.equal is None
    assert found.reason == "too large: more than 1e-09 s"

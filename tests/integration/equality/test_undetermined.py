"""A kernel whose result is not determined is not equal to any, not even to itself."""

from __future__ import annotations

from typing import Any

import pytest
import torch

from tests.integration.equality.kernels import undetermined as kernels
from tests.integration.equality.pairs import Run, proved
from tests.parameters import first_of

_SIXTEEN = {"N": 16}


def _floats(count: int = 16) -> tuple[torch.Tensor, torch.Tensor]:
    return torch.zeros(16), torch.zeros(count)


def _integers(kind: torch.dtype = torch.int32) -> tuple[torch.Tensor, torch.Tensor]:
    return torch.arange(16, dtype=torch.int32), torch.zeros(16, dtype=kind)


def _programs(kernel: Any) -> Run:
    return Run(kernel, (8,), {})


def _counted() -> tuple[torch.Tensor, ...]:
    return *_floats(), torch.zeros(1, dtype=torch.int32)


OF_ELEMENTS = {
    "concatenated": (kernels.concatenated, _floats, " in any order"),
    "not commutative": (kernels.alternating, _floats, "may depend on the order of its elements"),
    "not commutative, integers": (kernels.alternating, _integers, "may depend on the order of its elements"),
    "not associative": (kernels.mean_of_means, _floats, "may depend on the order of its elements"),
    "a scan": (kernels.running_mean, _floats, "may depend on the order of its elements"),
    "lanes": (kernels.lanes_that_meet, _floats, "store different values at one address"),
    "lanes, integers": (kernels.lanes_that_meet, _integers, "store different values at one address"),
    "a shift": (kernels.shifted_by_the_width, _integers, "it takes an integer that has no value"),
    "a division": (
        kernels.divided_by_zero, lambda: _integers(torch.float32), "it takes an integer that has no value",
    ),
    "atomics of lanes": (kernels.lanes_queued, _integers, "lanes of one atomic meet in no order"),
    "exchanges of lanes": (kernels.lanes_exchanged, _integers, "lanes of one atomic meet in no order"),
    "compared exchanges": (kernels.lanes_compared, _integers, "lanes of one atomic meet in no order"),
    "two atomics": (kernels.added_and_limited, _integers, "atomics of two kinds meet in no order"),
    "outside": (kernels.stored_outside, _integers, "an access outside of memory"),
}  # fmt: skip


@pytest.mark.filterwarnings("ignore:tl.cat")
@pytest.mark.parametrize(
    "name", [pytest.param(one, marks=pytest.mark.long if "integers" in one else ()) for one in OF_ELEMENTS]
)
def test_what_is_not_determined_in_a_program(name: str) -> None:
    kernel, arguments, reason = OF_ELEMENTS[name]
    found = proved(arguments(), *(Run(kernel, (1,), _SIXTEEN),) * 2)
    assert found.equal is None
    assert found.reason.endswith(reason)


@first_of(
    ("kernel", "arguments"),
    [
        (kernels.queued, _counted()),
        (kernels.padded_over_the_next, _counted()),
        (kernels.summed_by_the_first, _counted()),
        (kernels.exchanged, (torch.zeros(1, dtype=torch.int32),)),
    ],
)
def test_what_depends_on_the_order_of_programs(kernel: Any, arguments: tuple[Any, ...]) -> None:
    found = proved(arguments, *(_programs(kernel),) * 2)
    assert found.equal is None
    assert found.reason == "what one of them stores depends on the order of its programs"


def _meeting(kernel: Any) -> Any:
    return proved((*_floats(), 8), *(_programs(kernel),) * 2)


@first_of(
    ("kernel", "does"),
    [
        (kernels.moved_to_the_right, "it stores to what another program reads, in no order"),
        (kernels.moved_in_place, "it stores to what another program reads, in no order"),
        (kernels.stored_and_read_apart, "it reads what another program stores, in no order"),
    ],
)
def test_programs_that_race_are_named_though_all_orders_that_were_tried_agree(kernel: Any, does: str) -> None:
    found = _meeting(kernel)
    assert found.equal is None
    assert found.reason.endswith(does)


def test_a_program_may_read_what_it_stores_itself() -> None:
    assert _meeting(kernels.doubled_in_place).equal


def test_an_order_that_only_one_depends_on() -> None:
    last = (torch.zeros(1, dtype=torch.int32),)
    assert proved(last, _programs(kernels.exchanged), _programs(kernels.largest_program)).equal is None


def test_what_the_last_of_all_programs_sums_is_determined() -> None:
    found = proved(_counted(), *(_programs(kernels.summed_by_the_last),) * 2)
    assert found.equal
    orders = f"no result depends on the order of programs, of which {2 * found.trials} were run"
    assert orders in found.assumptions


def test_two_kinds_of_atomics_on_two_places_are_determined() -> None:
    assert proved(_integers(), *(Run(kernels.added_and_limited_apart, (4,), _SIXTEEN),) * 2).equal


def test_what_a_kernel_promises_is_assumed_by_name() -> None:
    found = proved(_integers(), *(Run(kernels.promised, (1,), _SIXTEEN),) * 2)
    assert "what tl.multiple_of, tl.assume and the like say is so" in found.assumptions


def test_an_integer_without_a_value_that_is_not_chosen_does_not_matter() -> None:
    assert proved(_integers(torch.float32), *(Run(kernels.divided_but_by_zero, (1,), _SIXTEEN),) * 2).equal


def test_a_number_that_is_equal_to_a_constant_is_an_input() -> None:
    found = proved(
        (torch.zeros(1), torch.zeros(1)), *(Run(one, (1,), {}) for one in (kernels.signed, kernels.copied))
    )
    assert found.witness is not None
    assert found.witness.inputs == "0 in all tensors but the results"

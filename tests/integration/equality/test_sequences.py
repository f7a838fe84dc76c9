"""Several launches against one, and results that are left in place: equal ones are proved, others never."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import Any

import pytest
import torch

from kerncap.errors import UsageError
from kerncap.sanitizer.equality.kernel_runs import kernel_of
from kerncap.sanitizer.equality.launch_sequence import in_sequence
from kerncap.sanitizer.equality.proof import Proof, prove
from kerncap.sanitizer.equality.same_memory import match
from kerncap.sanitizer.launch import Launch, Storage
from tests.integration.equality.kernels import softmax, steps
from tests.integration.equality.pairs import ROWS, N, Run, launched

Step = tuple[Any, tuple[Any, ...]]
BLOCK = 32


def launches(*made: Step, grid: int = 1, block: int = BLOCK) -> list[Launch]:
    return [launched(arguments, Run(kernel, (grid,), {"BLOCK": block})) for kernel, arguments in made]


def proved(
    one: Sequence[Launch],
    other: Sequence[Launch],
    left: Mapping[str, str] | None = None,
    same: Mapping[str, str] | None = None,
) -> Proof:
    first, second = in_sequence(one, "A"), in_sequence(other, "B")
    return prove(kernel_of(*first), match(first, second, same or {}, ("A", "B"), left=left).kernel)


def softmaxes(*names: str) -> tuple[list[Launch], list[Launch]]:
    """In one launch, and in these."""
    x, out, tops, sums = torch.zeros(ROWS, N), torch.zeros(ROWS, N), torch.zeros(ROWS), torch.zeros(ROWS)
    given = {
        "largest": (x, tops, N),
        "powers": (x, tops, out, sums, N),
        "divided": (out, sums, N),
        "divided_by_the_next": (out, sums, N),
    }
    parts = [(getattr(steps, name), given[name]) for name in names]
    return launches((softmax.softmax, (x, out, N)), grid=ROWS, block=128), launches(
        *parts, grid=ROWS, block=128
    )


def test_one_launch_is_proved_equal_to_three() -> None:
    found = proved(*softmaxes("largest", "powers", "divided"))
    assert found.equal, found.reason
    assert found.elements == ROWS * N
    assert {name for side, name in found.only_one} == {"tops", "sums"}


@pytest.mark.parametrize(
    "names",
    [
        ("powers", "largest", "divided"),  # another order
        ("largest", "powers"),  # one is missing
        ("largest", "powers", "divided", "divided"),
        ("largest", "powers", "divided_by_the_next"),
    ],
)
def test_other_launches_are_not(names: tuple[str, ...]) -> None:
    assert not proved(*softmaxes(*names)).equal


def test_numbers_of_one_name_and_two_values_are_two() -> None:
    """With one number for both, two scalings are the square of one for any."""
    x, mid, y = (torch.zeros(BLOCK) for _ in range(3))
    same = {"x": "x of launch 1", "y": "y of launch 2"}
    one = launches((steps.scaled_twice, (x, y, 2.0)))
    both = launches((steps.scaled, (x, mid, 2.0)), (steps.scaled, (mid, y, 2.0)))
    found = proved(one, both, same=same)
    assert found.equal and not found.passed_scalars
    near = 2.0000002384185791  # the next float32
    both = launches((steps.scaled, (x, mid, 2.0)), (steps.scaled, (mid, y, near)))
    assert not proved(one, both, same=same).equal


@pytest.mark.parametrize("kernel", [steps.scaled_by_flag, steps.stored_by_flag])
def test_integers_that_a_launch_before_made_of_comparisons_count(kernel: Any) -> None:
    x, y, flag = torch.zeros(BLOCK), torch.zeros(BLOCK), torch.zeros(1, dtype=torch.int32)
    one = launches((steps.scaled, (x, y, 2.0)))
    other = launches((steps.all_large, (x, flag)), (kernel, (x, y, flag, 2.0)))
    found = proved(one, other)
    assert not found.equal
    assert found.witness or "comparisons" in found.reason


def test_a_result_that_is_left_in_place() -> None:
    x, y = torch.zeros(BLOCK), torch.zeros(BLOCK)
    one = launches((steps.scaled, (x, y, 2.0)))
    assert not proved(one, launches((steps.in_place, (x, 2.0)))).equal
    found = proved(one, launches((steps.in_place, (x, 2.0))), {"y": "x"})
    assert found.equal, found.reason
    assert found.elements == BLOCK and not found.only_one
    for wrong in (
        launches((steps.in_place_squared, (x, 2.0))),
        launches((steps.in_place_but_one, (x, 2.0))),
        launches((steps.in_place, (x, 2.0)), (steps.in_place, (x, 2.0))),
    ):
        assert not proved(one, wrong, {"y": "x"}).equal


def test_what_the_first_changes_and_nothing_is_compared_with_is_said() -> None:
    x, y, z = torch.zeros(BLOCK), torch.zeros(BLOCK), torch.zeros(BLOCK)
    one = launches((steps.scaled, (x, y, 2.0)), (steps.in_place, (x, 2.0)))
    found = proved(
        one,
        launches((steps.in_place, (x, 2.0)), (steps.in_place, (z, 2.0))),
        {"y": "x of launch 1"},
        {"x": "x of launch 1"},
    )
    assert found.equal, found.reason
    assert (0, "x") in found.only_one


def test_memory_that_two_launches_divide_in_two_ways_is_refused() -> None:
    whole = torch.zeros(2 * BLOCK)
    y = torch.zeros(BLOCK)
    first, second = launches((steps.scaled, (whole, y, 2.0)), (steps.scaled, (whole, y, 2.0)))
    [apart] = [one for one in second.storages if one.name == "x"]
    moved = replace(apart, address=apart.address + 4, size_bytes=apart.size_bytes - 4)
    storages = tuple(moved if one is apart else one for one in second.storages)
    with pytest.raises(UsageError, match="share a part of their memory"):
        in_sequence([first, replace(second, storages=storages)], "B")


def test_memory_without_an_argument_has_a_name_of_its_own() -> None:
    """Of one name, two would hold the same."""
    x, y = torch.zeros(BLOCK), torch.zeros(BLOCK)
    made = launches((steps.scaled, (x, y, 2.0)), (steps.scaled, (x, y, 2.0)))
    for number, one in enumerate(made):
        held = Storage(1 << 40 + number, 64, 1 << 40 + number, 64, "table")
        made[number] = replace(one, storages=(*one.storages, held, replace(held, name="x", address=7)))
    names = kernel_of(*in_sequence(made, "B")).names
    assert len(set(names)) == len(names) == 5
    assert names[:2] == ("x", "y")
    [launch] = in_sequence(made[:1], "B")
    assert len(set(kernel_of(launch).names)) == 4

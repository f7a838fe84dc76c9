"""The campaign's judge, on a script in memory: a store too many is seen, and what a scalar's value hides."""

from __future__ import annotations

from collections.abc import Callable
from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest

from tests.fuzz.mutants import judge

torch = pytest.importorskip("torch")


class Kernel:
    """A kernel as Triton has it, of one function on whole tensors."""

    def __init__(self, launch: Callable[..., None]) -> None:
        self.fn, self._launch = object(), launch

    def __getitem__(self, grid: object) -> Callable[..., None]:
        return self._launch


class Block:
    def __init__(self, name: str, data: Any) -> None:
        self.data = torch.from_numpy(data.copy())

    def written_outside(self) -> int:
        return 0


def script(before: Any, after: Any, **scalars: float) -> SimpleNamespace:
    """What the judge takes from an exported script of a launch on one tensor."""
    words = {"flip": before.view(np.uint8) ^ after.view(np.uint8), "after": after.view(np.uint8)}
    dtype = torch.from_numpy(before).dtype
    return SimpleNamespace(
        BLOCKS={"out": ()},
        GRID=(1,),
        Block=Block,
        load=lambda state: {"out": words[state]},
        tensors=lambda memory: {"out": memory["out"].data.view(dtype)},
        arguments=lambda tensors: {**tensors, "n": 4, **scalars},
        bits=lambda tensor: tensor.view(torch.uint8),
    )


@pytest.mark.parametrize("dtype", [np.float32, np.int32, np.bool_])
def test_a_store_too_many_of_what_was_there_is_seen(dtype: type) -> None:
    before: Any = np.array([0, 0, 0, 0], dtype)
    after: Any = np.array([1, 0, 0, 0], dtype)
    module: Any = script(before, after)

    def fill(out: Any, n: int) -> None:
        out[:n] = torch.from_numpy(after)[:n]

    def one_too_many(out: Any, n: int) -> None:
        fill(out, n + 1)

    numbers = {"n": 2}
    own = judge.of_each_contents(module, Kernel(fill), numbers)
    assert judge.compared(module, Kernel(fill), own, numbers) == judge.EQUAL
    assert judge.compared(module, Kernel(one_too_many), own, numbers) != judge.EQUAL


def test_a_scalar_that_hides_an_operator_has_another_value() -> None:
    before: Any = np.array([1, 2, 3, 4], np.float32)
    module: Any = script(before, -before, sign=-1.0)

    def times(out: Any, n: int, sign: float) -> None:
        out[:] = out * sign

    def divided(out: Any, n: int, sign: float) -> None:
        out[:] = out / sign

    own = judge.of_each_contents(module, Kernel(times), {})
    assert judge.compared(module, Kernel(times), own, {}) == judge.EQUAL
    assert judge.compared(module, Kernel(divided), own, {}) == judge.UNCLEAR

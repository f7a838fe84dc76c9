"""Inputs that show a difference: in float64, and by more than rounding in the kernels' own types."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from kerncap.sanitizer.equality.compared_memory import both, check_types, integers_that_differ, pairs, written
from kerncap.sanitizer.equality.kernel_runs import Budget, Kernel, Left, Ran, run, run_in_own_types
from kerncap.sanitizer.equality.numbers import Bools, Ints, named
from kerncap.sanitizer.equality.readable_inputs import INPUTS, Reals, beside, each_of
from kerncap.sanitizer.launch import TensorArgument

Floats = npt.NDArray[np.float64]

_TOLERANCE = 1e-9  # of results in float64: more than they are off by rounding, mostly
_MARGIN = 4.0  # times what the kernels' own rounding comes to


@dataclass(frozen=True)
class Witness:
    """What was put into all float tensors, and the element of a result that differs most."""

    inputs: str
    tensor: str
    element: int
    first: float
    second: float


def search(
    first: Kernel, second: Kernel, budget: Budget, seed: int, constants: Sequence[float]
) -> tuple[Witness | None, str]:
    """A witness; or what is to be said of a difference that the kernels' own rounding hides."""
    near, compared = "", False
    stored: set[int] = set()
    for inputs in (*INPUTS, beside(constants), *each_of(constants)):
        if inputs.if_compared and not compared:
            continue
        numbers = Reals(inputs, seed, stored if inputs.if_compared else ())
        one = _Comparison(first, second, numbers, inputs.words, budget)
        found = one.integers() or one.floats()
        if found is not None:
            return found, ""
        near = near or one.near
        compared = compared or one.compares()
        stored |= one.stored()
    return None, near


class _Comparison:
    """Two kernels on the same inputs."""

    def __init__(self, first: Kernel, second: Kernel, numbers: Reals, words: str, budget: Budget) -> None:
        self._kernels, self._numbers, self._words, self._budget = (first, second), numbers, words, budget
        self._ran = run(first, numbers, budget), run(second, numbers, budget)
        check_types(first, second, *self._ran)
        self._own: tuple[Left, Left] | None = None
        self.near = ""

    def compares(self) -> bool:
        """Whether a kernel compares floats."""
        return any({"compare", "equals"} & ran.plan.functions for ran in self._ran)

    def stored(self) -> set[int]:
        """Keys of the storages that a kernel stores floats to."""
        return {
            int(named(kernel.names[index])[0])
            for kernel, ran in zip(self._kernels, self._ran, strict=True)
            for index, held in ran.floats.storages.items()
            if held.written.any()
        }

    def _in_own_types(self) -> tuple[Left, Left]:
        if self._own is None:
            one, other = (
                run_in_own_types(kernel, self._numbers, ran.floats, self._budget)
                for kernel, ran in zip(self._kernels, self._ran, strict=True)
            )
            self._own = one, other
        return self._own

    def integers(self) -> Witness | None:
        """Of integers that are stored, the first that differ in both ways."""
        for (storage, there), byte in integers_that_differ(*self._ran, pairs(*self._kernels)):
            width = _width(self._kernels[0], storage)
            values = []
            for left, index in zip(self._in_own_types(), (storage, there), strict=True):
                held = left.memory.storage(index)
                held.need(np.array([byte // width * width]), width)
                values.append(int(held.view(width)[byte // width].view(np.dtype(f"i{width}"))))
            if values[0] != values[1]:
                name = self._kernels[0].names[storage]
                return Witness(self._words, name, byte // width, *values)
        return None

    def floats(self) -> Witness | None:
        a, b = self._ran
        for pair in pairs(*self._kernels):
            places = written(a, b, pair)
            if not places.size:
                continue
            held, against = both(a, b, pair)
            exact = held.read(places), against.read(places)
            if not _unlike(*exact).any():
                continue
            found = self._confirmed(pair, places, exact)
            if found is not None:
                return found
            finite = np.isfinite(exact[0]) & np.isfinite(exact[1])
            worst = float(np.abs(exact[0] - exact[1])[finite].max(initial=0.0))
            self.near = (
                f"with {self._words} {held.name} is off by {worst:.3g}, less than the kernels' rounding"
            )
        return None

    def _confirmed(self, pair: tuple[int, int], places: Ints, exact: tuple[Floats, Floats]) -> Witness | None:
        held = both(*self._ran, pair)
        own = [
            left.floats_at(index, one.element, places)
            for left, index, one in zip(self._in_own_types(), pair, held, strict=True)
        ]
        finite = [np.isfinite(one) for one in own]
        with np.errstate(invalid="ignore", over="ignore"):
            rounding = sum(np.nan_to_num(np.abs(o - e), nan=np.inf) for o, e in zip(own, exact, strict=True))
            apart = (np.abs(exact[0] - exact[1]) > _MARGIN * rounding) & (own[0] != own[1])
            distance = np.nan_to_num(np.abs(own[0] - own[1]))
        ends = (finite[0] != finite[1]) & (np.isfinite(exact[0]) != np.isfinite(exact[1]))
        shown = np.where(finite[0] & finite[1], apart, ends)
        if not shown.any():
            return None
        # One that ends in infinity or NaN first, else the largest difference.
        at = int(np.argmax(np.where(shown, np.where(ends, np.inf, distance), -1.0)))
        return Witness(self._words, held[0].name, int(places[at]), float(own[0][at]), float(own[1][at]))


def _unlike(x: Floats, y: Floats) -> Bools:
    finite = np.isfinite(x) & np.isfinite(y)
    size = np.maximum(1.0, np.maximum(np.abs(x), np.abs(y)))
    with np.errstate(invalid="ignore"):
        far = np.abs(x - y) > _TOLERANCE * size
        same = (x == y) | (np.isnan(x) & np.isnan(y))
    return np.where(finite, far, ~same)


def _width(kernel: Kernel, storage: int) -> int:
    """Bytes of an element, by the first tensor in the storage."""
    sizes = [
        one.itemsize
        for launch in kernel.launches
        for one in launch.arguments
        if isinstance(one, TensorArgument) and one.storage == storage
    ]
    return sizes[0] if sizes else 1


def results_differ(first: Kernel, second: Kernel, a: Ran, b: Ran) -> bool:
    """Whether two runs in float64 left other results."""
    if any(True for _ in integers_that_differ(a, b, pairs(first, second))):
        return True
    for pair in pairs(first, second):
        places = written(a, b, pair)
        if places.size and _unlike(*(one.read(places) for one in both(a, b, pair))).any():
            return True
    return False

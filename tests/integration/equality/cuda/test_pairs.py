"""Kernels of CUDA C++ that were written independently, and mistakes in them."""

from __future__ import annotations

from collections.abc import Mapping

import numpy as np
import numpy.typing as npt
import pytest

from kerncap.sanitizer.equality.kernel_runs import Budget, kernel_of, run
from kerncap.sanitizer.equality.numbers import named
from kerncap.sanitizer.equality.proof import LIMITS, prove
from kerncap.sanitizer.equality.readable_inputs import INPUTS, Reals
from tests.integration.equality.cuda.pairs import EQUAL, MISTAKES, NOT_MODELLED

Floats = npt.NDArray[np.float64]
EPSILON = float(np.float32(1e-5))
# Of which each shows something else; roots take many draws.
QUICK = ("counts", "half", "relu", "silu", "transpose")


@pytest.mark.parametrize(
    "name", [name if name in QUICK else pytest.param(name, marks=pytest.mark.long) for name in EQUAL]
)
def test_equal_kernels_are_proved(name: str) -> None:
    first, second = (kernel_of(one.launch()) for one in EQUAL[name])
    found = prove(first, second)
    assert found.equal, found.reason
    assert not found.only_one


def expected(name: str, given: Mapping[str, Floats]) -> Floats:
    """What both kernels of a pair are to compute, by numpy."""
    x = given.get("x", given.get("a", np.zeros(0)))
    rows = x.reshape(-1, 200) if x.size % 200 == 0 else x
    if name == "axpy":
        return 2.5 * x + given["y"]
    if name == "silu":
        return x / (1 + np.exp(-x))
    if name == "relu":
        return np.maximum(x, 0)
    if name == "half":
        return x * x
    if name == "softmax":
        powers = np.exp(rows - rows.max(axis=1, keepdims=True))
        return powers / powers.sum(axis=1, keepdims=True)
    if name == "layer norm":
        off = rows - rows.mean(axis=1, keepdims=True)
        return off / np.sqrt((off * off).mean(axis=1, keepdims=True) + EPSILON) * given["w"] + given["b"]
    if name == "rms norm":
        return rows / np.sqrt((rows * rows).mean(axis=1, keepdims=True) + EPSILON) * given["w"]
    if name == "sum":
        return given["total"] + x.sum()
    if name == "transpose":
        return x.reshape(40, 50).T
    if name == "tensor cores":
        return x.reshape(32, 48) @ given["b"].reshape(48, 24)
    return x.reshape(40, 33) @ given["b"].reshape(33, 50)


@pytest.mark.parametrize("name", [name for name in EQUAL if name != "counts"])
def test_a_run_in_float64_is_what_numpy_says(name: str) -> None:
    for one in EQUAL[name]:
        kernel = kernel_of(one.launch())
        numbers = Reals(next(each for each in INPUTS if each.words == "normal values"), 7)
        ran = run(kernel, numbers, Budget(LIMITS))
        held = ran.floats.storages
        given = {
            kernel.names[index]: numbers.drawn(
                named(kernel.names[index]), np.arange(each.count), each.element.name
            )
            for index, each in held.items()
        }
        [result] = [each for each in held.values() if each.written.any()]
        found = result.read(np.arange(result.count))
        assert np.allclose(found, expected(name, given).reshape(-1), rtol=1e-6, atol=1e-9), one.kernel


def test_counts_are_what_numpy_says() -> None:
    for one in EQUAL["counts"]:
        kernel = kernel_of(one.launch())
        ran = run(kernel, Reals(INPUTS[0], 7), Budget(LIMITS))
        x = np.arange(1000) % 7
        found = ran.plan.memory.storage(1).view(4)[:4].view(np.int32)
        assert (found == np.arange(4) + np.bincount(x & 3, minlength=4)).all(), one.kernel


@pytest.mark.parametrize("name", list(MISTAKES))
def test_no_mistake_is_proved(name: str) -> None:
    right, wrong, reason = MISTAKES[name]
    found = prove(kernel_of(right.launch()), kernel_of(wrong.launch()))
    if reason is None:
        assert found.equal is False and found.witness is not None, found.reason
    else:
        assert found.equal is None and reason in found.reason, found.reason


@pytest.mark.parametrize("name", list(NOT_MODELLED))
def test_what_is_not_modelled_is_named(name: str) -> None:
    run, reason = NOT_MODELLED[name]
    found = prove(kernel_of(run.launch()), kernel_of(run.launch()))
    assert found.equal is None and reason in found.reason, found.reason

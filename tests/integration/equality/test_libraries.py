"""Kernels that were written apart, unchanged: Liger's against those that Inductor writes."""

from __future__ import annotations

import importlib.util

import pytest

from tests.integration.equality.library_launches import Call, calls, judged

PAIRS = (
    "softmax",
    "layer norm",
    "RMS norm",
    "RMS norm of a sum",
    "group norm",
    "swiglu",
    "geglu",
    "cross entropy",
    "dynamic tanh",
    "squared ReLU",
)
pytestmark = [
    pytest.mark.long,
    pytest.mark.timeout(1800),
    pytest.mark.skipif(
        importlib.util.find_spec("liger_kernel") is None, reason="liger-kernel is not installed"
    ),
]


@pytest.fixture(scope="module")
def made() -> dict[str, Call]:
    return calls(PAIRS)


@pytest.mark.parametrize("name", PAIRS)
def test_they_are_proved_equal(name: str, made: dict[str, Call]) -> None:
    libraries = "Liger", "Inductor"
    first, second = (made[f"{name}, {one}"] for one in libraries)
    found = judged(first, second, libraries)
    assert found.equal, found.reason
    assert found.elements

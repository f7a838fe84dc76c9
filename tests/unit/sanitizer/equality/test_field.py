"""Exact numbers: what holds of reals holds of them, and what does not does not."""

from __future__ import annotations

import math
from collections.abc import Callable

import numpy as np
import pytest

from kerncap.sanitizer.equality.field_arithmetic import PRIMES
from kerncap.sanitizer.equality.field_draw import Field
from kerncap.sanitizer.equality.numbers import Array, NotModelled, named
from kerncap.sanitizer.equality.root_powers import RootPowers

COUNT = 500
Three = Callable[["Calculator"], tuple[Array, Array]]


class Calculator:
    """Functions of a field by name, and three arrays of drawn numbers."""

    def __init__(self, field: Field) -> None:
        self.field = field
        places = np.arange(COUNT, dtype=np.int64)
        self.x, self.y, self.z = (field.drawn(named(name), places, "f32") for name in "xyz")

    def __getattr__(self, name: str) -> Callable[..., Array]:
        return lambda *arrays: self.field.apply(name, *arrays)

    def number(self, value: float) -> Array:
        return self.field.constant(value)


LAWS: dict[str, Three] = {
    "distributive": lambda c: (c.mul(c.x, c.add(c.y, c.z)), c.add(c.mul(c.x, c.y), c.mul(c.x, c.z))),
    "quotients": lambda c: (c.div(c.mul(c.x, c.y), c.z), c.mul(c.x, c.div(c.y, c.z))),
    "fused": lambda c: (c.fma(c.x, c.y, c.z), c.add(c.z, c.mul(c.y, c.x))),
    "exponentials of sums": lambda c: (c.exp(c.add(c.x, c.y)), c.mul(c.exp(c.x), c.exp(c.y))),
    "exponentials of negatives": lambda c: (c.exp(c.neg(c.x)), c.reciprocal(c.exp(c.x))),
    "powers of two": lambda c: (c.exp2(c.mul(c.x, c.number(1.44269502))), c.exp(c.x)),
    "logarithms of exponentials": lambda c: (c.log(c.exp(c.x)), c.x),
    "logarithms of products": lambda c: (c.log(c.mul(c.x, c.y)), c.add(c.log(c.x), c.log(c.y))),
    "logarithms to two": lambda c: (c.mul(c.log2(c.x), c.number(0.6931471805599453)), c.log(c.x)),
    "roots of products": lambda c: (c.sqrt(c.mul(c.x, c.y)), c.mul(c.sqrt(c.x), c.sqrt(c.y))),
    "reciprocal roots": lambda c: (c.rsqrt(c.x), c.div(c.number(1.0), c.sqrt(c.x))),
    "root of a half": lambda c: (c.mul(c.x, c.number(0.70710678)), c.div(c.x, c.sqrt(c.number(2.0)))),
    "tanh": lambda c: (
        c.tanh(c.x),
        c.sub(c.div(c.number(2.0), c.add(c.number(1.0), c.exp(c.mul(c.number(-2.0), c.x)))), c.number(1.0)),
    ),
    "cubes": lambda c: (c.pow(c.x, c.number(3.0)), c.mul(c.x, c.mul(c.x, c.x))),
    "maxima": lambda c: (c.maxnum(c.x, c.maxnum(c.y, c.z)), c.maxnum(c.maxnum(c.z, c.x), c.y)),
    "maxima of constants": lambda c: (c.maxnum(c.number(3.0), c.number(1.0)), c.number(3.0)),
    "minima of constants": lambda c: (c.minnum(c.number(-0.0), c.number(7.0)), c.number(0.0)),
    "absolute": lambda c: (c.abs(c.mul(c.x, c.neg(c.y))), c.mul(c.abs(c.x), c.abs(c.y))),
    "no exponential of minus infinity": lambda c: (
        c.add(c.x, c.exp(c.sub(c.number(-math.inf), c.y))), c.x,
    ),
    "a reciprocal": lambda c: (c.mul(c.x, c.number(float(np.float32(1 / 127)))), c.div(c.x, c.number(127.0))),
    "a constant twice": (
        lambda c: (c.maxnum(c.maxnum(c.x, c.number(-2.0)), c.number(-2.0)), c.maxnum(c.x, c.number(-2.0)))
    ),
    "the larger constant": (
        lambda c: (
            c.maxnum(c.maxnum(c.x, c.number(-3.0)), c.maxnum(c.y, c.number(0.0))),
            c.maxnum(c.maxnum(c.y, c.x), c.number(0.0)),
        )
    ),
    "the smaller constant": (
        lambda c: (
            c.minnum(c.minnum(c.x, c.number(2.0)), c.number(-1.0)), c.minnum(c.number(-1.0), c.x),
        )
    ),
    "maxima with minus infinity": lambda c: (c.maxnum(c.x, c.number(-math.inf)), c.x),
    "products of exponentials and logarithms": lambda c: (
        c.mul(c.exp(c.x), c.sub(c.log(c.y), c.z)),
        c.sub(c.mul(c.log(c.y), c.exp(c.x)), c.mul(c.z, c.exp(c.x))),
    ),
    "a logarithm of a product with itself": lambda c: (
        c.mul(c.x, c.log(c.mul(c.y, c.z))), c.add(c.mul(c.x, c.log(c.z)), c.mul(c.log(c.y), c.x)),
    ),
    "what is not interpreted": lambda c: (c.erf(c.add(c.x, c.y)), c.erf(c.add(c.y, c.x))),
}  # fmt: skip

MISTAKES: dict[str, Three] = {
    "exponentials of products": lambda c: (c.exp(c.mul(c.x, c.y)), c.mul(c.exp(c.x), c.exp(c.y))),
    "roots of sums": lambda c: (c.sqrt(c.add(c.x, c.y)), c.add(c.sqrt(c.x), c.sqrt(c.y))),
    "a bias": lambda c: (c.add(c.x, c.number(1e-6)), c.x),
    "one of a constant's digits": lambda c: (c.exp2(c.mul(c.x, c.number(1.4427))), c.exp(c.x)),
    "a maximum of fewer": lambda c: (c.maxnum(c.x, c.maxnum(c.y, c.z)), c.maxnum(c.x, c.y)),
    "a maximum with a constant": lambda c: (c.maxnum(c.x, c.number(1.0)), c.x),
    "a maximum with another constant": (
        lambda c: (c.maxnum(c.maxnum(c.x, c.number(1.0)), c.number(2.0)), c.maxnum(c.x, c.number(1.0)))
    ),
    "a minimum with the larger constant": (
        lambda c: (c.minnum(c.minnum(c.x, c.number(1.0)), c.number(2.0)), c.minnum(c.x, c.number(2.0)))
    ),
    "a maximum for a minimum": lambda c: (c.maxnum(c.x, c.y), c.minnum(c.x, c.y)),
    "a logarithm of another number": lambda c: (c.mul(c.exp(c.x), c.log(c.y)), c.mul(c.exp(c.x), c.log(c.z))),
    "a logarithm for its argument": lambda c: (c.add(c.exp(c.x), c.log(c.y)), c.add(c.exp(c.x), c.y)),
    "a product of logarithms": lambda c: (c.mul(c.log(c.x), c.log(c.y)), c.log(c.mul(c.x, c.y))),
    "erf of other numbers": lambda c: (c.erf(c.x), c.erf(c.y)),
    "other functions": lambda c: (c.sin(c.x), c.cos(c.x)),
    "zero and one": lambda c: (c.mul(c.x, c.number(0.0)), c.number(1.0)),
}


@pytest.fixture(params=PRIMES[:2])
def calculator(request: pytest.FixtureRequest) -> Calculator:
    return Calculator(Field(request.param, 3))


@pytest.mark.parametrize("law", LAWS)
def test_laws(calculator: Calculator, law: str) -> None:
    left, right = LAWS[law](calculator)
    assert not calculator.field.differ(left, right).any()


@pytest.mark.parametrize("mistake", MISTAKES)
def test_mistakes(calculator: Calculator, mistake: str) -> None:
    left, right = MISTAKES[mistake](calculator)
    assert calculator.field.differ(left, right).all()


def test_an_order_is_one() -> None:
    field = Field(PRIMES[0], 5, [0.25, 1e-5], free=False)
    c = Calculator(field)
    less = field.compare("olt", c.x, c.y)
    assert less.any()
    assert not less.all()
    assert np.array_equal(less, field.compare("ogt", c.y, c.x))
    assert np.array_equal(less, field.compare("ogt", c.neg(c.x), c.neg(c.y)))
    largest = c.maximum(c.x, c.maximum(c.y, c.z))
    assert not field.compare("olt", largest, c.z).any()
    assert not field.differ(c.abs(c.x), c.maximum(c.x, c.neg(c.x))).any()
    for small, large in ((0.0, 1e-5), (1e-5, 0.25), (-0.25, -1e-5), (-math.inf, -0.25), (7.0, 300.0)):
        assert field.compare("olt", c.number(small), c.number(large)).all()


def test_a_passed_float_keeps_its_sign() -> None:
    for seed in range(20):
        field = Field(PRIMES[0], seed, [])
        field.let_vary({"scale": 0.125, "shift": -2.0})
        scale, shift = field.scalar("scale", 0.125), field.scalar("shift", -2.0)
        assert field.differ(scale, field.constant(0.125)).all()
        assert field.compare("ogt", scale, field.constant(0.0)).all()
        assert field.compare("olt", shift, field.constant(0.0)).all()


def test_sums_and_products_of_matrices() -> None:
    c = Calculator(Field(PRIMES[0], 11))
    left, right = c.x[:480].reshape(20, 24), c.y[:480].reshape(24, 20)
    product = c.field.product(left, right)
    by_hand = c.field.sum(c.mul(left[:, :, None], right[None]), 1)
    assert not c.field.differ(product, by_hand).any()
    last = c.field.running_sum(left, 1)[:, -1]
    assert not c.field.differ(last, c.field.sum(left, 1)).any()


@pytest.mark.parametrize("values", [(math.inf, -math.inf), (math.nan, 1.0)])
def test_sums_with_infinities(values: tuple[float, float]) -> None:
    c = Calculator(Field(PRIMES[0], 11))
    first, second = (c.number(value) for value in values)
    assert c.isnan(c.add(first, second)).all()
    assert c.isnan(c.field.sum(np.stack([first, second]), 0)).all()


def test_what_can_not_be_said_is_said() -> None:
    c = Calculator(Field(PRIMES[0], 11))
    with pytest.raises(NotModelled, match="an exponential is compared with another number"):
        c.field.compare("ogt", c.exp(c.x), c.log(c.y))
    assert not c.field.in_order(c.log(c.number(2.0)))
    with pytest.raises(NotModelled, match="infinities or NaN"):
        c.field.product(c.number(math.inf)[:, None], c.x[None, :1])


@pytest.mark.parametrize("prime", PRIMES[:2])
def test_each_logarithm_is_found(prime: int) -> None:
    exponents = np.append(np.random.default_rng(0).integers(0, prime // 2, 2000), [0, 1, prime // 2 - 1])
    powers = RootPowers(9, np.int64(prime), np.int64(prime // 2))
    for many in (exponents, exponents[-3:]):
        assert (powers.logarithms(powers.raised(many)) == many).all()

"""Exact numbers: elements of two prime fields, p and q with p = 2 q + 1, in one 64-bit word.

A real number x is known by x mod p, by x mod q, or by both. Sums, products, quotients and roots work in each
field. exp(x) is w^(x mod q) mod p for a w of order q, so exp(x + y) = exp(x) exp(y), and only the half mod p
of an exponential is known; log goes the other way. In the half mod p a logarithm is any function of its
argument, so that it has products with exponentials; what is equal in one half is equal. What is neither is
an uninterpreted function: a keyed hash of its name and arguments. Infinities and NaN are states of a word.

Sources: Schwartz's and Zippel's lemma; exponentials by roots of unity, as in Mirage (arXiv 2405.05751).
"""

from __future__ import annotations

import math
from collections.abc import Callable
from fractions import Fraction

import numpy as np

from kerncap.sanitizer.equality.degrees import LARGEST_POWER
from kerncap.sanitizer.equality.modular import inverses, power, reduced
from kerncap.sanitizer.equality.numbers import (
    IRRATIONAL,
    LN2,
    LN10,
    Bools,
    Ints,
    Words,
    irrational,
    mixed,
    named,
    rational,
)
from kerncap.sanitizer.equality.prime_residues import (
    BOTH,
    EITHER,
    INFINITE,
    MAXIMUM,
    MINUS_INFINITE,
    NAN,
    ONLY_P,
    P_BITS,
    P_MASK,
    STATE_AT,
    is_plain,
    is_zero,
    packed,
    second,
    shown,
    state_of,
    with_state,
    word,
)
from kerncap.sanitizer.equality.root_powers import RootPowers

# p = 2 q + 1 and q prime, p = 15 mod 16: of both fields, -1 has no root and 2 has one.
PRIMES = (1073740127, 1073739167, 1073737487, 1073736143, 1073734703, 1073732879, 1073730719, 1073730143)
SMALLEST_Q = min(PRIMES) // 2

_EXTREMES = frozenset(("maxnum", "maximum", "minnum", "minimum"))
_CONSTANT_POWERS = frozenset((-2.0, -1.0, 0.5, -0.5, 1.0, 1.5, 2.0, 3.0, float(LARGEST_POWER)))


class FieldArithmetic:
    """What a draw has of numbers, but for their order."""

    dtype = np.dtype(np.int64)

    def __init__(self, prime: int, seed: int, generator: np.random.Generator) -> None:
        self.p, self.q = np.int64(prime), np.int64(prime // 2)
        self._seed = seed
        root = int(generator.integers(2, prime - 1))
        self._powers = RootPowers(root * root % prime, self.p, self.q)
        self._symbols = [
            (int(generator.integers(2, prime - 1)), int(generator.integers(2, prime // 2))) for _ in range(3)
        ]
        self._symbols.append(self._pair(self.apply("sqrt", self._rational(Fraction(2)))))

    def _sign(self, x: Ints) -> Ints:
        """1, 0 or -1, by an order."""
        raise NotImplementedError

    # --- constants ------------------------------------------------------------------------------------------

    def constant(self, value: float) -> Ints:
        if math.isnan(value):
            return word(0, 0, NAN)
        if math.isinf(value):
            return word(0, 0, INFINITE if value > 0 else MINUS_INFINITE)
        known = irrational(value)
        if known is None:
            return self._rational(rational(value))
        number, scale = known
        factor = self._rational(Fraction(scale))
        for symbol, exponent in zip(self._symbols, IRRATIONAL[number], strict=True):
            base = word(*symbol, BOTH)
            for _ in range(abs(exponent)):
                factor = self.apply("mul" if exponent > 0 else "div", factor, base)
        return factor

    def _rational(self, value: Fraction) -> Ints:
        halves = [
            value.numerator % m * pow(value.denominator % m, -1, m) % m for m in (int(self.p), int(self.q))
        ]
        return word(halves[0], halves[1], BOTH)

    @staticmethod
    def _pair(number: Ints) -> tuple[int, int]:
        return int(number[0] & P_MASK), int(second(number)[0])

    def drawn(self, key: Words, places: Ints, element: str) -> Ints:
        return self.hashed(mixed(mixed(places.astype(np.uint64) ^ key) ^ np.uint64(self._seed)))

    def integers(self, values: Ints) -> Ints:
        wide = values.astype(np.int64)
        if values.dtype.kind == "u" and values.dtype.itemsize == 8:
            return packed(
                (values % np.uint64(self.p)).astype(np.int64), (values % np.uint64(self.q)).astype(np.int64)
            )
        return packed(wide % self.p, wide % self.q)

    def hashed(self, words: Words) -> Ints:
        """Any numbers."""
        other = mixed(words)
        return packed(
            (words % np.uint64(self.p)).astype(np.int64), (other % np.uint64(self.q)).astype(np.int64)
        )

    def weight(self, name: str, numbers: Ints) -> Ints:
        """Of a number, by a name: any."""
        return self.hashed(mixed(shown(self._number(numbers)).view(np.uint64) ^ named(name, self._seed)))

    def powers(self, name: str, exponents: Ints) -> Ints:
        """Of a random number by a name, to powers that may be negative."""
        distinct, at = np.unique(exponents, return_inverse=True)
        base = self.hashed(named(name, self._seed))
        halves = [
            np.array([pow(one or 1, power, modulus) for power in distinct.tolist()], dtype=np.int64)
            for one, modulus in zip(self._pair(base), (int(self.p), int(self.q)), strict=True)
        ]
        return packed(*halves)[at.reshape(exponents.shape)]

    # --- functions ------------------------------------------------------------------------------------------

    def apply(self, name: str, *arrays: Ints) -> Ints:
        if name not in _EXTREMES:
            arrays = tuple(self._number(array) for array in arrays)
        own: Callable[..., Ints] | None = getattr(self, f"_do_{name}", None)
        return self._uninterpreted(name, *arrays) if own is None else own(*arrays)

    def _uninterpreted(self, name: str, *arrays: Ints) -> Ints:
        found = named(name, self._seed)
        nan: Bools = np.zeros((), dtype=np.bool_)
        for array in arrays:
            found = mixed(found ^ shown(array).view(np.uint64))
            nan = nan | (state_of(array) == NAN)
        return np.where(nan, word(0, 0, NAN), self.hashed(found))

    def _number(self, x: Ints) -> Ints:
        """Maxima and minima as numbers of which nothing else is known."""
        extreme = state_of(x) >= MAXIMUM
        return np.where(extreme, self.hashed(mixed(x.view(np.uint64))), x) if extreme.any() else x

    def _do_add(self, x: Ints, y: Ints) -> Ints:
        if is_plain(x) and is_plain(y):
            return packed(
                reduced((x & P_MASK) + (y & P_MASK), self.p), reduced(second(x) + second(y), self.q)
            )
        a, b = state_of(x), state_of(y)
        finite = self._finite(
            a, b, lambda: ((x & P_MASK) + (y & P_MASK)) % self.p, lambda: (second(x) + second(y)) % self.q
        )
        if not ((a > EITHER).any() or (b > EITHER).any()):
            return finite
        found = np.where(a > EITHER, x, np.where(b > EITHER, y, finite))
        against = (a > EITHER) & (b > EITHER) & (a != b)
        return np.where(against | (a == NAN) | (b == NAN), word(0, 0, NAN), found)

    def _finite(self, a: Ints, b: Ints, first: Callable[[], Ints], second: Callable[[], Ints]) -> Ints:
        """A result of two finite numbers, of what is known of both."""
        return with_state(first(), second(), (a != ONLY_P) & (b != ONLY_P), (a == EITHER) | (b == EITHER))

    def _do_neg(self, x: Ints) -> Ints:
        state = state_of(x)
        first, other = x & P_MASK, second(x)
        found = packed(np.where(first, self.p - first, 0), np.where(other, self.q - other, 0))
        state = np.where(
            state == INFINITE, MINUS_INFINITE, np.where(state == MINUS_INFINITE, INFINITE, state)
        )
        return np.asarray(found | (state << STATE_AT))

    def _do_sub(self, x: Ints, y: Ints) -> Ints:
        return self._do_add(x, self._do_neg(y))

    def _do_mul(self, x: Ints, y: Ints) -> Ints:
        if is_plain(x) and is_plain(y):
            return packed((x & P_MASK) * (y & P_MASK) % self.p, second(x) * second(y) % self.q)
        a, b = state_of(x), state_of(y)
        zero = (is_zero(x) & (b <= EITHER)) | (is_zero(y) & (a <= EITHER))
        a, b = np.where(zero, BOTH, a), np.where(zero, BOTH, b)
        found = self._finite(
            a, b, lambda: (x & P_MASK) * (y & P_MASK) % self.p, lambda: second(x) * second(y) % self.q
        )
        found = np.where(zero, 0, found)
        endless = (a > EITHER) | (b > EITHER)
        if endless.any():
            positive = (self._sign(x) * self._sign(y)) > 0
            infinite = np.where(positive, word(0, 0, INFINITE), word(0, 0, MINUS_INFINITE))
            nan = (a == NAN) | (b == NAN) | is_zero(x) | is_zero(y)
            found = np.where(endless, np.where(nan, word(0, 0, NAN), infinite), found)
        return found

    def _do_div(self, x: Ints, y: Ints) -> Ints:
        return self._do_mul(x, self._do_reciprocal(y))

    def _do_reciprocal(self, x: Ints) -> Ints:
        state = state_of(x)
        found = with_state(
            inverses(x & P_MASK, int(self.p)),
            inverses(second(x), int(self.q)),
            state != ONLY_P,
            state == EITHER,
        )
        found = np.where(is_zero(x), word(0, 0, INFINITE), found)
        if (state > EITHER).any():
            found = np.where(state > EITHER, np.where(state == NAN, x, 0), found)
        return found

    def _do_fma(self, x: Ints, y: Ints, z: Ints) -> Ints:
        return self._do_add(self._do_mul(x, y), z)

    def _do_sqrt(self, x: Ints) -> Ints:
        state = state_of(x)
        found = with_state(
            power(x & P_MASK, (int(self.p) + 1) // 4, self.p),
            power(second(x), (int(self.q) + 1) // 4, self.q),
            state != ONLY_P,
            state == EITHER,
        )
        return self._at_infinity(x, found, x, word(0, 0, NAN))

    def _do_rsqrt(self, x: Ints) -> Ints:
        return self._do_reciprocal(self._do_sqrt(x))

    def _at_infinity(self, x: Ints, found: Ints, infinite: Ints, minus: Ints) -> Ints:
        state = state_of(x)
        if not (state > EITHER).any():
            return found
        found = np.where(state == INFINITE, infinite, found)
        return np.where(state == MINUS_INFINITE, minus, np.where(state == NAN, x, found))

    # --- exponentials ---------------------------------------------------------------------------------------

    def _do_exp(self, x: Ints) -> Ints:
        state, exponent = state_of(x), second(x)
        found = self._powers.raised(exponent) | (np.int64(ONLY_P) << STATE_AT)
        found = np.where(x == 0, 1 | (np.int64(1) << P_BITS), found)
        if (state == ONLY_P).any():
            found = np.where(state == ONLY_P, self._uninterpreted("exp", x), found)
        return self._at_infinity(x, found, x, np.zeros(1, np.int64))

    def _do_exp2(self, x: Ints) -> Ints:
        return self._do_exp(self._do_mul(x, self.constant(LN2)))

    def _do_exp10(self, x: Ints) -> Ints:
        return self._do_exp(self._do_mul(x, self.constant(LN10)))

    def _do_expm1(self, x: Ints) -> Ints:
        return self._do_sub(self._do_exp(x), self.constant(1.0))

    def _do_log(self, x: Ints) -> Ints:
        state = state_of(x)
        wanted = (state <= ONLY_P) & ((x & P_MASK) != 0)
        logs = np.zeros(x.shape, dtype=np.int64)
        logs[wanted] = self._powers.logarithms((x & P_MASK)[wanted])
        other = self.hashed(mixed(named("log", self._seed) ^ (x & P_MASK).view(np.uint64))) & P_MASK
        found = other | (logs << P_BITS) | (np.int64(EITHER) << STATE_AT)
        found = np.where(x == (1 | (np.int64(1) << P_BITS)), 0, found)
        found = np.where(is_zero(x), word(0, 0, MINUS_INFINITE), found)
        if (state == EITHER).any():
            found = np.where(state == EITHER, self._uninterpreted("log", x), found)
        return self._at_infinity(x, found, x, word(0, 0, NAN))

    def _do_log2(self, x: Ints) -> Ints:
        return self._do_div(self._do_log(x), self.constant(LN2))

    def _do_log10(self, x: Ints) -> Ints:
        return self._do_div(self._do_log(x), self.constant(LN10))

    def _do_log1p(self, x: Ints) -> Ints:
        return self._do_log(self._do_add(x, self.constant(1.0)))

    def _do_tanh(self, x: Ints) -> Ints:
        """1 - 2 / (exp(2 x) + 1)."""
        one, two = self.constant(1.0), self.constant(2.0)
        power = self._do_exp(self._do_mul(x, two))
        return self._do_sub(one, self._do_div(two, self._do_add(power, one)))

    def _do_pow(self, x: Ints, y: Ints) -> Ints:
        if y.size and (y == y.reshape(-1)[0]).all():
            for power in _CONSTANT_POWERS:
                if self.constant(power)[0] == y.reshape(-1)[0]:
                    return self._constant_power(x, power)
        return self._uninterpreted("pow", x, y)

    def _constant_power(self, x: Ints, power: float) -> Ints:
        base = self._do_sqrt(x) if power % 1 else x
        found = base
        for _ in range(int(abs(power) * (2 if power % 1 else 1)) - 1):
            found = self._do_mul(found, base)
        return self._do_reciprocal(found) if power < 0 else found

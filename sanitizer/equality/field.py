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
from collections.abc import Callable, Collection, Iterable
from fractions import Fraction

import numpy as np

from kerncap.sanitizer.equality.modular import inverses, matrix_product, power, reduced
from kerncap.sanitizer.equality.numbers import (
    IRRATIONAL,
    LN2,
    LN10,
    Array,
    Bools,
    Ints,
    NotModelled,
    Words,
    irrational,
    mixed,
    named,
)
from kerncap.sanitizer.equality.random_order import FAR, RandomOrder, ascending, sizes_of
from kerncap.sanitizer.equality.root_powers import RootPowers
from kerncap.sanitizer.equality.words import (
    BOTH,
    EITHER,
    INFINITE,
    MAXIMUM,
    MINIMUM,
    MINUS_INFINITE,
    NAN,
    ONLY_P,
    P_BITS,
    P_MASK,
    PAYLOAD,
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

# p = 2 q + 1 and q prime, p = 15 mod 16: of both fields, -1 has no root and 2 has one.
PRIMES = (1073740127, 1073739167, 1073737487, 1073736143, 1073734703, 1073732879, 1073730719, 1073730143)
SMALLEST_Q = min(PRIMES) // 2

_COUNTED = 1025  # whole numbers below are in their order

_MAXIMA = frozenset(("maxnum", "maximum"))
_EXTREMES = _MAXIMA | {"minnum", "minimum"}
_CONSTANT_POWERS = frozenset((-2.0, -1.0, 0.5, -0.5, 1.0, 1.5, 2.0, 3.0, 4.0))


class Field:
    """One draw. ``constants``: the floats that are compared in their own order.

    ``pivots``: constants, by their number, that share the order evenly; `compared`: those that should have.
    ``free``: a maximum or minimum is a function of all that it is taken of, and of nothing else; so no order
    decides it. Else it is that of the random order.
    """

    dtype = np.dtype(np.int64)

    def __init__(
        self,
        prime: int,
        seed: int,
        constants: Iterable[float] = (),
        free: bool = True,
        pivots: Collection[int] = (),
    ) -> None:
        self.free = free
        self.compared: set[int] = set()
        self.p, self.q = np.int64(prime), np.int64(prime // 2)
        self._seed = seed
        self._key = named("order", seed)
        generator = np.random.default_rng([seed, prime])
        root = int(generator.integers(2, prime - 1))
        self._powers = RootPowers(root * root % prime, self.p, self.q)
        self._symbols = [
            (int(generator.integers(2, prime - 1)), int(generator.integers(2, prime // 2))) for _ in range(3)
        ]
        self._symbols.append(self._pair(self.apply("sqrt", self._rational(Fraction(2)))))
        self._scalars: dict[str, Array] = {}
        known = ascending([*map(float, range(1, _COUNTED)), *IRRATIONAL, *constants])
        words = np.concatenate([self.constant(one) for one in known])
        sizes = sizes_of(generator, len(known), pivots)
        self._by_p = RandomOrder(self.p, self._key, words & P_MASK, sizes)
        self._by_q = RandomOrder(self.q, mixed(self._key), second(words), sizes)

    # --- constants ------------------------------------------------------------------------------------------

    def constant(self, value: float) -> Array:
        if math.isnan(value):
            return word(0, 0, NAN)
        if math.isinf(value):
            return word(0, 0, INFINITE if value > 0 else MINUS_INFINITE)
        known = irrational(value)
        if known is None:
            return self._rational(Fraction(value))
        number, scale = known
        factor = self._rational(Fraction(scale))
        for symbol, exponent in zip(self._symbols, IRRATIONAL[number], strict=True):
            base = word(*symbol, BOTH)
            for _ in range(abs(exponent)):
                factor = self.apply("mul" if exponent > 0 else "div", factor, base)
        return factor

    def _rational(self, value: Fraction) -> Array:
        halves = [
            value.numerator % m * pow(value.denominator % m, -1, m) % m for m in (int(self.p), int(self.q))
        ]
        return word(halves[0], halves[1], BOTH)

    @staticmethod
    def _pair(number: Array) -> tuple[int, int]:
        return int(number[0] & P_MASK), int(second(number)[0])

    def drawn(self, key: Words, places: Ints, element: str) -> Array:
        return self._hashed(mixed(mixed(places.astype(np.uint64) ^ key) ^ np.uint64(self._seed)))

    def scalar(self, name: str, value: float) -> Array:
        return self._scalars[name] if name in self._scalars else self.constant(value)

    def let_vary(self, scalars: dict[str, float]) -> None:
        """These floats that are passed stand for any, of their sign."""
        for name, value in scalars.items():
            if value and math.isfinite(value):
                drawn = self._hashed(named(f"scalar {name}", self._seed))
                positive = self._sign(drawn)[0] > 0
                self._scalars[name] = drawn if positive == (value > 0) else self.apply("neg", drawn)

    def integers(self, values: Array) -> Array:
        wide = values.astype(np.int64)
        if values.dtype.kind == "u" and values.dtype.itemsize == 8:
            return packed(
                (values % np.uint64(self.p)).astype(np.int64), (values % np.uint64(self.q)).astype(np.int64)
            )
        return packed(wide % self.p, wide % self.q)

    def _hashed(self, words: Words) -> Array:
        other = mixed(words)
        return packed(
            (words % np.uint64(self.p)).astype(np.int64), (other % np.uint64(self.q)).astype(np.int64)
        )

    # --- functions ------------------------------------------------------------------------------------------

    def apply(self, name: str, *arrays: Array) -> Array:
        if name not in _EXTREMES:
            arrays = tuple(self._number(array) for array in arrays)
        own: Callable[..., Array] | None = getattr(self, f"_do_{name}", None)
        return self._uninterpreted(name, *arrays) if own is None else own(*arrays)

    def _uninterpreted(self, name: str, *arrays: Array) -> Array:
        found = named(name, self._seed)
        nan: Bools = np.zeros((), dtype=np.bool_)
        for array in arrays:
            found = mixed(found ^ shown(array).view(np.uint64))
            nan = nan | (state_of(array) == NAN)
        return np.where(nan, word(0, 0, NAN), self._hashed(found))

    def _number(self, x: Array) -> Array:
        """Maxima and minima as numbers of which nothing else is known."""
        extreme = state_of(x) >= MAXIMUM
        return np.where(extreme, self._hashed(mixed(x.view(np.uint64))), x) if extreme.any() else x

    def _do_add(self, x: Array, y: Array) -> Array:
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

    def _finite(self, a: Ints, b: Ints, first: Callable[[], Ints], second: Callable[[], Ints]) -> Array:
        """A result of two finite numbers, of what is known of both."""
        return with_state(first(), second(), (a != ONLY_P) & (b != ONLY_P), (a == EITHER) | (b == EITHER))

    def _do_neg(self, x: Array) -> Array:
        state = state_of(x)
        first, other = x & P_MASK, second(x)
        found = packed(np.where(first, self.p - first, 0), np.where(other, self.q - other, 0))
        state = np.where(
            state == INFINITE, MINUS_INFINITE, np.where(state == MINUS_INFINITE, INFINITE, state)
        )
        return np.asarray(found | (state << STATE_AT))

    def _do_sub(self, x: Array, y: Array) -> Array:
        return self._do_add(x, self._do_neg(y))

    def _do_mul(self, x: Array, y: Array) -> Array:
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

    def _do_div(self, x: Array, y: Array) -> Array:
        return self._do_mul(x, self._do_reciprocal(y))

    def _do_reciprocal(self, x: Array) -> Array:
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

    def _do_fma(self, x: Array, y: Array, z: Array) -> Array:
        return self._do_add(self._do_mul(x, y), z)

    def _do_sqrt(self, x: Array) -> Array:
        state = state_of(x)
        found = with_state(
            power(x & P_MASK, (int(self.p) + 1) // 4, self.p),
            power(second(x), (int(self.q) + 1) // 4, self.q),
            state != ONLY_P,
            state == EITHER,
        )
        return self._at_infinity(x, found, x, word(0, 0, NAN))

    def _do_rsqrt(self, x: Array) -> Array:
        return self._do_reciprocal(self._do_sqrt(x))

    def _at_infinity(self, x: Array, found: Array, infinite: Array, minus: Array) -> Array:
        state = state_of(x)
        if not (state > EITHER).any():
            return found
        found = np.where(state == INFINITE, infinite, found)
        return np.where(state == MINUS_INFINITE, minus, np.where(state == NAN, x, found))

    # --- exponentials ---------------------------------------------------------------------------------------

    def _do_exp(self, x: Array) -> Array:
        state, exponent = state_of(x), second(x)
        found = self._powers.raised(exponent) | (np.int64(ONLY_P) << STATE_AT)
        found = np.where(x == 0, 1 | (np.int64(1) << P_BITS), found)
        if (state == ONLY_P).any():
            found = np.where(state == ONLY_P, self._uninterpreted("exp", x), found)
        return self._at_infinity(x, found, x, np.zeros(1, np.int64))

    def _do_exp2(self, x: Array) -> Array:
        return self._do_exp(self._do_mul(x, self.constant(LN2)))

    def _do_exp10(self, x: Array) -> Array:
        return self._do_exp(self._do_mul(x, self.constant(LN10)))

    def _do_expm1(self, x: Array) -> Array:
        return self._do_sub(self._do_exp(x), self.constant(1.0))

    def _do_log(self, x: Array) -> Array:
        state = state_of(x)
        wanted = (state <= ONLY_P) & ((x & P_MASK) != 0)
        logs = np.zeros(x.shape, dtype=np.int64)
        logs[wanted] = self._powers.logarithms((x & P_MASK)[wanted])
        other = self._hashed(mixed(named("log", self._seed) ^ (x & P_MASK).view(np.uint64))) & P_MASK
        found = other | (logs << P_BITS) | (np.int64(EITHER) << STATE_AT)
        found = np.where(x == (1 | (np.int64(1) << P_BITS)), 0, found)
        found = np.where(is_zero(x), word(0, 0, MINUS_INFINITE), found)
        if (state == EITHER).any():
            found = np.where(state == EITHER, self._uninterpreted("log", x), found)
        return self._at_infinity(x, found, x, word(0, 0, NAN))

    def _do_log2(self, x: Array) -> Array:
        return self._do_div(self._do_log(x), self.constant(LN2))

    def _do_log10(self, x: Array) -> Array:
        return self._do_div(self._do_log(x), self.constant(LN10))

    def _do_log1p(self, x: Array) -> Array:
        return self._do_log(self._do_add(x, self.constant(1.0)))

    def _do_tanh(self, x: Array) -> Array:
        """1 - 2 / (exp(2 x) + 1)."""
        one, two = self.constant(1.0), self.constant(2.0)
        power = self._do_exp(self._do_mul(x, two))
        return self._do_sub(one, self._do_div(two, self._do_add(power, one)))

    def _do_pow(self, x: Array, y: Array) -> Array:
        if y.size and (y == y.reshape(-1)[0]).all():
            for power in _CONSTANT_POWERS:
                if self.constant(power)[0] == y.reshape(-1)[0]:
                    return self._constant_power(x, power)
        return self._uninterpreted("pow", x, y)

    def _constant_power(self, x: Array, power: float) -> Array:
        base = self._do_sqrt(x) if power % 1 else x
        found = base
        for _ in range(int(abs(power) * (2 if power % 1 else 1)) - 1):
            found = self._do_mul(found, base)
        return self._do_reciprocal(found) if power < 0 else found

    # --- order ----------------------------------------------------------------------------------------------

    def _ordered(self, x: Array, y: Array) -> tuple[Ints, Ints]:
        """By the half mod q, which exponentials lack; these are compared with each other and constants."""
        a, b = state_of(x), state_of(y)
        by_p = (a == ONLY_P).any() or (b == ONLY_P).any()
        if by_p:
            for one, state in ((x, a), (y, b)):
                if not ((state == ONLY_P) | (state > EITHER) | self._is_constant(one)).all():
                    raise NotModelled("an exponential is compared with another number")
        order = self._by_p if by_p else self._by_q
        halves = [one & P_MASK if by_p else second(one) for one in (x, y)]
        for one, other in (halves, halves[::-1]):
            constants = order.places(one)
            if not constants <= self.compared and not order.lists(other).all():
                self.compared |= constants
        return self._keys(x, by_p), self._keys(y, by_p)

    def _keys(self, x: Array, by_p: bool) -> Ints:
        found = self._by_p.keys(x & P_MASK) if by_p else self._by_q.keys(second(x))
        state = state_of(x)
        return np.where(state == INFINITE, FAR, np.where(state == MINUS_INFINITE, -FAR, found))

    def in_order(self, array: Array) -> bool:
        return bool(((state_of(array) > EITHER) | self._is_constant(array)).all())

    def _is_constant(self, x: Array) -> Bools:
        """One of those that are in their own order, or its negative."""
        listed = (state_of(x) == BOTH) & self._by_p.lists(x & P_MASK)
        return np.asarray(listed & self._by_q.lists(second(x)) if listed.any() else listed)

    def _sign(self, x: Array) -> Ints:
        by_p = state_of(x) == ONLY_P
        found = self._keys(x, False)
        return np.sign(np.where(by_p, self._keys(x, True), found) if by_p.any() else found)

    def compare(self, predicate: str, left: Array, right: Array) -> Bools:
        if predicate in ("false", "true"):
            return np.full(np.broadcast_shapes(left.shape, right.shape), predicate == "true")
        left, right = self._number(left), self._number(right)
        nan = (state_of(left) == NAN) | (state_of(right) == NAN)
        if predicate in ("ord", "uno"):
            return np.asarray(~nan if predicate == "ord" else nan)
        x, y = self._ordered(left, right)
        plain: dict[str, Callable[[Ints, Ints], Bools]] = {
            "eq": np.equal, "gt": np.greater, "ge": np.greater_equal,
            "lt": np.less, "le": np.less_equal, "ne": np.not_equal,
        }  # fmt: skip
        found = plain[predicate[1:]](x, y)
        return np.asarray(found & ~nan if predicate[0] == "o" else found | nan)

    def may_equal(self, left: Array, right: Array) -> Bools:
        left, right = self._number(left), self._number(right)
        one, other = (mixed(shown(x).view(np.uint64) ^ self._key) for x in (left, right))
        finite = (state_of(left) <= EITHER) & (state_of(right) <= EITHER)
        return np.asarray(finite & ((mixed(one + other) & np.uint64(1)) == 1))

    def _extreme(self, x: Array, y: Array, name: str) -> Array:
        state, keeps_nan = (MAXIMUM, name == "maximum") if name in _MAXIMA else (MINIMUM, name == "minimum")
        if self.free:
            found = self._of_both(x, y, state)
        else:
            x, y = self._number(x), self._number(y)
            a, b = self._ordered(x, y)
            found = np.where((a >= b) == (state == MAXIMUM), x, y)
        x_nan, y_nan = state_of(x) == NAN, state_of(y) == NAN
        if x_nan.any() or y_nan.any():
            other = np.where(x_nan, x, y) if keeps_nan else np.where(x_nan, y, x)
            found = np.where(x_nan | y_nan, other, found)
        return found

    def _of_both(self, x: Array, y: Array, state: int) -> Array:
        nothing, everything = (MINUS_INFINITE, INFINITE) if state == MAXIMUM else (INFINITE, MINUS_INFINITE)
        total = (self._payload(x, state) + self._payload(y, state)) & PAYLOAD
        found = total | (np.int64(state) << STATE_AT)
        a, b = state_of(x), state_of(y)
        constant = self._is_constant(x) & self._is_constant(y)
        if constant.any():
            larger = (self._keys(x, False) >= self._keys(y, False)) == (state == MAXIMUM)
            found = np.where(constant, np.where(larger, x, y), found)
        found = np.where((x == y) | (a == everything) | (b == nothing), x, found)
        return np.where((b == everything) | (a == nothing), y, found)

    def _payload(self, x: Array, state: int) -> Ints:
        """Of a multiset, the sum that it has; of a number, its hash."""
        mine = state_of(x) == state
        number = self._number(np.where(mine, 0, x))
        hashed = mixed(shown(number).view(np.uint64) ^ self._key ^ np.uint64(state)).view(np.int64)
        return np.asarray(np.where(mine, x, hashed) & PAYLOAD)

    def _do_maxnum(self, x: Array, y: Array) -> Array:
        return self._extreme(x, y, "maxnum")

    def _do_minnum(self, x: Array, y: Array) -> Array:
        return self._extreme(x, y, "minnum")

    def _do_maximum(self, x: Array, y: Array) -> Array:
        return self._extreme(x, y, "maximum")

    def _do_minimum(self, x: Array, y: Array) -> Array:
        return self._extreme(x, y, "minimum")

    def _do_abs(self, x: Array) -> Array:
        """The root of the square; in an order, what is not negative in it."""
        if self.free:
            return self._do_sqrt(self._do_mul(x, x))
        return np.where(self._sign(x) < 0, self._do_neg(x), x)

    def _do_copysign(self, x: Array, y: Array) -> Array:
        size = self._do_abs(x)
        return np.where(self._sign(y) < 0, self._do_neg(size), size)

    def _do_isnan(self, x: Array) -> Array:
        return np.asarray(state_of(x) == NAN)

    def _do_isinf(self, x: Array) -> Array:
        return np.asarray((state_of(x) == INFINITE) | (state_of(x) == MINUS_INFINITE))

    def _do_isfinite(self, x: Array) -> Array:
        return np.asarray(state_of(x) <= EITHER)

    # --- many at once ---------------------------------------------------------------------------------------

    def sum(self, array: Array, axis: int) -> Array:
        array = self._number(array)
        if is_plain(array):
            first = (array & P_MASK).sum(axis=axis) % self.p
            return packed(first, second(array).sum(axis=axis) % self.q)
        return self._summed(
            array,
            lambda halves: np.asarray(halves.sum(axis=axis)),
            lambda flags: np.asarray(flags.any(axis=axis)),
        )

    def running_sum(self, array: Array, axis: int) -> Array:
        array = self._number(array)
        return self._summed(
            array,
            lambda halves: np.cumsum(halves, axis=axis),
            lambda flags: np.logical_or.accumulate(flags, axis=axis),
        )

    def _summed(self, array: Array, total: Callable[[Ints], Ints], some: Callable[[Bools], Bools]) -> Array:
        state = state_of(array)
        infinite, minus, nan = some(state == INFINITE), some(state == MINUS_INFINITE), some(state == NAN)
        first, other = total(array & P_MASK) % self.p, total(second(array)) % self.q
        found = with_state(first, other, ~some(state == ONLY_P), some(state == EITHER))
        found = np.where(infinite, word(0, 0, INFINITE), np.where(minus, word(0, 0, MINUS_INFINITE), found))
        return np.where(nan | (infinite & minus), word(0, 0, NAN), found)

    def product(self, left: Array, right: Array) -> Array:
        left, right = self._number(left), self._number(right)
        a, b = state_of(left), state_of(right)
        if (a > EITHER).any() or (b > EITHER).any():
            raise NotModelled("a product of matrices that hold infinities or NaN")
        knows_q = not ((a == ONLY_P).any() or (b == ONLY_P).any())
        first = matrix_product(left & P_MASK, right & P_MASK, self.p)
        other = matrix_product(second(left), second(right), self.q) if knows_q else np.zeros_like(first)
        either = (a == EITHER).any() or (b == EITHER).any()
        return with_state(first, other, np.array([knows_q]), np.array([either]))

    # --- what comes out -------------------------------------------------------------------------------------

    def fields_of(self, x: Array) -> int:
        """In how many fields all that are finite are known; 0 if some only have to be equal in one."""
        state = state_of(self._number(x))
        return 0 if (state == EITHER).any() else 1 if (state == ONLY_P).any() else 2

    def differ(self, x: Array, y: Array) -> Bools:
        """Where two results are not the same number."""
        x, y = self._number(x), self._number(y)
        a, b = state_of(x), state_of(y)
        finite = (a <= EITHER) & (b <= EITHER)
        by_q, either = (a != ONLY_P) & (b != ONLY_P), (a == EITHER) | (b == EITHER)
        in_p, in_q = (x & P_MASK) != (y & P_MASK), by_q & (second(x) != second(y))
        unlike = np.where(by_q & either, in_p & in_q, in_p | in_q)
        return np.asarray(np.where(finite, unlike, a != b))

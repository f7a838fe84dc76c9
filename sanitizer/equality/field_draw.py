"""A draw of the fields of `field_arithmetic` with an order, maxima, sums, and what is equal in it."""

from __future__ import annotations

import math
from collections.abc import Callable, Collection, Iterable

import numpy as np

from kerncap.sanitizer.equality.field_arithmetic import FieldArithmetic
from kerncap.sanitizer.equality.modular import matrix_product
from kerncap.sanitizer.equality.numbers import IRRATIONAL, Bools, Ints, NotModelled, mixed, named
from kerncap.sanitizer.equality.prime_residues import (
    BOTH,
    EITHER,
    HASH,
    INFINITE,
    MAXIMUM,
    MIDDLE_RANK,
    MINIMUM,
    MINUS_INFINITE,
    NAN,
    ONLY_P,
    P_MASK,
    PAYLOAD,
    RANK_AT,
    STATE_AT,
    is_plain,
    packed,
    second,
    shown,
    state_of,
    with_state,
    word,
)
from kerncap.sanitizer.equality.random_order import FAR, RandomOrder, ascending, sizes_of

_COUNTED = frozenset(map(float, range(1, 1025)))  # whole numbers that are in their order

_MAXIMA = frozenset(("maxnum", "maximum"))


class Field(FieldArithmetic):
    """One draw. ``constants``: the floats that are compared in their own order.

    ``pivots``: constants, by their number, that share the order evenly; `compared`: those that should have.
    ``free``: a maximum or minimum is a function of all that it is taken of, and of nothing else; so no order
    decides it. Else it is that of the random order.
    """

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
        self._key = named("order", seed)
        generator = np.random.default_rng([seed, prime])
        super().__init__(prime, seed, generator)
        self._scalars: dict[str, Ints] = {}
        known = ascending([*_COUNTED, *IRRATIONAL, *constants])
        if len(known) >= MIDDLE_RANK:
            raise NotModelled("more constants than there are ranks")
        words = self.integers(np.array([one if one in _COUNTED else 0 for one in known], np.int64))
        for at, one in enumerate(known):
            if one not in _COUNTED:
                words[at] = self.constant(one)[0]
        sizes = sizes_of(generator, len(known), pivots)
        self._by_p = RandomOrder(self.p, self._key, words & P_MASK, sizes)
        self._by_q = RandomOrder(self.q, mixed(self._key), second(words), sizes)

    def scalar(self, name: str, value: float) -> Ints:
        return self._scalars[name] if name in self._scalars else self.constant(value)

    def let_vary(self, scalars: dict[str, float]) -> None:
        """These floats that are passed stand for any, of their sign."""
        for name, value in scalars.items():
            if value and math.isfinite(value):
                drawn = self.hashed(named(f"scalar {name}", self._seed))
                positive = self._sign(drawn)[0] > 0
                self._scalars[name] = drawn if positive == (value > 0) else self.apply("neg", drawn)

    # --- order ----------------------------------------------------------------------------------------------

    def _ordered(self, x: Ints, y: Ints) -> tuple[Ints, Ints]:
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

    def _keys(self, x: Ints, by_p: bool) -> Ints:
        found = self._by_p.keys(x & P_MASK) if by_p else self._by_q.keys(second(x))
        state = state_of(x)
        return np.where(state == INFINITE, FAR, np.where(state == MINUS_INFINITE, -FAR, found))

    def is_endless(self, array: Ints) -> bool:
        state = state_of(array)
        return bool(((state > EITHER) & (state < MAXIMUM)).all())

    def in_order(self, array: Ints) -> bool:
        return bool(((state_of(array) > EITHER) | self._is_constant(array)).all())

    def _is_constant(self, x: Ints) -> Bools:
        """One of those that are in their own order, or its negative."""
        listed = (state_of(x) == BOTH) & self._by_p.lists(x & P_MASK)
        return np.asarray(listed & self._by_q.lists(second(x)) if listed.any() else listed)

    def _sign(self, x: Ints) -> Ints:
        by_p = state_of(x) == ONLY_P
        found = self._keys(x, False)
        return np.sign(np.where(by_p, self._keys(x, True), found) if by_p.any() else found)

    def compare(self, predicate: str, left: Ints, right: Ints) -> Bools:
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

    def may_equal(self, left: Ints, right: Ints) -> Bools:
        left, right = self._number(left), self._number(right)
        one, other = (mixed(shown(x).view(np.uint64) ^ self._key) for x in (left, right))
        finite = (state_of(left) <= EITHER) & (state_of(right) <= EITHER)
        return np.asarray(finite & ((mixed(one + other) & np.uint64(1)) == 1))

    def _extreme(self, x: Ints, y: Ints, name: str) -> Ints:
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

    def _of_both(self, x: Ints, y: Ints, state: int) -> Ints:
        nothing, everything = (MINUS_INFINITE, INFINITE) if state == MAXIMUM else (INFINITE, MINUS_INFINITE)
        constants = self._is_constant(x), self._is_constant(y)
        one, other = (self._payload(*both, state) for both in zip((x, y), constants, strict=True))
        total = (one + other) & HASH | np.maximum(one & ~HASH, other & ~HASH)
        found = total | (np.int64(state) << STATE_AT)
        a, b = state_of(x), state_of(y)
        constant = constants[0] & constants[1]
        if constant.any():
            larger = (self._keys(x, False) >= self._keys(y, False)) == (state == MAXIMUM)
            found = np.where(constant, np.where(larger, x, y), found)
        found = np.where((x == y) | (a == everything) | (b == nothing), x, found)
        return np.where((b == everything) | (a == nothing), y, found)

    def _payload(self, x: Ints, constant: Bools, state: int) -> Ints:
        """Of a set, as `words` has it: of a number its hash; of a constant its rank, for only one counts."""
        mine = state_of(x) == state
        number = self._number(np.where(mine, 0, x))
        hashed = mixed(shown(number).view(np.uint64) ^ self._key ^ np.uint64(state)).view(np.int64) & HASH
        if constant.any():
            ranks = self._by_p.ranks(x & P_MASK) * (1 if state == MAXIMUM else -1)
            hashed = np.where(constant, (ranks + MIDDLE_RANK) << RANK_AT, hashed)
        found: Ints = np.where(mine, x & PAYLOAD, hashed)
        return found

    def _do_maxnum(self, x: Ints, y: Ints) -> Ints:
        return self._extreme(x, y, "maxnum")

    def _do_minnum(self, x: Ints, y: Ints) -> Ints:
        return self._extreme(x, y, "minnum")

    def _do_maximum(self, x: Ints, y: Ints) -> Ints:
        return self._extreme(x, y, "maximum")

    def _do_minimum(self, x: Ints, y: Ints) -> Ints:
        return self._extreme(x, y, "minimum")

    def _do_abs(self, x: Ints) -> Ints:
        """The root of the square; in an order, what is not negative in it."""
        if self.free:
            return self._do_sqrt(self._do_mul(x, x))
        return np.where(self._sign(x) < 0, self._do_neg(x), x)

    def _do_copysign(self, x: Ints, y: Ints) -> Ints:
        size = self._do_abs(x)
        return np.where(self._sign(y) < 0, self._do_neg(size), size)

    def _do_isnan(self, x: Ints) -> Bools:
        return np.asarray(state_of(x) == NAN)

    def _do_isinf(self, x: Ints) -> Bools:
        return np.asarray((state_of(x) == INFINITE) | (state_of(x) == MINUS_INFINITE))

    def _do_isfinite(self, x: Ints) -> Bools:
        return np.asarray(state_of(x) <= EITHER)

    # --- many at once ---------------------------------------------------------------------------------------

    def sum(self, array: Ints, axis: int) -> Ints:
        array = self._number(array)
        if is_plain(array):
            first = (array & P_MASK).sum(axis=axis) % self.p
            return packed(first, second(array).sum(axis=axis) % self.q)
        return self._summed(
            array,
            lambda halves: np.asarray(halves.sum(axis=axis)),
            lambda flags: np.asarray(flags.any(axis=axis)),
        )

    def running_sum(self, array: Ints, axis: int) -> Ints:
        array = self._number(array)
        return self._summed(
            array,
            lambda halves: np.cumsum(halves, axis=axis),
            lambda flags: np.logical_or.accumulate(flags, axis=axis),
        )

    def _summed(self, array: Ints, total: Callable[[Ints], Ints], some: Callable[[Bools], Bools]) -> Ints:
        state = state_of(array)
        infinite, minus, nan = some(state == INFINITE), some(state == MINUS_INFINITE), some(state == NAN)
        first, other = total(array & P_MASK) % self.p, total(second(array)) % self.q
        found = with_state(first, other, ~some(state == ONLY_P), some(state == EITHER))
        found = np.where(infinite, word(0, 0, INFINITE), np.where(minus, word(0, 0, MINUS_INFINITE), found))
        return np.where(nan | (infinite & minus), word(0, 0, NAN), found)

    def product(self, left: Ints, right: Ints) -> Ints:
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

    def fields_of(self, x: Ints) -> int:
        """In how many fields all that are finite are known; 0 if some only have to be equal in one."""
        state = state_of(self._number(x))
        return 0 if (state == EITHER).any() else 1 if (state == ONLY_P).any() else 2

    def differ(self, x: Ints, y: Ints) -> Bools:
        """Where two results are not the same number."""
        x, y = self._number(x), self._number(y)
        a, b = state_of(x), state_of(y)
        finite = (a <= EITHER) & (b <= EITHER)
        by_q, either = (a != ONLY_P) & (b != ONLY_P), (a == EITHER) | (b == EITHER)
        in_p, in_q = (x & P_MASK) != (y & P_MASK), by_q & (second(x) != second(y))
        unlike = np.where(by_q & either, in_p & in_q, in_p | in_q)
        return np.asarray(np.where(finite, unlike, a != b))

"""A number of both fields as one word: its residues and what is known of it."""

from __future__ import annotations

import numpy as np

from kerncap.sanitizer.equality.numbers import Bools, Ints

P_BITS, STATE_AT = np.int64(30), np.int64(59)
P_MASK = np.int64((1 << 30) - 1)
Q_MASK = np.int64((1 << 29) - 1)
PAYLOAD = np.int64((1 << 59) - 1)
RANK_AT, MIDDLE_RANK = np.int64(45), np.int64(1 << 13)
HASH = np.int64((1 << 45) - 1)
# EITHER: what holds in one half alone holds (of a logarithm: see `field_arithmetic`).
# MAXIMUM and MINIMUM: of numbers, by the sum of their hashes, and of the constant among them that counts, by
# its rank (0: none).
BOTH, ONLY_P, EITHER, INFINITE, MINUS_INFINITE, NAN, MAXIMUM, MINIMUM = range(8)


def word(first: int, second: int, state: int) -> Ints:
    return np.array([first | second << int(P_BITS) | state << int(STATE_AT)], dtype=np.int64)


def packed(first: Ints, second: Ints) -> Ints:
    found: Ints = first | (second << P_BITS)
    return found


def with_state(first: Ints, second: Ints, knows_q: Bools, either: Bools) -> Ints:
    state = np.where(knows_q, np.where(either, EITHER, BOTH), ONLY_P).astype(np.int64)
    found: Ints = first | (np.where(knows_q, second, 0) << P_BITS) | (state << STATE_AT)
    return found


def second(x: Ints) -> Ints:
    found: Ints = (x >> P_BITS) & Q_MASK
    return found


def state_of(x: Ints) -> Ints:
    found: Ints = x >> STATE_AT
    return found


def shown(x: Ints) -> Ints:
    """For a hash: of one half, that of a logarithm in which more is equal."""
    state = state_of(x)
    found = np.where(state == BOTH, (x & P_MASK) | (np.int64(ONLY_P) << STATE_AT), x)
    return np.where(state == EITHER, x & ~P_MASK, found)


def is_plain(x: Ints) -> bool:
    """Whether both halves of all are known."""
    return not x.size or int(x.max()) < 1 << int(STATE_AT)


def is_zero(x: Ints) -> Bools:
    state = state_of(x)
    first, other = (x & P_MASK) == 0, second(x) == 0
    found: Bools = (x == 0) | ((state == ONLY_P) & first) | ((state == EITHER) & (first | other))
    return found

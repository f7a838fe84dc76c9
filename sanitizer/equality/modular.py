"""Arithmetic modulo primes below 2^30, on arrays of int64."""

from __future__ import annotations

import numpy as np

from kerncap.sanitizer.equality.numbers import Ints, NotModelled

_HALF = 15  # bits of a digit, for products in float64


def reduced(x: Ints, modulus: np.int64) -> Ints:
    """Of a sum of two residues."""
    return np.where(x >= modulus, x - modulus, x)


def powers(base: int, count: int, modulus: np.int64) -> Ints:
    """base^0, base^1, … (count: a power of two)."""
    found = np.ones(1, dtype=np.int64)
    while len(found) < count:
        step = np.int64(pow(base, len(found), int(modulus)))
        found = np.concatenate([found, found * step % modulus])
    return found


def power(x: Ints, exponent: int, modulus: np.int64) -> Ints:
    found = np.ones_like(x)
    for bit in bin(exponent)[2:]:
        found = found * found % modulus
        if bit == "1":
            found = found * x % modulus
    return found


def inverses(x: Ints, modulus: int) -> Ints:
    """1/x of each; 0 of 0. One inversion, by products of pairs."""
    flat = np.where(x == 0, 1, x).reshape(-1)
    levels = [flat]
    while len(levels[-1]) > 64:
        last = levels[-1]
        if len(last) % 2:
            last = levels[-1] = np.append(last, 1)
        levels.append(last[0::2] * last[1::2] % modulus)
    found = power(levels[-1], modulus - 2, np.int64(modulus))
    for level in reversed(levels[:-1]):
        found, spread = found[: len(level) // 2], np.empty_like(level)
        spread[0::2] = found * level[1::2] % modulus
        spread[1::2] = found * level[0::2] % modulus
        found = spread
    return np.where(x == 0, 0, found[: x.size].reshape(x.shape))


def matrix_product(left: Ints, right: Ints, modulus: np.int64) -> Ints:
    """Digits of 15 bits, whose products of up to 2^23 terms are exact in float64."""
    if left.shape[-1] > 1 << 22:
        raise NotModelled("a product of matrices with more than 2^22 terms")
    mask = (1 << _HALF) - 1
    a, b = ([(x >> _HALF).astype(np.float64), (x & mask).astype(np.float64)] for x in (left, right))
    high = np.matmul(a[0], b[0]).astype(np.int64) % modulus
    middle = (np.matmul(a[0], b[1]).astype(np.int64) + np.matmul(a[1], b[0]).astype(np.int64)) % modulus
    low = np.matmul(a[1], b[1]).astype(np.int64) % modulus
    digit = np.int64(1 << _HALF)
    found: Ints = (((high * digit + middle) % modulus) * digit + low) % modulus
    return found

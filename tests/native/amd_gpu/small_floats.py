"""Floating point formats of 4, 6 and 8 bits (OCP Microscaling Formats 1.0) and of 16, as they are defined."""

from __future__ import annotations

import math
from fractions import Fraction
from typing import NamedTuple

import numpy as np


class Format(NamedTuple):
    number: int  # of cbsz and blgp
    exponent_bits: int
    mantissa_bits: int
    bias: int
    top: int  # the code of the largest number
    too_large: int  # what a larger one becomes

    @property
    def bits(self) -> int:
        return 1 + self.exponent_bits + self.mantissa_bits

    def value(self, code: int) -> float:
        magnitude = code & ((1 << self.bits - 1) - 1)
        exponent, mantissa = divmod(magnitude, 1 << self.mantissa_bits)
        if magnitude > self.top:
            number = math.inf if magnitude == 0x7C and self.exponent_bits == 5 else math.nan
        elif exponent:
            number = (1 + mantissa / (1 << self.mantissa_bits)) * 2.0 ** (exponent - self.bias)
        else:
            number = mantissa / (1 << self.mantissa_bits) * 2.0 ** (1 - self.bias)
        return -number if code >> self.bits - 1 else number

    def values(self, codes: np.ndarray) -> np.ndarray:
        table = np.array([self.value(code) for code in range(1 << self.bits)])
        return table[codes]

    def code(self, number: float, seed: int | None = None, source_mantissa: int = 23) -> int:
        """To nearest even; with a seed, up if what is cut off and the seed's upper bits carry."""
        sign = (math.copysign(1.0, number) < 0) << self.bits - 1
        if math.isinf(number):
            return sign | self.too_large
        exact = Fraction(abs(number))
        exponent = 1 - self.bias
        while exact >= Fraction(2) ** (exponent + 1):
            exponent += 1
        unit = Fraction(2) ** (exponent - self.mantissa_bits)
        below = math.floor(exact / unit)
        part = exact / unit - below
        if seed is None:
            up = part > Fraction(1, 2) or (part == Fraction(1, 2) and below % 2 == 1)
        else:
            dropped = source_mantissa - self.mantissa_bits
            up = math.floor(part * 2**dropped) + (seed >> 32 - dropped) >= 2**dropped
        rounded = (below + up) * unit
        for magnitude in range(self.top + 1):
            if Fraction(self.value(magnitude)) == rounded:
                return sign | magnitude
        return sign | self.too_large


FORMATS = {
    "fp8": Format(0, 4, 3, 7, 0x7E, 0x7F),
    "bf8": Format(1, 5, 2, 15, 0x7B, 0x7C),
    "fp6": Format(2, 2, 3, 1, 0x1F, 0x1F),
    "bf6": Format(3, 3, 2, 3, 0x1F, 0x1F),
    "fp4": Format(4, 2, 1, 1, 7, 7),
}


def packed(codes: np.ndarray, bits: int) -> np.ndarray:
    """Codes [64, n], one behind the other, as words [n * bits / 32, 64]."""
    bit = (codes[:, :, None] >> np.arange(bits)) & 1
    return (
        np.packbits(bit.reshape(64, -1).astype(np.uint8), axis=1, bitorder="little").view(np.uint32).T.copy()
    )


def unpacked(words: np.ndarray, bits: int) -> np.ndarray:
    """The codes [64, n] that lie in words [w, 64]."""
    lanes = np.ascontiguousarray(words.T).view(np.uint8)
    bit = np.unpackbits(lanes, axis=1, bitorder="little").reshape(64, -1, bits)
    return (bit.astype(np.int64) << np.arange(bits)).sum(2)


def as_bits(numbers: np.ndarray, kind: str) -> np.ndarray:
    """Numbers as the bits of their type; what does not fit is cut off."""
    with np.errstate(over="ignore"):
        if kind == "f16":
            return numbers.astype(np.float16).view(np.uint16)
    word = numbers.astype(np.float32).view(np.uint32)
    return (word >> 16).astype(np.uint16) if kind == "bf16" else word


def as_numbers(bits: np.ndarray, kind: str) -> np.ndarray:
    if kind == "f16":
        return bits.astype(np.uint16).view(np.float16).astype(np.float64)
    word = bits.astype(np.uint32) << 16 if kind == "bf16" else bits.astype(np.uint32)
    return word.view(np.float32).astype(np.float64)


def halves(words_: np.ndarray) -> np.ndarray:
    """[n, 64] words as [2n, 64] halves, the lower first."""
    return np.stack([words_ & 0xFFFF, words_ >> 16], 1).reshape(-1, 64)


def joined(halves_: np.ndarray) -> np.ndarray:
    return halves_[0::2].astype(np.uint32) | halves_[1::2].astype(np.uint32) << 16


def following(seeds: np.ndarray) -> np.ndarray:
    """The random numbers that v_prng_b32 makes of these."""
    return np.uint32(2) * seeds ^ np.where(seeds >> 31, np.uint32(197), np.uint32(0))

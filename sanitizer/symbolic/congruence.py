"""What residue class an integer expression stays in."""

from __future__ import annotations

from math import gcd

from kerncap.sanitizer.symbolic.node import Congruence, Expr


def congruence(e: Expr) -> Congruence:
    """``(modulus, remainder)``: the value is congruent to the remainder; (1, 0): nothing is known.

    Modulus 0: the value is the remainder. It is computed as nodes are made.
    """
    return e.modulus, e.remainder


def intersect(a: Congruence, b: Congruence) -> Congruence | None:
    """The residue class of what is in both; None if nothing is."""

    (m, r), (n, s) = a, b
    if m == 0 or n == 0:
        value, (modulus, remainder) = (r, b) if m == 0 else (s, a)
        inside = value == remainder if modulus == 0 else (value - remainder) % modulus == 0
        return (0, value) if inside else None
    g = gcd(m, n)
    if (r - s) % g:
        return None
    # r + m·t ≡ s (mod n)
    t = (s - r) // g * pow(m // g, -1, n // g) if n // g > 1 else 0
    modulus = m // g * n
    return modulus, (r + m * t) % modulus

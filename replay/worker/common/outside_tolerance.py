"""Which elements are outside of a tolerance: the one rule, for arrays of numpy and of torch.

NaN is never a wildcard: the maps of NaN and of each infinity must agree, whatever the tolerance.
``library`` is the module that the arrays are of.
"""

from __future__ import annotations

from typing import Any


def special(library: Any, found: Any, expected: Any) -> Any:
    """Elements of which one is NaN or infinite."""
    return ~(library.isfinite(found) & library.isfinite(expected))


def alike(library: Any, found: Any, expected: Any) -> Any:
    """Elements that are equal, or both NaN."""
    return (found == expected) | (library.isnan(found) & library.isnan(expected))


def floats_outside(
    library: Any, found: Any, expected: Any, special: Any, difference: Any, rtol: float, atol: float
) -> Any:
    """Beyond ``atol + rtol * |expected|``; of the ``special`` ones those that are not `alike`."""
    beyond = difference > atol + rtol * abs(expected)
    return library.where(special, ~alike(library, found, expected), beyond)


def integers_outside(unequal: Any, difference: Any, atol: float) -> Any:
    """The ``unequal`` ones, if ``atol`` is not 0 only those further apart than that."""
    return unequal & (difference > atol) if atol else unequal

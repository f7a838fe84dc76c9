"""Random expressions as recipes: built by the constructors, and evaluated by plain Python beside them.

A recipe is a tuple of an operation and its operands. `value` knows nothing of the package under test; None
is a value that nobody can know (an unknown, a division by zero), which spoils what depends on it.
"""

from __future__ import annotations

import itertools
import random
from collections.abc import Callable, Iterator, Sequence
from typing import Any

import numpy as np
import numpy.typing as npt
from hypothesis import strategies as st

from kerncap.sanitizer.symbolic import expr
from kerncap.sanitizer.symbolic.expr import Buffer, Expr, Variable

Recipe = tuple[Any, ...]
Value = int | bool | None
Env = dict[int, int]

VARIABLES = (
    Variable("p", "program", 0, 3),
    Variable("i", "lane", 0, 7),
    Variable("k", "loop", -2, 2),
    Variable("q", "program", 0, 2),
)
CONTENTS = np.array([3, -7, 0, 12, 5, 5, -1, 100, 9, 2, -128, 127], np.int8)
BUFFER = Buffer(0, 8)
BITS = np.array([1, 0, 0, 1, 1], np.uint8)
BIT_BUFFER = Buffer(1, 1)


class Memory:
    """Two small storages."""

    def values(self, buffer: Buffer, offsets: npt.NDArray[np.int64]) -> npt.NDArray[Any]:
        data = BITS if buffer.storage == 1 else CONTENTS
        return data[np.clip(offsets, 0, len(data) - 1)]

    def bounds(self, buffer: Buffer) -> tuple[int, int]:
        data = BITS if buffer.storage == 1 else CONTENTS
        return int(data.min()), int(data.max())


_ARITHMETIC = ("add", "sub", "mul", "minimum", "maximum", "div_floor", "mod_floor", "div_trunc", "rem_trunc")
_CONSTANT_SECOND = ("mul", "div_floor", "mod_floor", "div_trunc", "rem_trunc")
_BITWISE = ("bit_and", "bit_or", "bit_xor", "shift_left", "shift_right_logical", "shift_right_arithmetic")
_COMPARISONS = ("lt", "le", "gt", "ge", "eq", "ne")


def integers(chance: random.Random, depth: int) -> Recipe:
    """An integer recipe."""
    if depth <= 0 or chance.random() < 0.1:
        if chance.random() < 0.75:
            return ("var", chance.randrange(len(VARIABLES)))
        return ("const", chance.choice((-3, -1, 0, 1, 2, 4, 5, 8, 100)))
    choice = chance.random()
    if choice < 0.28:
        operation = chance.choice(_CONSTANT_SECOND)
        number = chance.choice((-4, -3, -1, 1, 2, 3, 4, 5, 8, 16, 64))
        return (operation, integers(chance, depth - 1), ("const", number))
    if choice < 0.62:
        operation = chance.choice(("add", "add", "add", "sub", *_ARITHMETIC))
        return (operation, integers(chance, depth - 1), integers(chance, depth - 1))
    if choice < 0.72:
        return ("wrap", integers(chance, depth - 1), chance.choice((4, 8, 16, 32)))
    if choice < 0.76:
        return ("unsigned", integers(chance, depth - 1), chance.choice((4, 8, 32)))
    if choice < 0.86:
        bits = chance.choice((8, 16, 32))
        second = ("const", chance.choice((0, 1, 3, 4, 7, 12, -8)))
        if chance.random() < 0.4:
            second = ("wrap", integers(chance, depth - 1), bits)
        return (chance.choice(_BITWISE), ("wrap", integers(chance, depth - 1), bits), second, bits)
    if choice < 0.94:
        return ("ite", booleans(chance, depth - 1), integers(chance, depth - 1), integers(chance, depth - 1))
    if choice < 0.985:
        return ("read", integers(chance, depth - 1))
    return ("unknown", integers(chance, depth - 1))


def booleans(chance: random.Random, depth: int) -> Recipe:
    """A boolean recipe."""
    choice = chance.random()
    if depth <= 0 or choice < 0.6:
        return (chance.choice(_COMPARISONS), integers(chance, depth - 1), integers(chance, depth - 1))
    if choice < 0.85:
        operation = chance.choice(("land", "lor"))
        return (operation, *(booleans(chance, depth - 1) for _ in range(chance.choice((2, 2, 3)))))
    if choice < 0.92:
        return ("lnot", booleans(chance, depth - 1))
    if choice < 0.95:
        return (chance.choice(("eq", "ne")), booleans(chance, depth - 1), booleans(chance, depth - 1))
    if choice < 0.98:
        return ("ite", *(booleans(chance, depth - 1) for _ in range(3)))
    return ("readbit", integers(chance, depth - 1))


_seeds = st.integers(0, 1 << 40)
integer_recipes = st.builds(
    lambda seed, depth: integers(random.Random(seed), depth), _seeds, st.integers(1, 4)
)
boolean_recipes = st.builds(
    lambda seed, depth: booleans(random.Random(seed), depth), _seeds, st.integers(1, 3)
)


def build(recipe: Recipe, variables: Sequence[Variable] = VARIABLES) -> Expr:
    operation = recipe[0]
    if operation == "var":
        return expr.var(variables[recipe[1]])
    if operation == "const":
        return expr.const(recipe[1])
    args = [build(r, variables) for r in recipe[1:] if isinstance(r, tuple)]
    sizes = [r for r in recipe[1:] if not isinstance(r, tuple)]
    if operation == "read":
        return expr.read(BUFFER, args[0])
    if operation == "readbit":
        return expr.read(BIT_BUFFER, args[0])
    if operation == "unknown":
        return expr.unknown("a test", "u", tuple(args), -5, 5)
    result = getattr(expr, operation)(*args, *sizes)
    assert isinstance(result, Expr)
    return result


def _trunc(a: int, b: int) -> int:
    return abs(a) // abs(b) * (1 if (a < 0) == (b < 0) else -1)


def _signed(a: int, bits: int) -> int:
    a &= (1 << bits) - 1
    return a - (1 << bits) if a >> (bits - 1) else a


def value(recipe: Recipe, env: Env) -> Value:
    operation = recipe[0]
    if operation == "var":
        return env[recipe[1]]
    if operation == "const":
        return int(recipe[1])
    if operation in ("land", "lor"):
        parts = [value(r, env) for r in recipe[1:]]
        decisive = operation == "lor"
        if any(p is not None and p == decisive for p in parts):
            return decisive
        return None if None in parts else not decisive
    if operation == "ite":
        condition = value(recipe[1], env)
        if condition is None:
            return None
        return value(recipe[2] if condition else recipe[3], env)
    args = [value(r, env) for r in recipe[1:] if isinstance(r, tuple)]
    if None in args or operation == "unknown":
        return None
    if operation == "read":
        return int(CONTENTS[min(max(args[0], 0), len(CONTENTS) - 1)])  # type: ignore[type-var]
    if operation == "readbit":
        return bool(BITS[min(max(args[0], 0), len(BITS) - 1)])  # type: ignore[type-var]
    return _apply(
        operation, [int(a) for a in args if a is not None], [r for r in recipe[1:] if isinstance(r, int)]
    )


def _apply(operation: str, args: list[int], sizes: list[int]) -> Value:
    a = args[0]
    b = args[1] if len(args) > 1 else 0
    if operation in ("div_floor", "mod_floor", "div_trunc", "rem_trunc") and b == 0:
        return None
    if operation.startswith("shift") and not 0 <= b < sizes[0]:
        return None
    if sizes:
        return _SIZED[operation](a, b, sizes[0])
    return _PLAIN[operation](a, b)


_SIZED: dict[str, Callable[[int, int, int], int]] = {
    "wrap": lambda a, b, bits: _signed(a, bits),
    "unsigned": lambda a, b, bits: a % (1 << bits),
    "bit_and": lambda a, b, bits: _signed(a & b, bits),
    "bit_or": lambda a, b, bits: _signed(a | b, bits),
    "bit_xor": lambda a, b, bits: _signed(a ^ b, bits),
    "shift_left": lambda a, b, bits: _signed(a << b, bits),
    "shift_right_logical": lambda a, b, bits: _signed(a % (1 << bits) >> b, bits),
    "shift_right_arithmetic": lambda a, b, bits: a >> b,
}
_PLAIN: dict[str, Callable[[int, int], int]] = {
    "add": lambda a, b: a + b,
    "sub": lambda a, b: a - b,
    "mul": lambda a, b: a * b,
    "minimum": min,
    "maximum": max,
    "div_floor": lambda a, b: a // b,
    "mod_floor": lambda a, b: a % b,
    "div_trunc": _trunc,
    "rem_trunc": lambda a, b: a - b * _trunc(a, b),
    "lt": lambda a, b: a < b,
    "le": lambda a, b: a <= b,
    "gt": lambda a, b: a > b,
    "ge": lambda a, b: a >= b,
    "eq": lambda a, b: a == b,
    "ne": lambda a, b: a != b,
    "lnot": lambda a, b: not a,
}


def used(recipe: Recipe) -> set[int]:
    if recipe[0] == "var":
        return {recipe[1]}
    return {v for r in recipe[1:] if isinstance(r, tuple) for v in used(r)}


def environments(recipe: Recipe, variables: Sequence[Variable] = VARIABLES) -> Iterator[Env]:
    """Every point of the variables that occur in the recipe."""
    indices = sorted(used(recipe))
    for point in itertools.product(*(range(variables[v].low, variables[v].high + 1) for v in indices)):
        yield dict(zip(indices, point, strict=True))

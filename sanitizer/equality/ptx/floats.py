"""Instructions on floats, by table, over `Numbers`.

Approximations (``ex2.approx``, ``rcp.approx``) are taken for the functions that they approximate, and
rounding to nearest for none. Source: PTX ISA 9.0, "Floating-Point Instructions".
"""

from __future__ import annotations

from dataclasses import replace

import numpy as np

from kerncap.sanitizer.concrete import formats
from kerncap.sanitizer.equality.comparisons import compared
from kerncap.sanitizer.equality.degrees import Degree, degree_of, widest
from kerncap.sanitizer.equality.function_names import of_symbol, test_of_symbol
from kerncap.sanitizer.equality.numbers import Array, Bools, NotModelled, Numbers
from kerncap.sanitizer.equality.ptx.values import FLOATS, PREDICATE, Value, as_float

# Instruction -> function of `Numbers`, how many operands.
FUNCTIONS = {
    "add": ("add", 2), "sub": ("sub", 2), "mul": ("mul", 2), "div": ("div", 2), "fma": ("fma", 3),
    "mad": ("fma", 3), "neg": ("neg", 1), "abs": ("abs", 1), "min": ("minnum", 2), "max": ("maxnum", 2),
    "rcp": ("reciprocal", 1), "sqrt": ("sqrt", 1), "rsqrt": ("rsqrt", 1), "ex2": ("exp2", 1),
    "lg2": ("log2", 1), "sin": ("sin", 1), "cos": ("cos", 1), "tanh": ("tanh", 1),
    "copysign": ("copysign", 2),
}  # fmt: skip
# Words that leave a result over the reals as it is.
_IGNORED = frozenset(("rn", "approx", "full", "ftz"))
_NAN_TOO = {"maxnum": "maximum", "minnum": "minimum"}
_PREDICATES = {
    "eq": "oeq", "ne": "one", "lt": "olt", "le": "ole", "gt": "ogt", "ge": "oge", "num": "ord",
    "equ": "ueq", "neu": "une", "ltu": "ult", "leu": "ule", "gtu": "ugt", "geu": "uge", "nan": "uno",
}  # fmt: skip
_TESTS = {"finite": "isfinite", "infinite": "isinf", "notanumber": "isnan"}
_WHOLE = {"rni": "rint", "rzi": "trunc", "rmi": "floor", "rpi": "ceil"}
_LARGER, _SMALLER = ("ogt", "oge", "ugt", "uge"), ("olt", "ole", "ult", "ule")


class Floats:
    """``rounds``: of results to their type, for runs in the kernel's own types."""

    def __init__(self, numbers: Numbers, rounds: bool) -> None:
        self.numbers = numbers
        self._rounds = rounds
        self.functions: set[str] = set()  # that were met

    def of(self, value: Value, kind: str) -> Value:
        return as_float(value, kind, self.numbers)

    def constant(self, number: float, kind: str) -> Value:
        return Value(kind, self.numbers.constant(number))

    def rounded(self, data: Array, kind: str) -> Array:
        return formats.rounded(data, kind).astype(np.float64) if self._rounds else data

    def in_tf32(self, data: Array, *, nearest: bool = False) -> Array:
        """With ten bits behind the first: the others are cut off, or rounded with ties away from zero."""
        if not self._rounds:
            return data
        bits = data.astype(np.float32).view(np.uint32) + np.uint32(0x1000 * nearest)
        return np.asarray((bits & np.uint32(0xFFFFE000)).view(np.float32).astype(np.float64))

    def compute(self, parts: tuple[str, ...], kind: str, operands: list[Value]) -> Value:
        """The instruction of these words on operands of one type. Raises NotModelled."""
        function, count = FUNCTIONS[parts[0]]
        saturates = False
        for word in parts[1:]:
            if word == "NaN" and function in _NAN_TOO:
                function = _NAN_TOO[function]
            elif word == "sat":
                saturates = True
            elif word not in _IGNORED:
                raise NotModelled(f"the rounding or form {word}")
        given = [self.of(one, kind) for one in operands]
        if function in ("maxnum", "minnum", "maximum", "minimum") and len(given) > 2:
            given = [self._apply(function, kind, given[:2]), *given[2:]]
        if len(given) != count:
            raise NotModelled(f"{len(given)} operands")
        if parts[0] == "copysign":  # PTX has the sign first
            given.reverse()
        found = self._apply(function, kind, given)
        return self.saturated(found) if saturates else found

    def saturated(self, value: Value) -> Value:
        """Between zero and one, zero for NaN."""
        least = self._apply("maxnum", value.kind, [value, self.constant(0.0, value.kind)])
        return self._apply("minnum", value.kind, [least, self.constant(1.0, value.kind)])

    def _apply(self, function: str, kind: str, given: list[Value]) -> Value:
        self.functions.add(function)
        data = self.numbers.apply(function, *(one.data for one in given))
        degrees = [one.degree for one in given]
        return Value(
            kind, self.rounded(data, kind), degree_of(function, degrees, ordered=not self.numbers.free)
        )

    def library(self, symbol: str, operands: list[Value], kind: str) -> Value:
        """A function of CUDA's math library, by its name. ``kind``: of its operands and its result."""
        given = [self.of(one, kind) for one in operands]
        test = test_of_symbol(symbol)
        if test is not None:
            raise NotModelled(f"the function {symbol}")
        function = of_symbol(symbol)
        if function == "saturate":
            return self.saturated(given[0])
        return self._apply(function, kind, given)

    def tested(self, symbol: str, operands: list[Value]) -> Value | None:
        """A function of the library that asks something of a float, as a predicate."""
        function = test_of_symbol(symbol)
        if function is None:
            return None
        kind = operands[0].kind if operands[0].kind in FLOATS else "f32"
        return self.test(function, self.of(operands[0], kind))

    def test(self, name: str, value: Value) -> Value:
        function = _TESTS.get(name, name)
        if function not in _TESTS.values():
            raise NotModelled(f"the test {name}")
        self.functions.add(function)
        degree = degree_of(function, [value.degree])
        return Value(PREDICATE, self.numbers.apply(function, value.data), degree)

    def compare(self, word: str, kind: str, operands: list[Value]) -> Value:
        """A predicate."""
        if word not in _PREDICATES:
            raise NotModelled(f"the comparison {word}")
        x, y = (self.of(one, kind) for one in operands)
        predicate = _PREDICATES[word]
        found = compared(
            self.numbers, predicate, x.data, y.data, [x.degree, y.degree], ordered=not self.numbers.free
        )
        self.functions.add(found.function)
        return Value(PREDICATE, found.holds, found.degree, compared=(predicate, x, y, None))

    def select(self, yes: Value, no: Value, condition: Value, active: Bools) -> Value:
        """``yes`` where the condition holds; the larger or smaller of two that were compared is that."""
        extreme = self._extreme(yes, no, condition, active)
        data = np.where(condition.data, yes.data, no.data)
        if extreme is None:
            return Value(yes.kind, data, widest([yes.degree, no.degree]).after([condition.degree]))
        apply = self.numbers.apply
        self.functions.add(extreme)
        nan = apply("isnan", yes.data) | apply("isnan", no.data)
        degree = degree_of(extreme, [yes.degree, no.degree], ordered=not self.numbers.free)
        return Value(yes.kind, np.where(nan, data, apply(extreme, yes.data, no.data)), degree)

    def _extreme(self, yes: Value, no: Value, condition: Value, active: Bools) -> str | None:
        if condition.compared is None or not self.numbers.free:
            return None
        predicate, x, y, lanes = condition.compared
        if predicate not in (*_LARGER, *_SMALLER) or lanes is not None and not lanes[active].all():
            return None
        larger = predicate in _LARGER
        if _same(x, yes) and _same(y, no):
            return "maximum" if larger else "minimum"
        if _same(x, no) and _same(y, yes):
            return "minimum" if larger else "maximum"
        return None

    # --- conversions ----------------------------------------------------------------------------------------

    def convert(self, words: tuple[str, ...], to: str, value: Value) -> Value:
        """A float as one of another type, or as a whole number of its own."""
        found = value
        for word in words:
            if word in _WHOLE:
                found = self._apply(_WHOLE[word], found.kind, [found])
            elif word not in (*_IGNORED, "sat", "rz"):
                raise NotModelled(f"the rounding or form {word}")
        if "rz" in words:
            raise NotModelled("the rounding or form rz")
        self.functions.add("cast")
        found = replace(found, kind=to, data=self.rounded(found.data, to), literal=False)
        return self.saturated(found) if "sat" in words else found

    def from_integers(self, words: tuple[str, ...], to: str, numbers: Array, of: Value) -> Value:
        if any(word not in (*_IGNORED, "sat") for word in words):
            raise NotModelled(f"the rounding or form {'.'.join(words)}")
        self.functions.add("cast")
        data = self.numbers.integers(numbers)
        found = Value(to, self.rounded(data, to), of.degree)
        return self.saturated(found) if "sat" in words else found


def _same(one: Value, other: Value) -> bool:
    return one is other or (
        one.degree == other.degree == Degree() and one.data.size == other.data.size == 1
        and one.kind == other.kind and bool((one.data == other.data).all())
    )  # fmt: skip

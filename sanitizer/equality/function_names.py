"""The functions of `Numbers` by what TTIR calls them: operations, and symbols of libdevice and ocml."""

from __future__ import annotations

import re

from kerncap.sanitizer.concrete.ops_math import MATH

# By operation.
FUNCTIONS = {
    "arith.addf": "add", "arith.subf": "sub", "arith.mulf": "mul", "arith.divf": "div", "arith.remf": "rem",
    "arith.negf": "neg", "arith.maxnumf": "maxnum", "arith.minnumf": "minnum",
    "arith.maximumf": "maximum", "arith.minimumf": "minimum",
    "tt.precise_divf": "div", "tt.precise_sqrt": "sqrt",
    **{f"math.{name}": {"absf": "abs", "powf": "pow"}.get(name, name) for name in MATH},
    "math.isnan": "isnan", "math.isinf": "isinf", "math.isfinite": "isfinite",
}  # fmt: skip
# By a name without its prefix and suffix.
_LIBRARY = {
    "fabs": "abs", "fmin": "minnum", "fmax": "maxnum", "fdividef": "div", "fast_fdivide": "div",
    "fast_exp": "exp", "fast_exp10": "exp10", "fast_log": "log", "fast_log2": "log2", "fast_log10": "log10",
    "fast_pow": "pow", "fast_tanh": "tanh", "fast_sin": "sin", "fast_cos": "cos", "fast_tan": "tan",
    "add": "add", "sub": "sub", "mul": "mul", "div": "div", "sqrt": "sqrt", "rsqrt": "rsqrt",
    "rcp": "reciprocal", "fma": "fma",
}  # fmt: skip
# Those that give a truth value as an integer.
_TESTS = {
    "isnanf": "isnan", "isnand": "isnan", "isnan": "isnan", "isinff": "isinf", "isinfd": "isinf",
    "isinf": "isinf", "finitef": "isfinite", "isfinited": "isfinite", "isfinite": "isfinite",
}  # fmt: skip


def is_integer_power(symbol: str) -> bool:
    """Whether it raises a float to an integer."""
    return _bare(symbol) in ("powif", "powi", "pown")


def of_symbol(symbol: str) -> str:
    """Of floats."""
    name = _bare(symbol)
    rounded = re.fullmatch(r"[fd](add|sub|mul|div|sqrt|rsqrt|rcp|ma)_r[nzud]", name)
    if rounded:
        return {"ma": "fma"}.get(rounded.group(1), _LIBRARY.get(rounded.group(1), name))
    name = name if name in _LIBRARY or name == "erf" else name.removesuffix("f")
    return _LIBRARY.get(name, name)


def test_of_symbol(symbol: str) -> str | None:
    """A test of floats; None for another function."""
    return _TESTS.get(_bare(symbol))


def _bare(symbol: str) -> str:
    ocml = re.fullmatch(r"__ocml_(\w+?)_f(16|32|64)", symbol)
    return ocml.group(1) if ocml else symbol.removeprefix("__nv_")

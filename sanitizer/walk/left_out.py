"""Lanes that a masked load without ``other`` leaves out: what they hold, and where that shows.

Triton's text leaves them undefined. Every lowering that there is puts zeros there:

=============  ==================================================================================
NVIDIA         the register is set to 0 before the predicated load; an asynchronous copy whose source
               size is 0 fills with zeros
AMD            a buffer load past its last record gives 0; else the branch around the load yields 0
interpreter    ``numpy.zeros_like``
=============  ==================================================================================

So a left-out lane is zero, and the question is where a program is right by that only. Two marks are carried
in the formulas that say where a value is undefined, each a variable that is 0 or 1:

- ``LEFT_OUT``: the lane itself was left out, or computed from one that was;
- ``BY_HABIT``: lanes were combined (a sum, a product of matrices), and what left-out lanes added was nothing.

A left-out lane that does add something (zero under a maximum, ``exp(0)`` in a sum, zero times what memory
holds, which may be NaN) makes the result undefined without a mark.

Source: Triton 3.9's output for sm_75, sm_80, sm_90, sm_100, gfx942, gfx950 and gfx1100, and its interpreter.
`tools/left_out_lanes.py` shows what the lanes hold on a device.
"""

from __future__ import annotations

import math
from collections.abc import Iterable

from kerncap.sanitizer.symbolic.expr import (
    FALSE,
    TRUE,
    Expr,
    Variable,
    boolean,
    const,
    eq,
    interval,
    land,
    lor,
    substitute,
    var,
)
from kerncap.sanitizer.symbolic.solve import Solver
from kerncap.sanitizer.ttir.ir import Block

_LEFT_OUT = Variable("a lane was left out", "free", 0, 1)
_BY_HABIT = Variable("right by what left-out lanes hold", "free", 0, 1)
_ZERO, _ONE = const(0), const(1)


def left_out(mask: Expr) -> Expr:
    """The mark of a load's lanes of which the mask does not hold."""
    return ~mask & eq(var(_LEFT_OUT), 1)


def outside(inside: Expr) -> Expr:
    """The mark of a block pointer's lanes outside of its shape, with no padding option: right by habit.

    Kernels in use rely on these zeros everywhere, so that they are never an error.
    """
    return ~inside & eq(var(_BY_HABIT), 1)


def is_marked(undefined: Expr) -> bool:
    return not undefined.variables.isdisjoint((_LEFT_OUT, _BY_HABIT))


def anywhere(undefined: Expr) -> Expr:
    """Where a value is undefined by Triton's text."""
    return substitute(undefined, {_LEFT_OUT: _ONE, _BY_HABIT: _ONE})


def in_lane(undefined: Expr) -> Expr:
    """Where a value is undefined, or that of a lane that was left out."""
    return substitute(undefined, {_LEFT_OUT: _ONE, _BY_HABIT: _ZERO})


def on_target(undefined: Expr) -> Expr:
    """Where a value is undefined whatever left-out lanes hold."""
    return substitute(undefined, {_LEFT_OUT: _ZERO, _BY_HABIT: _ZERO})


def combined(undefined: Expr, lane: Variable | None) -> Expr:
    """The mark of what was made of all lanes along an axis, of which the left-out ones added nothing.

    If all of them were left out, so is what became of them.
    """
    return _combined(undefined, all_left_out(undefined, lane)) if is_marked(undefined) else undefined


def all_left_out(undefined: Expr, lane: Variable | None) -> Expr:
    """The condition that all lanes along an axis were left out: the first and the last one are enough."""
    here = in_lane(undefined)
    if lane is None:
        return here
    return land(*(substitute(here, {lane: const(end)}) for end in (lane.low, lane.high)))


def accumulated(undefined: Expr, counter: Variable) -> Expr:
    """The same of what a loop adds to a lane, for which its first iteration stands."""
    if not is_marked(undefined):
        return undefined
    return _combined(undefined, substitute(in_lane(undefined), {counter: _ZERO}))


def _combined(undefined: Expr, nothing_else: Expr) -> Expr:
    by_habit = substitute(undefined, {_LEFT_OUT: var(_BY_HABIT)})
    return by_habit | (nothing_else & eq(var(_LEFT_OUT), 1))


def all_along(condition: Expr, along: Variable | None, solver: Solver, path: Expr) -> Expr:
    """Where a condition holds for all values of a variable, as far as that is easily shown."""
    if along is None or along not in condition.variables:
        return condition
    if not is_small(condition):
        return FALSE
    parts = condition.args if condition.kind == "or" else ()
    apart = lor(*(part for part in parts if along not in part.variables))
    first = substitute(condition, {along: const(along.low)})
    if first is FALSE or not solver.refuted(path, first, ~condition):
        return apart
    return apart | first


# Where lanes are undefined is a small formula in practice; networks of exchanges (a sort) make it explode.
_MAX_NODES = 150


def is_small(e: Expr) -> bool:
    """Whether the formula is short enough to reason about."""
    pending, seen = [e], {e}
    while pending:
        for argument in pending.pop().args:
            if argument not in seen:
                seen.add(argument)
                pending.append(argument)
        if len(seen) > _MAX_NODES:
            return False
    return True


def kept_unknown(marks: Iterable[Expr], unknown: Expr) -> Expr:
    """In place of formulas that have grown too long, one of which nothing is known, with their mark."""
    if all(on_target(mark) is FALSE for mark in marks):
        return unknown & eq(var(_LEFT_OUT), 1)
    return unknown


# --- what a lane holds -----------------------------------------------------------------------------------

# Functions that keep a sign, zero and infinity.
_SAME = frozenset(("arith.extf", "arith.truncf", "tt.fp_to_fp", "arith.sitofp", "arith.uitofp"))
_ROOTS = frozenset(("math.sqrt", "tt.precise_sqrt", "math.erf", "math.sin", "math.tanh", "math.expm1"))
_EXPONENTIALS = frozenset(("math.exp", "math.exp2"))


def holds(e: Expr, number: float, lane: Variable | None = None) -> Expr:
    """Where the value is this number for sure: 0, 1 or an infinity. ``lane``: see `from_memory`."""
    try:
        return _Holding(lane).where(e, number)
    except RecursionError:
        return FALSE


class _Holding:
    def __init__(self, lane: Variable | None) -> None:
        self._lane = lane
        self._known: dict[tuple[Expr, float], Expr] = {}

    def where(self, e: Expr, number: float) -> Expr:
        if (e, number) not in self._known:
            self._known[e, number] = self._find(e, number)
        return self._known[e, number]

    def _absorbed(self, a: Expr, b: Expr, number: float) -> Expr:
        """Where ``a`` is this number and ``b``, which is not from memory, does not change it."""
        return self.where(a, number) & ~from_memory(b, self._lane)

    def _find(self, e: Expr, number: float) -> Expr:
        if e.sort == "bool":
            if number not in (0, 1):
                return FALSE
            return e if number else ~e
        if e.kind == "ite":
            condition, then, otherwise = e.args
            return (condition & self.where(then, number)) | (~condition & self.where(otherwise, number))
        if e.kind != "unknown":
            return eq(e, int(number)) if math.isfinite(number) else FALSE
        name = operation_of(e)
        if name == "float":
            return boolean(float(e.payload[1][1]) == number)
        arguments = e.args
        if name in _SAME:
            return self.where(arguments[0], number)
        if name == "arith.negf":
            return self.where(arguments[0], -number)
        if name == "math.absf":
            positive = self.where(arguments[0], number) if number >= 0 else FALSE
            return positive | self.where(arguments[0], -number) if number > 0 else positive
        if name in _EXPONENTIALS:
            argument = {0: -math.inf, 1: 0.0, math.inf: math.inf}.get(number)
            return FALSE if argument is None else self.where(arguments[0], argument)
        if name in _ROOTS:
            return self.where(arguments[0], number) if number == 0 else FALSE
        if name == "arith.mulf" and number == 0:
            a, b = arguments
            return self._absorbed(a, b, 0) | self._absorbed(b, a, 0)
        if name == "arith.divf" and number == 0:
            a, b = arguments
            return self._absorbed(a, b, 0)
        if name == "arith.mulf" and number == 1:
            return land(*(self.where(one, 1) for one in arguments))
        if name in ("arith.addf", "arith.subf"):
            a, b = arguments
            if number == 0:
                return self.where(a, 0) & self.where(b, 0)
            if math.isinf(number):  # a number that is finite, or NaN in the lanes that count as well
                other = -number if name == "arith.subf" else number
                return self._absorbed(a, b, number) | self._absorbed(b, a, other)
        return FALSE


def operation_of(e: Expr) -> object:
    """What an unknown value comes from: an operation's name, "float" of a literal, "memory", "value"."""
    key = e.payload[1]
    return key[0] if isinstance(key, tuple) and key else key


def from_memory(e: Expr, lane: Variable | None = None) -> Expr:
    """Where a value is computed, lane by lane, from what memory holds there: it may be infinite or NaN.

    What the kernel reduced, multiplied or carried before is no such value, nor is one that is the same for
    all along the axis of ``lane``: if it is NaN, so are the lanes that count.
    """
    known: dict[Expr, Expr] = {}

    def of(one: Expr) -> Expr:
        if one not in known:
            known[one] = FALSE
            known[one] = found(one)
        return known[one]

    def found(one: Expr) -> Expr:
        if not one.variables if lane is None else lane not in one.variables:
            return FALSE
        if one.kind == "ite":
            condition, then, otherwise = one.args
            return (condition & of(then)) | (~condition & of(otherwise))
        if one.kind == "read":
            return FALSE  # an integer, which is finite
        if one.kind == "unknown" and (operation_of(one) == "memory" or "from memory" in one.payload[0]):
            return TRUE
        if one.kind == "unknown" and operation_of(one) in ("value", "carried", "tt.reduce"):
            return FALSE
        if one.kind == "unknown" and str(operation_of(one)).endswith("bitcast"):
            return boolean(any(argument.reads for argument in one.args) or one.reads != frozenset())
        return lor(*(of(argument) for argument in one.args if argument.sort == "int"))

    try:
        return of(e)
    except RecursionError:
        return TRUE


def is_not_negative(e: Expr) -> bool:
    """For all lanes, whatever the data are (NaN aside)."""
    known: dict[Expr, bool] = {}

    def of(one: Expr) -> bool:
        if one not in known:
            known[one] = found(one)
        return known[one]

    def found(one: Expr) -> bool:
        if one.sort == "bool":
            return True
        if one.kind == "ite":
            return of(one.args[1]) and of(one.args[2])
        if one.kind != "unknown":
            low, _ = interval(one)
            return low is not None and low >= 0
        name = operation_of(one)
        if name == "float":
            return float(one.payload[1][1]) >= 0
        if name in _EXPONENTIALS or name in ("math.absf", "math.sqrt", "tt.precise_sqrt", "arith.uitofp"):
            return True
        if name in _SAME:
            return of(one.args[0])
        if name == "arith.mulf" and one.args[0] is one.args[1]:
            return True
        if name in ("arith.addf", "arith.mulf", "arith.divf", "arith.minnumf", "arith.minimumf"):
            return all(map(of, one.args))
        if name in ("arith.maxnumf", "arith.maximumf"):
            return any(map(of, one.args))
        return False

    try:
        return of(e)
    except RecursionError:
        return False


# --- what is combined ------------------------------------------------------------------------------------

_NEUTRAL: dict[str, float] = {
    "arith.addf": 0, "arith.addi": 0, "arith.ori": 0, "arith.maxui": 0,
    "arith.mulf": 1, "arith.muli": 1,
    "arith.maxnumf": -math.inf, "arith.maximumf": -math.inf,
    "arith.minnumf": math.inf, "arith.minimumf": math.inf,
}  # fmt: skip
_MAXIMA = frozenset(("arith.maxnumf", "arith.maximumf", "arith.maxsi"))


def adds_nothing(combiner: Block, e: Expr, lane: Variable | None) -> Expr:
    """Where a lane with this value is neutral to a reduction or scan of one value.

    A combiner that is not one operation on its two arguments (an argmax, a sort's exchange) has no neutral
    lanes here.
    """
    name = _single(combiner)
    if name is None:
        return FALSE
    neutral = holds(e, _NEUTRAL[name], lane) if name in _NEUTRAL else FALSE
    if name in _MAXIMA and is_not_negative(e):
        neutral = neutral | holds(e, 0, lane)
    return neutral


def is_sum(combiner: Block) -> bool:
    return _single(combiner) in ("arith.addf", "arith.addi")


def _single(combiner: Block) -> str | None:
    if len(combiner.arguments) != 2 or len(combiner.operations) != 2:
        return None
    operation = combiner.operations[0]
    returned = combiner.operations[1].operands
    if set(operation.operands) != set(combiner.arguments) or returned != operation.results:
        return None
    return operation.name


# --- what is stored --------------------------------------------------------------------------------------

_SUMS = frozenset(("add", "fadd", "or"))


def given_to_memory(undefined: Expr, value: Expr | None, atomic: object) -> Expr:
    """Where a store or an atomic puts something undefined into memory.

    A left-out lane may be stored as the zero that it is, and be added to what others made; no other atomic
    leaves memory as it was.
    """
    if not is_marked(undefined):
        return undefined
    harmless = FALSE
    if value is not None and (atomic is None or atomic in _SUMS):
        harmless = holds(value, 0)
    return on_target(undefined) | (in_lane(undefined) & ~harmless)

"""Whether two launches compute the same: equal over the reals, different on inputs that show it, or open."""

from __future__ import annotations

import math
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field, replace
from typing import NamedTuple

import numpy as np

from kerncap.sanitizer.concrete.dataflow import ATOMICS
from kerncap.sanitizer.concrete.run import Limits
from kerncap.sanitizer.equality.compared_memory import (
    check_types,
    integers_stored,
    integers_that_differ,
    pairs,
    written,
)
from kerncap.sanitizer.equality.field_arithmetic import PRIMES, SMALLEST_Q
from kerncap.sanitizer.equality.field_draw import Field
from kerncap.sanitizer.equality.kernel_runs import (
    IN_ORDER,
    Budget,
    CannotRun,
    Kernel,
    Order,
    Ran,
    run,
    varying,
)
from kerncap.sanitizer.equality.kernel_runs import constants as constants_of
from kerncap.sanitizer.equality.kernel_runs import makers as makers_of
from kerncap.sanitizer.equality.kernel_runs import scalars as scalars_of
from kerncap.sanitizer.equality.numbers import NotModelled, irrational, named, rational
from kerncap.sanitizer.equality.sampled_programs import Cost, Sample, cost_of, is_too_large, take
from kerncap.sanitizer.equality.watched_accesses import gives_back_what_was_there
from kerncap.sanitizer.equality.witness import Witness, search
from kerncap.sanitizer.ttir.ir import Module
from kerncap.sanitizer.ttir.tensors_only import is_asynchronous
from kerncap.sanitizer.walk.plan import promising

# "Wrong with a probability of at most 2^-60".
CONFIDENCE_BITS = 60
_MOST_TRIALS = 12
_MOST_CHOICES = 8  # more comparisons than any number of draws decides
_MOST_DRAWS = 2000
_SEED = 0x6B65726E
LIMITS = Limits(element_operations=4_000_000_000, seconds=300.0)


@dataclass
class Proof:
    """``equal``: True, False with a witness, or None with the reason.

    ``sample``: what was run of launches that are too large, which were equal in it if there is no witness.
    """

    equal: bool | None
    reason: str = ""
    sample: Sample | None = None
    witness: Witness | None = None
    trials: int = 0
    passed_scalars: bool = False  # only for the floats that are passed
    elements: int = 0  # that were compared
    only_one: list[tuple[int, str]] = field(default_factory=list)  # 0 or 1, and what only that stores to
    assumptions: list[str] = field(default_factory=list)


def prove(first: Kernel, second: Kernel, *, limits: Limits = LIMITS, seed: int = _SEED) -> Proof:
    """Whether two launches leave the same in memory, for all float inputs of these sizes.

    ``limits``: of all runs together. Launches that need more are run in part, which never proves them equal.
    """
    budget = Budget(limits)
    costs = _costs(first, second, budget, seed)
    if costs is not None and is_too_large((first, second), costs, limits):
        return _of_sample(first, second, costs, budget, seed)
    return _proof(first, second, budget, seed)


def _proof(first: Kernel, second: Kernel, budget: Budget, seed: int) -> Proof:
    try:
        scalars = scalars_of(first, second)
        constants = [*constants_of(first), *constants_of(second), *scalars.values()]
        witness, near = search(first, second, budget, seed, constants)
        if witness is not None:
            return Proof(False, witness=witness)
        found = _trials(first, second, budget, seed, constants, varying(scalars))
        if found.equal is None and scalars:
            found = _trials(first, second, budget, seed, constants, {})
    except (CannotRun, NotModelled) as reason:
        return Proof(None, str(reason))
    if found.equal is None and near:
        found.reason += f"; {near}"
    return found


def _costs(first: Kernel, second: Kernel, budget: Budget, seed: int) -> list[Cost] | None:
    """Of a program of each; None if that is not known, which the proof then says why."""
    if max(one.launch.program_count for one in (first, second)) == 1:
        return None
    try:
        numbers = Field(PRIMES[0], seed, [*constants_of(first), *constants_of(second)])
        found = [cost_of(one, numbers, budget) for one in (first, second)]
    except (CannotRun, NotModelled):
        return None
    known = [one for one in found if one is not None]
    return known if len(known) == len(found) else None


def _of_sample(first: Kernel, second: Kernel, costs: list[Cost], budget: Budget, seed: int) -> Proof:
    large = "too large to run whole"
    try:
        sample = take(first, second, costs, budget, seed)
    except (CannotRun, NotModelled) as reason:
        return Proof(None, f"{large}, and a sample is not possible: {reason}")
    found = _proof(*sample.kernels, budget, seed)
    if found.equal:
        return replace(found, equal=None, reason=f"{large}; equal in a sample", sample=sample)
    if found.equal is None:
        found.reason = f"{large}; of a sample: {found.reason}"
    return found


# --- exact arithmetic ---------------------------------------------------------------------------------------


def _trials(
    first: Kernel,
    second: Kernel,
    budget: Budget,
    seed: int,
    constants: Sequence[float],
    scalars: dict[str, float],
) -> Proof:
    """Maxima as functions of what they are taken of; if that shows nothing, by orders of all numbers."""
    found = Proof(None)
    for free in (True, False):
        try:
            tried = _tried(first, second, budget, seed, constants, scalars, free)
        except (CannotRun, NotModelled) as reason:
            if not free:
                raise CannotRun(found.reason or str(reason)) from None
            tried = Proof(None, str(reason))
        if tried.equal or not found.reason:
            found = tried
        if tried.equal:
            break
    return found


def _tried(
    first: Kernel,
    second: Kernel,
    budget: Budget,
    seed: int,
    constants: Sequence[float],
    scalars: dict[str, float],
    free: bool,
) -> Proof:
    needed, done, elements, hangs = 1, 0, 0, _HangsOn()
    functions: set[str] = set()
    pivots: set[int] = set()
    for draw in range(seed, seed + _MOST_DRAWS):
        numbers = Field(PRIMES[draw % len(PRIMES)], draw, constants, free, pivots)
        numbers.let_vary(scalars)
        orders = _orders(draw - seed)
        a, b = (
            run(kernel, numbers, budget, order=order)
            for kernel, order in zip((first, second), orders, strict=True)
        )
        check_types(first, second, a, b)
        wrong, elements, fields = _compared(first, second, a, b, numbers)
        if wrong:
            for kernel, ran, order in zip((first, second), (a, b), orders[::-1], strict=True):
                again = run(kernel, numbers, budget, order=order)
                if _compared(kernel, kernel, ran, again, numbers)[0]:
                    wrong = "what one of them stores depends on the order of its programs"
            return Proof(None, wrong, trials=done + 1)
        functions |= a.plan.functions | b.plan.functions
        # Draws in which a constant was compared that had no share of the order show less.
        done = done + 1 if numbers.compared <= pivots else 0
        pivots |= numbers.compared
        degrees = [ran.plan.hangs_on() for ran in (a, b)]
        choices, signs = sum(one.choices for one in degrees), sum(one.signs for one in degrees)
        # The most of all draws: some run what others only could have run.
        hangs = _HangsOn(max(hangs.choices, choices), max(hangs.signs, signs), len(pivots))
        needed, why = _needed(a, b, hangs, fields, budget.most)
        if why:
            return Proof(None, why, trials=done + 1)
        if done >= needed:
            break
    if not elements:
        return Proof(None, "they store nothing to the same memory")
    assumptions = _assumptions((first, second), functions, constants, done, hangs)
    if any(ran.plan.left_out for ran in (a, b)) and _hangs_on_left_out(first, second, budget, numbers):
        assumptions.append("lanes that a load leaves out hold zero, as on this target")
    return Proof(
        True,
        trials=done,
        passed_scalars=len(scalars_of(first, second)) > len(scalars),
        elements=elements,
        only_one=[*_only_one(0, first, second, a), *_only_one(1, second, first, b)],
        assumptions=assumptions,
    )


def _orders(draw: int) -> tuple[Order, Order]:
    """Of the programs of both kernels, so that programs that race seldom do so alike."""
    orders = IN_ORDER, Order(in_parts=True, backwards=True), Order(in_parts=True)
    if draw < len(orders):
        return orders[draw], orders[(draw + 1) % len(orders)]
    other = Order(in_parts=True, seed=draw)
    return (other, IN_ORDER) if draw % 2 else (IN_ORDER, other)


def _hangs_on_left_out(first: Kernel, second: Kernel, budget: Budget, numbers: Field) -> bool:
    """Whether results are other ones if lanes that loads leave out hold other values in each kernel."""
    fillers = (numbers.drawn(named("left out", side), np.zeros(1, np.int64), "f32") for side in (0, 1))
    try:
        a, b = (
            run(kernel, numbers, budget, filler)
            for kernel, filler in zip((first, second), fillers, strict=True)
        )
    except CannotRun:
        return True
    return bool(_compared(first, second, a, b, numbers)[0])


def _only_one(side: int, kernel: Kernel, other: Kernel, ran: Ran) -> Iterable[tuple[int, str]]:
    """Storages that a kernel stores to, and that the other does not have."""
    for index, (name, result) in enumerate(zip(kernel.names, kernel.results, strict=True)):
        if result not in other.results and (
            index in ran.plan.memory.changed()
            or index in ran.floats.storages
            and ran.floats.storages[index].written.any()
        ):
            yield side, name


class _HangsOn(NamedTuple):
    """How many comparisons, roots and the like one result of both kernels together hangs on at most.

    ``constants``: that numbers are compared with, without zero.
    """

    choices: int = 0
    signs: int = 0
    constants: int = 0

    def shown(self, fields: int) -> float:
        """The chance that a draw shows a difference. ``fields``: in which all results are known, 1 or 2; 0 if
        some only have to be equal in one.

        It shows if all comparisons come out in one of their ways, and if what roots are taken of is a square
        in one of the fields, or in both. Each of k numbers at most falls between two constants, or beyond, by
        an even chance, and k of them are there in one of k! orders.
        """
        if self.choices > _MOST_CHOICES:
            return 0.0
        ordered = (2.0 * (self.constants + 1)) ** -self.choices / math.factorial(self.choices)
        squares = 2.0**-self.signs
        return ordered * (1 - (1 - squares) ** fields if fields else squares**2) if self.signs else ordered


def _needed(a: Ran, b: Ran, hangs: _HangsOn, fields: int, most_work: int) -> tuple[int, str]:
    """Draws; or why they can't be enough.

    Each is wrong with a probability of at most the degree over the size of the field, of both fields if one
    is enough.
    """
    most = (2 if fields else 3) * max(ran.plan.hangs_on().total for ran in (a, b))
    bits = math.log2(SMALLEST_Q) - math.log2(max(most, 2))
    needed = math.ceil(CONFIDENCE_BITS / bits) if bits > 0 else _MOST_TRIALS + 1
    if needed > _MOST_TRIALS:
        return 0, "its results are of too high a degree for a proof"
    if hangs.choices or hangs.signs:
        shown = hangs.shown(fields)
        if shown * _MOST_DRAWS < CONFIDENCE_BITS * math.log(2.0):
            return 0, "its results hang on too many comparisons and roots for a proof"
        needed = math.ceil(CONFIDENCE_BITS / -math.log2(1 - shown * (1 - 2.0**-bits)))
    if needed * (a.work + b.work) > most_work:
        return 0, f"it takes {needed} draws, which is too much work at this size"
    return needed, ""


def _compared(first: Kernel, second: Kernel, a: Ran, b: Ran, numbers: Field) -> tuple[str, int, int]:
    """The first difference in words, else nothing; how many elements were compared; in how many fields."""
    count, fields = 0, 2
    same = pairs(first, second)
    for pair, byte in integers_that_differ(a, b, same):
        return f"they store other integers in {first.names[pair[0]]}, first at byte {byte}", count, fields
    for pair in same:
        places = written(a, b, pair)
        if not places.size:
            continue
        held, against = a.floats.storages.get(pair[0]), b.floats.storages.get(pair[1])
        if held is None or against is None:
            return f"only one stores to {first.names[pair[0]]}", count, fields
        results = held.read(places), against.read(places)
        unlike = numbers.differ(*results)
        fields = min(fields, *map(numbers.fields_of, results))
        if unlike.any():
            many, at = int(unlike.sum()), int(places[np.argmax(unlike)])
            where = f"{many:,} of {len(places):,} elements of {held.name}, first {at}"
            return f"exact arithmetic gives other values for {where}", count, fields
        count += len(places)
    return "", count + sum(len(places) for _, places in integers_stored(a, b, same)), fields


# --- what goes in and what is said --------------------------------------------------------------------------


_KNOWN = frozenset(
    (
        *("add", "sub", "mul", "div", "neg", "reciprocal", "fma", "cast", "compare", "equals", "isnan"),
        *(
            "isinf",
            "isfinite",
            "copysign",
            "place",
            "place of equals",
            "clamp",
            "maxnum",
            "minnum",
            "maximum",
            "minimum",
            "abs",
        ),
        *("exp", "exp2", "exp10", "expm1", "log", "log2", "log10", "log1p", "tanh", "sqrt", "rsqrt", "pow"),
    )
)
_SAID = frozenset(("llvm.intr.assume", "tt.assert"))
_POSITIVE = frozenset(("log", "log2", "log10", "log1p", "sqrt", "rsqrt"))


def _assumptions(
    kernels: Sequence[Kernel], functions: set[str], constants: Sequence[float], trials: int, hangs: _HangsOn
) -> list[str]:
    found = ["rounding is left out: casts between floats change nothing, sums have no order"]
    makers = list(dict.fromkeys(maker for kernel in kernels for maker in makers_of(kernel)))
    if makers:
        found.append(f"a CUDA kernel is its PTX, of {' and '.join(makers)}: what is made of it is trusted")
        found.append("functions of CUDA's math library, and approximations, are what they are called")
    if any(is_asynchronous(launch.ttir) for kernel in kernels for launch in kernel.launches):
        found.append(
            "asynchronous copies and products are over at once: waits and barriers are not looked at"
        )
    modules = [one for kernel in kernels for one in kernel.modules if isinstance(one, Module)]
    operations = [one for module in modules for one in module.operations()]
    if any(one.name in _SAID or promising(one) for one in operations):
        found.append("what tl.multiple_of, tl.assume and the like say is so")
    if any(one.name in ATOMICS and gives_back_what_was_there(one) for one in operations):
        found.append(f"no result depends on the order of programs, of which {2 * trials} were run")
    if hangs.choices:
        decided = f"which {trials} random orders of all numbers decided"
        found.append(f"a result hangs on {hangs.choices} comparisons of numbers that differ, {decided}")
    if functions & _POSITIVE:
        found.append("arguments of roots and logarithms are positive")
    if any(irrational(one) for one in constants):
        found.append("a constant within an ulp of ln 2, pi, sqrt 2 or their like is taken for that number")
    if any(math.isfinite(one) and rational(one) != one for one in constants):
        found.append("a constant that is the float next to 1/n is taken for 1/n")
    unknown = sorted(functions - _KNOWN)
    if unknown:
        found.append(f"of {', '.join(unknown)} it is only known that equal arguments give equal results")
    apart = all(makers_of(kernel) for kernel in kernels)  # PTX is run only if its threads don't race
    last = "and zero has no sign" if apart else "zero has no sign, and nothing races"
    found.append(f"inputs are finite, nothing is divided by zero, {last}")
    return found

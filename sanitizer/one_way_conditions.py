"""Which conditions of a kernel went only one way on all contents that it is evaluated on.

A special case for values that nobody tried hides in one: ``tl.where(x * x != 1e9, right, wrong)``. Looked at
is what throws most of a number away and depends on memory: comparisons and what joins them, maxima, minima
and clamps, rounding to integers, arithmetic on bits, and floating-point arithmetic of which nothing is left,
as of ``tl.exp(x - 1e9)``. So is ``if n > 1000``: a comparison of numbers that are one for the whole launch;
and so is a condition on a place, see `place_conditions`. Lanes that a mask leaves out do not count, as far as
others are there.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from enum import Enum, auto

import numpy as np

from kerncap.sanitizer.concrete.dataflow import LOADS, Dataflow
from kerncap.sanitizer.concrete.events import StopEvaluation
from kerncap.sanitizer.concrete.machine import Limits, Machine, Step, Track
from kerncap.sanitizer.concrete.memory import Memory
from kerncap.sanitizer.concrete.needed_operations import needed
from kerncap.sanitizer.concrete.ops_reduce import known_combiner
from kerncap.sanitizer.concrete.plan import Plan
from kerncap.sanitizer.concrete.run import evaluate
from kerncap.sanitizer.concrete.values import Array, Bools, Tile, either, element_of, shape_of
from kerncap.sanitizer.launch import Launch
from kerncap.sanitizer.place_conditions import Lanes, are_constexprs, lanes_of, numbers_beside_place, wanted
from kerncap.sanitizer.steering_memory import is_constant, is_from_memory, is_of_launch, numbers_of
from kerncap.sanitizer.ttir import read_module
from kerncap.sanitizer.ttir.ir import DIVISIONS, SHIFTS, Dense, FloatType, IntType, Operation, Value, walk

_CHOICES = frozenset(
    f"arith.{name}"
    for name in ("maxsi", "minsi", "maxui", "minui", "maximumf", "minimumf", "maxnumf", "minnumf")
) | {"tt.clampf"}
_STEPS = (
    frozenset(
        ("arith.cmpi", "arith.cmpf", "arith.fptosi", "arith.fptoui", "arith.andi", "arith.ori", "arith.xori")
    )
    | frozenset(f"math.{name}" for name in ("floor", "ceil", "trunc", "round", "roundeven"))
    | DIVISIONS
    | SHIFTS
)
_JOINS = frozenset(("arith.andi", "arith.ori", "arith.xori"))
_COMPARISONS = frozenset(("arith.cmpi", "arith.cmpf"))
_CLAIMS = frozenset(("llvm.intr.assume", "tt.assert"))  # what a kernel may say of itself
_OF_TRUTHS = _JOINS | {"arith.cmpi", "arith.extui"}
_TESTS = frozenset(
    f"__nv_{name}" for name in ("isnanf", "isnand", "isinff", "isinfd", "finitef", "isfinited")
)
# What gives one of the numbers that it is given, of the same or another sign or in a wider type.
_MOVES = (_CHOICES - {"tt.clampf"}) | frozenset((
    *("tt.splat", "tt.broadcast", "tt.expand_dims", "tt.reshape", "tt.trans", "arith.select", "arith.extf"),
    *("arith.negf", "math.absf"),
))  # fmt: skip
_SUMS = frozenset(("arith.addf", "arith.subf"))
_SCALES = frozenset(("arith.mulf", "arith.divf", "tt.precise_divf", "arith.truncf", "tt.fp_to_fp"))
_EXTERNAL = "tt.extern_elementwise"
_FUNCTIONS = frozenset(f"math.{name}" for name in ("exp", "exp2", "expm1", "tanh", "erf", "cos", "rsqrt")) | {
    _EXTERNAL
}
_WATCHED = _CHOICES | _STEPS | _SUMS | _SCALES | _FUNCTIONS
_TRACK = Track(undefined=True)
_MOST_PROGRAMS = 4096
_SEED = 0


class Form(Enum):
    """What is a way that a condition goes."""

    TRUTH = auto()  # yes or no
    NUMBER = auto()  # a result; of more than two, two are enough
    CHOICE = auto()  # whether the result is the first operand
    ARITHMETIC = auto()  # whether nothing is left of an operand; open only if that is always so


@dataclass
class Condition:
    """``seen``: the ways that it went, among them those of lanes that a mask leaves out: ``left_out``.

    ``lanes``: of a condition on a place; ``of_constexpr``: one whose number the kernel was compiled for.
    """

    operation: Operation
    form: Form
    kind: str  # "equal", "less", "more", "choice", or the operation's name
    numbers: frozenset[float]  # constants that it has
    storages: frozenset[int]  # that it depends on
    uses: frozenset[str]  # operations that it decides: of loads and stores their mask, choices, branches
    of_infinities: bool  # only NaN or an infinity in memory can make it go the other way
    lanes: Lanes | None = None
    of_constexpr: bool = False
    seen: set[float] = field(default_factory=set)
    left_out: set[float] = field(default_factory=set)

    def is_like(self, other: Condition) -> bool:
        """Whether it asks the same, as far as that can be told without its arithmetic."""
        kinds = {self.kind, other.kind}
        same = len(kinds) == 1 or kinds in ({"choice", "less"}, {"choice", "more"})
        return same and self.numbers == other.numbers and self.storages == other.storages

    def see(self, m: Machine, value: Value, here: Bools | None) -> None:
        """The ways that it goes in some lanes, of a value that holds it in their shape."""
        tile = m.env[value]
        operands = [m.env[one] for one in self.operation.operands]
        if not isinstance(tile, Tile):
            return
        data = tile.data
        if self.form is Form.CHOICE:
            first, second = (one.data for one in operands if isinstance(one, Tile))
            told = _chooses(first, [second])
            data, here = first == data, told if here is None else told & here
        _see(self.seen, data, here)

    @property
    def ways(self) -> set[float]:
        return self.seen or self.left_out

    @property
    def is_open(self) -> bool:
        return False not in self.ways if self.form is Form.ARITHMETIC else len(self.ways) < 2


class Conditions:
    """The conditions of a launch's kernel; raises FormatError for TTIR that can't be read.

    ``constexprs``: the numbers that the kernel was compiled with, sizes of its tiles among them.
    """

    def __init__(self, launch: Launch, constexprs: Iterable[float] = ()) -> None:
        self.launch = launch
        self._module = read_module(launch.ttir)
        self.flow = flow = Dataflow(self._module, self._module.kernel, launch)
        users: dict[Value, list[Operation]] = {}
        for each in flow.operations:
            for value in each.operands:
                users.setdefault(value, []).append(each)
        constexprs = frozenset(constexprs)
        of_place = {
            one: numbers for one in flow.operations if (numbers := numbers_beside_place(flow, launch, one))
        }
        watched = [
            one
            for one in flow.operations
            if (one in of_place or _is_condition(flow, one)) and not _is_claim(users, one)
        ]
        self.lanes = lanes_of(flow, [one for one in watched if one in of_place])
        self._by_operation = {
            one: Condition(
                one, _form(one), _kind(flow, one), frozenset(_numbers(flow, launch, one)),
                _storages(flow, one), frozenset(_uses(users, one)), _is_of_infinities(flow, one),
                self.lanes.get(one), one in of_place and are_constexprs(of_place[one], constexprs),
            )
            for one in watched
        }  # fmt: skip
        results = [result for one in watched for result in one.results]
        accesses = [one for each in self.lanes.values() for one, _ in each.accesses]
        self._sliced = needed(flow, [*watched, *accesses], [*results, *wanted(self.lanes.values())])

    @property
    def open(self) -> list[Condition]:
        """Those that went one way only; those that were not come to are behind one of them."""
        return [one for one in self._one_way() if not (one.of_infinities or one.of_constexpr)]

    @property
    def of_constexprs(self) -> list[Condition]:
        """Those on a place and a number that the kernel was compiled for, that went one way."""
        return [one for one in self._one_way() if one.of_constexpr]

    @property
    def of_infinities(self) -> list[Condition]:
        """Those that only NaN and infinities in memory would turn, and did not."""
        return [one for one in self._one_way() if one.of_infinities]

    def _one_way(self) -> list[Condition]:
        """Without what joins one of them with others."""
        found = {one for one, its in self._by_operation.items() if its.ways and its.is_open}
        return [
            self._by_operation[one]
            for one in self._by_operation
            if one in found
            and not (one.name in _JOINS and any(value.owner in found for value in one.operands))
        ]

    @property
    def complete(self) -> bool:
        return not any(one.is_open for one in self._by_operation.values())

    def evaluate(self, launch: Launch, limits: Limits) -> str:
        """Evaluate the kernel on the launch's contents; why that was not done for all programs, if it wasn't.

        ``launch``: this one, with other contents.
        """
        count = launch.program_count
        chosen = np.random.default_rng(_SEED).permutation(min(count, _MOST_PROGRAMS)).astype(np.int64)
        if count > _MOST_PROGRAMS:
            chosen = chosen * (count - 1) // (_MOST_PROGRAMS - 1)
        plan = _Watching(self, launch)
        outcome = evaluate(
            self._module, self._module.kernel, launch, Memory(launch),
            programs=chosen, limits=limits, track=_TRACK, plan=plan,
        )  # fmt: skip
        if outcome.complete and len(chosen) < count:
            return f"{len(chosen):,} of {count:,} programs were looked at"
        return "" if outcome.complete or outcome.stopped else outcome.reason or ""

    def plan(self, launch: Launch) -> Plan:
        return Plan(self._module, self._module.kernel, launch, _TRACK, self._sliced, None)

    def condition(self, operation: Operation) -> Condition | None:
        return self._by_operation.get(operation)

    def told_by(self, access: Operation) -> list[Condition]:
        """The open conditions on a place of which an access tells lanes."""
        return [
            self._by_operation[one]
            for one, lanes in self.lanes.items()
            if self._by_operation[one].is_open and any(access is its for its, _ in lanes.accesses)
        ]


class _Watching(Plan):
    """Evaluates what conditions depend on, and keeps which way each went."""

    def __init__(self, conditions: Conditions, launch: Launch) -> None:
        plan = conditions.plan(launch)
        super().__init__(plan.module, plan.function, launch, plan.track, plan.sliced, None)
        self._conditions = conditions

    def _step(self, operation: Operation) -> Step:
        step = super()._step(operation)
        condition = self._conditions.condition(operation)
        if condition is not None and condition.is_open:
            return self._watched(step, condition)
        if open_here := self._conditions.told_by(operation):
            step = self._telling(step, operation, open_here)
        if operation.name in LOADS and operation.attributes.get("operand_segments", {}).get("mask"):
            return _marked(step, operation)
        return step

    def _watched(self, step: Step, condition: Condition) -> Step:
        operation, form = condition.operation, condition.form
        if condition.lanes is not None:
            return self._telling(step, None, [condition])
        from_memory = [is_from_memory(self._conditions.flow, [one]) for one in operation.operands]

        def watched(m: Machine) -> None:
            step(m)
            value = m.env[operation.results[0]]
            if not isinstance(value, Tile) or not condition.is_open:
                return
            data, undefined, told = value.data, value.undefined, None
            if form in (Form.CHOICE, Form.ARITHMETIC):
                operands = [one.data for each in operation.operands if isinstance(one := m.env[each], Tile)]
                if form is Form.CHOICE:
                    first, *others = operands
                    told, data = _chooses(first, others), first == data
                else:
                    told, data = _loses(operation.name, operands, from_memory, data)
            here = m.lanes(told, data.ndim - 1)
            _see(condition.left_out, data, here)
            if undefined is not None:
                here = ~undefined if here is None else here & ~undefined
            _see(condition.seen, data, here)
            if self._conditions.complete:
                raise StopEvaluation

        return watched

    def _telling(self, step: Step, access: Operation | None, conditions: Sequence[Condition]) -> Step:
        """A condition on a place, or an access, which tells lanes of such conditions."""

        def telling(m: Machine) -> None:
            step(m)
            for one in conditions:
                if not one.is_open:
                    continue
                assert one.lanes is not None
                if one.lanes.accesses:
                    for value, here in one.lanes.known(m, access):
                        one.see(m, value, here)
                else:
                    result = one.operation.results[0]
                    one.see(m, result, m.lanes(None, len(shape_of(result.type))))
            if self._conditions.complete:
                raise StopEvaluation

        return telling


def _chooses(first: Array, others: Sequence[Array]) -> Bools:
    """Where operands of a choice differ, and none is an infinity, as loops begin with."""
    found: Bools = np.zeros(1, np.bool_)
    for one in others:
        differs: Bools = (first != one) & np.isfinite(first) & np.isfinite(one)
        found = found | differs
    return found


def _loses(
    name: str, operands: Sequence[Array], from_memory: Sequence[bool], result: Array
) -> tuple[Bools, Bools]:
    """Where something of the operands can be lost, and whether it is."""
    told = np.logical_and.reduce(np.broadcast_arrays(*(np.isfinite(one) & (one != 0) for one in operands)))
    if name not in _SUMS:
        lost = (result == 0) | np.isinf(result)
        return told, lost if name in _SCALES else lost | (np.abs(result) == 1)
    first, second = operands
    others = (second if name == "arith.addf" else -second, first)
    kept: list[Bools] = [result == other for other, counts in zip(others, from_memory, strict=True) if counts]
    return told, np.logical_or.reduce(np.broadcast_arrays(*kept))


def _see(seen: set[float], data: Array, here: Bools | None) -> None:
    if len(seen) > 1:
        return
    if here is not None:
        data, here = np.broadcast_arrays(data, here)
        data = data[here]
    data = data[data == data]  # without NaN
    if data.size:
        seen.update((float(data.min()), float(data.max())))


def _marked(step: Step, operation: Operation) -> Step:
    """A load of which lanes that the mask leaves out are marked, whatever they get."""
    mask, result = operation.segment("mask"), operation.results[0]
    assert mask is not None

    def marked(m: Machine) -> None:
        step(m)
        value, lanes = m.env[result], m.env[mask]
        if isinstance(value, Tile) and isinstance(lanes, Tile) and not lanes.data.all():
            m.env[result] = Tile(value.data, either(value.undefined, ~lanes.data), value.overflow, value.zero)

    return marked


def _is_condition(flow: Dataflow, operation: Operation) -> bool:
    if operation.name not in _WATCHED or _is_in_one_step(operation):
        return False
    if is_from_memory(flow, operation.operands):
        return True
    of_launch = operation.name in _COMPARISONS and isinstance(operation.results[0].type, IntType)
    return of_launch and is_of_launch(flow, operation.operands)


def _is_claim(users: Mapping[Value, Sequence[Operation]], operation: Operation) -> bool:
    """Whether it is only for what a kernel says of itself: an assumption, an assertion."""
    uses = set(_uses(users, operation))
    return bool(uses) and uses <= _CLAIMS


def _is_in_one_step(operation: Operation) -> bool:
    """Whether it is the combiner of a sum, a maximum or the like, which has no steps."""
    region = operation.parent.parent if operation.parent is not None else None
    around = region.parent if region is not None else None
    if not isinstance(around, Operation) or around.name not in ("tt.reduce", "tt.scan"):
        return False
    return known_combiner(around) is not None


def _form(operation: Operation) -> Form:
    if operation.name in _CHOICES:
        return Form.CHOICE
    kind = element_of(operation.results[0].type)
    if operation.name in _SUMS | _SCALES | _FUNCTIONS and isinstance(kind, FloatType):
        return Form.ARITHMETIC
    return Form.TRUTH if _is_truth(operation.results[0]) else Form.NUMBER


def _uses(users: Mapping[Value, Sequence[Operation]], operation: Operation) -> Iterable[str]:
    """Of what says yes or no, as it is or joined with others."""
    queue = [one for one in operation.results if _is_truth(one)]
    for value in queue:
        for user in users.get(value, ()):
            truths = [one for one in user.results if _is_truth(one) and one not in queue]
            if user.name == "arith.select" or not truths:
                yield user.name
            else:
                queue += truths


def _kind(flow: Dataflow, operation: Operation) -> str:
    """The same for a comparison, its opposite, and its operands in turn."""
    if operation.name in _CHOICES:
        return "choice"
    if operation.name not in _COMPARISONS:
        return operation.name
    predicate = str(operation.attributes["predicate"]).lstrip("ous")
    if predicate not in ("lt", "le", "gt", "ge"):
        return "equal"
    if is_from_memory(flow, operation.operands):
        first, second = (is_from_memory(flow, [one]) for one in operation.operands)
    else:
        first, second = (not is_constant(flow, one) for one in operation.operands)
    if first and second:
        return "choice"  # either may be written first
    turned = not first  # else a number is on the right
    return "less" if (predicate in ("lt", "ge")) != turned else "more"


def _is_of_infinities(flow: Dataflow, operation: Operation) -> bool:
    """Whether values that are finite in memory all go one way: a test for NaN, or against an infinity."""
    operands = operation.operands
    if operation.name == "arith.cmpf":
        moved = [one for one in operands if not _is_infinite(one)]
        return (len(set(operands)) == 1 or len(moved) == 1) and _is_moved(flow, moved[0])
    if operation.name == _EXTERNAL:
        return str(operation.attributes["symbol"]) in _TESTS and _is_moved(flow, operands[0])
    if operation.name not in _OF_TRUTHS:
        return False
    owners = [one.owner for one in operands if is_from_memory(flow, [one])]
    tests = [isinstance(one, Operation) and _is_of_infinities(flow, one) for one in owners]
    return bool(tests) and all(tests)


def _is_infinite(value: Value) -> bool:
    owner = value.owner
    if not isinstance(owner, Operation) or owner.name != "arith.constant":
        return False
    held = owner.attributes["value"]
    numbers = held.values if isinstance(held, Dense) else (held,)
    return all(isinstance(one, float) and math.isinf(one) for one in numbers)


def _is_moved(flow: Dataflow, value: Value) -> bool:
    """Whether a value is one that memory or the source holds, perhaps the largest of several."""
    seen, queue = {value}, [value]
    while queue:
        value = queue.pop()
        before = flow.forwarded(value)
        owner = value.owner
        if before is None:
            if not isinstance(owner, Operation):
                return False
            if owner.name == "arith.constant" or owner.name in LOADS:
                continue
            inner = [one.name for region in owner.regions for one in walk(region)]
            reduces = owner.name == "tt.reduce" and set(inner) <= _MOVES | {"tt.reduce.return"}
            if owner.name not in _MOVES and not reduces:
                return False
            before = list(owner.operands[1:] if owner.name == "arith.select" else owner.operands)
        queue += [one for one in before if one not in seen]
        seen.update(before)
    return True


def _is_truth(value: Value) -> bool:
    kind = element_of(value.type)
    return isinstance(kind, IntType) and kind.width == 1


def _numbers(flow: Dataflow, launch: Launch, operation: Operation) -> Iterable[float]:
    for value in operation.operands:
        yield from numbers_of(flow, launch, value)


def _storages(flow: Dataflow, operation: Operation) -> frozenset[int]:
    reached = needed(flow, [], operation.operands).evaluated
    roots = [flow.roots(one.operands[0]) for one in reached if one.name in LOADS]
    return frozenset().union(*roots)

"""Broken promises to the compiler: tl.multiple_of, max_contiguous, max_constancy, tl.assume, specialisations.

The compiler never checks them: it vectorises, drops masks and folds branches on their word.

What they mean is Triton's AxisInfo analysis, axis by axis of the tile:
- contiguity c: values come in groups of c neighbours, each group counting up by one (pointers: by one
  element);
- divisibility d: the *first* element of every such group is a multiple of d (pointers: the address in
  bytes). Groups are those that the compiler sees, which derives contiguity by itself:
  `tl.multiple_of(x, 128)` of ``128 * pid + tl.arange(0, 128)`` holds though most elements are odd;
- constancy c: values come in groups of c equal neighbours.
Source: include/triton/Analysis/AxisInfo.h; the docstrings of multiple_of, max_contiguous and max_constancy
in triton.language.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import cast

from kerncap.sanitizer.analysis import Analysis
from kerncap.sanitizer.checks.smallest_witness import smallest
from kerncap.sanitizer.diagnose.hint_line import hint_location
from kerncap.sanitizer.diagnose.place import Assignment, value_at
from kerncap.sanitizer.findings import Finding, Place, Proved, Unproven, Verdict, Violated
from kerncap.sanitizer.symbolic.expr import TRUE, Expr, Variable, eq, ne, substitute, var
from kerncap.sanitizer.symbolic.solve import Answer, Sat, Unknown, Unsat
from kerncap.sanitizer.ttir.ir import FloatType, IntType, Location, PointerType, TensorType
from kerncap.sanitizer.walk.access import Access, Promise

SOURCE_NAMES = {
    "divisibility": "tl.multiple_of",
    "contiguity": "tl.max_contiguous",
    "constancy": "tl.max_constancy",
}


def check(analysis: Analysis, promise: Promise) -> Verdict:
    """Whether what is promised holds at every point that reaches it."""
    if promise.kind == "assume":
        return _ask(analysis, promise, 0, ~promise.value)
    verdicts = [
        _check_axis(analysis, promise, axis, amount)
        for axis, amount in enumerate(promise.amounts)
        if amount > 1  # 1 says nothing
    ]
    return _worst(verdicts)


def _check_axis(analysis: Analysis, promise: Promise, axis: int, amount: int) -> Verdict:
    lane = promise.lanes[axis] if axis < len(promise.lanes) else None
    if promise.kind == "divisibility":
        return _divisibility(analysis, promise, axis, amount, lane)
    if lane is None:
        return Proved("interval")  # one element is contiguous and constant by itself
    step = _element_bytes(promise) if promise.kind == "contiguity" else 0
    pair = _Pair.of(promise.value, lane)
    lanes = tuple(pair.index if one is lane else one for one in promise.lanes)
    answer = _solve(analysis, replace(promise, lanes=lanes), pair.differ(amount, step))
    return _verdict(analysis, promise, axis, pair.point(answer))


def _divisibility(
    analysis: Analysis, promise: Promise, axis: int, amount: int, lane: Variable | None
) -> Verdict:
    verdict = _divides(analysis, promise, axis, amount, lane)
    if isinstance(verdict, Violated) and _pointer(promise) is not None:
        widest = _widest_bytes(analysis.launch.target)
        # Nothing more is made of a larger promise.
        smaller = _divides(analysis, promise, axis, widest, lane) if amount > widest else verdict
        if isinstance(smaller, Proved):
            return Violated(tuple(replace(one, note="portability") for one in verdict.findings))
        if isinstance(smaller, Unproven):
            doubt = f"whether it is one of {widest}, the widest access, is not shown: {smaller.reason}"
            return Unproven(f"the address is not a multiple of {amount}, as was promised; {doubt}")
    return verdict


def _widest_bytes(target: str) -> int:
    """The widest access of one thread, beyond which an address' divisibility changes nothing.

    32 from sm_100 on, and for a target that is not known. Source: PTX ISA, ld: vectors of 256 bits.
    """
    kind, _, arch = target.partition(":")
    return 16 if kind == "hip" or (kind == "cuda" and arch.isdigit() and int(arch) < 100) else 32


def _divides(analysis: Analysis, promise: Promise, axis: int, amount: int, lane: Variable | None) -> Verdict:
    broken = ne(promise.value % amount, 0)
    if lane is None:
        return _ask(analysis, promise, axis, broken)
    promised = promise.contiguity[axis] if axis < len(promise.contiguity) else 1
    strict = _ask(analysis, promise, axis, _first_of_group(lane, promised) & broken)
    if not isinstance(strict, Violated):
        return strict
    # The compiler may see longer groups than were promised: their first elements are what counts.
    pair = _Pair.of(promise.value, lane)
    group = lane.high + 1
    doubt: str | None = None
    while group > promised:
        answer = analysis.solver.satisfiable(promise.path, pair.differ(group, _element_bytes(promise)))
        if isinstance(answer, Unsat):
            lenient = _ask(analysis, promise, axis, _first_of_group(lane, group) & broken)
            return Unproven(doubt) if doubt is not None and isinstance(lenient, Violated) else lenient
        if isinstance(answer, Unknown):
            doubt = doubt or answer.reason
        group //= 2
    return strict if doubt is None else Unproven(doubt)


def _first_of_group(lane: Variable, group: int) -> Expr:
    return TRUE if group <= 1 else eq(var(lane) % group, 0)


@dataclass(frozen=True)
class _Pair:
    """A value at one lane and at the next, over a variable that leaves the last lane out."""

    lane: Variable
    index: Variable
    here: Expr
    following: Expr

    @classmethod
    def of(cls, value: Expr, lane: Variable) -> _Pair:
        index = Variable(lane.name, lane.kind, lane.low, lane.high - 1)
        return cls(
            lane, index, substitute(value, {lane: var(index)}), substitute(value, {lane: var(index) + 1})
        )

    def differ(self, group: int, step: int) -> Expr:
        """Both are of one group, and the next one is not ``step`` more."""
        # A group longer than the axis is the axis: the compiler clamps it.
        length = min(group, self.lane.high + 1)
        inside = ne((var(self.index) + 1) % length, 0)
        return inside & ne(self.following - self.here, step)

    def point(self, answer: Answer) -> Answer:
        """The answer in terms of the tile's own lane."""
        if not isinstance(answer, Sat):
            return answer
        assignment = dict(answer.assignment)
        assignment[self.lane] = assignment.pop(self.index, self.index.low)
        return Sat(assignment, answer.how, answer.contents)


def _pointer(promise: Promise) -> PointerType | None:
    if promise.operation is None or not promise.operation.results:
        return None
    kind = promise.operation.results[0].type
    if isinstance(kind, TensorType):
        kind = kind.element
    return kind if isinstance(kind, PointerType) else None


def _element_bytes(promise: Promise) -> int:
    """What one element more adds: 1 for integers, the pointee's size for pointers."""
    kind = _pointer(promise)
    if kind is None:
        return 1
    pointee = kind.pointee
    return max(1, pointee.width // 8) if isinstance(pointee, (IntType, FloatType)) else 8


def _ask(analysis: Analysis, promise: Promise, axis: int, broken: Expr) -> Verdict:
    return _verdict(analysis, promise, axis, _solve(analysis, promise, broken))


def _solve(analysis: Analysis, promise: Promise, broken: Expr) -> Answer:
    """A point is the first one that goes wrong, as far as that is cheap to find."""
    answer = analysis.solver.satisfiable(promise.path, broken)
    if not isinstance(answer, Sat):
        return answer
    # A promise is reached like an access: by programs, iterations and lanes.
    return smallest(analysis, cast(Access, promise), (promise.path, broken), answer)


def _verdict(analysis: Analysis, promise: Promise, axis: int, answer: Answer) -> Verdict:
    if isinstance(answer, Unsat):
        return Proved(answer.how, answer.contents)
    if isinstance(answer, Unknown):
        return Unproven(answer.reason)
    return Violated((_finding(analysis, promise, axis, answer),))


def _finding(analysis: Analysis, promise: Promise, axis: int, point: Sat) -> Finding:
    place = _place(analysis, promise, point.assignment)
    argument = promise.subject if promise.operation is None else None
    return Finding(
        check="promise",
        access="none",
        location=_location(analysis, promise),
        message=_message(analysis, promise, axis, point),
        place=place,
        argument=argument,
        contents=point.contents,
        python_stack=analysis.launch.python_stack,
    )


def _location(analysis: Analysis, promise: Promise) -> Location:
    """Of the promise; what it hangs on in the TTIR may stand lines before."""
    if promise.operation is None or promise.kind == "assume":
        return promise.location
    hint = SOURCE_NAMES[promise.kind].removeprefix("tl.")
    return hint_location(promise.location, hint, analysis.launch.sources)


def _message(analysis: Analysis, promise: Promise, axis: int, point: Sat) -> str:
    subject = promise.subject
    if promise.about is not None:
        value = value_at(analysis, promise.about, point.assignment)
        shown = "does not hold" if value is None else f"is {value}"
        return f"{subject} {shown}, and the source says {promise.comment}"
    if promise.kind == "assume":
        return f"tl.assume({subject}) does not hold"
    amount = promise.amounts[axis]
    value = value_at(analysis, promise.value, point.assignment)
    if promise.operation is None:
        shown = "a value" if value is None else _shown(value)
        return f"the kernel was compiled for {subject} a multiple of {amount}, but it is {shown}"
    amounts = str(amount) if len(promise.amounts) == 1 else str(list(promise.amounts))
    said = f"{SOURCE_NAMES[promise.kind]}({subject}, {amounts})"
    lane = _place(analysis, promise, point.assignment).lane
    element = f"{subject}[{', '.join(map(str, lane))}]" if lane else subject
    if value is None:
        return f"{said} does not hold for {element}"
    if promise.kind == "divisibility":
        return f"{said}: {element} is {_shown(value)}, which is not a multiple of {amount}"
    variable = promise.lanes[axis]
    assert variable is not None  # an axis of one element breaks neither
    after = dict(point.assignment)
    after[variable] = after.get(variable, variable.low) + 1
    following = value_at(analysis, promise.value, after)
    said_next = "" if following is None else f", and the next one along axis {axis} is {_shown(following)}"
    return f"{said}: {element} is {_shown(value)}{said_next}"


def _shown(value: int) -> str:
    """Addresses read better in hexadecimal."""
    return hex(value) if value >= 1 << 32 else str(value)


def _worst(verdicts: list[Verdict]) -> Verdict:
    """A violation first, with all its findings; then what is unproven; then a proof."""
    broken = [one for one in verdicts if isinstance(one, Violated)]
    if broken:
        return Violated(tuple(finding for one in broken for finding in one.findings))
    for one in verdicts:
        if isinstance(one, Unproven):
            return one
    proofs = [one for one in verdicts if isinstance(one, Proved)]
    if not proofs:
        return Proved("interval")
    return Proved(proofs[0].how, any(one.contents for one in proofs))


def _place(analysis: Analysis, promise: Promise, assignment: Assignment) -> Place:
    """Program, lane and loop iterations. Variables that the solver left out are at their least."""
    x, y, z = (assignment.get(one, one.low) for one in analysis.walked.programs)
    lane = tuple(0 if one is None else assignment.get(one, one.low) for one in promise.lanes)
    iterations = []
    for loop in promise.loops:
        value = value_at(analysis, loop.induction, assignment)
        if value is None:
            value = assignment.get(loop.counter, loop.counter.low)
        iterations.append((loop.name, value))
    return Place((x, y, z), lane, tuple(iterations))

"""Integer overflow on the way to an address: the value wrapped around, and the access went elsewhere.

Asked only of accesses that are really performed, and only of wraps that reach the address (or the mask
that lets the access happen) by arithmetic alone: sums, products, division, minimum and maximum, choices.
What passes through a bit operation, a remainder or an unsigned reading on its way was meant to lose its
upper bits (hashes, random numbers, swizzles): no finding here, and the bounds check takes its
wrapped value exactly as it is. A wrap that a later one undoes does no harm and is no finding either:
the question is whether the address differs from the one without any wrap.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import dataclass

from kerncap.sanitizer.analysis import Analysis
from kerncap.sanitizer.checks.smallest_witness import smallest
from kerncap.sanitizer.diagnose.confirm import confirm
from kerncap.sanitizer.diagnose.finding_sentence import access_finding, bytes_of_memory, where
from kerncap.sanitizer.diagnose.place import value_at
from kerncap.sanitizer.diagnose.unlimited import Folded, unlimited_offset
from kerncap.sanitizer.diagnose.value_names import written, written_as
from kerncap.sanitizer.findings import Finding, Proved, Unproven, Verdict, Violated
from kerncap.sanitizer.symbolic.expr import Expr, leaves, linear, ne, nodes_of, rebuild, render
from kerncap.sanitizer.symbolic.solve import Sat, Unknown, Unsat
from kerncap.sanitizer.ttir.ir import Location
from kerncap.sanitizer.walk.access import Access, Target

# Arithmetic that a too large value passes through as what it is.
_ARITHMETIC = frozenset(("sum", "mul", "min", "max", "div", "tdiv", "wrap"))
_LOGIC = frozenset(("le", "ge", "eq", "ne", "and", "or", "not", "iff"))


def check(analysis: Analysis, access: Access) -> Verdict:
    """Whether an address or mask of a performed access is one that an overflow made."""
    found: list[Finding] = []
    reasons: list[str] = []
    proof = Proved("interval")
    for target in access.targets:
        question = _Question(analysis, access, target)
        verdict = question.settle()
        if isinstance(verdict, Violated):
            found += verdict.findings
        elif isinstance(verdict, Unproven):
            reasons.append(verdict.reason)
        elif verdict.how != "interval":
            proof = Proved(verdict.how, proof.contents or verdict.contents)
    if found:
        return Violated(tuple(found))
    return Unproven(reasons[0]) if reasons else proof


@dataclass
class _Question:
    analysis: Analysis
    access: Access
    target: Target

    def settle(self) -> Proved | Violated | Unproven:
        offset, mask = self.target.offset_bytes, self.access.mask
        ideal, folded = exact_offset(self.analysis, self.access, self.target)
        steering = wraps_that_matter(offset)
        letting = [node for node in wraps_that_matter(mask) if is_offset(node, offset)]
        proof = Proved("interval")
        if folded or self._some_leave(steering):
            verdict = self._decide(ne(ideal, offset), steering, folded)
            if not isinstance(verdict, Proved):
                return verdict
            proof = verdict
        if self._some_leave(letting):
            return self._decide(~without_wraps(mask), letting, ())
        return proof

    @property
    def _given(self) -> tuple[Expr, ...]:
        return self.access.path, self.access.mask, self.target.guard

    def _some_leave(self, nodes: list[Expr]) -> bool:
        """Whether some wrap may change its operand: the cheap question, node by node."""
        return any(
            not isinstance(self.analysis.solver.satisfiable(*self._given, leaves(node)), Unsat)
            for node in nodes
        )

    def _decide(
        self, wrong: Expr, nodes: list[Expr], folded: tuple[Folded, ...]
    ) -> Proved | Violated | Unproven:
        answer = self.analysis.solver.satisfiable(*self._given, wrong)
        if isinstance(answer, Unsat):
            return Proved(answer.how, answer.contents)
        if isinstance(answer, Unknown):
            return Unproven(answer.reason)
        point = smallest(self.analysis, self.access, (*self._given, wrong), answer)
        confirmation = confirm(self.analysis, self.access, self.target, point.assignment)
        if not confirmation.holds:
            return Unproven(f"a possible overflow was not confirmed: {confirmation.reason}")
        return Violated((self._finding(self._cause(nodes, folded, point), point),))

    def _cause(self, nodes: list[Expr], folded: tuple[Folded, ...], point: Sat) -> str:
        """``row * stride (line 7) is 2,147,484,000, which wraps around to …``, of the first that wraps."""
        for number in folded:
            ideal = value_at(self.analysis, number.ideal, point.assignment)
            if ideal is not None and ideal != number.actual:
                return _sentence(written(self.analysis, number.value), ideal, number.actual)
        node = nodes[-1]
        for one in nodes:
            if value_at(self.analysis, leaves(one), point.assignment):
                node = one
                break
        ideal = value_at(self.analysis, without_wraps(node), point.assignment)
        actual = value_at(self.analysis, node, point.assignment)
        source = written_as(self.analysis, self.access, node) or (self._in_names(node.args[0]), None)
        return _sentence(source, ideal or 0, actual or 0)

    def _in_names(self, node: Expr) -> str:
        """An expression without a source name of its own; what it reads from memory by the argument."""
        storages = self.analysis.launch.storages

        def name(found: re.Match[str]) -> str:
            index = int(found[1])
            return f"{storages[index].name or 'memory'}[byte "

        return re.sub(r"\bmemory(\d+)\[", name, render(node, 120))

    def _finding(self, cause: str, point: Sat) -> Finding:
        memory = bytes_of_memory(self.analysis, self.access, self.target, point.assignment)
        place = where(self.analysis, self.access, point.assignment)
        return access_finding(
            self.analysis,
            self.access,
            "overflow",
            self.target,
            point.assignment,
            f"integer overflow in the address of the {memory}: {cause}; {place}",
            contents=point.contents,
        )


def _sentence(source: tuple[str, Location | None], ideal: int, actual: int) -> str:
    text, location = source
    line = f" (line {location.frames[0].line})" if location is not None and location.frames else ""
    return f"{text}{line} is {ideal:,}, which wraps around to {actual:,}"


def exact_offset(analysis: Analysis, access: Access, target: Target) -> tuple[Expr, tuple[Folded, ...]]:
    """The target's offset computed without wraps, and what wrapped before the launch's numbers became one."""
    unlimited = unlimited_offset(analysis, access)
    if unlimited is not None:
        return unlimited.offset_bytes, unlimited.folded
    return without_wraps(target.offset_bytes), ()


def wraps_that_matter(e: Expr) -> list[Expr]:
    """Wraps whose value reaches ``e`` as a number, innermost first: see the module's text."""
    return [node for node in _reached(e) if node.kind == "wrap"]


def without_wraps(e: Expr) -> Expr:
    """``e`` computed with integers of unlimited width, as far as `wraps_that_matter` goes."""
    done: dict[Expr, Expr] = {}
    for node in _reached(e):
        args = tuple(done.get(arg, arg) for arg in node.args)
        if node.kind == "wrap":
            done[node] = args[0]
        elif any(a is not b for a, b in zip(args, node.args, strict=True)):
            done[node] = rebuild(node, args)
        else:
            done[node] = node
    return done[e]


def _reached(e: Expr) -> Sequence[Expr]:
    """Nodes from which a value comes to ``e`` by arithmetic, arguments first."""

    def inside(node: Expr) -> tuple[Expr, ...]:
        if node.kind == "ite":
            return node.args[1:] if node.sort == "int" else node.args
        if node.kind in _ARITHMETIC or node.kind in _LOGIC:
            return node.args
        return ()

    wanted: dict[Expr, None] = {}
    waiting = [e]
    while waiting:
        node = waiting.pop()
        if node not in wanted:
            wanted[node] = None
            waiting.extend(inside(node))
    return [node for node in nodes_of((e,)) if node in wanted]


def is_offset(node: Expr, offset: Expr) -> bool:
    """Whether a wrap in the mask is of what the address steps by, not some random number beside it.

    It is where the address (without wraps) is a multiple of it plus something of other variables.
    """
    ideal = without_wraps(offset)
    index = without_wraps(node)
    form, steps = linear(index), linear(ideal)
    if form is None or steps is None or not form.terms:
        return False
    if node in set(wraps_that_matter(offset)):
        return True
    atom, own = form.terms[0]
    coefficient = steps.coefficient(atom)
    if not coefficient or coefficient % own:
        return False
    rest = ideal - index * (coefficient // own)
    return not rest.variables & index.variables

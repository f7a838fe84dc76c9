"""What a person forbids or demands: expressions over parameters and the launch's scalars, never evaluated
by Python itself; and the legal set that they leave, enumerated by python-constraint2."""

from __future__ import annotations

import ast
import itertools
import math
import random
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from kerncap.errors import BackendUnavailable, UsageError
from kerncap.log import counted
from kerncap.replay.tuning import point as points
from kerncap.replay.tuning.formula import Evaluator, Unknown, names_of, parse
from kerncap.replay.tuning.point import Parameter, Point, Scalar

INSTALL = "pip install 'kerncap[tune]'"
COUNTED = 10**18  # combinations; of launches in a row there may be numbers with thousands of digits
ENUMERATED = 20_000  # points; a larger space is sampled
_MAX_PRODUCT = 4_000_000  # combinations that the solver is asked to go through
_TRIES = 200  # draws for one legal point of a space that is sampled


@dataclass(frozen=True)
class Constraint:
    """An expression that must be true for a configuration; ``forbids``: that must be false."""

    text: str
    tree: ast.expr
    names: frozenset[str]
    forbids: bool = False

    def allows(self, values: Mapping[str, Any]) -> bool:
        """Whether a configuration may be tried. Raises UsageError for what can't be worked out."""
        try:
            return bool(Evaluator(values).value(self.tree)) != self.forbids
        except Unknown as error:
            raise UsageError(f"{self.label}: {error}") from None

    @property
    def label(self) -> str:
        return f"{'--forbid' if self.forbids else 'constraint'} {self.text!r}"


def parse_constraint(text: str, known: Sequence[str], forbids: bool = False) -> Constraint:
    """A constraint over the names ``known``. Raises UsageError that says what is wrong."""
    where = f"{'--forbid' if forbids else 'constraint'} {text!r}"
    try:
        tree = _Named(known).visit(parse(text))
    except Unknown as error:
        raise UsageError(f"{where}: {error}") from None
    except RecursionError:
        raise UsageError(f"{where}: it is nested too deeply") from None
    names = frozenset(names_of(tree))
    if unknown := sorted(names - set(known)):
        raise UsageError(f"{where}: {', '.join(unknown)} is not known; there are {', '.join(sorted(known))}")
    return Constraint(text, tree, names, forbids)


class _Named(ast.NodeTransformer):
    """Makes names of what has the name of a launch's parameter: ``rows.BLOCK``, ``rows[1].BLOCK``."""

    def __init__(self, known: Sequence[str]) -> None:
        self._known = frozenset(known)

    def visit_Attribute(self, node: ast.Attribute) -> ast.AST:
        launch = node.value.value if isinstance(node.value, ast.Subscript) else node.value
        if isinstance(launch, ast.Name) and (name := ast.unparse(node)) in self._known:
            return ast.copy_location(ast.Name(name, ast.Load()), node)
        return self.generic_visit(node)


@dataclass(frozen=True)
class Legal:
    """The legal configurations: all of them, or None if they are too many to enumerate.

    ``size`` is their number, or (``exact`` is False) that of all combinations, constraints left aside, which
    is counted up to `COUNTED`.
    """

    points: tuple[Point, ...] | None
    size: int
    exact: bool

    @property
    def counted(self) -> str:
        """``7 configurations``."""
        if self.size >= COUNTED:
            return f"at least {COUNTED:,} combinations"
        return counted(self.size, "configuration" if self.exact else "combination")


def enumerate_legal(
    parameters: Sequence[Parameter],
    constraints: Sequence[Constraint],
    scopes: Sequence[Mapping[str, Any]],
    limit: int = ENUMERATED,
) -> Legal:
    """All points that every constraint allows in every scope (the scalars of each launch).

    Raises BackendUnavailable without python-constraint2, UsageError for a constraint that has no value.
    """
    total = math.prod(len(parameter.values) for parameter in parameters)
    if total > (_MAX_PRODUCT if constraints else limit):
        return Legal(None, min(total, COUNTED), False)
    if not parameters:
        return Legal(({},), 1, True)
    try:
        from constraint import Problem
    except ImportError as error:
        raise BackendUnavailable("enumerating the search space", f"{error}; {INSTALL}") from None
    problem = Problem()
    indices = {}  # values by number: the solver compares them, and 1 equals True
    for parameter in parameters:
        indices[parameter.name] = parameter.values
        problem.addVariable(parameter.name, list(range(len(parameter.values))))
    for constraint in constraints:
        names = [parameter.name for parameter in parameters if parameter.name in constraint.names]
        if not names:
            if not all(constraint.allows(scope) for scope in scopes):
                return Legal((), 0, True)
            continue
        problem.addConstraint(_checker(constraint, names, indices, scopes), names)
    found = []
    for solution in itertools.islice(problem.getSolutionIter(), limit + 1):
        found.append({p.name: p.values[solution[p.name]] for p in parameters})
    if len(found) > limit:
        return Legal(None, total, False)
    order = {p.name: {points.key({"v": v}): i for i, v in enumerate(p.values)} for p in parameters}
    found.sort(key=lambda each: [order[n][points.key({"v": v})] for n, v in each.items()])
    return Legal(tuple(found), len(found), True)


def _checker(
    constraint: Constraint,
    names: Sequence[str],
    values: Mapping[str, Sequence[Scalar]],
    scopes: Sequence[Mapping[str, Any]],
) -> Callable[..., bool]:
    def allowed(*numbers: int) -> bool:
        here = {name: values[name][number] for name, number in zip(names, numbers, strict=True)}
        return all(constraint.allows({**scope, **here}) for scope in scopes)

    return allowed


def is_legal(point: Point, constraints: Sequence[Constraint], scopes: Sequence[Mapping[str, Any]]) -> bool:
    """Whether every constraint allows a point in every scope."""
    return all(each.allows({**scope, **point}) for each in constraints for scope in scopes)


def draw(
    parameters: Sequence[Parameter],
    constraints: Sequence[Constraint],
    scopes: Sequence[Mapping[str, Any]],
    seed: int,
) -> Iterator[Point]:
    """Legal points at random, each once, of a space too large to enumerate; ends when none is found."""
    generator = random.Random(seed)
    seen: set[str] = set()
    while True:
        for _ in range(_TRIES):
            point = {p.name: generator.choice(p.values) for p in parameters}
            if points.key(point) not in seen and is_legal(point, constraints, scopes):
                break
        else:
            return
        seen.add(points.key(point))
        yield point

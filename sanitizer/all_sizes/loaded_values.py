"""Values that a kernel loads, as unknowns that keep to what was stated of its memory."""

from __future__ import annotations

from collections.abc import Mapping
from itertools import combinations

from kerncap.sanitizer.all_sizes.launches import AllSizes
from kerncap.sanitizer.launch import Launch, TensorArgument
from kerncap.sanitizer.symbolic.expr import Expr, Variable, eq, evaluate, land, ne, transform, var


class Reads:
    """Of one question: a variable for each read in it. ``open``: what was not stated, if that matters."""

    def __init__(self, problem: AllSizes, launch: Launch) -> None:
        self._stated: dict[int, tuple[int, tuple[Expr, Expr]]] = {}
        self._names: dict[int, str] = {}
        for index, argument in enumerate(launch.arguments):
            if isinstance(argument, TensorArgument):
                self._names[argument.storage] = argument.name
                if index in problem.contents:
                    self._stated[argument.storage] = index, problem.contents[index]
        self._made: dict[Expr, Variable] = {}  # by the read
        self.open = ""
        self.unstated: set[str] = set()

    def replaced(self, e: Expr) -> Expr:
        return transform(e, self._replacement) if e.reads else e

    def _replacement(self, node: Expr) -> Expr | None:
        if node.kind != "read":
            return None
        name = self._names[node.payload.storage]
        if node.payload.storage not in self._stated:
            self.unstated.add(name)
            self.open = f"it rests on what {name} holds; state that, as in --for-all {name}=0..n-1"
        if node.sort == "bool":
            return None
        if node not in self._made:
            low, high = node.payload.range
            self._made[node] = Variable(f"{name}[]", "free", low, high)
        return var(self._made[node])

    def facts(self) -> Expr:
        """What was stated of them; one place holds one value."""
        known: list[Expr] = []
        for read, variable in self._made.items():
            stated = self._stated.get(read.payload.storage)
            if stated is not None:
                low, high = stated[1]
                known += [var(variable) >= low, var(variable) <= high]
        for (one, first), (other, second) in combinations(self._made.items(), 2):
            if one.payload == other.payload:
                known.append(ne(one.args[0], other.args[0]) | eq(var(first), var(second)))
        return land(*known)

    def within(self, low: Expr, high: Expr) -> Expr:
        """That all of which nothing was stated are in an interval."""
        loose = [v for read, v in self._made.items() if read.payload.storage not in self._stated]
        return land(*((var(one) >= low) & (var(one) <= high) for one in loose))

    def words(self, assignment: Mapping[Variable, int]) -> dict[int, dict[int, int]]:
        """By argument and byte offset: what memory has to hold at a point."""
        found: dict[int, dict[int, int]] = {}
        for read, variable in self._made.items():
            stated = self._stated.get(read.payload.storage)
            if stated is not None and variable in assignment:
                offset = read.args[0]
                (place,) = evaluate((offset,), {v: assignment.get(v, v.low) for v in offset.variables})
                found.setdefault(stated[0], {})[int(place)] = assignment[variable]
        return found

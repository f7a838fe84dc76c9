"""Program order in the TTIR's own structure: what surely ran before an operation, what surely runs after."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, field

from kerncap.sanitizer.ttir.ir import Block, Function, Operation, Region, walk


@dataclass
class ProgramOrder:
    """Dominance between the operations of one function. Loops run or don't; their bodies go round."""

    function: Function
    _reach: dict[Region, dict[Block, frozenset[Block]]] = field(default_factory=dict)

    def operations(self) -> Iterator[Operation]:
        return walk(self.function.body) if self.function.body is not None else iter(())

    def dominates(self, first: Operation, second: Operation) -> bool:
        """A program that comes to ``second`` has been through ``first``."""
        block = first.parent
        lifted = _lift(second, block)
        if block is None or lifted is None or lifted is first:
            return False
        if lifted.parent is block:
            return first.order < lifted.order
        return not self._avoidable(block, lifted.parent, backwards=False)

    def postdominates(self, last: Operation, first: Operation) -> bool:
        """A program at ``first`` comes through ``last`` afterwards."""
        block = last.parent
        lifted = _lift(first, block)
        if block is None or lifted is None or lifted is last:
            return False
        if lifted.parent is block:
            return last.order > lifted.order
        return not self._avoidable(block, lifted.parent, backwards=True)

    def repeats(self, operation: Operation, after: Operation) -> list[Operation]:
        """The loops around the operation, innermost first, that ``after`` is not in."""
        outside = {ancestor for ancestor, _ in _ancestors(after)}
        return [
            ancestor
            for ancestor, _ in _ancestors(operation)
            if ancestor.name in ("scf.for", "scf.while") and ancestor not in outside
        ]

    def exclusive(self, one: Operation, other: Operation) -> bool:
        """The two lie in different branches: no single pass through the code runs both."""
        for ancestor, region in _ancestors(one):
            if ancestor.name != "scf.if":
                continue
            for candidate, other_region in _ancestors(other):
                if candidate is ancestor:
                    return region is not other_region
        lifted = _lift(other, one.parent)
        if one.parent is None or lifted is None or lifted.parent is one.parent or lifted.parent is None:
            return False
        here, there = one.parent, lifted.parent
        return there not in self._reachable(here) and here not in self._reachable(there)

    def _avoidable(self, through: Block, other: Block | None, backwards: bool) -> bool:
        """Whether there is a way from the entry to ``other`` (from it to an end) around ``through``."""
        region = through.parent
        if region is None or other is None:
            return True
        seen = {through}
        pending = [other] if backwards else [region.entry]
        while pending:
            block = pending.pop()
            if block in seen:
                continue
            if not backwards and block is other:
                return True
            seen.add(block)
            successors = _successors(block)
            if backwards and not successors:
                return True
            pending.extend(successors)
        return False

    def _reachable(self, block: Block) -> frozenset[Block]:
        region = block.parent
        assert region is not None
        known = self._reach.setdefault(region, {})
        if block not in known:
            seen: set[Block] = set()
            pending = list(_successors(block))
            while pending:
                one = pending.pop()
                if one not in seen:
                    seen.add(one)
                    pending.extend(_successors(one))
            known[block] = frozenset(seen)
        return known[block]


def _successors(block: Block) -> list[Block]:
    return [target for target, _ in block.operations[-1].successors] if block.operations else []


def _ancestors(operation: Operation) -> Iterator[tuple[Operation, Region]]:
    """The operations around one, innermost first, each with the region that it is in."""
    region = operation.parent.parent if operation.parent is not None else None
    while region is not None and isinstance(region.parent, Operation):
        yield region.parent, region
        block = region.parent.parent
        region = block.parent if block is not None else None


def _lift(operation: Operation, block: Block | None) -> Operation | None:
    """The operation itself, or the one around it, that lies in the region of ``block``."""
    region = block.parent if block is not None else None
    current: Operation | None = operation
    while current is not None and current.parent is not None:
        if current.parent.parent is region:
            return current
        around = current.parent.parent
        current = around.parent if around is not None and isinstance(around.parent, Operation) else None
    return None

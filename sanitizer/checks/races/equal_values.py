"""Do two programs that store to one place store the same there?

By expression where the walk knows the value; else by what the value is made of: what is computed from the
same lanes, the same memory and only those program ids that are equal is equal, bit for bit.
"""

from __future__ import annotations

import re
from dataclasses import replace

from kerncap.sanitizer.analysis import Analysis
from kerncap.sanitizer.checks.races.disjoint_tiles import Relation
from kerncap.sanitizer.checks.races.sides import Side, sides_of
from kerncap.sanitizer.symbolic.expr import Expr, var
from kerncap.sanitizer.ttir.ir import Block, Function, Operation, Region, Value, walk


def same_value(analysis: Analysis, relation: Relation, left: Side, right: Side) -> bool | None:
    """True if equal for sure; None if it is not known. Both sides are stores that overlap."""
    if left.width != right.width or relation.difference(left.address, right.address) != 0:
        return _same_constant(left, right)
    if _equal(relation, left, right):
        return True
    if left.access.operation is right.access.operation and _made_of_equals(analysis, relation, left, right):
        return True
    return None


def _equal(relation: Relation, left: Side, right: Side) -> bool:
    """Equal numbers, or equal functions (of floats, say, or of conditions) of equal numbers."""
    if left.access.value is None or right.access.value is None:
        return False
    here, there = (frozenset(_parts(side.condition)) for side in (left, right))
    pending = [(left.access.value, right.access.value)]
    seen = set(pending)
    while pending:
        one, other = pending.pop()
        if one.sort == other.sort == "int" and relation.equal(one, other):
            continue
        one, other = _taken(one, here), _taken(other, there)
        if one is other and not one.variables:
            continue
        same_function = one.kind == other.kind and one.payload == other.payload
        if not same_function or not one.args or len(one.args) != len(other.args):
            return False
        more = set(zip(one.args, other.args, strict=True)) - seen
        seen |= more
        pending.extend(more)
    return True


def _parts(condition: Expr) -> tuple[Expr, ...]:
    return condition.args if condition.kind == "and" else (condition,)


def _taken(value: Expr, conditions: frozenset[Expr]) -> Expr:
    """What a choice comes to where the conditions hold, as a load does where the same mask stores it."""
    while value.kind == "ite":
        if conditions.issuperset(_parts(value.args[0])):
            value = value.args[1]
        elif conditions.issuperset(_parts(~value.args[0])):
            value = value.args[2]
        else:
            break
    return value


def computed(operation: Operation, kernel: Function) -> bool:
    """Whether what a store stores has nothing from memory in it."""
    value = stored_operand(operation)
    if value is None:
        return False
    return all(one is not None and not one.name.startswith(_READS) for one in computed_from(value, kernel))


def stored_operand(operation: Operation) -> Value | None:
    """What a store stores."""
    if operation.name == "tt.store" and "operand_segments" in operation.attributes:
        return operation.segment("value")
    return operation.operands[-1] if operation.name.startswith("tt.descriptor_s") else None


_READS = ("tt.load", "tt.descriptor", "tt.atomic", "tt.call", "tt.gather")


def _same_constant(left: Side, right: Side) -> bool | None:
    """Zero (or minus one) has the same bytes however two stores overlap."""
    one, other = left.access.value, right.access.value
    if one is None or other is None or one is not other:
        return None
    return True if one.kind == "const" and one.value in (0, -1) else None


def _made_of_equals(analysis: Analysis, relation: Relation, left: Side, right: Side) -> bool:
    """Of one operation, in two contexts maybe: iterations that were unrolled, calls of one function."""
    here, there = ([*side.access.lanes, *(o.counter for o in side.access.loops)] for side in (left, right))
    if len(here) != len(there):
        return False
    for one, other in zip(here, there, strict=True):
        if one is not other and (one is None or other is None):
            return False
        if one is not None and other is not None and not relation.equal(var(one), var(other)):
            return False
    value = stored_operand(left.access.operation)
    if value is None:
        return False
    written = {
        one.storage
        for other in analysis.walked.accesses
        if other.kind != "load"
        for one in sides_of(analysis, other)
    }
    loads = {
        other.operation: {one.storage for one in sides_of(analysis, other)}
        for other in analysis.walked.accesses
    }
    at_one_place = _at_one_place(analysis, relation, left)
    equal_axes = {
        axis
        for axis, v in enumerate(analysis.walked.programs)
        if v.low == v.high or relation.equal(var(v), var(v))
    }
    for operation in computed_from(value, analysis.function, at_one_place):
        if operation is None or operation.name in ("tt.call", "tt.atomic_rmw", "tt.atomic_cas", "scf.while"):
            return False
        if operation.name == "tt.elementwise_inline_asm" and _differs_by_place(operation):
            return False
        if operation.name == "tt.get_program_id" and operation.attributes["axis"] not in equal_axes:
            return False
        if operation.name in ("tt.load", "tt.descriptor_load", "tt.descriptor_gather"):
            read = loads.get(operation, {None})
            if None in read or None in written or read & written:
                return False
    return True


# Special registers of PTX (%smid, %clock64); what reads a clock or the hardware's registers on AMD.
_PLACE = re.compile(r"%[a-z]|s_getreg|s_mem\w*time")


def _differs_by_place(assembly: Operation) -> bool:
    """Whether assembly may give something else for the same operands, by when and where it runs."""
    return not assembly.attributes.get("pure") or bool(_PLACE.search(str(assembly.attributes["string"])))


def _at_one_place(analysis: Analysis, relation: Relation, store: Side) -> frozenset[Operation]:
    """Loads that go to the same places on both sides, lane by lane and iteration by iteration."""
    own = {lane for lane in store.access.lanes if lane is not None}
    own.update(loop.counter for loop in store.access.loops)
    found: dict[Operation, bool] = {}
    for access in analysis.walked.accesses:
        if access.kind != "load":
            continue
        bound = {lane for lane in access.lanes if lane is not None}
        bound.update(loop.counter for loop in access.loops)
        known = {(var(one), var(one)): 0 for one in bound - own}
        both = replace(relation, related={**relation.related, **known})
        same = both.equal(access.mask, access.mask) and all(
            both.equal(one, one) for target in access.targets for one in (target.guard, target.offset_bytes)
        )
        found[access.operation] = same and found.get(access.operation, True)
    return frozenset(operation for operation, same in found.items() if same)


def computed_from(
    value: Value, kernel: Function, leaves: frozenset[Operation] = frozenset()
) -> list[Operation | None]:
    """All that a value is computed from; None in it where that can't be followed: out of a function.

    What the operands of ``leaves`` are computed from is left out.
    """
    found: dict[Operation | None, None] = {}
    seen: set[Value] = set()
    pending: list[Value] = [value]
    while pending:
        one = pending.pop()
        if one in seen:
            continue
        seen.add(one)
        owner = one.owner
        if isinstance(owner, Block):
            region = owner.parent
            parent = region.parent if isinstance(region, Region) else None
            if parent is kernel and owner is region.entry:  # type: ignore[union-attr]
                continue
            owner = parent if isinstance(parent, Operation) else None
        if owner is None:
            found[None] = None
        elif owner.name in ("scf.for", "scf.if"):
            found[owner] = None
            pending += _carried(owner, one)
        elif owner not in found:
            for inner in (owner, *(inner for region in owner.regions for inner in walk(region))):
                found[inner] = None
                pending += _filler(inner) if inner in leaves else inner.operands
    return list(found)


def _carried(operation: Operation, value: Value) -> list[Value]:
    """What decides a result of a branch or a loop, or a number that a loop carries."""
    ends = [region.entry.operations[-1].operands for region in operation.regions]
    if operation.name == "scf.if":
        return [operation.operands[0], *(yielded[value.index] for yielded in ends)]
    bounds, starts = operation.operands[:3], operation.operands[3:]
    index = value.index - (1 if isinstance(value.owner, Block) else 0)  # a loop's counter comes first
    return [*bounds] if index < 0 else [*bounds, starts[index], ends[0][index]]


def _filler(load: Operation) -> list[Value]:
    """What a load gives where its mask leaves a lane out."""
    segments = load.attributes.get("operand_segments", {})
    other = load.segment("other") if "other" in segments else None
    return [] if other is None else [other]

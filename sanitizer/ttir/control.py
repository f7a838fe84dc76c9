"""The assembly of branches, loops and returns: ``scf``, ``cf``, ``tt.call``, partitions of warps."""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING

from kerncap.sanitizer.ttir.attributes import symbol
from kerncap.sanitizer.ttir.ir import Block, IntType, OpaqueType, Operation, Type, Value

if TYPE_CHECKING:
    from kerncap.sanitizer.ttir.cursor import Cursor


def successor(reader: Cursor) -> tuple[Block, tuple[Value, ...]]:
    """``^bb1`` or ``^bb1(%a, %b : T, T)``."""
    stream = reader.stream
    label = stream.next()
    if not label.startswith("^"):
        stream.fail(f"expected a block, found {stream.shown(stream.at - 1)}", stream.at - 1)
    values: list[Value] = []
    if stream.accept("("):
        while stream.peek() not in (":", ")"):
            values.append(reader.next_value())
            if not stream.accept(","):
                break
        if stream.accept(":"):
            stream.type()
            while stream.accept(","):
                stream.type()
        stream.expect(")")
    return reader.block(label), tuple(values)


def _attributes(reader: Cursor, operation: Operation) -> None:
    reader.stream.accept("attributes")
    if reader.stream.peek() == "{":
        operation.attributes.update(reader.stream.dictionary())


def _assignments(reader: Cursor) -> tuple[list[str], list[Value]]:
    """``(%a = %x, %b = %y)``: the names of a region's arguments and what they begin as."""
    stream = reader.stream
    names: list[str] = []
    initial: list[Value] = []
    stream.expect("(")
    while not stream.accept(")"):
        names.append(stream.next())
        stream.expect("=")
        initial.append(reader.next_value())
        if not stream.accept(","):
            stream.expect(")")
            break
    return names, initial


def _named(reader: Cursor, names: list[str], types: list[Type]) -> list[Value]:
    if len(names) != len(types):
        reader.stream.fail(f"{len(names)} values are carried, but {len(types)} types are given")
    return [Value(name, type_) for name, type_ in zip(names, types, strict=True)]


def _for(reader: Cursor, operation: Operation, count: int) -> list[Type]:
    stream = reader.stream
    operation.attributes["unsigned"] = stream.accept("unsigned")
    induction = stream.next()
    stream.expect("=")
    bounds = [reader.next_value()]
    for word in ("to", "step"):
        stream.expect(word)
        bounds.append(reader.next_value())
    names: list[str] = []
    types: list[Type] = []
    initial: list[Value] = []
    if stream.accept("iter_args"):
        names, initial = _assignments(reader)
        stream.expect("->")
        types = stream.type_list()
    index: Type = stream.type() if stream.accept(":") else IntType(64)
    operation.operands = (*bounds, *initial)
    counter = Value(induction, index)
    region = reader.region([counter, *_named(reader, names, types)], "scf.yield")
    region.parent = operation
    operation.regions = (region,)
    _attributes(reader, operation)
    return types


def _if(reader: Cursor, operation: Operation, count: int) -> list[Type]:
    stream = reader.stream
    operation.operands = (reader.next_value(),)
    types = stream.type_list() if stream.accept("->") else []
    regions = [reader.region(terminator="scf.yield")]
    if stream.accept("else"):
        regions.append(reader.region(terminator="scf.yield"))
    for region in regions:
        region.parent = operation
    operation.regions = tuple(regions)
    _attributes(reader, operation)
    return types


def _while(reader: Cursor, operation: Operation, count: int) -> list[Type]:
    stream = reader.stream
    names: list[str] = []
    initial: list[Value] = []
    if stream.peek() == "(":
        names, initial = _assignments(reader)
    inputs: list[Type] = []
    results: list[Type] = []
    if stream.accept(":"):
        inputs = stream.type_list()
        stream.expect("->")
        results = stream.type_list()
    operation.operands = tuple(initial)
    before = reader.region(_named(reader, names, inputs))
    stream.expect("do")
    after = reader.region(terminator="scf.yield")
    before.parent = after.parent = operation
    operation.regions = (before, after)
    _attributes(reader, operation)
    return results


def _condition(reader: Cursor, operation: Operation, count: int) -> list[Type]:
    stream = reader.stream
    stream.expect("(")
    operands = [reader.next_value()]
    stream.expect(")")
    if stream.peek() == "{":
        operation.attributes.update(stream.dictionary())
    while stream.peek().startswith("%"):
        operands.append(reader.next_value())
        if not stream.accept(","):
            break
    operation.operands = tuple(operands)
    if stream.accept(":"):
        stream.type()
        while stream.accept(","):
            stream.type()
    return []


def _execute_region(reader: Cursor, operation: Operation, count: int) -> list[Type]:
    stream = reader.stream
    types = stream.type_list() if stream.accept("->") else []
    stream.accept("no_inline")
    operation.regions = (reader.region(terminator="scf.yield"),)
    operation.regions[0].parent = operation
    _attributes(reader, operation)
    return types


def _index_switch(reader: Cursor, operation: Operation, count: int) -> list[Type]:
    """ "cases": one integer per region but the first, which is the default's."""
    stream = reader.stream
    operation.operands = (reader.next_value(),)
    if stream.peek() == "{":
        operation.attributes.update(stream.dictionary())
    types = stream.type_list() if stream.accept("->") else []
    cases: list[object] = []
    regions = []
    while stream.accept("case"):
        cases.append(stream.attribute())
        regions.append(reader.region(terminator="scf.yield"))
    stream.expect("default")
    default = reader.region(terminator="scf.yield")
    for region in (default, *regions):
        region.parent = operation
    operation.regions = (default, *regions)
    operation.attributes["cases"] = tuple(cases)
    return types


def _warp_specialize(reader: Cursor, operation: Operation, count: int) -> list[Type]:
    """Regions: the default's, then one per partition, whose arguments are the operands."""
    stream = reader.stream
    operation.operands = _listed(reader)
    _attributes(reader, operation)
    stream.expect("default")
    regions = [reader.region()]
    while stream.peek().startswith("partition"):
        stream.at += 1
        arguments: list[Value] = []
        stream.expect("(")
        while not stream.accept(")"):
            name = stream.next()
            stream.expect(":")
            value = Value(name, stream.type())
            value.location = reader.location()
            arguments.append(value)
            if not stream.accept(","):
                stream.expect(")")
                break
        if len(arguments) != len(operation.operands):
            given = len(operation.operands)
            stream.fail(f"a partition takes {len(arguments)} values, but {given} are given")
        if stream.accept("num_warps"):
            stream.skip_brackets()
        regions.append(reader.region(arguments))
    for region in regions:
        region.parent = operation
    operation.regions = tuple(regions)
    stream.expect(":")
    stream.type_list()
    stream.expect("->")
    return stream.type_list()


def _branch(reader: Cursor, operation: Operation, count: int) -> list[Type]:
    operation.successors = (successor(reader),)
    _attributes(reader, operation)
    return []


def _conditional_branch(reader: Cursor, operation: Operation, count: int) -> list[Type]:
    stream = reader.stream
    operation.operands = (reader.next_value(),)
    if stream.accept("weights"):
        stream.expect("(")
        stream.at -= 1
        stream.skip_brackets()
    stream.expect(",")
    first = successor(reader)
    stream.expect(",")
    operation.successors = (first, successor(reader))
    _attributes(reader, operation)
    return []


def _switch(reader: Cursor, operation: Operation, count: int) -> list[Type]:
    """ "cases": one integer per successor but the first, which is the default's."""
    stream = reader.stream
    operation.operands = (reader.next_value(),)
    stream.expect(":")
    stream.type()
    stream.accept(",")
    stream.expect("[")
    cases: list[object] = []
    successors = []
    while not stream.accept("]"):
        if not stream.accept("default"):
            case = stream.next()
            if not case.lstrip("-").isdecimal() or len(case) > 40:
                stream.fail(f"expected a case, found {stream.shown(stream.at - 1)}", stream.at - 1)
            cases.append(int(case))
        stream.expect(":")
        successors.append(successor(reader))
        if not stream.accept(","):
            stream.expect("]")
            break
    operation.successors = tuple(successors)
    operation.attributes["cases"] = tuple(cases)
    _attributes(reader, operation)
    return []


def _listed(reader: Cursor) -> tuple[Value, ...]:
    """``(%a, %b)``"""
    stream = reader.stream
    values: list[Value] = []
    stream.expect("(")
    while not stream.accept(")"):
        values.append(reader.next_value())
        if not stream.accept(","):
            stream.expect(")")
            break
    return tuple(values)


def _call(reader: Cursor, operation: Operation, count: int) -> list[Type]:
    stream = reader.stream
    name = stream.next()
    if not name.startswith("@"):
        stream.fail(f"expected a function's name, found {stream.shown(stream.at - 1)}", stream.at - 1)
    operation.attributes["callee"] = symbol(name)
    operation.operands = _listed(reader)
    _attributes(reader, operation)
    if not stream.accept(":"):
        return [OpaqueType("?")] * count
    stream.type_list()
    stream.expect("->")
    return stream.type_list()


FORMS: dict[str, Callable[[Cursor, Operation, int], list[Type]]] = {
    "scf.for": _for,
    "scf.if": _if,
    "scf.while": _while,
    "scf.condition": _condition,
    "scf.execute_region": _execute_region,
    "scf.index_switch": _index_switch,
    "cf.br": _branch,
    "cf.cond_br": _conditional_branch,
    "cf.switch": _switch,
    "tt.call": _call,
    "ttg.warp_specialize": _warp_specialize,
}

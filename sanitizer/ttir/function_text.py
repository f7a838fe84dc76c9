"""``tt.func`` in its custom and its generic form."""

from __future__ import annotations

from typing import TYPE_CHECKING

from kerncap.sanitizer.ttir.attributes import symbol
from kerncap.sanitizer.ttir.ir import Attribute, Function, Operation, Type, Value

if TYPE_CHECKING:
    from kerncap.sanitizer.ttir.cursor import Cursor


def read(reader: Cursor) -> Function:
    stream = reader.stream
    stream.expect("tt.func")
    public = True
    while stream.peek() in ("public", "private", "nested"):
        public = stream.next() == "public"
    name = stream.next()
    if not name.startswith("@"):
        stream.fail(f"expected a function's name, found {stream.shown(stream.at - 1)}", stream.at - 1)
    arguments: list[Value] = []
    argument_attributes: list[dict[str, Attribute]] = []
    stream.expect("(")
    while not stream.accept(")"):
        argument = stream.next() if stream.peek().startswith("%") else ""
        if argument:
            stream.expect(":")
        value = Value(argument, stream.type(), index=len(arguments))
        argument_attributes.append(stream.dictionary() if stream.peek() == "{" else {})
        value.location = reader.location()
        arguments.append(value)
        if not stream.accept(","):
            stream.expect(")")
            break
    results: list[Type] = []
    if stream.accept("->"):
        results = _results(reader)
    attributes = stream.dictionary() if stream.accept("attributes") else {}
    visibility = attributes.get("sym_visibility")
    body = None
    if stream.peek() == "{":
        body = reader.region(arguments)
        reader.check_forward()
    function = Function(
        symbol(name), tuple(arguments), tuple(argument_attributes), tuple(results), body,
        public and visibility in (None, "public"), reader.location(),
    )  # fmt: skip
    if body is not None:
        body.parent = function
    return function


def _results(reader: Cursor) -> list[Type]:
    stream = reader.stream
    if not stream.accept("("):
        return [stream.type()]
    types: list[Type] = []
    while not stream.accept(")"):
        types.append(stream.type())
        if stream.peek() == "{":
            stream.dictionary()
        if not stream.accept(","):
            stream.expect(")")
            break
    return types


def from_operation(reader: Cursor, operation: Operation) -> Function:
    attributes = operation.attributes
    name, signature = attributes.get("sym_name"), attributes.get("function_type")
    if not isinstance(name, str) or not isinstance(signature, dict):
        reader.stream.fail("a tt.func without sym_name or function_type")
    body = operation.regions[0] if operation.regions and operation.regions[0].blocks else None
    inputs = signature["inputs"]
    arguments = body.entry.arguments if body else tuple(Value("", type_) for type_ in inputs)
    given = attributes.get("arg_attrs")
    given = given if isinstance(given, tuple) and len(given) == len(arguments) else ({},) * len(arguments)
    function = Function(
        name, arguments, tuple(one if isinstance(one, dict) else {} for one in given), signature["results"],
        body, attributes.get("sym_visibility", "public") == "public", operation.location,
    )  # fmt: skip
    if body is not None:
        body.parent = function
    return function

"""TTIR text to a Module: modules, functions, regions, blocks, and the generic form of operations.

Recursive descent over regions only, as deep as `tokens.MAX_NESTING`; blocks are loops. What the
custom assembly of an operation says is read in `custom_assembly`, of control flow in `control`.
"""

from __future__ import annotations

from collections.abc import Sequence
from functools import lru_cache

from kerncap.sanitizer.ttir import control, custom_assembly, function_text
from kerncap.sanitizer.ttir.attributes import Stream
from kerncap.sanitizer.ttir.ir import (
    UNKNOWN_LOCATION,
    Attribute,
    Block,
    Function,
    Location,
    Module,
    OpaqueType,
    Operation,
    Region,
    Type,
    Value,
)
from kerncap.sanitizer.ttir.locations import ALIAS, Locations
from kerncap.sanitizer.ttir.normal_form import normalise
from kerncap.sanitizer.ttir.tokens import MAX_CHARACTERS, MAX_RESULTS, TtirError, unquoted

_UNKNOWN_TYPE = OpaqueType("?")


@lru_cache(maxsize=64)
def read_module(text: str) -> Module:
    """The module that a ``.ttir`` file's text describes. Raises TtirError (a FormatError) with the line.

    Launches of one kernel share it.

    Operations keep the order and names of the text. A region of one block whose terminator the text
    leaves out (``scf.for`` and ``scf.if`` without results) gets its ``scf.yield``; ``scf.if`` without
    an else has one region. An operation that is not known keeps its name, its operands and as much of
    its result types as the text says; the rest is OpaqueType("?").
    """
    if len(text) > MAX_CHARACTERS:
        raise TtirError(1, 0, f"the text has {len(text)} characters; at most {MAX_CHARACTERS} are read")
    aliases: dict[str, str] = dict(ALIAS.findall(text))
    # A line that is left empty keeps the line numbers.
    return Reader(Stream(ALIAS.sub("", text) if aliases else text), Locations(aliases)).module()


class Reader:
    """One reading of one text; `control` and `custom_assembly` use its public methods."""

    def __init__(self, stream: Stream, locations: Locations) -> None:
        self.stream = stream
        self.locations = locations
        self._order = 0
        self._values: dict[str, Value] = {}
        # One entry per open region: the names it defined, with what they meant outside of it.
        self._scopes: list[dict[str, Value | None]] = []
        self._blocks: list[dict[str, Block]] = []
        # Used before the text defines it, as a block may precede the one that dominates it:
        # the value, the depth of the outermost use, the token of the first.
        self._forward: dict[str, tuple[Value, int, int]] = {}

    # --- the outer levels --------------------------------------------------------------------------

    def module(self) -> Module:
        stream = self.stream
        operations: list[Operation] = []
        functions: dict[str, Function] = {}
        attributes: dict[str, Attribute] = {}
        while stream.peek():
            token = stream.peek()
            if token[0] in "#!" and stream.all[stream.at + 1] == "=":
                self._alias()
            elif token in ("module", "builtin.module"):
                stream.at += 1
                attributes.update(self._module_body(functions))
            elif token == "tt.func":
                self._add(functions, function_text.read(self))
            elif token == "{" and stream.all[stream.at + 1] == "-":
                break  # file metadata ({-# … #-}): resources, nothing of the program
            else:
                self._in_region_of_its_own(operations)
                self._collect(operations.pop(), functions, attributes)
        self.check_forward()
        if not functions:
            stream.fail("the text has no tt.func")
        return Module(functions, attributes, stream.aliases)

    def _in_region_of_its_own(self, operations: list[Operation]) -> None:
        self._scopes.append({})
        self._blocks.append({})
        block = Block()
        self.operation(block)
        self._leave()
        operations.append(block.operations[-1])

    def _collect(
        self, operation: Operation, functions: dict[str, Function], attributes: dict[str, Attribute]
    ) -> None:
        """What the generic form has as operations: modules and functions."""
        if operation.name in ("builtin.module", "module"):
            attributes.update(operation.attributes)
            for region in operation.regions:
                for block in region.blocks:
                    for inner in block.operations:
                        self._collect(inner, functions, attributes)
        elif operation.name == "tt.func":
            self._add(functions, function_text.from_operation(self, operation))

    def _add(self, functions: dict[str, Function], function: Function) -> None:
        if function.name in functions:
            self.stream.fail(f"@{function.name} is defined twice", self.stream.at - 1)
        functions[function.name] = function

    def _alias(self) -> None:
        stream = self.stream
        name = stream.next()
        stream.expect("=")
        if name[0] == "!":
            stream.types.define(name, stream.type())
        elif stream.peek().startswith("loc"):
            stream.skip_location()
        else:
            stream.aliases[name] = stream.attribute()

    def _module_body(self, functions: dict[str, Function]) -> dict[str, Attribute]:
        stream = self.stream
        if stream.peek().startswith("@"):
            stream.at += 1
        attributes = stream.dictionary() if stream.accept("attributes") else {}
        stream.deeper()
        stream.expect("{")
        while not stream.accept("}"):
            if stream.peek() == "tt.func":
                self._add(functions, function_text.read(self))
            elif stream.peek() in ("module", "builtin.module"):
                stream.at += 1
                attributes.update(self._module_body(functions))
            else:
                operations: list[Operation] = []
                self._in_region_of_its_own(operations)
                self._collect(operations.pop(), functions, attributes)
        stream.shallower()
        self.location()
        return attributes

    # --- regions and blocks ------------------------------------------------------------------------

    def region(self, arguments: Sequence[Value] = (), terminator: str | None = None) -> Region:
        """``{ … }``. ``arguments`` are the entry block's where the header has spelled them out.

        ``terminator``: appended to a single block that has none.
        """
        stream = self.stream
        stream.deeper()
        stream.expect("{")
        self._scopes.append({})
        self._blocks.append({})
        region = Region()
        entry = Block("", tuple(arguments), [], region)
        for index, argument in enumerate(arguments):
            argument.owner, argument.index = entry, index
            self.define(argument)
        block = entry
        while not stream.accept("}"):
            if stream.peek().startswith("^"):
                block = self._block_header(region, None if arguments or region.blocks else entry)
            else:
                if not region.blocks:
                    region.blocks.append(block)
                self.operation(block)
        if not region.blocks and (arguments or terminator):
            region.blocks.append(entry)
        if terminator and len(region.blocks) == 1:
            last = block.operations[-1].name if block.operations else ""
            if last not in ("scf.yield", "ub.unreachable", "llvm.unreachable"):
                block.operations.append(Operation(terminator, parent=block, order=self._order))
                self._order += 1
        for label, placed in self._blocks[-1].items():
            if placed.parent is None:
                stream.fail(f"the block {label} is not defined", stream.at - 1)
        self._leave()
        stream.shallower()
        return region

    def _leave(self) -> None:
        for name, before in self._scopes.pop().items():
            if before is None:
                del self._values[name]
            else:
                self._values[name] = before
        self._blocks.pop()

    def _block_header(self, region: Region, entry: Block | None) -> Block:
        stream = self.stream
        label = stream.next()
        block = self._blocks[-1].get(label)
        if block is None:
            block = self._blocks[-1][label] = entry or Block()
        elif block.parent is not None and block is not entry:
            stream.fail(f"the block {label} is defined twice", stream.at - 1)
        block.label, block.parent = label, region
        if stream.accept("("):
            arguments: list[Value] = []
            while not stream.accept(")"):
                name = stream.next()
                if not name.startswith("%"):
                    stream.fail("expected a block's argument", stream.at - 1)
                stream.expect(":")
                type_ = stream.type()
                value = self.define(Value(name, type_, owner=block, index=len(arguments)))
                value.location = self.location()
                arguments.append(value)
                if not stream.accept(","):
                    stream.expect(")")
                    break
            block.arguments = tuple(arguments)
        stream.expect(":")
        region.blocks.append(block)
        return block

    def block(self, label: str) -> Block:
        """The block that a successor names; it may come later."""
        blocks = self._blocks[-1]
        found = blocks.get(label)
        if found is None:
            found = blocks[label] = Block(label)
        return found

    # --- values ----------------------------------------------------------------------------------

    def define(self, value: Value) -> Value:
        """Enter a value into the open region. Gives the object that earlier uses already have, if any."""
        name = value.name
        scope = self._scopes[-1]
        if name in self._forward and len(self._scopes) <= self._forward[name][1]:
            placeholder = self._forward.pop(name)[0]
            placeholder.type, placeholder.location = value.type, value.location
            placeholder.owner, placeholder.index = value.owner, value.index
            value = placeholder
        if name in scope:
            self.stream.fail(f"{name} is defined twice", self.stream.at - 1)
        scope[name] = self._values.get(name)
        self._values[name] = value
        return value

    def use(self, name: str) -> Value:
        """The value that a token ``%x`` or ``%x#1`` stands for; the token has just been read."""
        found = self._values.get(name)
        if found is None:
            found = self._values.get(name + "#0")
        if found is None:
            if not name.startswith("%"):
                self.stream.fail(
                    f"expected a value, found {self.stream.shown(self.stream.at - 1)}", self.stream.at - 1
                )
            depth = len(self._scopes)
            known = self._forward.get(name)
            if known is None:
                found = Value(name, _UNKNOWN_TYPE)
                self._forward[name] = (found, depth, self.stream.at - 1)
            else:
                found = known[0]
                self._forward[name] = (found, min(depth, known[1]), known[2])
        return found

    def next_value(self) -> Value:
        return self.use(self.stream.next())

    def check_forward(self) -> None:
        """At the end of a function: whatever was used must have been defined."""
        for name, (_, _, at) in self._forward.items():
            self.stream.fail(f"{name} is not defined", at)

    # --- operations --------------------------------------------------------------------------------

    def location(self) -> Location:
        """A trailing ``loc(…)`` if there is one."""
        stream = self.stream
        token = stream.all[stream.at]
        if not token.startswith("loc"):
            return UNKNOWN_LOCATION
        if token == "loc" and stream.all[stream.at + 1] == "(":
            start = stream.at + 1
            stream.skip_location()
            return self.locations.read("loc(" + " ".join(stream.all[start + 1 : stream.at - 1]) + ")")
        if token.startswith("loc("):
            stream.at += 1
            return self.locations.read(token)
        return UNKNOWN_LOCATION

    def operation(self, block: Block) -> None:
        """One operation, appended to the block."""
        stream = self.stream
        names = self._result_names() if stream.all[stream.at][:1] == "%" else []
        operation = Operation(stream.next(), parent=block, order=self._order)
        self._order += 1
        first = operation.name[0]
        if first == '"':
            operation.name = unquoted(operation.name)
            types = self._generic(operation)
        elif first.isalpha() or first == "_":
            types = control.FORMS.get(operation.name, custom_assembly.read)(self, operation, len(names))
        else:
            stream.fail(f"expected an operation, found {stream.shown(stream.at - 1)}", stream.at - 1)
        operation.location = self.location()
        if len(types) != len(names):
            # An operation's unused results need no names; too many names for its types is a mistake
            # of the text, unless the types were not understood.
            types = [*types, *[_UNKNOWN_TYPE] * len(names)][: len(names)]
        if names:
            operation.results = tuple(
                self.define(Value(name, type_, operation.location, operation, index))
                for index, (name, type_) in enumerate(zip(names, types, strict=True))
            )
        normalise(operation)
        block.operations.append(operation)

    def _result_names(self) -> list[str]:
        stream = self.stream
        names: list[str] = []
        while True:
            name = stream.next()
            if name[0] != "%":
                stream.fail(f"expected a value's name, found {stream.shown(stream.at - 1)}", stream.at - 1)
            if stream.accept(":"):
                count = stream.next()
                if not count.isdecimal() or len(count) > 6 or int(count) > MAX_RESULTS:
                    stream.fail(f"{count[:20]} is not a number of results", stream.at - 1)
                names.extend(f"{name}#{index}" for index in range(int(count)))
            else:
                names.append(name)
            if stream.accept("="):
                return names
            stream.expect(",")

    def _generic(self, operation: Operation) -> list[Type]:
        """``"op"(operands)[successors] <{properties}> ({regions}) {attributes} : type``"""
        stream = self.stream
        operands: list[Value] = []
        stream.expect("(")
        while not stream.accept(")"):
            operands.append(self.next_value())
            if not stream.accept(","):
                stream.expect(")")
                break
        operation.operands = tuple(operands)
        if stream.accept("["):
            successors = []
            while not stream.accept("]"):
                successors.append(control.successor(self))
                if not stream.accept(","):
                    stream.expect("]")
                    break
            operation.successors = tuple(successors)
        if stream.accept("<"):
            operation.attributes.update(stream.dictionary())
            stream.expect(">")
        if stream.peek() == "(" and stream.all[stream.at + 1] == "{":
            stream.at += 1
            regions: list[Region] = []
            while not stream.accept(")"):
                regions.append(self.region())
                regions[-1].parent = operation
                if not stream.accept(","):
                    stream.expect(")")
                    break
            operation.regions = tuple(regions)
        if stream.peek() == "{":
            operation.attributes.update(stream.dictionary())
        stream.expect(":")
        stream.type_list()
        stream.expect("->")
        return stream.type_list()

"""Attributes and types from the token stream."""

from __future__ import annotations

from typing import Any

from kerncap.sanitizer.ttir.constants import ConstantError, dense, number
from kerncap.sanitizer.ttir.ir import Attribute, OpaqueType, PointerType, TensorType, Type
from kerncap.sanitizer.ttir.tokens import Tokens, unquoted
from kerncap.sanitizer.ttir.type_text import Types, TypeTextError


class Stream(Tokens):
    """Tokens with the text's aliases: reads whole types and attributes.

    An attribute becomes int, float, bool, str, None (unit), a Type, a Dense, a tuple or a dict (see
    `ir.Attribute`); an attribute of another dialect becomes its text. A function type is a dict of
    "inputs" and "results".
    """

    __slots__ = ("aliases", "types")

    def __init__(self, text: str) -> None:
        super().__init__(text)
        self.types = Types()
        self.aliases: dict[str, Attribute] = {}

    # --- types -----------------------------------------------------------------------------------

    def maybe_type(self) -> Type | None:
        """A type if one begins here; reads nothing otherwise."""
        token = self.all[self.at]
        try:
            known = self.types.known(token)
            if known is not None:
                self.at += 1
                if self.all[self.at] == "<" and isinstance(known, OpaqueType):
                    return self.types.read(token + self.angles())
                return known
            if token == "<":
                return self._short_type()
            if token in ("tensor", "vector", "memref") and self.all[self.at + 1] == "<":
                self.at += 1
                return self.types.read(token + self.angles())
        except TypeTextError as error:
            self.fail(str(error))
        return None

    def type(self) -> Type:
        found = self.maybe_type()
        if found is None:
            self.fail(f"expected a type, found {self.shown()}")
        return found

    def _short_type(self) -> Type:
        """``<f16>`` after an operation whose syntax leaves ``!tt.ptr`` out; the rest: `custom_assembly`."""
        body = self.angles()[1:-1]
        if body.startswith("tensor<"):
            return PointerType(self.types.read(body))
        shaped = self.types.shaped(body)
        if shaped is not None and shaped.shape:
            return PointerType(shaped)
        return self.types.read(f"!tt.ptr<{body}>")

    def type_list(self) -> list[Type]:
        """``T``, ``(T, T)`` or ``()``."""
        if not self.accept("("):
            return [self.type()]
        types: list[Type] = []
        while not self.accept(")"):
            types.append(self.type())
            if not self.accept(","):
                self.expect(")")
                break
        return types

    # --- attributes ------------------------------------------------------------------------------

    def dictionary(self) -> dict[str, Attribute]:
        """``{name = value, unit, …}``; the opening brace is next."""
        self.deeper()
        self.expect("{")
        entries: dict[str, Attribute] = {}
        while not self.accept("}"):
            name = self.next()
            if name[0] == '"':
                name = unquoted(name)
            elif not (name[0].isalpha() or name[0] == "_"):
                self.fail(f"expected an attribute's name, found {self.shown(self.at - 1)}", self.at - 1)
            entries[name] = self.attribute() if self.accept("=") else None
            if not self.accept(","):
                self.expect("}")
                break
        self.shallower()
        return entries

    def attribute(self) -> Attribute:
        token = self.peek()
        first = token[:1]
        if (
            first.isdigit()
            or (first == "-" and len(token) > 1 and token[1].isdigit())
            or token in ("true", "false")
        ):
            return self._number()
        if first == '"':
            self.at += 1
            value = unquoted(token)
            if self.accept(":"):
                self.type()
            return value
        if first == "[":
            return self._list()
        if first == "{":
            return self.dictionary()
        if first == "(":
            return self._function_type()
        if first == "@":
            self.at += 1
            return symbol(token)
        if first == "#":
            self.at += 1
            if token in self.aliases:
                return self.aliases[token]
            return token + self.angles() if self.peek() == "<" else token
        return self._word(token)

    def _number(self) -> Attribute:
        start = self.at
        token = self.next()
        type_ = self.type() if self.accept(":") else None
        try:
            return number(token, type_)
        except ConstantError as error:
            return self.fail(str(error), start)

    def _word(self, token: str) -> Attribute:
        if token.startswith("array<"):
            self.at += 1
            return self._array(token)
        if token == "dense" or token.startswith("dense<"):
            return self._dense()
        if token == "unit":
            self.at += 1
            return None
        if token == "loc" or token.startswith("loc("):
            self.skip_location()
            return None
        found = self.maybe_type()
        if found is not None:
            return found
        if token[:1].isalpha() or token[:1] == "_":
            # affine_map<…>, dense_resource<…>, opaque words: kept as text.
            self.at += 1
            return token + self.angles() if self.peek() == "<" else token
        return self.fail(f"expected an attribute, found {self.shown()}")

    def _dense(self) -> Attribute:
        start = self.at
        token = self.next()
        if token == "dense":
            token += self.angles()
        if not self.accept(":"):
            self.fail("dense<…> without a type", start)
        try:
            return dense(token, self.type())
        except ConstantError as error:
            return self.fail(str(error), start)

    def _array(self, token: str) -> Attribute:
        head, _, body = token[len("array<") : -1].partition(":")
        element = self.types.known(head.strip())
        try:
            return tuple(number(item.strip(), element) for item in body.split(",") if item.strip())
        except ConstantError as error:
            return self.fail(str(error), self.at - 1)

    def _list(self) -> Attribute:
        self.deeper()
        self.expect("[")
        items: list[Any] = []
        while not self.accept("]"):
            items.append(self.attribute())
            if not self.accept(","):
                self.expect("]")
                break
        self.shallower()
        return tuple(items)

    def _function_type(self) -> Attribute:
        inputs = self.type_list()
        self.expect("->")
        return {"inputs": tuple(inputs), "results": tuple(self.type_list())}

    def skip_location(self) -> None:
        """A location that nobody asks for."""
        if self.next() == "loc" and self.peek() == "(":
            self.skip_brackets()

    def skip_brackets(self) -> None:
        """Past the bracket that closes the one that is next, whatever is between."""
        start, depth = self.at, 0
        while True:
            token = self.all[self.at]
            if not token:
                self.fail(f"{self.shown(start)} is never closed", start)
            self.at += 1
            if token in ("(", "[", "{"):
                depth += 1
            elif token in (")", "]", "}"):
                depth -= 1
                if depth == 0:
                    return


def symbol(token: str) -> str:
    """``@name`` or ``@"any name"`` to the name."""
    return unquoted(token[1:]) if token[1:2] == '"' else token[1:]


def element_of(type_: Type) -> Type:
    return type_.element if isinstance(type_, TensorType) else type_

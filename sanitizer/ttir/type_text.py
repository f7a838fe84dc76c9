"""The text of a type to a `Type`; equal texts give the same object."""

from __future__ import annotations

import re

from kerncap.sanitizer.ttir.ir import (
    DescriptorType,
    FloatType,
    IntType,
    OpaqueType,
    PointerType,
    TensorType,
    Type,
)
from kerncap.sanitizer.ttir.tokens import MAX_ELEMENTS

_MAX_DEPTH = 8
_MAX_RANK = 32

_FLOAT_WIDTHS = {
    "f16": 16, "bf16": 16, "f32": 32, "tf32": 32, "f64": 64, "f80": 80, "f128": 128,
    "f8E4M3": 8, "f8E4M3FN": 8, "f8E4M3FNUZ": 8, "f8E4M3B11FNUZ": 8, "f8E5M2": 8, "f8E5M2FNUZ": 8,
    "f8E3M4": 8, "f8E8M0FNU": 8, "f6E2M3FN": 6, "f6E3M2FN": 6, "f4E2M1FN": 4,
}  # fmt: skip
SCALARS: dict[str, Type] = {name: FloatType(name, width) for name, width in _FLOAT_WIDTHS.items()}
SCALARS.update({f"i{width}": IntType(width) for width in (1, 2, 4, 8, 16, 32, 64, 128)})
SCALARS["index"] = IntType(64)

_INTEGER = re.compile(r"[su]?i(\d{1,4})")
_DIMENSIONS = re.compile(r"(?:\d{1,18}\s*x\s*)*")
# What a type can begin with; everything else that looks like a word is one of an operation's keywords.
_NAMED = ("tensor<", "vector<", "memref<", "tuple<", "complex<", "!")


class TypeTextError(ValueError):
    """A type that is too large or too deep to be one of a kernel."""


class Types:
    """Reads types of one text: remembers them, and knows the text's type aliases."""

    def __init__(self) -> None:
        self._known: dict[str, Type] = dict(SCALARS)

    def define(self, alias: str, type_: Type) -> None:
        self._known[alias] = type_

    def known(self, text: str) -> Type | None:
        """The type of a token if the token is a type."""
        found = self._known.get(text)
        if found is not None:
            return found
        if text.startswith(_NAMED) or _INTEGER.fullmatch(text):
            return self.read(text)
        return None

    def read(self, text: str, depth: int = 0) -> Type:
        """Any text; what is not understood is an OpaqueType. Raises TypeTextError past the caps."""
        found = self._known.get(text)
        if found is None:
            if depth > _MAX_DEPTH:
                raise TypeTextError(f"a type is nested deeper than {_MAX_DEPTH} levels")
            found = self._known[text] = self._read(text.strip(), depth)
        return found

    def _read(self, text: str, depth: int) -> Type:
        if text in self._known:
            return self._known[text]
        whole = _INTEGER.fullmatch(text)
        if whole:
            return IntType(int(whole.group(1)))
        head, _, body = text.partition("<")
        if not body.endswith(">"):
            return OpaqueType(text)
        body = body[:-1].strip()
        if head == "tensor":
            return self.shaped(body, depth + 1) or OpaqueType(text)
        if head == "!tt.ptr":
            pointee, space = _cut_last_comma(body)
            if space is None:
                return PointerType(self.read(body, depth + 1))
            if space.isdecimal() and len(space) < 6:
                return PointerType(self.read(pointee, depth + 1), int(space))
            return OpaqueType(text)
        if head == "!tt.tensordesc":
            return self.descriptor(body, depth + 1) or OpaqueType(text)
        return OpaqueType(text)

    def descriptor(self, body: str, depth: int = 0) -> Type | None:
        """What is inside ``!tt.tensordesc<…>``: a tensor type, or from 3.8 on its inside alone."""
        if body.startswith("tensor<"):
            # An encoding may follow the tensor, as in TTGIR.
            block = self.read(body if body.endswith(">") else _cut_last_comma(body)[0], depth + 1)
        else:
            block = self.shaped(body, depth + 1) or OpaqueType(body)
        return DescriptorType(block) if isinstance(block, TensorType) else None

    def shaped(self, body: str, depth: int = 0) -> TensorType | None:
        """``64x32xf16``, with or without an encoding behind a comma."""
        match = _DIMENSIONS.match(body)
        assert match is not None
        rest = body[match.end() :]
        element, encoding = cut_first_comma(rest)
        shape = tuple(int(size) for size in match.group().replace(" ", "").split("x") if size)
        if len(shape) > _MAX_RANK:
            raise TypeTextError(f"a tensor has {len(shape)} axes; at most {_MAX_RANK} are read")
        elements = 1
        for size in shape:
            elements *= size
            if elements > MAX_ELEMENTS:
                raise TypeTextError(f"tensor<{body[:60]}> has more than {MAX_ELEMENTS} elements")
        if not element or element.startswith(("?", "*")):
            return None
        return TensorType(shape, self.read(element, depth + 1), encoding)


def cut_first_comma(text: str) -> tuple[str, str]:
    """What is before the first comma outside of brackets, and what is behind it."""
    depth = 0
    for position, character in enumerate(text):
        if character in "<({[":
            depth += 1
        elif character in ">)}]":
            depth -= 1
        elif character == "," and depth == 0:
            return text[:position].strip(), text[position + 1 :].strip()
    return text.strip(), ""


def _cut_last_comma(text: str) -> tuple[str, str | None]:
    head, comma, tail = text.rpartition(",")
    if not comma or any(bracket in tail for bracket in "<>"):
        return text, None
    return head.strip(), tail.strip()


def with_element(type_: Type, element: Type) -> Type:
    """The type of equal shape with another element type."""
    if not isinstance(type_, TensorType):
        return element
    return TensorType(type_.shape, element, type_.encoding)

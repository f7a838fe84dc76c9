"""The names that Numba gives its kernels: the function's place and its argument types.

Source: Numba's itanium_mangler: nested identifiers, `B` and a tag for the function's number and its compile
flags, then the types; `_xx` is a byte that a name may not hold, and nothing is abbreviated by substitutions.
"""

from __future__ import annotations

import re
from dataclasses import dataclass
from typing import TypeAlias

_MAX_DEPTH = 32
_CODES = {
    "v": "void", "b": "boolean", "h": "uint8", "a": "int8", "t": "uint16", "s": "int16", "j": "uint32",
    "i": "int32", "y": "uint64", "x": "int64", "Dh": "float16", "f": "float32", "d": "float64",
}  # fmt: skip
_CXX = {
    "boolean": "bool", "uint8": "unsigned char", "int8": "signed char", "uint16": "unsigned short",
    "int16": "short", "uint32": "unsigned int", "int32": "int", "uint64": "unsigned long long",
    "int64": "long long", "float16": "__half", "float32": "float", "float64": "double",
}  # fmt: skip
_COMPLEX = {"complex64": "float", "complex128": "double"}


@dataclass(frozen=True)
class ArrayType:
    """``layout`` is C, F or A."""

    dtype: Type
    ndim: int
    layout: str
    mutable: bool
    aligned: bool

    def __str__(self) -> str:
        axes = [":"] * self.ndim
        if self.ndim and self.layout in ("C", "F"):
            axes[-1 if self.layout == "C" else 0] = "::1"
        return f"{self.dtype}[{','.join(axes)}]"


@dataclass(frozen=True)
class TupleType:
    items: tuple[Type, ...]

    def __str__(self) -> str:
        return f"({', '.join(map(str, self.items))}{',' if len(self.items) == 1 else ''})"


@dataclass(frozen=True)
class PlainType:
    """A type by Numba's name for it."""

    name: str

    def __str__(self) -> str:
        return self.name


Type: TypeAlias = "ArrayType | TupleType | PlainType"


@dataclass(frozen=True)
class NumbaName:
    """``path`` is the module and the function's qualified name, part by part (``<locals>`` as Python has it).
    ``types`` is None if they could not be read. ``by_mlir``: numba-cuda-mlir made the kernel."""

    path: tuple[str, ...]
    types: tuple[Type, ...] | None
    by_mlir: bool = False

    def __str__(self) -> str:
        types = "…" if self.types is None else ", ".join(map(str, self.types))
        return f"{'.'.join(self.path)}({types})"


class _Unknown(Exception):
    """The name is not Numba's."""


def parse(mangled: str) -> NumbaName | None:
    """The parts of a kernel's name; None for one that Numba did not make."""
    reader = _Reader(mangled)
    try:
        path, tags = reader.function()
    except _Unknown:
        return None
    if not tags:
        return _by_mlir(path, reader)
    if len(tags) < 2 or not re.fullmatch(r"v\d+", tags[0]) or len(tags[1]) < 16:
        return None  # a C++ name; of it, tags are rare, and never these two
    if path[0] == "cudapy":  # before Numba 0.56
        path = path[1:]
    try:
        types = reader.types_to_the_end()
    except _Unknown:
        return NumbaName(path, None)
    return NumbaName(path, types) if path else None


def _by_mlir(path: tuple[str, ...], reader: _Reader) -> NumbaName | None:
    """A name of numba-cuda-mlir's has no tags: an array of Numba's tells it from a C++ function's."""
    try:
        types = reader.types_to_the_end()
    except _Unknown:
        return None
    return (
        NumbaName(path, types, by_mlir=True) if any(isinstance(each, ArrayType) for each in types) else None
    )


def parameters(name: NumbaName, names: tuple[str, ...] = ()) -> list[tuple[str, str]] | None:
    """Name and C++ type of each parameter that the driver gets; None if a type's are not known.

    Source: numba.cuda.dispatcher's _prepare_args: an array is seven words and more, a tuple its items. PTX of
    numba-cuda-mlir 0.6: an array is a memref of MLIR's: two addresses, an offset, sizes, strides.
    """
    found: list[tuple[str, str]] = []
    for number, type_ in enumerate(name.types or ()):
        given = names[number] if len(names) == len(name.types or ()) else f"arg{number}"
        if not _add(found, given, type_, name.by_mlir):
            return None
    return found


def _add(found: list[tuple[str, str]], name: str, type_: Type, by_mlir: bool) -> bool:
    if isinstance(type_, TupleType):
        items = enumerate(type_.items)
        return not by_mlir and all(_add(found, f"{name}[{number}]", item, False) for number, item in items)
    if isinstance(type_, ArrayType):
        element = _CXX.get(str(type_.dtype), "void")
        if by_mlir:
            found += [(f"{name}.allocated", "void*"), (name, f"{element}*"), (f"{name}.offset", "long long")]
        else:
            found += [(f"{name}.meminfo", "void*"), (f"{name}.parent", "void*")]
            found += [(f"{name}.size", "long long"), (f"{name}.itemsize", "long long"), (name, f"{element}*")]
        found += [(f"{name}.shape[{axis}]", "long long") for axis in range(type_.ndim)]
        found += [(f"{name}.strides[{axis}]", "long long") for axis in range(type_.ndim)]
        return True
    if type_.name in _COMPLEX and not by_mlir:
        found += [(f"{name}.{part}", _COMPLEX[type_.name]) for part in ("real", "imag")]
        return True
    if type_.name not in _CXX:
        return False
    found.append((name, _CXX[type_.name]))
    return True


class _Reader:
    def __init__(self, text: str) -> None:
        self.text = text
        self.at = 0

    def function(self) -> tuple[tuple[str, ...], list[str]]:
        if not self._next("_Z"):
            raise _Unknown
        nested = self._next("N")
        path = [self._identifier()]
        while nested and self._here().isdigit():
            path.append(self._identifier())
        tags = []
        while self._next("B"):
            tags.append(self._identifier())
        if nested and not self._next("E"):
            raise _Unknown
        return tuple(path), tags

    def types_to_the_end(self) -> tuple[Type, ...]:
        found = []
        while self.at < len(self.text):
            found.append(self._type(0))
        return tuple(found)

    def _type(self, depth: int) -> Type:
        if depth > _MAX_DEPTH:
            raise _Unknown
        for code, name in _CODES.items():
            if self._next(code):
                return PlainType(name)
        nested = self._next("N")
        name = self._identifier()
        while nested and self._here().isdigit():
            name = f"{name}.{self._identifier()}"
        parameters = self._parameters(depth) if self._next("I") else []
        if nested and not self._next("E"):
            raise _Unknown
        return _made(name, parameters)

    def _parameters(self, depth: int) -> list[Type | int]:
        found: list[Type | int] = []
        while not self._next("E"):
            found.append(self._number() if self._next("L") else self._type(depth + 1))
        return found

    def _number(self) -> int:
        literal = re.compile(r"i(-?\d{1,18})E").match(self.text, self.at)
        if literal is None:
            raise _Unknown
        self.at = literal.end()
        return int(literal[1])

    def _identifier(self) -> str:
        digits = re.compile(r"\d{1,5}").match(self.text, self.at)
        if digits is None:
            raise _Unknown
        self.at = digits.end() + int(digits.group())
        if self.at > len(self.text):
            raise _Unknown
        return _unescaped(self.text[digits.end() : self.at])

    def _here(self) -> str:
        return self.text[self.at : self.at + 1]

    def _next(self, word: str) -> bool:
        if not self.text.startswith(word, self.at):
            return False
        self.at += len(word)
        return True


def _unescaped(name: str) -> str:
    """``_3clocals_3e`` is ``<locals>``. `a_10` stays: only what no identifier may hold is escaped."""
    data = re.sub(
        rb"_([2-7][0-9a-f]|[89a-f][0-9a-f])",
        lambda found: found[0] if (byte := bytes([int(found[1], 16)])).isalnum() or byte == b"_" else byte,
        name.encode(),
    )
    try:
        return data.decode()
    except UnicodeDecodeError:
        return name


def _made(name: str, parameters: list[Type | int]) -> Type:
    match name, parameters:
        case "Array", [dtype, int(ndim), PlainType(layout), PlainType(mutable), PlainType(aligned)]:
            if isinstance(dtype, int) or not 0 <= ndim <= 64:
                raise _Unknown
            return ArrayType(dtype, ndim, layout, mutable == "mutable", aligned == "aligned")
        case "UniTuple", [item, int(count)] if not isinstance(item, int) and 0 <= count <= 1024:
            return TupleType((item,) * count)
        case "Tuple", items:
            return TupleType(tuple(each for each in items if not isinstance(each, int)))
    inside = f"[{', '.join(map(str, parameters))}]" if parameters else ""
    return PlainType(name + inside)

"""cuTile's `@ct.kernel`: its kernels' names say their whole signature, and their line tables the function.

Source: cuda-tile 1.7: compilation/_name_mangling.py (`<function>_K<convention>_<parameter>…`), _ir/type.py
(what an array and a list of arrays are to the driver).
"""

from __future__ import annotations

import re
import struct
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import TypeAlias

from kerncap.capture.languages import python_function
from kerncap.capture.languages.language import Language, Parameter
from kerncap.capture.source.wanted_source import FoundSource, SourceRequest
from kerncap.format.kernel_names import KernelName

_NAME = re.compile(r"([A-Za-z_]\w*?)_K(t\d+)((?:_[A-Z].*)?)\Z")
_MAX_DEPTH = 16
_TYPES = {  # code: dtype, C++ type
    "b8": ("bool", "bool"), "u8": ("uint8", "unsigned char"), "u16": ("uint16", "unsigned short"),
    "u32": ("uint32", "unsigned int"), "u64": ("uint64", "unsigned long long"), "i8": ("int8", "signed char"),
    "i16": ("int16", "short"), "i32": ("int32", "int"), "i64": ("int64", "long long"),
    "f16": ("float16", "__half"), "f32": ("float32", "float"), "f64": ("float64", "double"),
    "bf16": ("bfloat16", "__nv_bfloat16"), "tf32": ("tfloat32", "float"),
    "f8m3fn": ("float8_e4m3fn", "__nv_fp8_e4m3"), "f8m2": ("float8_e5m2", "__nv_fp8_e5m2"),
    "f8m0fnu": ("float8_e8m0fnu", "__nv_fp8_e8m0"),
}  # fmt: skip
_INDEX = {"u": "unsigned int", "w": "long long"}


@dataclass(frozen=True)
class _Array:
    code: str
    ndim: int
    index: str

    def __str__(self) -> str:
        return f"{_TYPES[self.code][0]}[{','.join(':' * self.ndim)}]"


@dataclass(frozen=True)
class _List:
    element: _Array

    def __str__(self) -> str:
        return f"list[{self.element}]"


@dataclass(frozen=True)
class _Tuple:
    items: tuple[_Constraint, ...]

    def __str__(self) -> str:
        return f"({', '.join(map(str, self.items))}{',' if len(self.items) == 1 else ''})"


@dataclass(frozen=True)
class _Scalar:
    code: str

    def __str__(self) -> str:
        return _TYPES[self.code][0]


@dataclass(frozen=True)
class _Constant:
    """A value that was compiled in."""

    value: str

    def __str__(self) -> str:
        return self.value


_Constraint: TypeAlias = "_Array | _List | _Tuple | _Scalar | _Constant"


class CuTile(Language):
    name = "cutile"

    def parse_name(self, mangled: str, demangled: str) -> KernelName | None:
        found = _NAME.match(mangled)
        if found is None:
            return None
        types = _constraints(found[3])
        readable = f"{found[1]}({'…' if types is None else ', '.join(map(str, types))})"
        return KernelName(found[1], readable=readable)

    def parameters(
        self, mangled: str, demangled: str, declared: Sequence[Parameter] = ()
    ) -> list[Parameter] | None:
        name = _NAME.match(mangled)
        types = _constraints(name[3]) if name is not None else None
        if types is None:
            return None
        found: list[Parameter] = []
        for number, type_ in enumerate(types):
            given = declared[number][0] if len(declared) == len(types) else None
            found += _driver_parameters(given or f"arg{number}", type_)
        return found

    def find(self, request: SourceRequest) -> FoundSource | None:
        name = _NAME.match(request.mangled)
        return None if name is None else python_function.find(request, name[1], "cutile")

    def is_known(self, request: SourceRequest, image: Callable[[], bytes | None] | None) -> bool | None:
        return True if _NAME.match(request.mangled) else None


def _driver_parameters(name: str, type_: _Constraint) -> list[Parameter]:
    if isinstance(type_, _Tuple):
        pairs = (_driver_parameters(f"{name}[{number}]", item) for number, item in enumerate(type_.items))
        return [each for pair in pairs for each in pair]
    if isinstance(type_, _List):  # the arrays' words, and how many there are
        return [(f"{name}.items", "void*"), (f"{name}.length", "int")]
    if isinstance(type_, _Array):
        axes = [f"{name}.{what}[{axis}]" for what in ("shape", "strides") for axis in range(type_.ndim)]
        return [(name, f"{_TYPES[type_.code][1]}*"), *((each, type_.index) for each in axes)]
    return [(name, _TYPES[type_.code][1])] if isinstance(type_, _Scalar) else []


def _constraints(text: str) -> list[_Constraint] | None:
    """The parameters in the part of a name after its convention; None if some are of an unknown kind."""
    reader = _Reader(text)
    found: list[_Constraint] = []
    try:
        while reader.rest:
            reader.take("_")
            found.append(reader.constraint(0))
    except _Unknown:
        return None
    return found


class _Unknown(Exception):
    """The rest of the name can't be read."""


class _Reader:
    def __init__(self, text: str) -> None:
        self.rest = text

    def take(self, pattern: str) -> str:
        found = self.taken(pattern)
        if found is None:
            raise _Unknown
        return found

    def taken(self, pattern: str) -> str | None:
        found = re.match(pattern, self.rest)
        if found is None:
            return None
        self.rest = self.rest[found.end() :]
        return found[0]

    def constraint(self, depth: int) -> _Constraint:
        if depth > _MAX_DEPTH:
            raise _Unknown
        match self.take(r"[A-BD-Z]|Cn_"):
            case "A":
                return self._array()
            case "L":
                self.taken(r"(?:g[0-9a-f]+)*i?")
                self.take("A")
                return _List(self._array())
            case "T":
                count = int(self.take(r"\d{1,4}"))
                return _Tuple(tuple(self.constraint(depth + 1) for _ in range(count)))
            case "S":
                return _Scalar(self._code())
            case "B":
                return _Constant(str(self.take("[01]") == "1"))
            case "I":
                return _Constant(self._integer())
            case "F":
                (value,) = struct.unpack("<d", struct.pack("<Q", int(self.take("[0-9a-f]{16}"), 16)))
                return _Constant(repr(value))
            case "Cn_":
                return _Constant("None")
        raise _Unknown

    def _array(self) -> _Array:
        ndim = int(self.take(r"\d{1,2}?(?=[a-z])"))
        code = self._code()
        # What is known of some axes, by a mask of them: constants, divisors, a lower bound.
        while self.taken(r"_[0-9a-f]+(?=[sitvl])") is not None:
            while self.taken(r"[sitvl]_?\d+") is not None:
                pass
        extras = self.taken(r"_(?=[pgiuw])(?:p\d+)?(?:g[0-9a-f]+)*i?[uw]?") or ""
        return _Array(code, ndim, _INDEX.get(extras[-1:], "int"))

    def _code(self) -> str:
        found = self.take(r"[a-z]+\d+(?:m\d(?:fnu|fn)?)?")
        if found not in _TYPES:
            raise _Unknown
        return found

    def _integer(self) -> str:
        return self.take(r"_?\d+").replace("_", "-")

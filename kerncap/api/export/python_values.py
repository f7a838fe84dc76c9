"""Values of a manifest as Python expressions, for a script that a person reads."""

from __future__ import annotations

import json
import keyword
import re
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field

from kerncap.errors import UsageError
from kerncap.format import schema
from kerncap.log import one_line

# Triton's compiler spells its types so; as attributes of triton.language they have other names.
_COMPILER_NAMES = {
    "fp16": "float16", "bf16": "bfloat16", "fp32": "float32", "fp64": "float64", "fp8e4nv": "float8e4nv",
    "fp8e4b8": "float8e4b8", "fp8e4b15": "float8e4b15", "fp8e5": "float8e5", "fp8e5b16": "float8e5b16",
    "i1": "int1", "i8": "int8", "i16": "int16", "i32": "int32", "i64": "int64",
    "u8": "uint8", "u16": "uint16", "u32": "uint32", "u64": "uint64",
}  # fmt: skip


@dataclass
class Expressions:
    """``tensor`` gives the expression of a view by its number, ``address`` that of a pointer."""

    where: str  # the reproducer, for messages
    tensor: Callable[[int], str]
    address: Callable[[int, str, str], str]  # address, dtype, argument
    functions: frozenset[str]  # names that the source module has
    imports: set[str] = field(default_factory=set)  # what the expressions need

    def of(self, value: schema.Value, name: str) -> str:
        """The expression of ``value``, which argument ``name`` holds. Raises UsageError for what has none."""
        match value:
            case schema.NoneValue():
                return "None"
            case schema.BoolValue():
                return repr(value.value)
            case schema.StrValue():
                return quoted(value.value)
            case schema.IntValue():
                return value.value
            case schema.FloatValue():
                return number(value.value)
            case schema.DtypeValue():
                return self._dtype(value.name, value.library, name)
            case schema.SequenceValue():
                return self._sequence(value, name)
            case schema.TensorValue():
                return self._tensor(value, name)
            case schema.DescriptorValue():
                return self._descriptor(value)
            case schema.FunctionValue():
                return self._function(value.name, name)
            case schema.PointerValue():
                return self.address(value.address, value.dtype, name)
            case schema.OpaqueValue():
                raise self._refused(name, f"holds a {one_line(value.type_name)}, which no script can rebuild")

    def mapping(self, values: Mapping[str, schema.Value]) -> str:
        """A dict of them, on one line."""
        return (
            "{" + ", ".join(f"{quoted(name)}: {self.of(value, name)}" for name, value in values.items()) + "}"
        )

    def _sequence(self, value: schema.SequenceValue, name: str) -> str:
        items = [self.of(item, f"{name}[{i}]") for i, item in enumerate(value.items)]
        if value.type == "list":
            return f"[{', '.join(items)}]"
        if value.type == "namedtuple":
            self.imports.add("collections")
            fields = "[" + ", ".join(map(quoted, value.fields or ())) + "]"
            rename = ", rename=True" if any(name.startswith("_") for name in value.fields or ()) else ""
            kind = f"collections.namedtuple({quoted(value.type_name or 'Values')}, {fields}{rename})"
            return f"{kind}({', '.join(items)})"
        return f"({', '.join(items)}{',' if len(items) == 1 else ''})"

    def _tensor(self, value: schema.TensorValue, name: str) -> str:
        tensor = self.tensor(value.view)
        if value.wrapped_dtype is None:
            return tensor
        return f"triton.reinterpret({tensor}, {self._dtype(value.wrapped_dtype, 'triton', name)})"

    def _descriptor(self, value: schema.DescriptorValue) -> str:
        self.imports.add("TensorDescriptor")
        parts = [
            self.tensor(value.view),
            *(repr(list(n)) for n in (value.shape, value.strides, value.block_shape)),
        ]
        if value.padding != "zero":  # a parameter that older Tritons do not have
            parts.append(quoted(value.padding))
        return f"TensorDescriptor({', '.join(parts)})"

    def _dtype(self, text: str, library: str, name: str) -> str:
        short = text.rpartition(".")[2]
        if library != "torch":
            short = _COMPILER_NAMES.get(short, short)
        if not re.fullmatch(r"[a-z][a-z0-9_]*", short):
            raise self._refused(name, f"holds a dtype called {one_line(text)}")
        return f"torch.{short}" if library == "torch" else f"triton.language.{short}"

    def _function(self, function: str, name: str) -> str:
        if function not in self.functions:
            raise self._refused(name, f"is the function {one_line(function)}, which the source does not have")
        return function

    def _refused(self, name: str, what: str) -> UsageError:
        return UsageError(f"{self.where}: argument {one_line(name)} {what}")


def number(text: str) -> str:
    """A float of the manifest: the shortest expression of the same bits."""
    if text.lstrip("-") in ("inf", "nan"):
        return f'float("{text}")'
    return repr(float.fromhex(text))


def quoted(text: str) -> str:
    """A string literal of Python; JSON's are."""
    return json.dumps(text)


def is_name(text: str) -> bool:
    """Whether ``text`` can stand in a program as a name."""
    return text.isidentifier() and not keyword.iskeyword(text) and text.isascii()

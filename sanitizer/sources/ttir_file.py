"""A launch from a ``.ttir`` file and the shapes that its arguments are said to have; no memory.

Each argument is a text:

- ``f32[1024,64]`` — a tensor: dtype and shape. Dtypes go by torch's (``float32``), Triton's (``fp32``) or
  TTIR's names (``f32``). Behind the shape, in any order:
  ``@strides(64,1)`` in elements, else contiguous, row by row;
  ``@offset(n)`` element [0, …, 0] lies n elements behind the start of the storage, else at its start;
  ``@storage(n)`` the storage has n elements, else it ends with the tensor;
  ``@align(n)`` the address of element [0, …, 0] is divisible by n (a power of two)
  and not by 2n, else by 256.
- ``1000``, ``-3``, ``0x10``, ``1.5``, ``true`` — a scalar.
- ``null`` — a pointer to nothing.

A parameter that is a tensor descriptor takes a tensor; its shape and strides are the tensor's.
"""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from kerncap.errors import UsageError
from kerncap.sanitizer.binding import BindingError, Parameter, describe, expand, parameters, type_text
from kerncap.sanitizer.launch import (
    Argument,
    DescriptorArgument,
    Launch,
    PointerArgument,
    ScalarArgument,
    Storage,
    TensorArgument,
)
from kerncap.sanitizer.ttir import read_module
from kerncap.sanitizer.ttir.ir import DescriptorType, FloatType, Function, IntType, PointerType, Type

# Far above what a scalar could be mistaken for, far below what 64-bit sums could wrap around at.
_FIRST_ADDRESS = 1 << 40
_GAP_BYTES = 16 << 20
_ALIGNMENT = 256
_MAX_BYTES = 1 << 46

_DTYPES: dict[str, tuple[str, int]] = {}
for _name, _bytes, _others in (
    ("float64", 8, "f64 fp64"), ("float32", 4, "f32 fp32"), ("float16", 2, "f16 fp16"),
    ("bfloat16", 2, "bf16"),
    ("float8_e4m3fn", 1, "f8E4M3FN fp8e4nv"), ("float8_e5m2", 1, "f8E5M2 fp8e5"),
    ("float8_e4m3fnuz", 1, "f8E4M3FNUZ fp8e4b8"), ("float8_e5m2fnuz", 1, "f8E5M2FNUZ fp8e5b16"),
    ("int64", 8, "i64"), ("int32", 4, "i32"), ("int16", 2, "i16"), ("int8", 1, "i8"),
    ("uint64", 8, "u64"), ("uint32", 4, "u32"), ("uint16", 2, "u16"), ("uint8", 1, "u8"), ("bool", 1, "i1"),
):  # fmt: skip
    for _alias in (_name, *_others.split()):
        _DTYPES[_alias] = (_name, _bytes)

_TENSOR = re.compile(r"(\w+)\[([\d,\s]*)\]((?:@\w+\([^()]*\))*)")
_OPTION = re.compile(r"@(\w+)\(([^()]*)\)")
_INTEGER = re.compile(r"-?(?:\d{1,30}|0[xX][0-9a-fA-F]{1,25})")


@dataclass(frozen=True)
class _Described:
    """A tensor as its text says, in elements."""

    dtype: str
    itemsize: int
    shape: tuple[int, ...]
    strides: tuple[int, ...]
    offset: int
    storage: int
    alignment: int | None


def launch_from_ttir(
    text: str, grid: Sequence[int], arguments: Mapping[str, str], name: str = "kernel.ttir"
) -> Launch:
    """The launch of the text's kernel with that grid (1 to 3 extents) and those arguments.

    ``name`` is what the text is called in messages. Raises UsageError or BindingError (one line, with
    the parameters and their types) for arguments that do not fit, TtirError for a text that cannot be read.
    """
    module = read_module(text)
    function = next((f for f in module.functions.values() if f.public and f.body is not None), None)
    if function is None:
        raise UsageError(f"{name} has no public function with a body")
    wanted = parameters(function)
    _check_names(function, wanted, arguments, name)
    memory = _Memory()
    made = {one.name: _argument(one, arguments[one.name], memory) for one in wanted}
    return Launch(
        kernel=function.name,
        ttir=text,
        grid=_grid(grid),
        arguments=expand(function, made),
        storages=tuple(memory.storages),
        configuration={"file": name},
    )


def _grid(grid: Sequence[int]) -> tuple[int, int, int]:
    if not 1 <= len(grid) <= 3 or any(extent < 1 or extent > 0x7FFFFFFF for extent in grid):
        found = ",".join(str(n) for n in grid)
        raise UsageError(f"a grid has one to three extents from 1 to {0x7FFFFFFF}, found {found}")
    x, y, z = (*grid, 1, 1)[:3]
    return x, y, z


def _check_names(
    function: Function, wanted: Sequence[Parameter], arguments: Mapping[str, str], name: str
) -> None:
    names = [one.name for one in wanted]
    if len(set(names)) != len(names):
        raise BindingError(
            f"{name}: two parameters of {function.name} have one name; it has {describe(function)}"
        )
    missing = [one for one in names if one not in arguments]
    unknown = [one for one in arguments if one not in names]
    if missing or unknown:
        said = [f"no argument for {', '.join(missing)}"] if missing else []
        said += [f"no parameter is called {', '.join(unknown)}"] if unknown else []
        raise BindingError(f"{name}: {'; '.join(said)}; {function.name} has {describe(function)}")


def _argument(parameter: Parameter, text: str, memory: _Memory) -> Argument:
    type_ = parameter.value.type
    name, text = parameter.name, text.strip()
    if isinstance(type_, (PointerType, DescriptorType)):
        if text == "null" and isinstance(type_, PointerType):
            return PointerArgument(name, 0)
        described = _tensor(name, text, type_)
        tensor = memory.place(name, described)
        if isinstance(type_, PointerType):
            return tensor
        return DescriptorArgument(name, tensor, tensor.shape, tensor.strides, type_.block.shape)
    return ScalarArgument(name, _scalar(name, text, type_))


def _scalar(name: str, text: str, type_: Type) -> int | float | bool:
    if text in ("true", "false"):
        return text == "true"
    if _INTEGER.fullmatch(text):
        return int(text, 0) if "x" in text.lower() else int(text)
    if isinstance(type_, FloatType):
        try:
            return float(text)
        except ValueError:
            pass
    raise UsageError(f"argument {name}={text[:60]}: {type_text(type_)} needs a number")


def _tensor(name: str, text: str, type_: PointerType | DescriptorType) -> _Described:
    match = _TENSOR.fullmatch(text)
    if match is None or match[1] not in _DTYPES:
        raise UsageError(
            f"argument {name}={text[:60]}: {type_text(type_)} needs a tensor such as f32[1024,64] or "
            "f32[1024,64]@strides(64,1)@offset(0)"
        )
    dtype, itemsize = _DTYPES[match[1]]
    element = type_.pointee if isinstance(type_, PointerType) else type_.block.element
    if isinstance(element, (IntType, FloatType)) and max(element.width, 8) != itemsize * 8:
        raise UsageError(
            f"argument {name}={text[:60]}: {type_text(type_)} has elements of {element.width} bits"
        )
    shape = tuple(_numbers(name, match[2]))
    options = {option: tuple(_numbers(name, values)) for option, values in _OPTION.findall(match[3])}
    unknown = [option for option in options if option not in ("strides", "offset", "storage", "align")]
    singles = [option for option in ("offset", "storage", "align") if len(options.get(option, (0,))) != 1]
    if unknown or singles:
        raise UsageError(
            f"argument {name}: @{(unknown + singles)[0]} is not understood; see `kerncap sanitize --help`"
        )
    strides = options.get("strides", _contiguous(shape))
    if len(strides) != len(shape):
        raise UsageError(f"argument {name}: {len(strides)} strides for {len(shape)} axes")
    lowest, highest = _extent(shape, strides)
    # With negative strides, element [0, …, 0] is not the lowest one.
    offset = options.get("offset", (-lowest,))[0]
    storage = options.get("storage", (offset + highest + 1,))[0]
    if offset + lowest < 0 or storage < 0:
        raise UsageError(f"argument {name}: its elements begin before its storage")
    if storage * itemsize > _MAX_BYTES or (offset + highest) * itemsize > _MAX_BYTES:
        raise UsageError(f"argument {name}: more than {_MAX_BYTES} bytes")
    if 0 not in shape and offset + highest >= storage:
        raise UsageError(
            f"argument {name}: its elements end at {offset + highest + 1}, its storage at {storage}"
        )
    alignment = options["align"][0] if "align" in options else None
    if alignment is not None and (alignment < 1 or alignment & (alignment - 1) or alignment > 1 << 20):
        raise UsageError(f"argument {name}: @align needs a power of two up to {1 << 20}")
    return _Described(dtype, itemsize, shape, strides, offset, storage, alignment)


def _numbers(name: str, text: str) -> list[int]:
    parts = [part.strip() for part in text.split(",")] if text.strip() else []
    if not all(re.fullmatch(r"-?\d{1,15}", part) for part in parts) or len(parts) > 64:
        raise UsageError(f"argument {name}: {text[:60]!r}: expected at most 64 integers of at most 15 digits")
    return [int(part) for part in parts]


def _contiguous(shape: tuple[int, ...]) -> tuple[int, ...]:
    strides: list[int] = []
    step = 1
    for size in reversed(shape):
        strides.append(step)
        step *= max(size, 1)
    return tuple(reversed(strides))


def _extent(shape: tuple[int, ...], strides: tuple[int, ...]) -> tuple[int, int]:
    """Offsets of the lowest and the highest element; (0, -1) of a tensor without any."""
    if 0 in shape:
        return 0, -1
    reach = [(size - 1) * stride for size, stride in zip(shape, strides, strict=True)]
    return sum(min(one, 0) for one in reach), sum(max(one, 0) for one in reach)


class _Memory:
    """Made-up addresses: no two storages touch, and a stray access lands in none of them."""

    def __init__(self) -> None:
        self.storages: list[Storage] = []
        self._next = _FIRST_ADDRESS

    def place(self, name: str, tensor: _Described) -> TensorArgument:
        unit = tensor.alignment or _ALIGNMENT
        before = tensor.offset * tensor.itemsize
        address = -(-(self._next + before) // (2 * unit)) * 2 * unit
        if tensor.alignment is not None:
            address += unit  # divisible by that and by no more
        size = tensor.storage * tensor.itemsize
        start = address - before
        self.storages.append(Storage(start, size, start, size, name))
        self._next = start + size + max(_GAP_BYTES, size)
        return TensorArgument(
            name, len(self.storages) - 1, address, tensor.dtype, tensor.itemsize, tensor.shape, tensor.strides
        )

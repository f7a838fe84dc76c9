"""A launch as the hook describes it (plain data), made a `Launch`."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from kerncap.errors import KerncapError
from kerncap.sanitizer.binding import bind
from kerncap.sanitizer.findings import HostRead
from kerncap.sanitizer.launch import (
    Argument,
    Contents,
    DescriptorArgument,
    Launch,
    NoContents,
    PointerArgument,
    ScalarArgument,
    Storage,
    TensorArgument,
)
from kerncap.sanitizer.sources import hook_messages
from kerncap.sanitizer.ttir import read_module
from kerncap.sanitizer.ttir.ir import Function, IntType, PointerType


class DescriptionError(KerncapError):
    """What came from the target is no description of a launch."""


def launch_of(record: Mapping[str, Any], contents: Contents | None = None) -> Launch:
    """``record``: `kerncap_triton.sanitize.description.Description.record`.

    Raises DescriptionError for a record that is none, FormatError for TTIR that can't be read, BindingError
    where the arguments do not fit it.
    """
    try:
        function = read_module(str(record["ttir"])).kernel
        arguments = bind(function, _per_parameter(function, record["arguments"]))
        x, y, z = (int(n) for n in record["grid"])
        return Launch(
            kernel=str(record["kernel"]),
            ttir=str(record["ttir"]),
            grid=(x, y, z),
            arguments=arguments,
            storages=tuple(_storage_of(one) for one in record["storages"]),
            contents=contents if contents is not None else NoContents(),
            python_stack=_stack(record["stack"]),
            sources={str(name): str(text) for name, text in record["sources"].items()},
            configuration={str(name): str(text) for name, text in record["configuration"].items()},
            target=str(record["target"]),
            label=str(record["label"]),
        )
    except (KeyError, TypeError, ValueError, AttributeError) as error:
        raise DescriptionError(
            f"a launch that the hook described: {type(error).__name__}: {error}"
        ) from error


def _per_parameter(function: Function, records: Sequence[Mapping[str, Any]]) -> list[Argument]:
    """One argument per TTIR parameter: the hook gives the values that became parameters, in their order.

    A descriptor stays one where the target has descriptors; where it has none it became a pointer with shape
    and strides (i64), the padding flag, by generation the rounding flag, and shape and strides once more.
    """
    found: list[Argument] = []
    wanted = function.arguments
    for record in records:
        argument = argument_of(record)
        lowered = len(found) < len(wanted) and isinstance(wanted[len(found)].type, PointerType)
        if not isinstance(argument, DescriptorArgument):
            found.append(argument)
            continue
        sizes = [ScalarArgument(f"{argument.name}.shape.{i}", n) for i, n in enumerate(argument.shape)]
        steps = [ScalarArgument(f"{argument.name}.stride.{i}", n) for i, n in enumerate(argument.strides)]
        if not lowered:
            found += [argument, *sizes, *steps]
            continue
        found += [argument.tensor, *sizes, *steps]
        found.append(ScalarArgument(f"{argument.name}.padding", argument.padding == "nan"))
        following = wanted[len(found)].type if len(found) < len(wanted) else None
        if isinstance(following, IntType) and following.width == 1:
            found.append(
                ScalarArgument(f"{argument.name}.round_f32_to_tf32", bool(record["round_f32_to_tf32"]))
            )
        found += [*sizes, *steps]
    return found


def argument_of(record: Mapping[str, Any]) -> Argument:
    kind, name = record["kind"], str(record["name"])
    if kind == "tensor":
        return _tensor_of(record)
    if kind == "scalar":
        return ScalarArgument(name, record["value"])
    if kind == "pointer":
        return PointerArgument(name, int(record["address"]))
    if kind == "descriptor":
        return DescriptorArgument(
            name,
            _tensor_of(record["tensor"]),
            _numbers(record["shape"]),
            _numbers(record["strides"]),
            _numbers(record["block_shape"]),
            str(record["padding"]),
        )
    raise ValueError(f"an argument of kind {kind!r}")


def _tensor_of(record: Mapping[str, Any]) -> TensorArgument:
    return TensorArgument(
        str(record["name"]),
        int(record["storage"]),
        int(record["address"]),
        str(record["dtype"]),
        int(record["itemsize"]),
        _numbers(record["shape"]),
        _numbers(record["strides"]),
    )


def _storage_of(record: Mapping[str, Any]) -> Storage:
    return Storage(
        int(record["address"]),
        int(record["size"]),
        int(record["allocation_address"]),
        int(record["allocation_bytes"]),
        str(record["name"]),
    )


def host_read_of(read: hook_messages.HostRead) -> HostRead:
    return HostRead(
        operation=read.operation,
        argument=read.argument,
        dtype=read.dtype,
        shape=tuple(read.shape),
        unwritten=read.unwritten,
        first=tuple(read.first),
        python_stack=tuple(read.stack),
        allocated=tuple(read.allocated),
    )


def _stack(frames: Sequence[Any]) -> tuple[tuple[str, int, str], ...]:
    return tuple((str(file), int(line), str(name)) for file, line, name in frames)


def _numbers(values: Sequence[Any]) -> tuple[int, ...]:
    return tuple(int(n) for n in values)

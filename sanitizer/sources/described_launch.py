"""A launch as the hook describes it, made a `Launch`."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

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
from kerncap.sanitizer.sources import hook_messages as messages
from kerncap.sanitizer.ttir import read_module
from kerncap.sanitizer.ttir.ir import Function, IntType, PointerType


def launch_of(
    facts: messages.Facts, ttir: str, sources: Mapping[str, str], contents: Contents | None = None
) -> Launch:
    """Raises FormatError for TTIR that can't be read, BindingError if the arguments do not fit it."""
    function = read_module(ttir).kernel
    return Launch(
        kernel=facts.kernel,
        ttir=ttir,
        grid=facts.grid,
        arguments=bind(function, _per_parameter(function, facts.arguments)),
        storages=tuple(
            Storage(one.address, one.size, one.allocation_address, one.allocation_bytes, one.name)
            for one in facts.storages
        ),
        contents=contents if contents is not None else NoContents(),
        python_stack=tuple(facts.stack),
        sources=sources,
        configuration=facts.configuration,
        target=facts.target,
        triton=facts.triton,
        label=facts.label,
    )


def _per_parameter(function: Function, said: Sequence[messages.Argument]) -> list[Argument]:
    """One argument per TTIR parameter: the hook gives the values that became parameters, in their order.

    A descriptor stays one if the target has descriptors; if it has none it became a pointer with shape
    and strides (i64), the padding flag, by generation the rounding flag, and shape and strides once more.
    """
    found: list[Argument] = []
    wanted = function.arguments
    for one in said:
        argument = _argument_of(one)
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
            rounds = one.descriptor is not None and one.descriptor.round_f32_to_tf32
            found.append(ScalarArgument(f"{argument.name}.round_f32_to_tf32", rounds))
        found += [*sizes, *steps]
    return found


def _argument_of(said: messages.Argument) -> Argument:
    if said.tensor is not None:
        return _tensor_of(said.name, said.tensor)
    if said.descriptor is not None:
        found = said.descriptor
        return DescriptorArgument(
            said.name,
            _tensor_of(said.name, found.tensor),
            tuple(found.shape),
            tuple(found.strides),
            tuple(found.block_shape),
            found.padding,
        )
    if said.address is not None:
        return PointerArgument(said.name, said.address)
    if said.number is None:
        raise ValueError(f"argument {said.name} has no value")
    return ScalarArgument(said.name, said.number)


def _tensor_of(name: str, said: messages.Tensor) -> TensorArgument:
    shape, strides = tuple(said.shape), tuple(said.strides)
    return TensorArgument(name, said.storage, said.address, said.dtype, said.itemsize, shape, strides)


def host_read_of(read: messages.HostRead) -> HostRead:
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

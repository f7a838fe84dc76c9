"""Which argument of a launch is which parameter of its TTIR function.

A TTIR function has fewer and other parameters than the Python one:

- a constexpr, ``None``, and an integer that was specialised to 1 have no parameter;
- a tuple is flattened: ``args`` becomes ``args.0``, ``args.1`` (a named tuple: ``args.field``); up to
  Triton 3.6 all of its elements are called ``args``;
- a host-side descriptor is followed by its shape (i32 each) and its strides (i64 each), as many as
  it has axes. Up to Triton 3.6 they all carry the descriptor's name, from 3.8 on ``d.shape.0`` and
  ``d.stride.0``; so they are known by where they stand, not by name.

`expand` makes the list of a Launch out of the named arguments of the Python call, `bind` checks such a list.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from functools import lru_cache

from kerncap.errors import KerncapError
from kerncap.exit_status import ExitStatus
from kerncap.sanitizer.launch import (
    Argument,
    DescriptorArgument,
    PointerArgument,
    ScalarArgument,
    TensorArgument,
)
from kerncap.sanitizer.ttir.ir import (
    DescriptorType,
    FloatType,
    Function,
    IntType,
    OpaqueType,
    PointerType,
    TensorType,
    Type,
    Value,
)


class BindingError(KerncapError):
    """Arguments that do not fit the TTIR function's parameters."""

    exit_status = ExitStatus.USAGE


@dataclass(frozen=True)
class Parameter:
    """One argument of the Python call as TTIR has it: a value, and a descriptor's shape and strides."""

    value: Value
    name: str
    shape: tuple[Value, ...] = ()
    strides: tuple[Value, ...] = ()
    # One of several of the same name in TTIR: the number in ``name`` is its place among them.
    numbered: bool = False

    @property
    def base(self) -> str:
        """The Python parameter's name where this is a part of a tuple."""
        return self.name.partition(".")[0]


@lru_cache(maxsize=256)
def parameters(function: Function) -> tuple[Parameter, ...]:
    """The function's parameters with the scalars that follow a descriptor folded into it.

    Raises BindingError where a descriptor's scalars are not there.
    """
    found: list[Parameter] = []
    values = function.arguments
    at = 0
    while at < len(values):
        value = values[at]
        at += 1
        if not isinstance(value.type, DescriptorType):
            found.append(Parameter(value, value.source_name))
            continue
        rank = len(value.type.block.shape)
        following = values[at : at + 2 * rank]
        if len(following) < 2 * rank or not all(isinstance(one.type, IntType) for one in following):
            raise BindingError(
                f"{function.name}: the descriptor {value.source_name} should be followed by {2 * rank} "
                f"integers (its shape and strides); found {[type_text(one.type) for one in following]}"
            )
        found.append(Parameter(value, value.source_name, following[:rank], following[rank:]))
        at += 2 * rank
    return _with_numbers(found)


def _with_numbers(found: list[Parameter]) -> tuple[Parameter, ...]:
    count = Counter(one.name for one in found)
    seen: Counter[str] = Counter()
    for index, one in enumerate(found):
        if count[one.name] > 1:
            found[index] = replace(one, name=f"{one.name}.{seen[one.name]}", numbered=True)
            seen[one.name] += 1
    return tuple(found)


def expand(function: Function, arguments: Mapping[str, Argument]) -> tuple[Argument, ...]:
    """The arguments of a Python call, by name and in its order, as one per parameter of the TTIR function.

    Tuples come flattened ("args.0"); constexprs and None need not be given. Names of the Python function
    that TTIR has no parameter for are dropped, unless they are tensors or descriptors, which TTIR never
    drops. A parameter is found by its name; the parts of a tuple by their order where their names
    differ; all of them by order if the TTIR carries no names. If there are too many for an order,
    integers of value 1 are dropped, as the specialisation does. Raises BindingError; the result has
    passed `bind`.
    """
    wanted = parameters(function)
    if all(one.value.location.name is None for one in wanted) and not all(
        one.name in arguments for one in wanted
    ):
        chosen = _by_order(function, wanted, list(arguments.values()))
    else:
        chosen = _by_name(function, wanted, arguments)
    flat: list[Argument] = []
    for parameter, argument in zip(wanted, chosen, strict=True):
        flat.append(argument)
        flat.extend(_descriptor_scalars(parameter, argument))
    return bind(function, flat)


def _by_name(
    function: Function, wanted: Sequence[Parameter], arguments: Mapping[str, Argument]
) -> list[Argument]:
    chosen: dict[str, Argument] = {}
    used: set[str] = set()
    missing: list[str] = []
    for base in dict.fromkeys(one.base for one in wanted):
        parts = [one for one in wanted if one.base == base]
        if all(one.name in arguments and not one.numbered for one in parts):
            names = [one.name for one in parts]
        else:
            names = [name for name in arguments if name == base or name.startswith(base + ".")]
        used.update(names)
        if not names:
            missing.extend(one.name for one in parts)
            continue
        found = _by_order(function, parts, [arguments[name] for name in names])
        chosen.update((one.name, argument) for one, argument in zip(parts, found, strict=True))
    if missing:
        raise BindingError(
            f"{function.name}: no argument for {', '.join(missing)}; it has {describe(function)}"
        )
    for name, argument in arguments.items():
        if name not in used and isinstance(argument, (TensorArgument, DescriptorArgument)):
            raise BindingError(f"{function.name} has no parameter {name}; it has {describe(function)}")
    return [chosen[one.name] for one in wanted]


def _by_order(function: Function, wanted: Sequence[Parameter], given: list[Argument]) -> list[Argument]:
    surplus = len(given) - len(wanted)
    if surplus > 0:
        kept = [one for one in given if not (isinstance(one, ScalarArgument) and _is_one(one.value))]
        # Some of several ones: nobody can tell which.
        given = kept if len(kept) == len(wanted) else given
    if len(given) != len(wanted):
        names = ", ".join(one.name for one in wanted)
        raise BindingError(
            f"{function.name}: {len(given)} arguments for the {len(wanted)} parameters {names}; "
            f"it has {describe(function)}"
        )
    return given


def _is_one(value: float) -> bool:
    return value == 1 and type(value) is int


def _descriptor_scalars(parameter: Parameter, argument: Argument) -> list[Argument]:
    if not parameter.shape:
        return []
    if not isinstance(argument, DescriptorArgument):
        raise _mismatch(parameter.value, argument, "a tensor descriptor")
    rank = len(parameter.shape)
    if len(argument.shape) != rank or len(argument.strides) != rank:
        raise BindingError(
            f"{argument.name}: a descriptor of {len(argument.shape)} axes where the kernel has one of {rank}"
        )
    sizes = [
        ScalarArgument(f"{argument.name}.shape.{axis}", size) for axis, size in enumerate(argument.shape)
    ]
    steps = [
        ScalarArgument(f"{argument.name}.stride.{axis}", step) for axis, step in enumerate(argument.strides)
    ]
    return [*sizes, *steps]


def bind(function: Function, arguments: Sequence[Argument]) -> tuple[Argument, ...]:
    """Check one argument per parameter of the TTIR function, in its order; raises BindingError.

    A pointer takes a tensor or an address; a descriptor takes a descriptor whose block has the
    parameter's shape, followed by its own shape and strides; a number takes a number that fits.
    Gives the arguments with scalars as TTIR holds them: integers signed, i1 as bool, floats as float.
    """
    if len(arguments) != len(function.arguments):
        raise BindingError(
            f"{function.name}: {len(arguments)} arguments for {len(function.arguments)} parameters; "
            f"it has {describe(function)}"
        )
    bound = [_bound(value, argument) for value, argument in zip(function.arguments, arguments, strict=True)]
    at = 0
    for parameter in parameters(function):
        descriptor = bound[at]
        at += 1
        if isinstance(descriptor, DescriptorArgument):
            own = (*descriptor.shape, *descriptor.strides)
            for value, argument in zip(own, bound[at : at + len(own)], strict=True):
                if isinstance(argument, ScalarArgument) and argument.value != value:
                    raise BindingError(
                        f"{argument.name} is {argument.value}, "
                        f"but the descriptor {descriptor.name} has {value} there"
                    )
        at += len(parameter.shape) + len(parameter.strides)
    return tuple(bound)


def _bound(parameter: Value, argument: Argument) -> Argument:
    type_ = parameter.type
    if isinstance(type_, PointerType):
        if isinstance(argument, (TensorArgument, PointerArgument)):
            return argument
        raise _mismatch(parameter, argument, "a tensor or an address")
    if isinstance(type_, DescriptorType):
        if not isinstance(argument, DescriptorArgument):
            raise _mismatch(parameter, argument, "a tensor descriptor")
        if argument.block_shape != type_.block.shape or len(argument.shape) != len(argument.strides):
            raise _mismatch(parameter, argument, f"a descriptor with blocks of {list(type_.block.shape)}")
        if len(argument.shape) != len(type_.block.shape):
            raise _mismatch(parameter, argument, f"a descriptor of {len(type_.block.shape)} axes")
        return argument
    if isinstance(type_, IntType):
        return _integer(parameter, argument, type_.width)
    if isinstance(type_, FloatType):
        if isinstance(argument, ScalarArgument):
            return ScalarArgument(argument.name, float(argument.value))
        raise _mismatch(parameter, argument, "a number")
    raise _mismatch(parameter, argument, "a type that can be bound")


def _integer(parameter: Value, argument: Argument, width: int) -> Argument:
    if not isinstance(argument, ScalarArgument) or isinstance(argument.value, float):
        raise _mismatch(parameter, argument, "an integer")
    value = int(argument.value)
    if width == 1:
        if value not in (0, 1):
            raise _mismatch(parameter, argument, "true or false")
        return ScalarArgument(argument.name, bool(value))
    if not -(1 << width - 1) <= value < 1 << width:
        raise _mismatch(parameter, argument, f"an integer of {width} bits")
    # An unsigned argument above the signed range is the same bits.
    return ScalarArgument(argument.name, value - (1 << width) if value >= 1 << width - 1 else value)


def _mismatch(parameter: Value, argument: Argument, expected: str) -> BindingError:
    return BindingError(
        f"parameter {parameter.source_name}: {type_text(parameter.type)} needs {expected}, "
        f"found {_shown(argument)}"
    )


def _shown(argument: Argument) -> str:
    if isinstance(argument, TensorArgument):
        return f"the tensor {argument.name} ({argument.dtype}{list(argument.shape)})"
    if isinstance(argument, DescriptorArgument):
        return (
            f"the descriptor {argument.name} ({list(argument.shape)}, blocks of {list(argument.block_shape)})"
        )
    if isinstance(argument, PointerArgument):
        return f"the address {argument.address:#x}"
    return f"{argument.name} = {argument.value}"


def describe(function: Function) -> str:
    """The parameters with their types, for a message: ``x_ptr: ptr<f32>, n: i32``."""
    try:
        wanted: Sequence[Parameter] = parameters(function)
    except BindingError:
        wanted = [Parameter(value, value.source_name) for value in function.arguments]
    if not wanted:
        return "no parameters"
    return ", ".join(f"{parameter.name}: {type_text(parameter.value.type)}" for parameter in wanted)


def type_text(type_: Type) -> str:
    """A type as TTIR writes it, without the dialect's prefix."""
    if isinstance(type_, IntType):
        return f"i{type_.width}"
    if isinstance(type_, FloatType):
        return type_.name
    if isinstance(type_, PointerType):
        return f"ptr<{type_text(type_.pointee)}>"
    if isinstance(type_, TensorType):
        return "tensor<" + "".join(f"{size}x" for size in type_.shape) + f"{type_text(type_.element)}>"
    if isinstance(type_, DescriptorType):
        return f"tensordesc<{type_text(type_.block)[len('tensor<') : -1]}>"
    assert isinstance(type_, OpaqueType)
    return type_.text

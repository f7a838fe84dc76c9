"""What a captured launch says of sizes that were not captured: which axis of a tensor is which size."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from math import prod

from kerncap.errors import UsageError
from kerncap.sanitizer.all_sizes.size_formula import formula
from kerncap.sanitizer.all_sizes.stated_sizes import Statement, split
from kerncap.sanitizer.checks.memory_before_launch import ContentsSource
from kerncap.sanitizer.launch import (
    Argument,
    DescriptorArgument,
    Launch,
    PointerArgument,
    ScalarArgument,
    TensorArgument,
)
from kerncap.sanitizer.line_comments import Comment
from kerncap.sanitizer.symbolic.expr import Buffer, const


def described(
    arguments: Mapping[str, Argument],
    statement: Statement,
    stated: Mapping[str, str],
    constants: Mapping[str, int],
) -> dict[str, str]:
    """Texts for `all_sizes` of a launch's arguments; ``stated`` (`--arg`) goes before what is found here.

    An axis as long as one size was is that size; a number that is not stated stays. Raises UsageError for
    what could be either, and for what is stated and was not so in this launch.
    """
    values = numbers_of(arguments)
    sizes = {name: values[name] for name in statement.sizes}
    names = {**{name: const(value) for name, value in {**constants, **values}.items()}}
    for name, text in statement.relations.items():
        meant = formula(text, names, f"--for-all {name}={text}").value
        if meant != values[name]:
            raise UsageError(
                f"--for-all {name}={text}: {name} was {values[name]} in the captured launch, "
                f"where {text} is {meant}"
            )
    _not_shared(arguments, statement.contents)
    texts: dict[str, str] = {}
    for name, argument in arguments.items():
        if name in statement.sizes or name in statement.relations:
            continue
        if isinstance(argument, DescriptorArgument):
            raise UsageError(
                f"{name} is a tensor descriptor made by the host, which --for-all does not follow"
            )
        if name in stated:
            texts[name] = stated[name]
        elif isinstance(argument, TensorArgument):
            texts[name] = _shape_over(name, argument, sizes)
        elif isinstance(argument, PointerArgument):
            if argument.address:
                raise UsageError(f"{name}: a pointer to memory of unknown extent; give --arg {name}=f32[n]")
            texts[name] = "null"
        else:
            _not_a_size(name, argument, sizes)
            value = argument.value
            texts[name] = str(value).lower() if isinstance(value, bool) else repr(value)
    for name, text in texts.items():
        argument = arguments[name]
        if isinstance(argument, TensorArgument) and name in stated:
            _as_captured(name, argument, text, {**constants, **values})
    return texts


def numbers_of(arguments: Mapping[str, Argument]) -> dict[str, int]:
    """Integers of a launch by name."""
    return {
        name: one.value
        for name, one in arguments.items()
        if isinstance(one, ScalarArgument) and type(one.value) is int
    }


def check_contents(statement: Statement, launch: Launch, values: Mapping[str, int]) -> None:
    """Raise UsageError if what memory is stated to hold was not so in the captured launch, as far as that
    has its contents. ``values``: numbers by name."""
    names = {name: const(value) for name, value in values.items()}
    source = ContentsSource(launch)
    for one in launch.arguments:
        if not isinstance(one, TensorArgument) or one.name not in statement.contents:
            continue
        ends = statement.contents[one.name]
        low, high = (formula(text, names, one.name).value for text in ends)
        unsigned = one.dtype.startswith("u")
        held = source.bounds(Buffer(one.storage, 8 * one.itemsize, not unsigned))
        if held is None or low is None or high is None or low <= held[0] and held[1] <= high:
            continue
        value = held[0] if held[0] < low else held[1]
        raise UsageError(
            f"{one.name} is stated to hold {'..'.join(ends)} and held {value} in "
            "the captured launch; state what it may hold"
        )


def check_preconditions(comments: Iterable[Comment], values: Mapping[str, int]) -> None:
    """Raise UsageError if what a comment says of a parameter was not so in the captured launch.

    ``values``: numbers by name.
    """
    names = {name: const(value) for name, value in values.items()}
    for one in comments:
        value = values[one.name]
        low, high = (
            None if end is None else formula(end, names, one.place).value for end in (one.low, one.high)
        )
        if (low is not None and value < low) or (high is not None and value > high):
            raise UsageError(
                f"{one.place}: the comment says {one.text}, and {one.name} was {value} in the captured "
                "launch; correct one of them"
            )


def captured_grid(text: str | None, captured: Sequence[int], values: Mapping[str, int]) -> list[str]:
    """The extents of the grid that is stated, which has to give the captured one. Raises UsageError."""
    shown = ",".join(str(extent) for extent in captured)
    if text is None:
        raise UsageError(
            f"--for-all needs --grid over the sizes, as in --grid 'cdiv(n,1024)'; it was {shown}"
        )
    names = {name: const(value) for name, value in values.items()}
    extents = split(text)
    if len(extents) > 3:
        raise UsageError(f"--grid {text}: {len(extents)} extents; at most three")
    meant = [formula(one, names, f"--grid {text}").value for one in (*extents, "1", "1")[:3]]
    if meant != list(captured):
        found = ",".join(str(extent) for extent in meant)
        raise UsageError(f"--grid {text}: it is {found} in the captured launch, whose grid was {shown}")
    return extents


def _not_shared(arguments: Mapping[str, Argument], stated: Iterable[str]) -> None:
    storages = {name: one.storage for name, one in arguments.items() if isinstance(one, TensorArgument)}
    for name in stated:
        for other, storage in storages.items():
            if other != name and storage == storages.get(name):
                raise UsageError(
                    f"--for-all: {name} and {other} share memory in the captured launch, so {name} may be "
                    "written; leave out what it holds"
                )


def _shape_over(name: str, tensor: TensorArgument, sizes: Mapping[str, int]) -> str:
    axes = [[size for size, value in sizes.items() if value == extent] for extent in tensor.shape]
    for axis, found in enumerate(axes):
        if len(found) > 1:
            raise UsageError(
                f"{name}: its axis {axis} has {tensor.shape[axis]} elements, as {' and '.join(found)} had; "
                f"say which, as in --arg '{name}={tensor.dtype}[{', '.join(found)}]'"
            )
    contiguous = tuple(prod(tensor.shape[axis + 1 :]) for axis in range(len(tensor.shape)))
    if not any(axes) and contiguous == tensor.strides:
        flat = [size for size, value in sizes.items() if value == prod(tensor.shape)]
        if len(flat) == 1 and prod(tensor.shape) > 1:
            return f"{tensor.dtype}[{flat[0]}]"
    shape = ", ".join(
        found[0] if found else str(extent) for found, extent in zip(axes, tensor.shape, strict=True)
    )
    long = [axis for axis, extent in enumerate(tensor.shape) if extent != 1]
    if all(tensor.strides[axis] == contiguous[axis] for axis in long):
        return f"{tensor.dtype}[{shape}]"
    raise UsageError(
        f"{name}: its strides {tensor.strides} are not those of its shape; "
        f"say how they follow, as in --arg '{name}={tensor.dtype}[{shape}]@strides(...)'"
    )


def _not_a_size(name: str, argument: ScalarArgument, sizes: Mapping[str, int]) -> None:
    value = argument.value
    same = [size for size, captured in sizes.items() if captured == value and type(value) is int]
    if same and value != 1:
        raise UsageError(
            f"{name} was {value}, as {same[0]} was; say whether it follows, as in "
            f"--for-all {name}={same[0]}, or stays, as in --for-all {name}={value}"
        )


def _as_captured(name: str, tensor: TensorArgument, text: str, values: Mapping[str, int]) -> None:
    """A stated shape has as many elements as the captured one."""
    known = {one: const(value) for one, value in values.items()}
    shape, bracket, _ = text.partition("[")[2].partition("]")
    extents = [formula(one, known, f"--arg {name}={text}").value for one in split(shape) if one.strip()]
    meant = prod(one for one in extents if one is not None)
    if bracket and meant != prod(tensor.shape):
        raise UsageError(
            f"--arg {name}={text}: {meant} elements in the captured launch, whose {name} has "
            f"{prod(tensor.shape)}"
        )

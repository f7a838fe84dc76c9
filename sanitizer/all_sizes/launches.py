"""A kernel with sizes in place of numbers, and its launch at any of these sizes."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace

from kerncap.errors import UsageError
from kerncap.sanitizer.all_sizes.size_formula import formula
from kerncap.sanitizer.all_sizes.smallest_sizes import value_of
from kerncap.sanitizer.all_sizes.specialised import Compiled, narrowed
from kerncap.sanitizer.all_sizes.stated_contents import Described, MadeUp
from kerncap.sanitizer.all_sizes.stated_sizes import Statement, numbers_over, split
from kerncap.sanitizer.launch import Launch, TensorArgument
from kerncap.sanitizer.line_comments import Comment, commented, loaded_from
from kerncap.sanitizer.pointer_origins import pointer_origins
from kerncap.sanitizer.sources.ttir_file import launch_from_ttir
from kerncap.sanitizer.symbolic.expr import TRUE, Expr, Variable, add, const, eq, ite, land, maximum, wrap
from kerncap.sanitizer.ttir import read_module
from kerncap.sanitizer.ttir.ir import DescriptorType, IntType, PointerType
from kerncap.sanitizer.walk.symbols import Symbols

_TENSOR = re.compile(r"(\w+)\[(.*?)\](?:@strides\((.*)\))?")
# Programs along x, y and z that a target can launch; TTIR counts them in 32 bits.
_LEAST, _MOST = -(1 << 63), (1 << 63) - 1
_MOST_IN_32_BITS = (2**31 - 1,) * 3
_MOST_PROGRAMS = {"cuda": (2**31 - 1, 65_535, 65_535)}


@dataclass(frozen=True)
class Tensor:
    """An argument's memory: elements along each axis and between them, as expressions and as text."""

    name: str
    dtype: str
    shape: tuple[Expr, ...]
    strides: tuple[Expr, ...]
    text: str

    def elements(self) -> Expr:
        """From element [0, …, 0] to the last one."""
        last = add(*((n - 1) * step for n, step in zip(self.shape, self.strides, strict=True)))
        some = [n >= 1 for n in self.shape]
        return ite(land(*some), last + 1, const(0))


def _of_comments(ttir: str, like: Launch | None) -> tuple[dict[int, Comment], tuple[Comment, ...]]:
    """By argument what a comment says of a number that is loaded from it; and those of parameters."""
    stated = commented(ttir, like.sources, like.configuration, like.ones) if like else commented(ttir, {}, {})
    origins = pointer_origins(stated.module, stated.module.kernel)
    found: dict[int, Comment] = {}
    for comment, value in stated.values:
        index = loaded_from(value, origins)
        if index is not None:
            found.setdefault(index, comment)
    return found, tuple(comment for comment, _ in stated.values if comment.kernel)


@dataclass(frozen=True)
class AllSizes:
    """``tensors`` and ``contents`` by the position of an argument; ``sizes`` in the order of the statement.

    ``grid_text`` and ``arguments``: what each follows from. ``preconditions``: comments on parameters.
    """

    ttir: str
    name: str
    sizes: Mapping[str, Expr]
    statement: Statement
    symbols: Symbols
    tensors: Mapping[int, Tensor]
    contents: Mapping[int, tuple[Expr, Expr]]
    grid_text: tuple[str, ...]
    arguments: Mapping[str, str]
    like: Launch | None = None  # whose places in sources, target and configuration these launches have
    given: tuple[str, ...] = ()
    preconditions: tuple[Comment, ...] = ()

    def assumed(self) -> tuple[str, ...]:
        """By name, what an answer rests on beside the sizes and the grid."""
        stated = self.statement
        kept = [
            f"{name} stays {text}"
            for name, text in self.arguments.items()
            if "[" not in text and text != "null"
        ]
        return (
            *self.given,
            *(f"{name} = {text}" for name, text in stated.relations.items()),
            *(f"{one.name} is {one.text}" for one in self.tensors.values()),
            *(f"every value of {name} is in {'..'.join(ends)}" for name, ends in stated.contents.items()),
            *kept,
            "no two arguments share memory",
        )

    def holds_at(self, assignment: Mapping[Variable, int]) -> bool:
        """Whether the sizes are some of those that are meant."""
        return bool(value_of(self.symbols.given, assignment))

    def values_at(self, assignment: Mapping[Variable, int]) -> dict[str, int]:
        """The sizes by name."""
        return {name: value_of(size, assignment) for name, size in self.sizes.items()}

    def launch_at(
        self,
        assignment: Mapping[Variable, int],
        words: Mapping[int, Mapping[int, int]] | None = None,
        grid: Sequence[int] = (),
    ) -> Launch:
        """The launch of these sizes, in made-up memory; ``words``: values by argument and byte offset.

        ``grid``: in place of the stated one.
        Raises UsageError for what no machine could launch.
        """
        grid = grid or [value_of(extent, assignment) for extent in self.symbols.grid]
        texts = dict(self.arguments)
        for index, parameter in enumerate(read_module(self.ttir).kernel.arguments):
            name = parameter.source_name
            if index in self.symbols.scalars:
                texts[name] = str(value_of(self.symbols.scalars[index], assignment))
            elif index in self.tensors:
                tensor = self.tensors[index]
                shape, strides = (
                    ",".join(str(value_of(one, assignment)) for one in each)
                    for each in (tensor.shape, tensor.strides)
                )
                texts[name] = f"{tensor.dtype}[{shape}]@strides({strides})"
        launch = launch_from_ttir(self.ttir, grid, texts, self.name)
        held: dict[int, Described] = {}
        for index, (low, high) in self.contents.items():
            argument = launch.arguments[index]
            assert isinstance(argument, TensorArgument)
            storage = launch.storages[argument.storage]
            span = value_of(low, assignment), value_of(high, assignment)
            values = (words or {}).get(index, {})
            held[argument.storage] = Described(
                storage.size_bytes, argument.itemsize, argument.dtype, span, values
            )
        launch = replace(launch, contents=MadeUp(held))
        if self.like is None:
            return launch
        return replace(
            launch,
            kernel=self.like.kernel,
            python_stack=self.like.python_stack,
            sources=self.like.sources,
            configuration=self.like.configuration,
            ones=self.like.ones,
            target=self.like.target,
        )


def all_sizes(
    ttir: str,
    statement: Statement,
    grid: Sequence[str],
    arguments: Mapping[str, str],
    constants: Mapping[str, int],
    name: str,
    like: Launch | None = None,
    compiled: Compiled | None = None,
) -> AllSizes:
    """What the statement makes of a kernel: ``grid`` and the shapes in ``arguments`` may name sizes.

    ``constants``: other names that they may use. ``compiled``: the sizes are only those that the text was
    compiled for. Raises UsageError.
    """
    function = read_module(ttir).kernel
    given: tuple[str, ...] = ()
    sizes = {
        one: (narrowed(interval, compiled.kinds(one)) if compiled else interval).expression(one)
        for one, interval in statement.sizes.items()
    }
    names = numbers_over(statement, sizes, constants)
    scalars: dict[int, Expr] = {}
    tensors: dict[int, Tensor] = {}
    contents: dict[int, tuple[Expr, Expr]] = {}
    texts: dict[str, str] = {}
    for own in arguments:
        if own in sizes or own in statement.relations:
            raise UsageError(
                f"--arg {own}={arguments[own]}: --for-all states {own}; leave one of the two out"
            )
    for index, parameter in enumerate(function.arguments):
        own, kind = parameter.source_name, parameter.type
        if isinstance(kind, IntType) and kind.width > 1:
            if own in sizes or own in statement.relations:
                scalars[index] = names[own]
                if compiled is None:
                    _within(name, own, names[own], kind.width)
                    _promised(own, names[own], function.argument_attributes[index])
            elif own in arguments:
                scalars[index] = wrap(
                    formula(arguments[own], {}, f"--arg {own}={arguments[own]}"), kind.width
                )
                names.setdefault(own, scalars[index])
            else:
                raise UsageError(f"{name}: no value for {own}; give --arg {own}=N or --for-all {own}=1..N")
            if own in arguments:
                texts[own] = arguments[own]
        elif isinstance(kind, DescriptorType):
            raise UsageError(
                f"{name}: {own} is a descriptor made by the host, which --for-all does not follow"
            )
        elif own not in arguments:
            raise UsageError(f"{name}: no argument {own}; give --arg {own}=...")
        else:
            texts[own] = arguments[own]
    for index, parameter in enumerate(function.arguments):
        own = parameter.source_name
        if isinstance(parameter.type, PointerType) and texts[own] != "null":
            tensors[index] = _tensor(own, texts[own], names)
            if own in statement.contents:
                what = f"--for-all {own}={'..'.join(statement.contents[own])}"
                low, high = (formula(one, names, what) for one in statement.contents[own])
                contents[index] = low, high
    whole = {function.arguments[index].source_name: number for index, number in scalars.items()}
    of_memory, preconditions = _of_comments(ttir, like)
    for index, comment in of_memory.items():
        own = function.arguments[index].source_name
        if index in tensors and index not in contents:
            ends = comment.low or str(_LEAST), comment.high or str(_MOST)
            low, high = (formula(one, {**names, **whole}, comment.place) for one in ends)
            contents[index] = low, high
            statement = replace(statement, contents={**statement.contents, own: ends})
            given = (*given, _said(comment))
    assumed: list[Expr] = [low <= high for low, high in contents.values()]
    fixed = {**constants, **dict.fromkeys(like.ones if like is not None else (), 1)}
    known = {**{one: const(number) for one, number in fixed.items()}, **names, **whole}
    for comment in preconditions:
        value = formula(comment.name, known, comment.place)
        if comment.low is not None:
            assumed.append(formula(comment.low, known, comment.place) <= value)
        if comment.high is not None:
            assumed.append(value <= formula(comment.high, known, comment.place))
        given = (*given, _said(comment))
    if compiled is not None:
        assumed.append(compiled.holds({one: names[one] for one in (*sizes, *statement.relations)}))
    extents = [formula(text, names, f"--grid {text}") for text in (*grid, "1", "1")[:3]]
    platform = (like.target if like is not None else "").partition(":")[0]
    for extent, most in zip(extents, _MOST_PROGRAMS.get(platform, _MOST_IN_32_BITS), strict=True):
        assert extent.high is not None
        if extent.high > most:
            assumed.append(extent <= most)
            given = (*given, f"a grid of more than {most} programs along an axis is not launched")
    return AllSizes(
        ttir=ttir,
        name=name,
        sizes=sizes,
        statement=statement,
        symbols=Symbols((extents[0], extents[1], extents[2]), scalars, land(*assumed)),
        tensors=tensors,
        contents=contents,
        grid_text=tuple(grid),
        arguments=texts,
        like=like,
        given=tuple(dict.fromkeys(given)),
        preconditions=preconditions,
    )


def _said(comment: Comment) -> str:
    return f"the comment {comment.text} in {comment.place}"


def _within(name: str, own: str, e: Expr, bits: int) -> None:
    low, high = -(1 << (bits - 1)), (1 << (bits - 1)) - 1
    if e.low is None or e.high is None or e.low < low or e.high > high:
        raise UsageError(
            f"{name}: {own} is an i{bits} there, and its values may be {e.low} to {e.high}; "
            f"state sizes that keep it within {low} to {high}"
        )


def _promised(own: str, e: Expr, attributes: Mapping[str, object]) -> None:
    amount = attributes.get("tt.divisibility")
    if type(amount) is int and eq(e % amount, 0) is not TRUE:
        raise UsageError(
            f"{own} is promised to be a multiple of {amount} in the compiled kernel; "
            f"state an interval that keeps this, as in {own}={amount}..8192:{amount}"
        )


def _tensor(own: str, text: str, names: Mapping[str, Expr]) -> Tensor:
    what = f"argument {own}={text[:60]}"
    match = _TENSOR.fullmatch(text.strip())
    if match is None:
        raise UsageError(
            f"{what}: expected a tensor such as f32[M,K] or f32[M,K]@strides(K,1), with no other @"
        )
    shape = tuple(formula(one, names, what) for one in split(match[2]) if one.strip())
    strides = _contiguous(shape)
    if match[3] is not None:
        strides = tuple(formula(one, names, what) for one in split(match[3]) if one.strip())
    if len(strides) != len(shape):
        raise UsageError(f"{what}: {len(strides)} strides for {len(shape)} axes")
    for one in (*shape, *strides):
        if one.low is None or one.low < 0:
            raise UsageError(
                f"{what}: a size or stride may be negative; state sizes that keep it at 0 or more"
            )
    return Tensor(own, match[1], shape, strides, text)


def _contiguous(shape: Sequence[Expr]) -> tuple[Expr, ...]:
    strides: list[Expr] = []
    step = const(1)
    for extent in reversed(shape):
        strides.append(step)
        step = step * (extent if extent.low is not None and extent.low >= 1 else maximum(extent, const(1)))
    return tuple(reversed(strides))

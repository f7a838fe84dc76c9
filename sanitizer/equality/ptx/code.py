"""PTX as data: what `reader` makes of a text and the evaluator walks over."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field


@dataclass(frozen=True, slots=True)
class Register:
    """A register, or a special one such as ``%tid.x``."""

    name: str


@dataclass(frozen=True, slots=True)
class Integer:
    value: int


@dataclass(frozen=True, slots=True)
class Float:
    """``0f3F800000`` or ``0d…``; ``kind``: "f32" or "f64"."""

    value: float
    kind: str


@dataclass(frozen=True, slots=True)
class Symbol:
    """A variable, a label or a function."""

    name: str


@dataclass(frozen=True, slots=True)
class Address:
    """``[base+offset]``."""

    base: Register | Symbol | Integer
    offset: int


@dataclass(frozen=True, slots=True)
class Group:
    """``{a, b}``, ``(a, b)`` or ``a|b``: several operands in the place of one."""

    items: tuple[Operand, ...]


@dataclass(frozen=True, slots=True)
class Negated:
    """``!p``: a predicate that is false where ``p`` is true."""

    register: Register


Operand = Negated | Register | Integer | Float | Symbol | Address | Group


@dataclass(frozen=True, slots=True)
class Instruction:
    """``parts``: the words of ``ld.global.v4.f32``. ``guard``: a predicate, and whether it is negated."""

    parts: tuple[str, ...]
    operands: tuple[Operand, ...]
    guard: tuple[str, bool] | None = None

    @property
    def name(self) -> str:
        return ".".join(self.parts)

    @property
    def type(self) -> str:
        return self.parts[-1]


@dataclass(frozen=True, slots=True)
class Variable:
    """A parameter, or a variable in shared memory; ``size`` in bytes, 0 if the launch says it."""

    name: str
    type: str
    size: int
    align: int


@dataclass(eq=False)
class Module:
    """One kernel of a PTX text.

    ``ordered``: whether a run has shown that its threads don't race. It is the same in each run, because no
    float decides what a thread does. ``kinds``: of floats, by storage, if only their use says them.
    """

    entry: str
    parameters: tuple[Variable, ...]
    shared: tuple[Variable, ...]
    code: tuple[Instruction, ...]
    labels: Mapping[str, int]
    ordered: bool = False
    kinds: dict[int, str] = field(default_factory=dict)
    starts: frozenset[int] = field(default_factory=frozenset)  # where threads may meet or part

    def floats(self) -> Iterator[float]:
        """The constants."""
        pending: list[Operand] = [one for each in self.code for one in each.operands]
        while pending:
            one = pending.pop()
            if isinstance(one, Float):
                yield one.value
            elif isinstance(one, Group):
                pending += one.items

    def offsets(self) -> dict[str, int]:
        """Where each parameter is in the buffer of the launch."""
        found, at = {}, 0
        for one in self.parameters:
            at = -(-at // one.align) * one.align
            found[one.name] = at
            at += one.size
        return found

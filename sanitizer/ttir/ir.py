"""TTIR as data: what the reader makes of a text and everything else walks over.

The shapes follow MLIR: a module has functions, a function a region, a region blocks, a block
operations, an operation regions again. Nothing here knows what an operation means.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from typing import Any, Literal

# --- types ---------------------------------------------------------------------------------------


@dataclass(frozen=True, slots=True)
class IntType:
    """``i1`` … ``i64``. ``index`` reads as 64 bits. Signless, as in MLIR: operations carry the sign."""

    width: int


@dataclass(frozen=True, slots=True)
class FloatType:
    name: str  # "f32", "bf16", "f8E4M3FN", …
    width: int  # bits


@dataclass(frozen=True, slots=True)
class PointerType:
    """``!tt.ptr<pointee>``; a block pointer where the pointee is a TensorType."""

    pointee: Type
    address_space: int = 1


@dataclass(frozen=True, slots=True)
class TensorType:
    """``encoding``: TTGIR's layout, as its text; types that differ in nothing else are equal."""

    shape: tuple[int, ...]
    element: Type
    encoding: str = field(default="", compare=False)


@dataclass(frozen=True, slots=True)
class DescriptorType:
    """``!tt.tensordesc<…>``: the block that one access moves."""

    block: TensorType


@dataclass(frozen=True, slots=True)
class OpaqueType:
    """A type that the reader has no class for; its text."""

    text: str


# What the printer appends to tell values of one name apart.
_SUFFIX = re.compile(r"(_\d+)?(#\d+)?$")

Type = IntType | FloatType | PointerType | TensorType | DescriptorType | OpaqueType

# --- locations -------------------------------------------------------------------------------------


@dataclass(frozen=True, slots=True)
class Frame:
    """One place in a source file; line and column are 1-based, 0 where unknown."""

    file: str
    line: int
    column: int


@dataclass(frozen=True, slots=True)
class Location:
    """Where an operation comes from: the innermost place first, then its callers outwards.

    ``name`` is the source's variable that the value was assigned to, where TTIR kept it.
    """

    frames: tuple[Frame, ...] = ()
    name: str | None = None

    @property
    def frame(self) -> Frame | None:
        """The innermost frame outside of Triton's own library: what a reader takes for the place."""
        for frame in self.frames:
            if "/triton/language/" not in frame.file:
                return frame
        return self.frames[0] if self.frames else None


UNKNOWN_LOCATION = Location()

# --- attributes --------------------------------------------------------------------------------------


@dataclass(frozen=True, slots=True)
class Dense:
    """``dense<…> : tensor<…>``. ``values`` has one element for a splat, else one per element, row by row.

    Elements are int, float or bool; a float given by its bits is decoded.
    """

    values: tuple[Any, ...]
    type: Type


# An attribute is int, float, bool, str, a Type, a Dense, a tuple of attributes, a dict, or None (unit).
Attribute = Any

# --- values and operations -------------------------------------------------------------------------


@dataclass(eq=False, slots=True)
class Value:
    """The result of an operation or the argument of a block; compared and hashed by identity."""

    name: str  # "%x_41", "%acc#2": as in the text
    type: Type
    location: Location = UNKNOWN_LOCATION
    owner: Operation | Block | None = None  # what defines it
    index: int = 0  # which result or argument of the owner

    @property
    def source_name(self) -> str:
        """The source's own name of it where known, else the text's without the percent sign."""
        return self.location.name or _SUFFIX.sub("", self.name.lstrip("%"))


@dataclass(eq=False, slots=True)
class Operation:
    """``attributes`` holds the attribute dictionary and whatever the custom syntax spells out.

    Custom syntax to attributes: ``arith.cmpi``/``cmpf``: "predicate"; ``tt.get_program_id``,
    ``tt.get_num_programs``: "axis" (0 to 2); ``arith.constant``: "value" (int, float, bool or Dense);
    ``tt.load``/``store``: "cache", "evict", "boundaryCheck" (tuple of int), "padding", "isVolatile";
    and "operand_segments" (ptr, mask, other) so that absent ones are known; ``tt.atomic_rmw``: "rmw_op",
    "sem", "scope", segments (ptr, value, mask); ``tt.atomic_cas``: "sem", "scope"; ``tt.dot``:
    "inputPrecision"; ``tt.call``: "callee"; ``tt.extern_elementwise``: "symbol", "libname"; overflow
    flags: "overflow" (tuple of str); ``tt.descriptor_*``: operands in the text's order;
    ``scf.for``: operands lower, upper, step, then the initial iter_args; "unsigned": True for an
    unsigned comparison. ``scf.while``: regions before, after. ``cf.br``/``cf.cond_br``: see `successors`.
    """

    name: str
    operands: tuple[Value, ...] = ()
    results: tuple[Value, ...] = ()
    attributes: dict[str, Attribute] = field(default_factory=dict)
    regions: tuple[Region, ...] = ()
    # Where a terminator goes: the block and the values for its arguments. For cf.cond_br the first
    # is taken if operands[0] is true. The values are not part of `operands`.
    successors: tuple[tuple[Block, tuple[Value, ...]], ...] = ()
    location: Location = UNKNOWN_LOCATION
    parent: Block | None = None
    order: int = 0  # position in the text, the same for every reading of it

    def segment(self, name: str) -> Value | None:
        """An optional operand by name ("ptr", "mask", "other", "value"); None if it is absent."""
        position = self.attributes["operand_segments"].get(name)
        return None if position is None else self.operands[position]


@dataclass(eq=False, slots=True)
class Block:
    label: str = ""
    arguments: tuple[Value, ...] = ()
    operations: list[Operation] = field(default_factory=list)
    parent: Region | None = None


@dataclass(eq=False, slots=True)
class Region:
    blocks: list[Block] = field(default_factory=list)
    parent: Operation | Function | None = None

    @property
    def entry(self) -> Block:
        return self.blocks[0]


@dataclass(eq=False, slots=True)
class Function:
    """``tt.func``. ``argument_attributes[i]``: for example ``{"tt.divisibility": 16}``."""

    name: str
    arguments: tuple[Value, ...]
    argument_attributes: tuple[Mapping[str, Attribute], ...]
    result_types: tuple[Type, ...]
    body: Region | None  # None: a declaration
    public: bool = True
    location: Location = UNKNOWN_LOCATION


@dataclass(eq=False, slots=True)
class Module:
    """``aliases``: attributes by their alias in types' texts (``#shared``)."""

    functions: dict[str, Function]
    attributes: dict[str, Attribute] = field(default_factory=dict)
    aliases: dict[str, Attribute] = field(default_factory=dict)

    @property
    def kernel(self) -> Function:
        """The one public function with a body."""
        return next(f for f in self.functions.values() if f.public and f.body is not None)

    def operations(self) -> Iterator[Operation]:
        """Of all its functions, in the text's order."""
        for function in self.functions.values():
            if function.body is not None:
                yield from walk(function.body)


# Operations that touch the launch's memory, and how.
MEMORY: dict[str, Literal["load", "store", "atomic"]] = {
    "tt.load": "load", "tt.descriptor_load": "load", "tt.descriptor_gather": "load",
    "ttg.async_copy_global_to_local": "load",
    "tt.store": "store", "tt.descriptor_store": "store", "tt.descriptor_scatter": "store",
    "tt.atomic_rmw": "atomic", "tt.atomic_cas": "atomic", "tt.descriptor_reduce": "atomic",
    "tt.atomic_load": "atomic", "tt.atomic_store": "atomic", "tt.atomic_poll": "atomic",
}  # fmt: skip

# Operations without a value for some operands: a divisor of zero, a shift by the width or more.
DIVISIONS = frozenset(
    f"arith.{name}" for name in ("divsi", "divui", "remsi", "remui", "floordivsi", "ceildivsi", "ceildivui")
)
SHIFTS = frozenset(f"arith.{name}" for name in ("shli", "shrsi", "shrui"))


def walk(region: Region) -> Iterator[Operation]:
    """Every operation in the region and in the regions below, in the text's order."""
    for block in region.blocks:
        for operation in block.operations:
            yield operation
            for inner in operation.regions:
                yield from walk(inner)


def memory_operations(module: Module) -> list[Operation]:
    """Every operation of the module that touches the launch's memory, in the text's order."""
    return [operation for operation in module.operations() if operation.name in MEMORY]

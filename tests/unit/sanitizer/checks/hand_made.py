"""Launches and accesses put together by hand, as the walk would give them."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any, Literal

import numpy as np
import numpy.typing as npt

from kerncap.sanitizer.analysis import Analysis
from kerncap.sanitizer.checks.memory_before_launch import ContentsSource
from kerncap.sanitizer.footprint import footprint
from kerncap.sanitizer.launch import (
    Argument,
    Launch,
    NoContents,
    PointerArgument,
    ScalarArgument,
    Storage,
    TensorArgument,
)
from kerncap.sanitizer.options import Options
from kerncap.sanitizer.paged_bytes import PagedBytes
from kerncap.sanitizer.symbolic.expr import FALSE, TRUE, Expr, Variable, const, var
from kerncap.sanitizer.symbolic.solve import Solver
from kerncap.sanitizer.ttir.ir import Block, Frame, Function, Location, Module, Operation, Region
from kerncap.sanitizer.walk.access import Access, DescriptorUse, Loop, Target, Walked
from kerncap.sanitizer.walk.symbols import Symbols

FIRST_ADDRESS = 0x7F00_0000_0000
APART = 0x100_0000
SIZES = {"float32": 4, "float16": 2, "int64": 8, "int32": 4, "int8": 1}


class Held(NoContents):
    """The bytes of each storage."""

    def __init__(self, contents: Sequence[npt.NDArray[Any] | None]) -> None:
        self._contents = contents

    def read(self, storage: int) -> PagedBytes | None:
        array = self._contents[storage] if storage < len(self._contents) else None
        return None if array is None else PagedBytes.of(array)


@dataclass
class Scene:
    """One launch in the making: tensors first, then accesses to check."""

    grid: tuple[int, int, int] = (1, 1, 1)
    bounds: Literal["view", "storage", "allocation"] = "storage"
    arguments: list[Argument] = field(default_factory=list)
    storages: list[Storage] = field(default_factory=list)
    contents: list[npt.NDArray[Any] | None] = field(default_factory=list)
    programs: tuple[Variable, ...] = field(init=False)

    def __post_init__(self) -> None:
        self.programs = tuple(Variable(f"pid{i}", "program", 0, n - 1) for i, n in enumerate(self.grid))

    @property
    def pid(self) -> Expr:
        return var(self.programs[0])

    def tensor(
        self,
        name: str,
        shape: tuple[int, ...],
        strides: tuple[int, ...] | None = None,
        dtype: str = "float32",
        *,
        storage_bytes: int | None = None,
        storage_offset: int = 0,
        allocation_bytes: int | None = None,
        contents: npt.NDArray[Any] | None = None,
    ) -> int:
        """Its index among the arguments; ``storage_offset``: bytes from the storage's start to element 0."""
        itemsize = SIZES[dtype]
        if strides is None:
            strides = tuple(int(np.prod(shape[i + 1 :])) for i in range(len(shape)))
        covered = footprint(shape, strides, itemsize)
        size = storage_offset + max(0, covered.end) if storage_bytes is None else storage_bytes
        address = FIRST_ADDRESS + len(self.storages) * APART
        allocation = size if allocation_bytes is None else allocation_bytes
        self.storages.append(Storage(address, size, address, allocation, name))
        self.contents.append(contents)
        self.arguments.append(
            TensorArgument(
                name, len(self.storages) - 1, address + storage_offset, dtype, itemsize, shape, strides
            )
        )
        return len(self.arguments) - 1

    def scalar(self, name: str, value: int) -> int:
        self.arguments.append(ScalarArgument(name, value))
        return len(self.arguments) - 1

    def pointer(self, name: str, address: int) -> int:
        self.arguments.append(PointerArgument(name, address))
        return len(self.arguments) - 1

    def analysis(self, *accesses: Access, checks: frozenset[str] | None = None) -> Analysis:
        launch = Launch(
            "kernel", "", self.grid, tuple(self.arguments), tuple(self.storages), Held(self.contents)
        )
        body = Region([Block(operations=[access.operation for access in accesses])])
        function = Function("kernel", (), (), (), body)
        assert len(self.programs) == 3
        walked = Walked(self.programs, accesses, (), (), Symbols((const(1), const(1), const(1))))  # type: ignore[arg-type]
        options = Options(bounds=self.bounds) if checks is None else Options(checks, self.bounds)
        solver = Solver(ContentsSource(launch))
        return Analysis(launch, Module({"kernel": function}), function, walked, solver, options)


def lane(extent: int, axis: int = 0) -> Variable:
    return Variable(f"lane{axis}", "lane", 0, extent - 1)


def loop(trips: int, name: str = "k", step: int = 1) -> Loop:
    counter = Variable(name, "loop", 0, trips - 1)
    return Loop(counter, name, var(counter) * step, Location())


def access(
    argument: int | None,
    offset_bytes: Expr,
    *,
    lanes: Sequence[Variable | None] = (),
    mask: Expr = TRUE,
    path: Expr = TRUE,
    width: int = 4,
    kind: Literal["load", "store", "atomic"] = "load",
    loops: tuple[Loop, ...] = (),
    targets: tuple[Target, ...] | None = None,
    value: Expr | None = None,
    descriptor: DescriptorUse | None = None,
) -> Access:
    """A load at line 7, unless told otherwise."""
    location = Location((Frame("kernel.py", 7, 1),))
    return Access(
        operation=Operation(f"tt.{kind}", location=location), kind=kind, location=location,
        lanes=tuple(lanes), shape=tuple(1 if v is None else v.points for v in lanes),
        targets=targets or (Target(TRUE, argument, offset_bytes),), width_bytes=width, mask=mask, path=path,
        loops=loops, undefined=FALSE, steered_by_undefined=FALSE, value=value, descriptor=descriptor,
    )  # fmt: skip

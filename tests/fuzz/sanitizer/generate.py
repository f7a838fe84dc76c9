"""Random kernels as source text: a seed gives a case whose tensors are still of any size (`case.fitted`).

The language of the statements stands in `statements`; here are names, numbers, program coordinates
and index tiles. Sizes and strides are near those that make a kernel correct, so that about half are.
"""

from __future__ import annotations

import random
from collections.abc import Callable, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Any

from tests.fuzz.sanitizer.case import Case, Tensor


@dataclass(frozen=True)
class Coordinate:
    """An i32 scalar with values from 0 to extent - 1, over the grid."""

    name: str
    extent: int


@dataclass(frozen=True)
class Tile:
    """An i32 tile. ``top``: about its largest value over the whole grid."""

    name: str
    shape: tuple[int, ...]
    top: int


class Writer:
    """The kernel as it grows."""

    def __init__(self, seed: int) -> None:
        self.seed = seed
        self.choose = random.Random(seed)
        self.lines: list[str] = []
        self.indent = 1
        self.numbers: dict[str, int] = {}
        self.constexprs: set[str] = set()
        self.tensors: dict[str, Tensor] = {}
        self.count = 0
        self.coordinates: list[Coordinate] = []
        self.in_loop = 0
        self.grid = (1, 1, 1)
        self.view_bounds = False
        self.any_order = False  # what an atomic gave back leads somewhere
        self.steering: set[str] = set()  # tensors whose contents lead to addresses or masks

    # --- text ----------------------------------------------------------------------------------------

    def line(self, text: str) -> None:
        self.lines.append("    " * self.indent + text)

    @contextmanager
    def block(self, head: str) -> Any:
        self.line(head)
        self.indent += 1
        before = len(self.lines)
        yield
        if len(self.lines) == before:
            self.line("pass")
        self.indent -= 1

    def name(self, prefix: str) -> str:
        self.count += 1
        return f"{prefix}{self.count}"

    def let(self, prefix: str, text: str) -> str:
        name = self.name(prefix)
        self.line(f"{name} = {text}")
        return name

    # --- chance --------------------------------------------------------------------------------------

    def chance(self, share: float) -> bool:
        return self.choose.random() < share

    def pick(self, options: Sequence[Any]) -> Any:
        return self.choose.choice(options)

    def near(self, value: int, share: float = 0.15) -> int:
        """The value, now and then one beside it."""
        return max(value + self.pick((-2, -1, -1, 1, 1, 2)), 0) if self.chance(share) else value

    # --- parameters ----------------------------------------------------------------------------------

    def number(self, value: int, prefix: str = "n") -> str:
        """A number as an argument, a constexpr or a literal."""
        kind = self.choose.random()
        if kind < 0.2:
            return str(value) if value >= 0 else f"({value})"
        name = self.name(prefix)
        self.numbers[name] = value
        if kind < 0.35:
            self.constexprs.add(name)
        return name

    def tensor(self, kind: str = "f32", *, read: bool, **properties: Any) -> str:
        """A new argument, or one that is there already."""
        known = [
            one.name
            for one in self.tensors.values()
            if one.kind == kind
            and one.contents == properties.get("contents", (-8, 8))
            and not (one.rising or one.distinct or one.pitch)
        ]
        if read and self.chance(0.8):  # what was written is read again now and then
            known = [name for name in known if name[0] == "x"]
        plain = not (properties.get("rising") or properties.get("distinct"))
        if known and plain and self.chance(0.2 if read else 0.06):
            return str(self.pick(known))
        name = self.name("x" if read else "y")
        if known and plain and self.chance(0.04):
            owner = self.tensors[self.pick(known)]
            if owner.same_as is None:
                properties |= {"same_as": owner.name, "origin": self.pick((0, 0, 1, 4, 16))}
        if not properties.keys() & {"same_as", "fresh"} and self.chance(0.03 if read else 0.3):
            properties["fresh"] = True
        self.tensors[name] = Tensor(name, kind, **properties)
        return name

    # --- program coordinates -------------------------------------------------------------------------

    def launch_grid(self) -> None:
        grids: list[Callable[[], tuple[int, int, int]]] = [
            lambda: (self.choose.randint(1, 16), 1, 1),
            lambda: (self.choose.randint(1, 12), 1, 1),
            lambda: (self.choose.randint(1, 6), self.choose.randint(1, 5), 1),
            lambda: (self.choose.randint(1, 4), self.choose.randint(1, 3), self.choose.randint(1, 3)),
            lambda: (self.pick((32, 48, 64)), 1, 1),
        ]
        self.grid = self.choose.choices(grids, (5, 4, 4, 2, 0.6))[0]()
        for axis, extent in enumerate(self.grid):
            if extent > 1 or axis == 0:
                self._axis(axis, extent)
        self.choose.shuffle(self.coordinates)
        if len(self.coordinates) > 1 and self.chance(0.05):
            self.coordinates.pop()

    def _axis(self, axis: int, extent: int) -> None:
        pid = self.let("p", f"tl.program_id({axis})")
        factors = [n for n in range(2, extent) if extent % n == 0]
        style = self.choose.random()
        if factors and style < 0.3:
            inner = self.pick(factors)
            divisor = self.number(inner, "g")
            names = self.let("p", f"{pid} // {divisor}"), self.let("p", f"{pid} % {divisor}")
            extents = extent // inner, inner
            self.coordinates += [Coordinate(n, e) for n, e in zip(names, extents, strict=True)]
        elif factors and style < 0.4:
            self._swizzled(pid, extent, self.pick(factors))
        elif style < 0.5:
            back = self.let("p", f"tl.num_programs({axis}) - 1 - {pid}")
            self.coordinates.append(Coordinate(back, extent))
        else:
            self.coordinates.append(Coordinate(pid, extent))

    def _swizzled(self, pid: str, extent: int, columns: int) -> None:
        """Tiles in groups of rows, as matrix products do."""
        rows = extent // columns
        group = self.number(self.pick((1, 2, 3)), "g")
        rows_name, columns_name = self.number(rows, "m"), self.number(columns, "m")
        width = self.let("w", f"{group} * {columns_name}")
        first = self.let("f", f"({pid} // {width}) * {group}")
        size = self.let("z", f"tl.minimum({rows_name} - {first}, {group})")
        row = self.let("p", f"{first} + ({pid} % {width}) % {size}")
        column = self.let("p", f"({pid} % {width}) // {size}")
        self.coordinates += [Coordinate(row, rows), Coordinate(column, columns)]

    def linear(self) -> Coordinate:
        """All coordinates in one."""
        known = list(self.coordinates)
        if len(known) == 1:
            return known[0]
        text, extent = known[0].name, known[0].extent
        for one in known[1:]:
            text = f"({text}) * {self.number(self.near(one.extent, 0.03), 'e')} + {one.name}"
            extent *= one.extent
        return Coordinate(self.let("q", text), extent)

    # --- index tiles -----------------------------------------------------------------------------------

    def flat_tile(self, width: int | None = None, *, writes: bool = False) -> Tile:
        """Of one dimension; the tiles of different programs are disjoint, or nearly so."""
        width = width or self.pick((2, 4, 8, 8, 16, 32))
        size = self.number(width, "B") if self.chance(0.3) else str(width)
        self._make_constexpr(size)
        at = self.linear() if self.chance(0.98 if writes else 0.85) else self.pick(self.coordinates)
        lanes = f"tl.arange(0, {size})"
        style = self.choose.random()
        step = self.near(width, 0.05 if writes else 0.12)
        if style < 0.55:
            name = self.let("o", f"{at.name} * {step if step != width else size} + {lanes}")
            tile = Tile(name, (width,), (at.extent - 1) * step + width - 1)
        elif style < 0.7:
            extent = self.number(self.near(at.extent, 0.06), "e")
            name = self.let("o", f"{lanes} * {extent} + {at.name}")
            tile = Tile(name, (width,), at.extent * width - 1)
        elif style < 0.85:
            stride, plus = self.pick((2, 3, -1, -2, 5)), self.pick((0, 0, 1, 3, -1))
            text = f"({at.name} * {size} + {lanes}) * {self.number(stride, 's')} + {self.number(plus, 'c')}"
            tile = Tile(self.let("o", text), (width,), (at.extent * width - 1) * stride + plus)
        else:
            base = self.let("b", f"{at.name} * {size}")
            name = self.let("o", f"{base} + {lanes}")
            tile = Tile(name, (width,), at.extent * width - 1)
        return self.twisted(tile) if self.chance(0.05 if writes else 0.25) else tile

    def twisted(self, tile: Tile) -> Tile:
        """What kernels do to offsets: clamp, wrap around, shift, divide, choose."""
        o, top = tile.name, max(tile.top, 1)
        bound = self.number(self.near(self.choose.randint(1, top + 1)), "n")
        twists = [
            (f"{o} % {self.number(self.choose.randint(1, top + 1), 'n')}", top),
            (f"tl.minimum({o}, {bound} - 1)", top),
            (f"tl.maximum({o} - {self.pick((1, 2, 8))}, 0)", top),
            (f"tl.where({o} < {bound}, {o}, 0)", top),
            (f"tl.where({o} % 2 == 0, {o}, {o} - 1)", top),
            (f"{o} // {self.pick((2, 3, 4))}", top // 2),
            (f"{o} ^ 1", top + 1),
            (f"{o} << 1", top * 2),
            (f"{o} >> 1", top // 2),
            (f"{o} & {self.pick((7, 15, 3))}", 15),
            (f"{bound} - 1 - {o}", top),
            (f"({o} - {self.pick((1, 4))}) % {self.pick((8, 16, 5))}", 15),
            (f"({o} - {self.pick((1, 4))}) // {self.pick((2, 3))}", top),
        ]
        text, new_top = self.pick(twists)
        return Tile(self.let("o", text), tile.shape, new_top)

    def square_tile(self) -> tuple[Tile, str, str, Tile, Tile]:
        """Of two dimensions: the tile, its mask's two halves' texts, and its rows and columns."""
        rows, columns = self.pick((2, 4, 8)), self.pick((2, 4, 8))
        first = self.pick(self.coordinates) if len(self.coordinates) < 3 else self.linear()
        others = [one for one in self.coordinates if one is not first and len(self.coordinates) < 3]
        r = self.let("r", f"{first.name} * {rows} + tl.arange(0, {rows})")
        row = Tile(r, (rows,), first.extent * rows - 1)
        if others:
            second = self.pick(others)
            c = self.let("c", f"{second.name} * {columns} + tl.arange(0, {columns})")
            column = Tile(c, (columns,), second.extent * columns - 1)
        else:
            column = Tile(self.let("c", f"tl.arange(0, {columns})"), (columns,), columns - 1)
        c = column.name
        height, width = row.top + 1, column.top + 1
        height -= self.pick((0, 0, 1, rows - 1))
        width -= self.pick((0, 0, 1, columns - 1))
        stride = self.number(self.near(width, 0.06), "s")
        style = self.choose.random()
        if style < 0.7:
            text = f"{r}[:, None] * {stride} + {c}[None, :]"
        elif style < 0.85:
            text = f"{c}[None, :] * {self.number(height, 's')} + {r}[:, None]"
        else:
            text = f"{r}[:, None] * {stride} + {c}[None, :] * {self.number(self.pick((1, 2, 3)), 's')}"
        tile = Tile(self.let("o", text), (rows, columns), (row.top + 1) * (column.top + 1))
        above = f"{r}[:, None] < {self.number(self.near(height, 0.08), 'n')}"
        beside = f"{c}[None, :] < {self.number(self.near(width, 0.08), 'n')}"
        return tile, above, beside, row, column

    def _make_constexpr(self, name: str) -> None:
        if name in self.numbers:
            self.constexprs.add(name)

    # --- the whole -------------------------------------------------------------------------------------

    def case(self) -> Case:
        parameters = [*self.tensors, *(n for n in self.numbers if n not in self.constexprs)]
        parameters += [f"{name}: tl.constexpr" for name in self.numbers if name in self.constexprs]
        head = ["@triton.jit", f"def kernel({', '.join(parameters)}):"]
        return Case(
            self.seed,
            "\n".join([*head, *self.lines]) + "\n",
            tuple(self.tensors.values()),
            dict(self.numbers),
            frozenset(self.constexprs),
            self.grid,
            view_bounds=self.view_bounds or self.chance(0.05),
            steering=frozenset(self.steering),
            any_order=self.any_order,
        )

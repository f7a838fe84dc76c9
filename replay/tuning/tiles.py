"""The tiles of a Triton kernel under a configuration, read off its text: what is too large never compiles.

A walk over the entry's syntax tree with the shapes of names. What is not understood has no shape, and nothing
is concluded of it; helpers and branches that depend on data are passed over.
"""

from __future__ import annotations

import ast
import functools
import math
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

from kerncap.replay.tuning.formula import Evaluator, Unknown

Shape = tuple[int, ...]
_SAME_SHAPE = frozenset(
    ("exp", "exp2", "log", "log2", "sqrt", "rsqrt", "abs", "sin", "cos", "sigmoid", "cast", "maximum",
     "minimum", "where", "fma", "cdiv", "multiple_of", "max_contiguous", "max_constancy", "softmax", "erf",
     "floor", "ceil", "clamp", "to", "div_rn", "fdiv")
)  # fmt: skip
_REDUCTIONS = frozenset(("sum", "max", "min", "argmax", "argmin", "xor_sum"))


@dataclass(frozen=True)
class Tile:
    """A tile's shape and the pointer parameter that it was loaded through; ``in_loop``: inside a loop."""

    shape: Shape
    root: str | None = None
    in_loop: bool = False
    pointers: bool = False  # addresses or indices, of which `root` says whose


@dataclass(frozen=True)
class Dot:
    """A `tl.dot`: its operands, and whether it stands in a loop."""

    left: Tile
    right: Tile
    in_loop: bool


@dataclass
class Tiles:
    """What was found: all tile shapes with their lines, ranges that are no power of two, dots."""

    shapes: list[tuple[Shape, int]] = field(default_factory=list)
    ranges: list[tuple[int, int]] = field(default_factory=list)  # length, line
    dots: list[Dot] = field(default_factory=list)

    @property
    def largest(self) -> int:
        return max((math.prod(shape) for shape, _ in self.shapes), default=0)


@functools.lru_cache(256)  # launches of one module ask for each kernel several times
def entry_of(text: str, name: str) -> ast.FunctionDef | None:
    """The function ``name`` of a module; None if it can't be read."""
    try:
        tree = ast.parse(text)
    except (SyntaxError, ValueError, RecursionError, MemoryError):
        return None
    found = [node for node in tree.body if isinstance(node, ast.FunctionDef) and node.name == name]
    return found[-1] if found else None


def has_loop(entry: ast.FunctionDef) -> bool:
    """Whether there is a loop to pipeline."""
    return any(isinstance(node, ast.For | ast.While) for node in ast.walk(entry))


def scales_program_id(entry: ast.FunctionDef) -> set[str]:
    """Names that a program's id is multiplied with: the grid depends on them."""
    tainted: set[str] = set()
    for _ in range(3):  # names are assigned before they are read, but for loops
        for node in ast.walk(entry):
            if isinstance(node, ast.Assign) and _touches(node.value, tainted):
                for target in node.targets:
                    tainted.update(each.id for each in ast.walk(target) if isinstance(each, ast.Name))
    found: set[str] = set()
    for node in ast.walk(entry):
        if isinstance(node, ast.BinOp) and isinstance(node.op, ast.Mult):
            for one, other in ((node.left, node.right), (node.right, node.left)):
                if isinstance(one, ast.Name) and _touches(other, tainted):
                    found.add(one.id)
    return found


def _touches(node: ast.AST, tainted: set[str]) -> bool:
    return any(
        (isinstance(each, ast.Name) and each.id in tainted)
        or (isinstance(each, ast.Attribute) and each.attr == "program_id")
        for each in ast.walk(node)
    )


def of(entry: ast.FunctionDef, constants: Mapping[str, Any], pointers: frozenset[str]) -> Tiles:
    """The tiles of ``entry`` with these values of its constants; ``pointers`` are its tensor parameters."""
    walk = _Walk(constants, pointers)
    try:
        walk.block(entry.body, False)
    except RecursionError:
        return Tiles()
    return walk.found


class _Walk:
    def __init__(self, constants: Mapping[str, Any], pointers: frozenset[str]) -> None:
        self.found = Tiles()
        self._evaluator = Evaluator(constants)
        self._constants = dict(constants)
        self._names: dict[str, Tile | None] = {name: Tile((), name, pointers=True) for name in pointers}

    def block(self, statements: list[ast.stmt], in_loop: bool) -> None:
        for statement in statements:
            if isinstance(statement, ast.Assign):
                self._assign(statement.targets, statement.value, in_loop)
            elif isinstance(statement, ast.AnnAssign) and statement.value is not None:
                self._assign([statement.target], statement.value, in_loop)
            elif isinstance(statement, ast.AugAssign):
                operation = ast.BinOp(statement.target, statement.op, statement.value)
                ast.copy_location(operation, statement)
                self._assign([statement.target], operation, in_loop)
            elif isinstance(statement, ast.Expr):
                self.tile(statement.value, in_loop)
            elif isinstance(statement, ast.For | ast.While):
                self.block(statement.body, True)
            elif isinstance(statement, ast.If):
                branch = self._constant(statement.test)
                if branch is None or branch:
                    self.block(statement.body, in_loop)
                if branch is None or not branch:
                    self.block(statement.orelse, in_loop)

    def _assign(self, targets: list[ast.expr], value: ast.expr, in_loop: bool) -> None:
        for target in targets:
            if isinstance(target, ast.Tuple) and isinstance(value, ast.Tuple):
                for each, part in zip(target.elts, value.elts, strict=False):
                    self._assign([each], part, in_loop)
            elif isinstance(target, ast.Name):
                number = self._constant(value)
                if number is not None:
                    self._constants[target.id] = number
                    self._evaluator = Evaluator(self._constants)
                else:
                    self._constants.pop(target.id, None)
                    self._evaluator = Evaluator(self._constants)
                self._names[target.id] = self.tile(value, in_loop)
            else:
                self.tile(value, in_loop)
                for node in ast.walk(target):
                    if isinstance(node, ast.Name):
                        self._names[node.id] = None

    def _constant(self, node: ast.expr) -> Any:
        try:
            return self._evaluator.value(node)
        except Unknown:
            return None

    def tile(self, node: ast.expr, in_loop: bool) -> Tile | None:
        found = self._tile(node, in_loop)
        if found is not None and found.shape:
            self.found.shapes.append((found.shape, getattr(node, "lineno", 0)))
        return found

    def _tile(self, node: ast.expr, in_loop: bool) -> Tile | None:
        if isinstance(node, ast.Name):
            return self._names.get(node.id, Tile(()))
        if isinstance(node, ast.Constant):
            return Tile(())
        if isinstance(node, ast.BinOp):
            return _broadcast([self.tile(node.left, in_loop), self.tile(node.right, in_loop)])
        if isinstance(node, ast.Compare):
            return _broadcast([self.tile(each, in_loop) for each in (node.left, *node.comparators)])
        if isinstance(node, ast.BoolOp):
            return _broadcast([self.tile(each, in_loop) for each in node.values])
        if isinstance(node, ast.UnaryOp):
            return self.tile(node.operand, in_loop)
        if isinstance(node, ast.Subscript):
            return _expanded(self.tile(node.value, in_loop), node.slice)
        if isinstance(node, ast.Attribute) and node.attr == "T":
            return _transposed(self.tile(node.value, in_loop))
        if isinstance(node, ast.Call):
            return self._call(node, in_loop)
        return None

    def _call(self, node: ast.Call, in_loop: bool) -> Tile | None:
        function = node.func
        name = function.attr if isinstance(function, ast.Attribute) else getattr(function, "id", "")
        is_method = isinstance(function, ast.Attribute) and not (
            isinstance(function.value, ast.Name)
            and function.value.id in ("tl", "triton", "language", "libdevice")
        )
        given = [self.tile(each, in_loop) for each in node.args]
        named = {keyword.arg: keyword.value for keyword in node.keywords}
        owner = (
            self.tile(function.value, in_loop) if is_method and isinstance(function, ast.Attribute) else None
        )
        if name == "arange" and len(node.args) == 2:
            start, stop = self._constant(node.args[0]), self._constant(node.args[1])
            if isinstance(start, int) and isinstance(stop, int):
                self.found.ranges.append((stop - start, node.lineno))
                return Tile((stop - start,), pointers=True)
            return None
        if name in ("zeros", "full", "empty") and (node.args or "shape" in named):
            return self._of_shape(node.args[0] if node.args else named["shape"], None, False)
        if name in ("program_id", "num_programs", "range", "static_range"):
            return Tile(())
        if name in ("make_block_ptr", "make_tensor_descriptor"):
            block = named.get("block_shape", node.args[4] if len(node.args) > 4 else None)
            root = given[0].root if given and given[0] else None
            return self._of_shape(block, root, True) if block is not None else None
        if name == "advance":
            return given[0] if given else owner
        if name == "load":
            source = owner if is_method else (given[0] if given else None)
            if source is None or (is_method and not source.shape):
                return None  # a host-side descriptor: its block is not in the text
            return Tile(source.shape, source.root, in_loop)
        if name in ("trans", "permute"):
            return _transposed(owner if is_method else (given[0] if given else None))
        if name == "dot":
            return self._dot(given, in_loop)
        if name in ("min", "max") and isinstance(function, ast.Name):  # Python's own, of scalars
            return _broadcast(given)
        if name in _REDUCTIONS:
            source = owner if is_method else (given[0] if given else None)
            axis = named.get(
                "axis", node.args[0 if is_method else 1] if len(node.args) > (not is_method) else None
            )
            return _reduced(source, None if axis is None else self._constant(axis), axis is not None)
        if name in _SAME_SHAPE:
            return _broadcast([owner] if name == "to" else ([owner] if is_method else []) + given)
        return None

    def _of_shape(self, node: ast.expr, root: str | None, pointers: bool) -> Tile | None:
        shape = self._constant(node)
        if isinstance(shape, int):
            shape = (shape,)
        if isinstance(shape, tuple) and all(isinstance(each, int) for each in shape):
            return Tile(shape, root, pointers=pointers)
        return None

    def _dot(self, given: list[Tile | None], in_loop: bool) -> Tile | None:
        if len(given) < 2 or given[0] is None or given[1] is None:
            return None
        left, right = given[0], given[1]
        if len(left.shape) != 2 or len(right.shape) != 2:
            return None
        self.found.dots.append(Dot(left, right, in_loop))
        return Tile((left.shape[0], right.shape[1]))


def _broadcast(tiles: list[Tile | None]) -> Tile | None:
    if any(tile is None for tile in tiles):
        return None
    known = [tile for tile in tiles if tile is not None]
    shape: Shape = ()
    for tile in known:
        rank = max(len(shape), len(tile.shape))
        one = (1,) * (rank - len(shape)) + shape
        other = (1,) * (rank - len(tile.shape)) + tile.shape
        if any(a != b and 1 not in (a, b) for a, b in zip(one, other, strict=True)):
            return None
        shape = tuple(max(a, b) for a, b in zip(one, other, strict=True))
    roots = [tile for tile in known if tile.root is not None]
    return Tile(
        shape,
        roots[0].root if len({tile.root for tile in roots}) == 1 else None,
        any(tile.in_loop for tile in known),
        any(tile.pointers for tile in known),
    )


def _expanded(tile: Tile | None, index: ast.expr) -> Tile | None:
    if tile is None:
        return None
    parts = index.elts if isinstance(index, ast.Tuple) else [index]
    left = list(tile.shape)
    shape: list[int] = []
    for part in parts:
        if isinstance(part, ast.Constant) and part.value is None:
            shape.append(1)
        elif isinstance(part, ast.Slice) and left:
            shape.append(left.pop(0))
        else:
            return None
    return Tile((*shape, *left), tile.root, tile.in_loop, tile.pointers)


def _transposed(tile: Tile | None) -> Tile | None:
    if tile is None or len(tile.shape) != 2:
        return None
    return Tile((tile.shape[1], tile.shape[0]), tile.root, tile.in_loop, tile.pointers)


def _reduced(tile: Tile | None, axis: Any, has_axis: bool) -> Tile | None:
    if tile is None:
        return None
    if not has_axis:
        return Tile(())
    if not isinstance(axis, int) or not -len(tile.shape) <= axis < len(tile.shape):
        return None
    shape = list(tile.shape)
    del shape[axis]
    return Tile(tuple(shape))

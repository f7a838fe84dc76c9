"""Matrices of a warp: products of fragments (mma.sync), and their loads and stores (ldmatrix, stmatrix).

A register of a fragment has e elements: 2 of 16 bits, 4 of 8 bits, or one. With g = lane / 4 and
t = lane % 4, element i of register r is

- of A at row g + 8 (r % 2), column t e + i + 4 e (r / 2); if A has 8 rows, at row g, column t e + i + 4 e r;
- of B at row t e + i + 4 e r, column g.

Elements 2 r and 2 r + 1 of C are at row g + 8 r, columns 2 t and 2 t + 1.
Source: PTX ISA 9.0, "Warp Level Matrix Multiply-Accumulate Instructions".
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, replace

import numpy as np

from kerncap.sanitizer.equality.degrees import Degree, degree_of, summed, widest
from kerncap.sanitizer.equality.numbers import Array, Ints, NotModelled
from kerncap.sanitizer.equality.ptx.code import Group, Instruction, Operand
from kerncap.sanitizer.equality.ptx.integers import fit, signed
from kerncap.sanitizer.equality.ptx.machine import Machine
from kerncap.sanitizer.equality.ptx.values import INTEGER, Value, as_integer, of_active, packed, split, spread

_LANES = np.arange(32)
_G, _T = _LANES // 4, _LANES % 4
_SHAPES = {
    "f16": ("m16n8k8", "m16n8k16"), "bf16": ("m16n8k8", "m16n8k16"), "tf32": ("m16n8k4", "m16n8k8"),
    "f64": ("m8n8k4", "m16n8k4", "m16n8k8", "m16n8k16"),
    "s8": ("m8n8k16", "m16n8k16", "m16n8k32"), "u8": ("m8n8k16", "m16n8k16", "m16n8k32"),
}  # fmt: skip
_RESULTS = {"f16": ("f16", "f32"), "bf16": ("f32",), "tf32": ("f32",), "f64": ("f64",), "s8": ("s32",),
            "u8": ("s32",)}  # fmt: skip
_ELEMENTS = {"f16": 2, "bf16": 2, "s8": 4, "u8": 4}  # of a register
Places = tuple[Ints, Ints]  # rows and columns of one element of all lanes


@dataclass(frozen=True)
class Shape:
    """``elements``: of a register of A and B."""

    rows: int
    columns: int
    depth: int
    elements: int

    def of_a(self) -> Iterator[Places]:
        e, high = self.elements, self.rows // 8
        for register in range(self.rows * self.depth // (32 * e)):
            for i in range(e):
                yield _G + 8 * (register % high), _T * e + i + 4 * e * (register // high)

    def of_b(self) -> Iterator[Places]:
        e = self.elements
        for register in range(self.columns * self.depth // (32 * e)):
            for i in range(e):
                yield _T * e + i + 4 * e * register, _G

    def of_c(self) -> Iterator[Places]:
        for half in range(self.rows // 8):
            for i in range(2):
                yield _G + 8 * half, 2 * _T + i


def _whole_warps(m: Machine) -> None:
    if m.threads % 32:
        raise NotModelled("a warp of fewer threads")
    there = m.padded(m.active, 32)
    if (there.any(axis=1) != there.all(axis=1)).any():
        raise NotModelled("a warp of which not all threads are there")


def _product(m: Machine, one: Instruction) -> None:
    if one.parts[1:3] != ("sync", "aligned") or len(one.operands) != 4:
        raise NotModelled("not modelled")
    words = [word for word in one.parts[3:] if word not in ("satfinite", "rn")]
    if len(words) != 7 or words[1:3] != ["row", "col"]:
        raise NotModelled("not modelled")
    size, _, _, to, left, right, start = words
    floats = left not in ("s8", "u8")
    alike = left == right and to == start if floats else right in ("s8", "u8") and start == to
    if size not in _SHAPES.get(left, ()) or to not in _RESULTS[left] or not alike:
        raise NotModelled("not modelled")
    rows, columns, depth = map(int, re.findall(r"\d+", size))
    shape = Shape(rows, columns, depth, _ELEMENTS.get(left, 1))
    _whole_warps(m)
    if floats:
        _of_floats(m, one, shape, left, to)
    else:
        _of_integers(m, one, shape, left, right, saturates="satfinite" in one.parts)


def _registers(operand: Operand) -> tuple[Operand, ...]:
    return operand.items if isinstance(operand, Group) else (operand,)


def _matrix(m: Machine, values: Sequence[Value], places: Iterator[Places], rows: int, columns: int) -> Array:
    """One for each warp that is there."""
    at = list(places)
    if len(values) != len(at):
        raise NotModelled("another number of registers")
    parts = [np.broadcast_to(of_active(m.active, one).data, (int(m.active.sum()),)) for one in values]
    found = np.zeros((len(parts[0]) // 32, rows, columns), dtype=parts[0].dtype)
    for part, (row, column) in zip(parts, at, strict=True):
        found[:, row, column] = part.reshape(-1, 32)
    return found


def _put(m: Machine, one: Instruction, data: Array, shape: Shape, kind: str, degree: Degree) -> None:
    values = [
        spread(m.active, Value(kind, data[:, row, column].reshape(-1), degree))
        for row, column in shape.of_c()
    ]
    if kind == "f16":
        values = [packed((values[at], values[at + 1])) for at in range(0, len(values), 2)]
    targets = _registers(one.operands[0])
    if len(targets) != len(values):
        raise NotModelled("another number of registers")
    for target, value in zip(targets, values, strict=True):
        m.write(target, value)


def _of_floats(m: Machine, one: Instruction, shape: Shape, kind: str, to: str) -> None:
    def elements(operand: Operand, kind: str) -> list[Value]:
        held = [m.read(register) for register in _registers(operand)]
        if kind in ("f16", "bf16"):
            held = [half for value in held for half in split(value, 2, 16)]
        values = [m.floats.of(value, "f32" if kind == "tf32" else kind) for value in held]
        return (
            [replace(value, data=m.floats.in_tf32(value.data)) for value in values]
            if kind == "tf32"
            else values
        )

    numbers = m.floats.numbers
    a, b, c = elements(one.operands[1], kind), elements(one.operands[2], kind), elements(one.operands[3], to)
    left = _matrix(m, a, shape.of_a(), shape.rows, shape.depth)
    right = _matrix(m, b, shape.of_b(), shape.depth, shape.columns)
    start = _matrix(m, c, shape.of_c(), shape.rows, shape.columns)
    m.floats.functions |= {"mul", "add"}
    total = numbers.apply("add", numbers.product(left, right), start)
    degrees = [widest(value.degree for value in each) for each in (a, b, c)]
    product = degree_of("product", degrees[:2], terms=shape.depth)
    _put(m, one, m.floats.rounded(total, to), shape, to, degree_of("add", [product, degrees[2]]))


def _of_integers(
    m: Machine, one: Instruction, shape: Shape, left: str, right: str, *, saturates: bool
) -> None:
    def elements(operand: Operand, kind: str) -> list[Value]:
        found = []
        for register in _registers(operand):
            value = as_integer(m.read(register))
            for at in range(4 if kind != "s32" else 1):
                bits = fit(value.data >> np.uint64(8 * at), 32 if kind == "s32" else 8)
                number = bits.view(np.int64) if kind == "u8" else signed(bits, 32 if kind == "s32" else 8)
                found.append(Value(INTEGER, number, value.degree))
        return found

    given = [elements(one.operands[at], kind) for at, kind in ((1, left), (2, right), (3, "s32"))]
    a, b, c = given
    total = np.matmul(
        _matrix(m, a, shape.of_a(), shape.rows, shape.depth),
        _matrix(m, b, shape.of_b(), shape.depth, shape.columns),
    ) + _matrix(m, c, shape.of_c(), shape.rows, shape.columns)
    if saturates:
        total = np.clip(total, -(1 << 31), (1 << 31) - 1)
    degrees = [widest(value.degree for value in each) for each in given]
    degree = summed([degrees[0].times(shape.depth), degrees[1].times(shape.depth), degrees[2]])
    _put(m, one, fit(total.view(np.uint64), 32), shape, INTEGER, degree)


# --- matrices of eight by eight halves in shared memory -----------------------------------------------------


@dataclass(frozen=True)
class _Tiles:
    """``rows``: addresses of rows, by warp and lane; ``count``: of matrices, with two elements in a lane."""

    base: int
    rows: Array
    count: int
    transposed: bool

    def halves(self, number: int) -> Iterator[Array]:
        """Addresses of the two elements of each lane in a matrix."""
        for i in range(2):
            row, column = (2 * _T + i, _G) if self.transposed else (_G, 2 * _T + i)
            yield (self.rows[:, 8 * number + row] + (2 * column).astype(np.uint64)).reshape(-1)


def _tiles(m: Machine, one: Instruction, place: Operand) -> _Tiles:
    words = list(one.parts[1:])
    count = next((int(word[1]) for word in words if word in ("x1", "x2", "x4")), 0)
    known = ("sync", "aligned", "m8n8", "x1", "x2", "x4", "trans", "shared", "shared_cta", "b16")
    if not count or any(word not in known for word in words) or one.type != "b16":
        raise NotModelled("not modelled")
    _whole_warps(m)
    base, addresses = m.address(place)
    rows = addresses.reshape(-1, 32)
    used = rows[:, : 8 * count]
    if (used % np.uint64(16)).any():
        raise NotModelled("an address that is not a multiple of the access's size")
    return _Tiles(base, rows, count, "trans" in words)


def _load(m: Machine, one: Instruction) -> None:
    target, place = one.operands
    tiles = _tiles(m, one, place)
    targets = _registers(target)
    if len(targets) != tiles.count:
        raise NotModelled("a result in another number of registers")
    where = m.range_of(tiles.base), m.block[m.active]
    threads = m.numbers[m.active]
    for number, register in enumerate(targets):
        low, high = tiles.halves(number)
        if tiles.transposed:
            halves = tuple(m.shared.load(*where, at, 2, threads) for at in (low, high))
            found = packed(halves, 16)
        else:
            found = m.shared.load(*where, low, 4, threads)
        m.write(register, spread(m.active, found))


def _store(m: Machine, one: Instruction) -> None:
    place, source = one.operands
    tiles = _tiles(m, one, place)
    sources = _registers(source)
    if len(sources) != tiles.count:
        raise NotModelled("another number of registers")
    where = m.range_of(tiles.base), m.block[m.active]
    threads = m.numbers[m.active]
    for number, register in enumerate(sources):
        halves = split(m.read(register), 2, 16)
        for at, half in zip(tiles.halves(number), halves, strict=True):
            m.shared.store(*where, at, of_active(m.active, half), 2, threads)


OF_MATRICES: dict[str, Callable[[Machine, Instruction], None]] = {
    "mma": _product, "ldmatrix": _load, "stmatrix": _store,
}  # fmt: skip

"""Small kernels over two sizes, drawn at random: arithmetic of 8 to 32 bits, masks, loops, loaded indices."""

from __future__ import annotations

import random
from dataclasses import dataclass

LANES = 4
_EXTENTS = ("n", "m", "n+1", "n*m", "2*n", "n+m", "max(n,m)", "7", "n*m+3", "cdiv(n,4)*4", "n*n")
_GRIDS = ("cdiv(n,4)", "n", "m", "min(n,3)", "2", "cdiv(n*m,4)", "n*m")
_COMPARISONS = ("slt", "sle", "sge", "ult", "eq", "ne")


@dataclass(frozen=True)
class Case:
    """``stated``: of `--for-all`, the sizes' intervals apart."""

    ttir: str
    grid: str
    arguments: dict[str, str]
    stated: tuple[str, ...]


class _Text:
    def __init__(self, seed: int) -> None:
        self.random = random.Random(seed)
        self.lines: list[str] = []
        self.count = 0

    def emit(self, text: str) -> str:
        self.count += 1
        self.lines.append(f"    %v{self.count} = {text}")
        return f"%v{self.count}"

    def constant(self, value: int, bits: int) -> str:
        kind = f"tensor<{LANES}xi{bits}>"
        return self.emit(f"arith.constant dense<{value}> : {kind}")

    def splat(self, scalar: str) -> str:
        return self.emit(f"tt.splat {scalar} : i32 -> tensor<{LANES}xi32>")


def _number(text: _Text, leaves: list[str], depth: int, bits: int) -> str:
    """A tile of integers of ``bits``."""
    pick = text.random.random()
    kind = f"tensor<{LANES}xi{bits}>"
    if depth == 0 or pick < 0.2:
        if pick < 0.03:
            return text.constant(text.random.randint(-3, 9), bits)
        leaf = text.random.choice(leaves)
        return leaf if bits == 32 else text.emit(f"arith.trunci {leaf} : tensor<{LANES}xi32> to {kind}")
    if bits == 32 and pick < 0.26:
        narrow = text.random.choice((8, 16))
        inner = _number(text, leaves, depth - 1, narrow)
        return text.emit(f"arith.extsi {inner} : tensor<{LANES}xi{narrow}> to {kind}")
    a = _number(text, leaves, depth - 1, bits)
    if pick < 0.45:
        factor = text.constant(text.random.choice((2, 3, 4, 5, 16)), bits)
        return text.emit(f"arith.muli {a}, {factor} : {kind}")
    if pick < 0.52:
        divisor = text.constant(text.random.choice((2, 3, 4)), bits)
        return text.emit(f"arith.{text.random.choice(('divsi', 'remsi'))} {a}, {divisor} : {kind}")
    if pick < 0.56 and bits == 32:
        size = text.splat(text.random.choice(("%n", "%m")))
        return text.emit(f"arith.{text.random.choice(('divsi', 'remsi'))} {a}, {size} : {kind}")
    b = _number(text, leaves, depth - 1, bits)
    name = text.random.choice(("addi", "addi", "addi", "subi", "muli", "minsi", "maxsi"))
    return text.emit(f"arith.{name} {a}, {b} : {kind}")


def _mask(text: _Text, leaves: list[str], offset: str) -> str:
    kind = f"tensor<{LANES}xi32>"
    left = offset if text.random.random() < 0.7 else _number(text, leaves, 1, 32)
    size = text.splat(text.random.choice(("%n", "%m")))
    if text.random.random() < 0.4:
        size = text.emit(f"arith.muli {size}, {text.splat('%m')} : {kind}")
    first = text.emit(f"arith.cmpi {text.random.choice(_COMPARISONS)}, {left}, {size} : {kind}")
    if text.random.random() < 0.5:
        return first
    second = text.emit(f"arith.cmpi sge, {offset}, {text.constant(0, 32)} : {kind}")
    return text.emit(
        f"arith.{text.random.choice(('andi', 'andi', 'ori'))} {first}, {second} : tensor<{LANES}xi1>"
    )


def _access(text: _Text, leaves: list[str]) -> None:
    tile = f"tensor<{LANES}x!tt.ptr<f32>>"
    offset = _number(text, leaves, text.random.randint(1, 3), 32)
    mask = _mask(text, leaves, offset) if text.random.random() < 0.85 else None
    base = text.emit(f"tt.splat %x : !tt.ptr<f32> -> {tile}")
    where = text.emit(f"tt.addptr {base}, {offset} : {tile}, tensor<{LANES}xi32>")
    held = "" if mask is None else f", {mask}"
    if text.random.random() < 0.5:
        text.emit(f"tt.load {where}{held} : {tile}")
    else:
        value = text.emit(f"arith.constant dense<0.000000e+00> : tensor<{LANES}xf32>")
        text.lines.append(f"    tt.store {where}, {value}{held} : {tile}")


def case(seed: int) -> Case:
    """The case of a seed: one kernel with one or two accesses to ``x``, perhaps in a loop."""
    text = _Text(seed)
    pick = text.random
    lane = text.emit(f"tt.make_range {{end = {LANES} : i32, start = 0 : i32}} : tensor<{LANES}xi32>")
    pid = text.splat(text.emit("tt.get_program_id x : i32"))
    tile = text.emit(f"arith.muli {pid}, {text.constant(LANES, 32)} : tensor<{LANES}xi32>")
    flat = text.emit(f"arith.addi {tile}, {lane} : tensor<{LANES}xi32>")
    leaves = [flat, flat, lane, pid, text.splat("%n"), text.splat("%m")]
    stated: tuple[str, ...] = ()
    if pick.random() < 0.25:
        index = f"tensor<{LANES}x!tt.ptr<i32>>"
        base = text.emit(f"tt.splat %idx : !tt.ptr<i32> -> {index}")
        where = text.emit(f"tt.addptr {base}, {lane} : {index}, tensor<{LANES}xi32>")
        leaves += [text.emit(f"tt.load {where} : {index}")] * 2
    stated = (pick.choice(("idx=0..n-1", "idx=0..n", "idx=-1..m")),)
    loop = pick.random() < 0.35
    if loop:
        numbers = [text.emit(f"arith.constant {number} : i32") for number in (0, pick.choice((1, 3, 4)))]
        text.lines.append(
            f"    scf.for %k = {numbers[0]} to {pick.choice(('%n', '%m'))} step {numbers[1]} : i32 {{"
        )
        leaves += [text.splat("%k")] * 2
    for _ in range(1 if loop else pick.randint(1, 2)):
        _access(text, leaves)
    if loop:
        text.lines.append("    }")
    body = "\n".join(text.lines)
    ttir = (
        "module {\n  tt.func public @k(%x: !tt.ptr<f32>, %idx: !tt.ptr<i32>, %n: i32, %m: i32) {\n"
        f"{body}\n    tt.return\n  }}\n}}\n"
    )
    arguments = {"x": f"f32[{pick.choice(_EXTENTS)}]", "idx": f"i32[{LANES}]"}
    return Case(ttir, pick.choice(_GRIDS), arguments, stated)

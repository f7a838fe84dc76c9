"""An address or a mask in the kernel's own names, from the operations that make it.

``tt.addptr(tt.splat(x_ptr), %offs)`` is shown as ``x_ptr + offs``: what only changes a shape or a width is
left out, and a value that the source has a name for is shown by it. TTIR gives the name of an
assignment to every operation of its right-hand side, so a name stands for a value only where the
value is the last of them. Pointers and conditions are never cut at a name of their own: the base
pointer and the comparisons are what a reader wants to see.
"""

from __future__ import annotations

import os
from collections.abc import Mapping
from pathlib import Path

from kerncap.sanitizer.ttir.ir import (
    Block,
    Dense,
    Frame,
    Function,
    IntType,
    Location,
    Operation,
    PointerType,
    Region,
    TensorType,
    Type,
    Value,
    walk,
)

# How tightly Python binds; the higher binds first.
_COMPARE, _OR, _XOR, _AND, _SHIFT, _SUM, _PRODUCT, _ATOM = range(8)

_BINARY: dict[str, tuple[str, int]] = {
    "arith.addi": ("+", _SUM), "arith.subi": ("-", _SUM), "arith.muli": ("*", _PRODUCT),
    "arith.addf": ("+", _SUM), "arith.subf": ("-", _SUM), "arith.mulf": ("*", _PRODUCT),
    "arith.divf": ("/", _PRODUCT),
    "arith.divsi": ("//", _PRODUCT), "arith.divui": ("//", _PRODUCT), "arith.floordivsi": ("//", _PRODUCT),
    "arith.remsi": ("%", _PRODUCT), "arith.remui": ("%", _PRODUCT), "arith.remf": ("%", _PRODUCT),
    "arith.shli": ("<<", _SHIFT), "arith.shrsi": (">>", _SHIFT), "arith.shrui": (">>", _SHIFT),
    "arith.andi": ("&", _AND), "arith.ori": ("|", _OR), "arith.xori": ("^", _XOR), "tt.addptr": ("+", _SUM),
}  # fmt: skip
_CALLS = {
    "arith.minsi": "min", "arith.minui": "min", "arith.minnumf": "min", "arith.minimumf": "min",
    "arith.maxsi": "max", "arith.maxui": "max", "arith.maxnumf": "max", "arith.maximumf": "max",
    "arith.ceildivsi": "cdiv", "arith.ceildivui": "cdiv", "arith.select": "where", "tt.load": "load",
    "tt.descriptor_load": "load", "tt.descriptor_gather": "gather", "tt.make_tensor_ptr": "make_block_ptr",
    "math.absi": "abs", "math.absf": "abs",
}  # fmt: skip
# Same number, other shape or width.
_TRANSPARENT = frozenset(
    (
        "tt.splat", "tt.broadcast", "tt.expand_dims", "tt.reshape", "tt.trans", "tt.unsplat", "tt.bitcast",
        "tt.fp_to_fp", "tt.int_to_ptr", "tt.ptr_to_int", "ttg.convert_layout",
        "arith.extsi", "arith.extui", "arith.trunci", "arith.extf", "arith.truncf", "arith.bitcast",
        "arith.index_cast", "arith.index_castui", "arith.sitofp", "arith.uitofp", "arith.fptosi",
        "arith.fptoui",
    )
)  # fmt: skip
_PLAIN = _TRANSPARENT | _BINARY.keys() | {"arith.constant"}
_COMPARISONS = {
    "eq": "==", "ne": "!=", "slt": "<", "sle": "<=", "sgt": ">", "sge": ">=",
    "ult": "<", "ule": "<=", "ugt": ">", "uge": ">=",
    "oeq": "==", "one": "!=", "olt": "<", "ole": "<=", "ogt": ">", "oge": ">=",
    "ueq": "==", "une": "!=",
}  # fmt: skip
_SOURCE_BYTES = 4 << 20
_CONTEXT_LINES = 2
# A value used twice is written twice: a chain of sums of itself doubles each time.
_MAX_VISITS = 600


def address_expression(value: Value, max_length: int = 200) -> str:
    """What a pointer is: ``c_ptr + offs_m * scm + offs_n``; at most max_length characters.

    A pointer that a loop carries and bumps by the same amount each time is shown as what it begins
    as and the bumps: ``a_ptr + offs_k + k * 32``.
    """
    return _rendered(value, max_length)


def mask_expression(value: Value, max_length: int = 200) -> str:
    """What a condition is: ``(offs_m < M) & (offs_n < N)``; at most max_length characters."""
    return _rendered(value, max_length)


def _rendered(value: Value, max_length: int) -> str:
    intermediate = _intermediates(value)
    text = ""
    for depth in (24, 12, 8, 5, 3):
        text = _Rendering(intermediate, depth).top(value)
        if len(text) <= max_length:
            return text
    return text[: max(max_length - 1, 0)] + "…"


class _Rendering:
    """One attempt: what lies deeper than ``depth`` operations is cut at any name."""

    def __init__(self, intermediate: frozenset[Value], depth: int) -> None:
        self._intermediate = intermediate
        self._depth = depth
        self._visits = 0
        self._root: str | None = None

    def top(self, value: Value) -> str:
        value = _through(value)
        self._root = value.location.name
        return self._expanded(value, 0)[0]

    def _text(self, value: Value, depth: int) -> tuple[str, int]:
        value = _through(value)
        number = _constant(value)
        if number is not None:
            return number, _ATOM if not number.startswith("-") else _SUM
        if self._cuts(value, depth):
            return _name(value), _ATOM
        return self._expanded(value, depth)

    def _cuts(self, value: Value, depth: int) -> bool:
        self._visits += 1
        if self._visits > _MAX_VISITS or depth > self._depth:
            return True
        name = value.location.name
        if name is None or not isinstance(value.owner, Operation):
            return False
        if value in self._intermediate or name == self._root:
            return False
        element = _element(value.type)
        if isinstance(element, PointerType):
            return False
        return not (
            isinstance(element, IntType) and element.width == 1 and value.owner.name.startswith("arith.")
        )

    def _expanded(self, value: Value, depth: int) -> tuple[str, int]:
        owner = value.owner
        if not isinstance(owner, Operation):
            return self._carried(value, depth)
        number = _constant(value)
        if number is not None:
            return number, _ATOM
        name, operands = owner.name, owner.operands
        if name in _BINARY and len(operands) == 2:
            return self._binary(owner, depth)
        if name in ("arith.cmpi", "arith.cmpf") and len(operands) == 2:
            sign = _COMPARISONS.get(str(owner.attributes.get("predicate")))
            if sign is not None:
                left, right = (self._inside(one, depth + 1, _OR) for one in operands)
                return f"{left} {sign} {right}", _COMPARE
        if name == "tt.get_program_id":
            return f"program_id({owner.attributes.get('axis')})", _ATOM
        if name == "tt.get_num_programs":
            return f"num_programs({owner.attributes.get('axis')})", _ATOM
        if name == "tt.make_range":
            return f"arange({owner.attributes.get('start')}, {owner.attributes.get('end')})", _ATOM
        if owner.regions:
            if name in ("tt.reduce", "tt.scan"):
                inner = ", ".join(self._text(one, depth + 1)[0] for one in operands)
                return f"{_combination(owner)}({inner})", _ATOM
            return _name(value), _ATOM
        if not operands:
            return _name(value), _ATOM
        shown = operands[:1] if name == "tt.load" else operands
        inner = ", ".join(self._text(one, depth + 1)[0] for one in shown)
        which = f"[{value.index}]" if len(owner.results) > 1 else ""
        return f"{_called(owner)}({inner}){which}", _ATOM

    def _binary(self, owner: Operation, depth: int) -> tuple[str, int]:
        sign, level = _BINARY[owner.name]
        left, right = owner.operands
        if owner.name == "arith.xori" and _constant(_through(right)) in ("True", "-1"):
            return f"~{self._inside(left, depth + 1, _ATOM)}", _ATOM
        first = self._inside(left, depth + 1, level)
        # a - (b + c), a // (b * c): the right side needs brackets, where the sign isn't associative.
        second = self._inside(right, depth + 1, level if sign in "+&|^" else level + 1)
        if sign == "+" and second.startswith("-"):
            return f"{first} - {second[1:]}", level
        return f"{first} {sign} {second}", level

    def _inside(self, value: Value, depth: int, level: int) -> str:
        text, own = self._text(value, depth)
        return text if own >= level else f"({text})"

    def _carried(self, value: Value, depth: int) -> tuple[str, int]:
        """A block's argument: a pointer that scf.for bumps is worth its closed form, all else its name."""
        loop = value.owner.parent.parent if isinstance(value.owner, Block) and value.owner.parent else None
        if (
            not isinstance(loop, Operation)
            or loop.name != "scf.for"
            or value.index == 0
            or not isinstance(_element(value.type), PointerType)
            or depth > self._depth
            or self._visits > _MAX_VISITS
        ):
            return _name(value), _ATOM
        body = loop.regions[0].entry
        initial = loop.operands[2 + value.index] if 2 + value.index < len(loop.operands) else None
        last = body.operations[-1] if body.operations else None
        if initial is None or last is None or value.index > len(last.operands):
            return _name(value), _ATOM
        begin = self._inside(initial, depth + 1, _SUM)
        bump = _through(last.operands[value.index - 1])
        if bump is value:
            return begin, _SUM
        owner = bump.owner
        if (
            not isinstance(owner, Operation)
            or owner.name != "tt.addptr"
            or _through(owner.operands[0]) is not value
        ):
            return _name(value), _ATOM
        step = owner.operands[1]
        if not _outside(_through(step), loop):
            return _name(value), _ATOM
        return f"{begin} + {self._iterations(loop)} * {self._inside(step, depth + 1, _ATOM)}", _SUM

    def _iterations(self, loop: Operation) -> str:
        """How often the loop's body has run before, in the induction variable's name."""
        name = _name(loop.regions[0].entry.arguments[0])
        lower, step = (_constant(_through(one)) for one in (loop.operands[0], loop.operands[2]))
        if lower != "0":
            name = f"({name} - {self._inside(loop.operands[0], self._depth, _PRODUCT)})"
        return name if step == "1" else f"({name} // {self._inside(loop.operands[2], self._depth, _ATOM)})"


def _through(value: Value) -> Value:
    """The value behind operations that keep the number."""
    return _chain(value)[-1]


def _chain(value: Value) -> list[Value]:
    """The value, and what each operation that keeps the number had before."""
    chain = [value]
    while len(chain) < 64:
        owner = chain[-1].owner
        if not isinstance(owner, Operation) or owner.name not in _TRANSPARENT or len(owner.operands) != 1:
            break
        chain.append(owner.operands[0])
    return chain


def _outside(value: Value, loop: Operation) -> bool:
    """Whether a value is the same in every iteration, as far as constants and sums outside say.

    What the loop computes from outside values counts as well.
    """
    pending: list[Value] = [value]
    seen: set[Value] = set()
    while pending and len(seen) < 64:
        one = pending.pop()
        if one in seen:
            continue
        seen.add(one)
        if not _within(one, loop):
            continue
        if not isinstance(one.owner, Operation) or one.owner.name not in _PLAIN:
            return False
        pending.extend(one.owner.operands)
    return not pending


def _within(value: Value, loop: Operation) -> bool:
    owner = value.owner
    block = owner if isinstance(owner, Block) else owner.parent if owner is not None else None
    while block is not None and block.parent is not None:
        above = block.parent.parent
        if above is loop:
            return True
        block = above.parent if isinstance(above, Operation) else None
    return False


def _intermediates(value: Value) -> frozenset[Value]:
    """Values that are only steps of the statement they are named after: another step of it uses them.

    A change of shape or width is no such step: in ``row = tl.program_id(0).to(tl.int64)`` the program id
    is the row.
    """
    region = _body(value)
    if region is None:
        return frozenset()
    found: set[Value] = set()
    for operation in walk(region):
        name, frames = operation.location.name, operation.location.frames
        if name is None or not operation.results or not frames or operation.name in _TRANSPARENT:
            continue
        for operand in operation.operands:
            for one in _chain(operand):
                place = one.location
                if place.name == name and place.frames and _same_line(place.frames[-1], frames[-1]):
                    found.add(one)
    return frozenset(found)


def _same_line(one: Frame, other: Frame) -> bool:
    return one.line == other.line and one.file == other.file


def _body(value: Value) -> Region | None:
    owner = value.owner
    block = owner if isinstance(owner, Block) else owner.parent if owner is not None else None
    while block is not None and block.parent is not None:
        above = block.parent.parent
        if isinstance(above, Function):
            return above.body
        if above is None:
            return block.parent
        block = above.parent
    return None


def _element(type_: Type) -> Type:
    return type_.element if isinstance(type_, TensorType) else type_


def _constant(value: Value) -> str | None:
    owner = value.owner
    if not isinstance(owner, Operation) or owner.name != "arith.constant":
        return None
    content = owner.attributes.get("value")
    if isinstance(content, Dense):
        if len(content.values) != 1:
            return None
        content = content.values[0]
    return str(content) if isinstance(content, (int, float)) else None


def _combination(operation: Operation) -> str:
    """What a reduction or a scan is called in the source, if it is one of the plain ones."""
    scan = operation.name == "tt.scan"
    inner = [one.name for one in operation.regions[0].entry.operations] if operation.regions[0].blocks else []
    plain = inner[0] if len(inner) == 2 else ""
    if plain in ("arith.addi", "arith.addf"):
        return "cumsum" if scan else "sum"
    if plain in ("arith.muli", "arith.mulf"):
        return "cumprod" if scan else "prod"
    return "associative_scan" if scan else _CALLS.get(plain, "reduce")


def _called(operation: Operation) -> str:
    callee = operation.attributes.get("callee")
    if isinstance(callee, str):  # module.function__types
        return callee.partition("__")[0].rpartition(".")[2] or callee
    return _CALLS.get(operation.name) or operation.name.rpartition(".")[2]


def _name(value: Value) -> str:
    return value.source_name or "…"


# --- the source around a place -----------------------------------------------------------------------


def source_context(location: Location, sources: Mapping[str, str]) -> list[tuple[int, str, bool]]:
    """The lines around a place: (1-based number, text, whether it is the place's line).

    Of the innermost frame that has a text: in ``sources`` by the file's name in TTIR, else a ``.py``
    file of this machine, of at most 4 MiB; empty without one.
    """
    for frame in location.frames:
        text = source_text(frame.file, sources)
        if text is None or frame.line < 1:
            continue
        lines = text.splitlines()
        if frame.line > len(lines):
            continue
        first = max(1, frame.line - _CONTEXT_LINES)
        last = min(len(lines), frame.line + _CONTEXT_LINES)
        return [
            (number, lines[number - 1].rstrip(), number == frame.line) for number in range(first, last + 1)
        ]
    return []


def source_text(name: str, sources: Mapping[str, str]) -> str | None:
    """The text of a file by its name in TTIR: of ``sources``, else a ``.py`` file of this machine."""
    text = sources.get(name)
    return _on_disk(name) if text is None else text


def _on_disk(name: str) -> str | None:
    """A TTIR file may come from a stranger: it must not make us show anything but Python sources."""
    if not name.endswith(".py") or "\0" in name:
        return None
    path = Path(name)
    try:
        if not path.is_file() or os.path.getsize(path) > _SOURCE_BYTES:
            return None
        return path.read_text("utf-8", errors="replace")
    except (OSError, ValueError):
        return None

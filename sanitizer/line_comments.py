"""``# kerncap: 0 <= idx < n``: what a source line says of the integer that it assigns, or of a parameter.

Each such comment becomes operations of the kernel, as `tl.assume` does, and is checked as a promise is. The
compiler never sees it. `kerncap.invariant` on a kernel says the same of its parameters.
"""

from __future__ import annotations

import ast
import io
import re
import textwrap
import tokenize
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, replace
from functools import lru_cache

from kerncap.sanitizer.diagnose.render import source_text
from kerncap.sanitizer.ttir import read_module
from kerncap.sanitizer.ttir.ir import (
    Block,
    Frame,
    Function,
    IntType,
    Location,
    Module,
    Operation,
    TensorType,
    Type,
    Value,
    walk,
)

FORM = "a comment is LOW <= NAME < HIGH, of an integer that its line assigns or has as parameter"
_DECORATOR = "invariant"
_MARK = re.compile(r"#\s*kerncap:\s*(.+?)\s*$")
_LONGEST = 200  # of a stranger's text, which is read with recursion
_WIDE = IntType(64)
_ARITHMETIC = {ast.Add: "arith.addi", ast.Sub: "arith.subi", ast.Mult: "arith.muli"}


@dataclass(frozen=True)
class Comment:
    """``low`` and ``high``: texts of the least and the greatest value; None: not stated. ``kernel``: whose
    parameter it is about; "": about what the line assigns."""

    file: str
    line: int
    text: str
    name: str = ""
    low: str | None = None
    high: str | None = None
    kernel: str = ""

    @property
    def place(self) -> str:
        return f"{self.file.rpartition('/')[2]}:{self.line}"


@dataclass(frozen=True)
class Commented:
    """A module with the operations of its comments; ``values``: what each comment is about.

    ``open``: comments that could not be made use of, where they are, and why.
    """

    module: Module
    values: tuple[tuple[Comment, Value], ...] = ()
    open: tuple[tuple[Location, str], ...] = ()


def commented(
    ttir: str, sources: Mapping[str, str], configuration: Mapping[str, str], ones: Iterable[str] = ()
) -> Commented:
    """A kernel with what the comments in its sources say. ``sources``: by the names in its locations.

    ``configuration`` and ``ones``: as in `Launch`.
    """
    comments = tuple(one for file in _files(ttir) for one in comments_of(file, sources))
    if not comments:
        return Commented(read_module(ttir))
    constants = tuple(sorted({**dict.fromkeys(ones, 1), **_whole(configuration)}.items()))
    return _commented(ttir, comments, constants)


def comments_of(file: str, sources: Mapping[str, str]) -> tuple[Comment, ...]:
    text = source_text(file, sources)
    return () if text is None or "kerncap:" not in text else _read(file, text)


def _whole(configuration: Mapping[str, str]) -> dict[str, int]:
    return {name: int(text) for name, text in configuration.items() if re.fullmatch(r"-?\d{1,18}", text)}


@lru_cache(maxsize=64)
def _files(ttir: str) -> tuple[str, ...]:
    """That a kernel's operations come from."""
    operations = read_module(ttir).operations()
    frames = {frame.file for one in operations for frame in one.location.frames[:1]}
    return tuple(sorted(file for file in frames if "/triton/language/" not in file))


# --- reading ------------------------------------------------------------------------------------------------


@lru_cache(maxsize=64)
def _read(file: str, text: str) -> tuple[Comment, ...]:
    found = []
    try:
        for token in tokenize.generate_tokens(io.StringIO(text).readline):
            mark = _MARK.match(token.string) if token.type == tokenize.COMMENT else None
            if mark is not None and token.line[: token.start[1]].strip():
                found.append(_parsed(Comment(file, token.start[0], mark.group(1))))
    except (tokenize.TokenError, SyntaxError):
        return ()
    for function in _functions(text):
        parameters = {one.arg for one in ast.walk(function.args) if isinstance(one, ast.arg)}
        signature = range(function.lineno, function.body[0].lineno)
        found = [
            replace(one, kernel=function.name) if one.line in signature and one.name in parameters else one
            for one in found
        ]
        for line, claim in _claims(function):
            one = _parsed(Comment(file, line, claim, kernel=function.name))
            found.append(one if one.name in parameters else replace(one, name=""))
    return tuple(found)


def _functions(text: str) -> list[ast.FunctionDef]:
    """Those of a text, which may be only a part of a file; none if it can't be read as it is."""
    try:
        tree = ast.parse(textwrap.dedent(text))
    except (SyntaxError, ValueError, RecursionError, MemoryError):
        return []
    return [one for one in ast.walk(tree) if isinstance(one, ast.FunctionDef)]


def _claims(function: ast.FunctionDef) -> Iterator[tuple[int, str]]:
    """Of its decorator, with their lines."""
    for each in function.decorator_list:
        if isinstance(each, ast.Call) and ast.unparse(each.func).rpartition(".")[2] == _DECORATOR:
            for given in each.args:
                if isinstance(given, ast.Constant) and isinstance(given.value, str):
                    yield given.lineno, given.value


def _parsed(comment: Comment) -> Comment:
    """With its ends; without a name if it is of another form."""
    if len(comment.text) > _LONGEST:
        return replace(comment, text=comment.text[:_LONGEST])
    try:
        tree = ast.parse(comment.text, mode="eval").body
    except (SyntaxError, ValueError, RecursionError, MemoryError):
        return comment
    if not isinstance(tree, ast.Compare):
        return comment
    sides = [tree.left, *tree.comparators]
    ascending = all(isinstance(one, ast.Lt | ast.LtE) for one in tree.ops)
    if not ascending and not all(isinstance(one, ast.Gt | ast.GtE) for one in tree.ops):
        return comment
    strict = [isinstance(one, ast.Lt | ast.Gt) for one in tree.ops]
    if not ascending:
        sides, strict = sides[::-1], strict[::-1]
    if len(sides) == 3 and isinstance(sides[1], ast.Name):
        low, high = _end(sides[0], strict[0], "+"), _end(sides[2], strict[1], "-")
        return replace(comment, name=sides[1].id, low=low, high=high)
    if len(sides) == 2 and isinstance(sides[0], ast.Name):
        return replace(comment, name=sides[0].id, high=_end(sides[1], strict[0], "-"))
    if len(sides) == 2 and isinstance(sides[1], ast.Name):
        return replace(comment, name=sides[1].id, low=_end(sides[0], strict[0], "+"))
    return comment


def _end(side: ast.expr, strict: bool, sign: str) -> str:
    if not strict:
        return ast.unparse(side)
    if isinstance(side, ast.Constant) and type(side.value) is int:
        return str(side.value + (1 if sign == "+" else -1))
    text = ast.unparse(side)
    return f"{text}{sign}1" if isinstance(side, ast.Name | ast.Call) else f"({text}){sign}1"


# --- as operations ------------------------------------------------------------------------------------------


@lru_cache(maxsize=64)
def _commented(ttir: str, comments: tuple[Comment, ...], constants: tuple[tuple[str, int], ...]) -> Commented:
    module = read_module.__wrapped__(ttir)  # its own, which is changed
    values: list[tuple[Comment, Value]] = []
    failed: list[tuple[Location, str]] = []
    for comment in comments:
        if comment.kernel:
            if comment.kernel == module.kernel.name:
                value, reason = _of_parameter(module.kernel, dict(constants), comment, -2 - len(values))
                failed += [(_place(comment), reason)] if reason else []
                values += [] if value is None else [(comment, value)]
            continue
        here = [
            (function, one)
            for function in module.functions.values()
            for one in (walk(function.body) if function.body is not None else ())
            if one.location.frames
            and one.location.frames[0].line == comment.line
            and one.location.frames[0].file == comment.file
        ]
        if not here:
            continue  # of another function, or of a branch that the constexprs leave out
        location = here[0][1].location
        if not comment.name:
            failed.append((location, f"{comment.text!r} is not understood; {FORM}"))
            continue
        results = _assigned([one for _, one in here], comment.name)
        if not results:
            failed.append((location, f"{comment.name} is not an integer of this line in the TTIR; {FORM}"))
        for function, one in here:
            for value in one.results:
                if value in results:
                    assert isinstance(one.parent, Block)
                    writer = _Writer(function, dict(constants), one.parent, one.location, -2 - len(values))
                    reason = writer.write(comment, value, one.parent.operations.index(one) + 1)
                    failed += [(location, reason)] if reason else []
                    values += [] if reason else [(comment, value)]
    return Commented(module, tuple(values), tuple(failed))


def _place(comment: Comment) -> Location:
    return Location((Frame(comment.file, comment.line, 0),))


def _of_parameter(
    kernel: Function, constants: Mapping[str, int], comment: Comment, order: int
) -> tuple[Value | None, str]:
    """What the comment is about, before everything else of the kernel; or why it can't be."""
    if not comment.name:
        return None, f"{comment.text!r} is not understood; {FORM}"
    assert kernel.body is not None
    block = kernel.body.blocks[0]
    writer = _Writer(kernel, constants, block, _place(comment), order)
    try:
        value = writer.named(comment.name)
    except _NotKnown as unknown:
        return None, f"{unknown}; {FORM}"
    reason = writer.write(comment, value, 0)
    return (None, reason) if reason else (value, "")


def _assigned(operations: list[Operation], name: str) -> list[Value]:
    """What a line assigns to a name: what it makes of its other values of that name."""
    own = [one for one in operations if any(value.location.name == name for value in one.results)]
    used = {value for one in own for value in one.operands}
    made = [one for one in own if one.name != "arith.constant"] or own
    return [
        value for one in made for value in one.results if value not in used and _kind(value.type) is not None
    ]


def loaded_from(value: Value, origins: Mapping[Value, frozenset[int | None]]) -> int | None:
    """The argument whose memory a value is loaded from; None: it is computed, or may be of several."""
    load = _load_of(value)
    found = frozenset() if load is None else origins.get(load.operands[0], frozenset())
    [argument] = found if len(found) == 1 else (None,)
    return argument


def _load_of(value: Value) -> Operation | None:
    made = value.owner
    while isinstance(made, Operation) and made.name == "arith.extsi":
        made = made.operands[0].owner
    return made if isinstance(made, Operation) and made.name == "tt.load" else None


def _kind(kind: Type) -> IntType | None:
    element = kind.element if isinstance(kind, TensorType) else kind
    return element if isinstance(element, IntType) and element.width > 1 else None


class _Writer:
    """Puts a comment's operations into a block."""

    def __init__(
        self, function: Function, constants: Mapping[str, int], block: Block, location: Location, order: int
    ) -> None:
        self._function, self._constants, self._block = function, constants, block
        self._location, self._order = location, order
        self._made: list[Operation] = []

    def write(self, comment: Comment, value: Value, at: int) -> str:
        """Nothing; or why it can't be. ``at``: behind what makes the value."""
        wide = self._wide(value)
        try:
            holds: Value | None = None
            for text, predicate in ((comment.low, "sge"), (comment.high, "sle")):
                if text is not None:
                    end = self._expression(ast.parse(text, mode="eval").body)
                    if isinstance(wide.type, TensorType):
                        end = self._add("tt.splat", (end,), wide.type)
                    truth = self._like(wide.type, IntType(1))
                    one = self._add("arith.cmpi", (wide, end), truth, predicate=predicate)
                    holds = one if holds is None else self._add("arith.andi", (holds, one), truth)
        except _NotKnown as reason:
            return f"{reason}; {FORM}"
        assert holds is not None
        load = _load_of(value)
        mask = load.segment("mask") if load is not None else None
        if mask is not None:  # lanes that it leaves out are not loaded
            true = self._add("arith.constant", (), mask.type, value=True)
            holds = self._add(
                "arith.ori", (holds, self._add("arith.xori", (mask, true), mask.type)), mask.type
            )
        self._add("llvm.intr.assume", (holds,), None, comment=comment.text, about=value)
        self._block.operations[at:at] = self._made
        return ""

    def _wide(self, value: Value) -> Value:
        kind = _kind(value.type)
        assert kind is not None
        return (
            value if kind.width == 64 else self._add("arith.extsi", (value,), self._like(value.type, _WIDE))
        )

    @staticmethod
    def _like(kind: Type, element: Type) -> Type:
        return replace(kind, element=element) if isinstance(kind, TensorType) else element

    def _add(self, name: str, operands: tuple[Value, ...], kind: Type | None, **attributes: object) -> Value:
        location = replace(self._location, name=None)
        operation = Operation(
            name, operands, (), dict(attributes), location=location, parent=self._block, order=self._order
        )
        result = Value("%comment", kind or _WIDE, location, operation)
        if kind is not None:
            operation.results = (result,)
        self._made.append(operation)
        return result

    def _number(self, value: int) -> Value:
        return self._add("arith.constant", (), _WIDE, value=value)

    def _expression(self, node: ast.expr) -> Value:
        if isinstance(node, ast.Constant) and type(node.value) is int and abs(node.value) < 1 << 62:
            return self._number(node.value)
        if isinstance(node, ast.Name):
            return self._wide(self.named(node.id))
        if isinstance(node, ast.UnaryOp) and isinstance(node.op, ast.USub):
            return self._add("arith.subi", (self._number(0), self._expression(node.operand)), _WIDE)
        if isinstance(node, ast.BinOp):
            pair = self._expression(node.left), self._expression(node.right)
            if type(node.op) in _ARITHMETIC:
                return self._add(_ARITHMETIC[type(node.op)], pair, _WIDE)
            if isinstance(node.op, ast.FloorDiv | ast.Mod):
                quotient = self._add("arith.floordivsi", pair, _WIDE)
                if isinstance(node.op, ast.FloorDiv):
                    return quotient
                return self._add(
                    "arith.subi", (pair[0], self._add("arith.muli", (quotient, pair[1]), _WIDE)), _WIDE
                )
        if isinstance(node, ast.Call) and isinstance(node.func, ast.Name) and len(node.args) == 2:
            pair = self._expression(node.args[0]), self._expression(node.args[1])
            if node.func.id in ("min", "max"):
                return self._add(f"arith.{node.func.id}si", pair, _WIDE)
            if node.func.id == "cdiv":
                return self._add("arith.ceildivsi", pair, _WIDE)
        raise _NotKnown(f"{ast.unparse(node)} is not supported, only + - * // %, cdiv, min and max")

    def named(self, name: str) -> Value:
        """An integer argument, or a constexpr. Raises _NotKnown."""
        for argument in self._function.arguments:
            if argument.source_name == name and _kind(argument.type) is not None:
                return argument
        if name in self._constants:
            number = self._number(self._constants[name])
            number.location = replace(number.location, name=name)
            return number
        known = [a.source_name for a in self._function.arguments if isinstance(a.type, IntType)]
        raise _NotKnown(f"{name} is not known, only {', '.join((*known, *self._constants)) or 'numbers'}")


class _NotKnown(Exception):
    """Something in a comment that has no meaning there."""

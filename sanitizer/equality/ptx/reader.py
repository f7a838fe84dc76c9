"""Reads one kernel of a PTX text. Source: PTX ISA 9.0, "Syntax" and "State Spaces, Types, and Variables"."""

from __future__ import annotations

import re
import struct
from collections.abc import Callable, Iterable, Iterator

from kerncap.sanitizer.equality.numbers import NotModelled
from kerncap.sanitizer.equality.ptx.code import (
    Address,
    Float,
    Group,
    Instruction,
    Integer,
    Module,
    Negated,
    Operand,
    Register,
    Symbol,
    Variable,
)

_COMMENT = re.compile(r"//[^\n]*|/\*.*?(?:\*/|\Z)", re.DOTALL)
# Has no semicolon: what follows it is an instruction. nvcc's -lineinfo puts one before most.
_LINE = re.compile(r"^[ \t]*\.loc\b[^\n]*", re.MULTILINE)
_NAME = r"[A-Za-z_$%][\w$]*"
_TOKEN = re.compile(
    rf"\s*(?:(?P<float>0[fF][0-9a-fA-F]{{8}}|0[dD][0-9a-fA-F]{{16}})|(?P<number>-?0[xX][0-9a-fA-F]+U?|-?\d+U?)"
    rf"|(?P<name>{_NAME}(?:\.[xyzw]\b)?)|(?P<sign>[\[\]{{}}()|,+!-]))"
)
_LABEL = re.compile(rf"\s*({_NAME})\s*:(?!:)")
_GUARD = re.compile(rf"@(!?)({_NAME})\s*")
_VARIABLE = re.compile(
    rf"\.(?P<space>param|shared)\s+(?:\.align\s+(?P<align>\d+)\s+)?\.(?P<type>\w+)\s+"
    rf"(?:\.ptr(?:\s+\.\w+)*(?:\s+\.align\s+\d+)?\s+)?(?P<name>{_NAME})"
    r"(?P<array>(?:\s*\[\s*\d*\s*\])*)"
)
_REGISTERS = re.compile(r"\.reg\s+\.\w+\s+(.*)", re.DOTALL)
_PIECE = re.compile(r"[;{}]|[^;{}\"]+|\"[^\"]*\"")
_SIZES = {"8": 1, "16": 2, "32": 4, "64": 8, "128": 16}
OF_WHOLE_WARPS = ("ldmatrix", "stmatrix", "mma")
MOST_BYTES = 16 << 20
_MOST_GROUPS = 4


def size_of(type_: str) -> int:
    """Bytes of ``f32``, ``b64``, …; 0 for a predicate and what is no number."""
    digits = re.fullmatch(r"(?:[usb]|f|bf)(8|16|32|64|128)", type_)
    if digits is not None:
        return _SIZES[digits[1]]
    return 4 if type_ in ("f16x2", "bf16x2") else 0


def read(text: str, entry: str) -> Module:
    """Raises NotModelled for what is no PTX, and for a kernel that is not in it."""
    if len(text) > MOST_BYTES:
        raise NotModelled(f"PTX of more than {MOST_BYTES >> 20} MiB")
    text = _LINE.sub(" ", _COMMENT.sub(" ", text))
    found = re.search(rf"\.entry\s+{re.escape(entry)}(?![\w$])", text)
    if found is None:
        raise NotModelled(f"PTX without the kernel {entry}")
    start = text.find("{", found.end())
    if start < 0:
        raise NotModelled(f"the kernel {entry} without a body")
    body = _Body()
    body.read(text[start:])
    used = {operand.name for one in body.code for operand in _names(one.operands)}
    shared = [one for one in _variables(_outside(text), "shared") if one.name in used]
    return Module(
        entry,
        tuple(_variables(text[found.end() : start], "param")),
        (*shared, *body.shared),
        tuple(body.code),
        body.labels,
        starts=frozenset(_starts(body)),
    )


def _names(operands: Iterable[Operand]) -> Iterator[Symbol]:
    for one in operands:
        if isinstance(one, Symbol):
            yield one
        elif isinstance(one, Address | Group):
            yield from _names((one.base,) if isinstance(one, Address) else one.items)


def _outside(text: str) -> str:
    """The declarations of the module, without what is in functions."""
    kept, depth, at = [], 0, 0
    for brace in re.finditer(r"[{}]", text):
        if depth == 0:
            kept.append(text[at : brace.start()])
        depth += 1 if brace[0] == "{" else -1
        at = brace.end()
    return " ".join([*kept, text[at:]])


def _variables(text: str, space: str) -> Iterator[Variable]:
    for found in _VARIABLE.finditer(text):
        if found["space"] != space:
            continue
        size = size_of(found["type"])
        count = 1
        for extent in re.findall(r"\[\s*(\d*)\s*\]", found["array"]):
            count *= int(extent or 0)
        yield Variable(found["name"], found["type"], size * count, int(found["align"] or size or 1))


def _starts(body: _Body) -> Iterator[int]:
    yield from body.labels.values()
    for at, one in enumerate(body.code):
        if one.parts[0] in ("bra", "ret", "exit"):
            yield at + 1
        if is_meeting(one):
            yield from (at, at + 1)


def is_meeting(one: Instruction) -> bool:
    """Whether threads wait there for others."""
    return one.parts[0] in ("bar", "barrier", "shfl", "vote", "match", "redux", *OF_WHOLE_WARPS)


class _Body:
    """The statements of a function. Names of an inner scope are told apart by its number."""

    def __init__(self) -> None:
        self.code: list[Instruction] = []
        self.labels: dict[str, int] = {}
        self.shared: list[Variable] = []
        self._scopes: list[dict[str, str]] = []
        self._count = 0

    def read(self, text: str) -> None:
        depth, statement = 0, ""
        for piece in _PIECE.findall(text):
            if piece == "{" and not statement.strip():
                depth += 1
                self._count += 1
                self._scopes.append({})
            elif piece == "}" and not _open(statement):
                self._scopes.pop()
                depth -= 1
                statement = ""
                if depth == 0:
                    return
            elif piece == ";":
                self._statement(statement.strip())
                statement = ""
            else:
                statement += piece
                statement = self._labelled(statement)
        raise NotModelled("PTX that ends in the middle of a function")

    def _labelled(self, statement: str) -> str:
        while (label := _LABEL.match(statement)) is not None:
            if label[1] in self.labels:
                raise NotModelled(f"two labels {label[1]}")
            self.labels[label[1]] = len(self.code)
            statement = statement[label.end() :]
        return statement

    def _statement(self, text: str) -> None:
        if not text:
            return
        if text.startswith("."):
            self._directive(text)
            return
        guard = _GUARD.match(text)
        rest = text[guard.end() :] if guard is not None else text
        words = rest.split(None, 1)
        parts = tuple(re.split(r"\.|(?<=:):", words[0].replace("::", "_")))
        operands = _Operands(words[1] if len(words) > 1 else "", self._renamed).all()
        condition = (self._renamed(guard[2]), guard[1] == "!") if guard is not None else None
        self.code.append(Instruction(parts, operands, condition))

    def _directive(self, text: str) -> None:
        registers = _REGISTERS.match(text)
        if registers is not None and len(self._scopes) > 1:
            if "<" in registers[1]:
                raise NotModelled("registers of an inner block that have a number")
            for name in re.findall(_NAME, registers[1]):
                self._scopes[-1][name] = f"{name}@{self._count}"
        elif text.startswith(".param") and len(self._scopes) > 1:
            for one in _variables(text, "param"):
                self._scopes[-1][one.name] = f"{one.name}@{self._count}"
        elif text.startswith((".shared", ".extern")):
            self.shared += _variables(text, "shared")
        elif not text.startswith((".reg", ".param", ".local", ".pragma")):
            raise NotModelled(f"the directive {text[:40]}")

    def _renamed(self, name: str) -> str:
        for scope in reversed(self._scopes):
            if name in scope:
                return scope[name]
        return name


def _open(statement: str) -> bool:
    return statement.count("{") > statement.count("}")


class _Operands:
    def __init__(self, text: str, renamed: Callable[[str], str]) -> None:
        if text.count("{") + text.count("(") > _MOST_GROUPS or text.count("[") > 2:
            raise NotModelled("operands in each other")
        self._tokens: list[tuple[str, str]] = []
        self._renamed = renamed
        at = 0
        text = text.rstrip()
        while at < len(text):
            found = _TOKEN.match(text, at)
            if found is None or found.lastgroup is None:
                raise NotModelled(f"the operands {text[:80]}")
            self._tokens.append((found.lastgroup, found[found.lastgroup]))
            at = found.end()
        self._at = 0

    def all(self) -> tuple[Operand, ...]:
        found = self._list(None)
        if self._at != len(self._tokens):
            raise NotModelled("operands that are not a list")
        return found

    def _peek(self) -> str | None:
        return self._tokens[self._at][1] if self._at < len(self._tokens) else None

    def _take(self) -> tuple[str, str]:
        if self._at >= len(self._tokens):
            raise NotModelled("an operand that is missing")
        self._at += 1
        return self._tokens[self._at - 1]

    def _list(self, end: str | None) -> tuple[Operand, ...]:
        found: list[Operand] = []
        while self._peek() not in (end, None):
            found.append(self._one())
            if self._peek() == ",":
                self._take()
        if end is not None:
            self._take()
        return tuple(found)

    def _one(self) -> Operand:
        kind, text = self._take()
        found: Operand
        if text in ("{", "("):
            found = Group(self._list("}" if text == "{" else ")"))
        elif text == "[":
            found = self._address()
        elif text == "!":
            negated = self._one()
            if not isinstance(negated, Register):
                raise NotModelled("the operand !")
            found = Negated(negated)
        elif kind == "float":
            form, name = ("<f", "f32") if text[1] in "fF" else ("<d", "f64")
            found = Float(struct.unpack(form, bytes.fromhex(text[2:])[::-1])[0], name)
        elif kind == "number":
            found = Integer(int(text.rstrip("U"), 0))
        elif kind == "name":
            found = self._named(text)
        else:
            raise NotModelled(f"the operand {text}")
        if self._peek() == "|":
            self._take()
            found = Group((found, self._one()))
        if self._peek() == "+" and isinstance(found, Symbol):
            self._take()
            found = Address(found, int(self._take()[1].rstrip("U"), 0))
        return found

    def _named(self, text: str) -> Register | Symbol:
        name = self._renamed(text)
        return Register(name) if text.startswith("%") or "@" in name and text != name else Symbol(name)

    def _address(self) -> Address:
        base, offset = self._one(), 0
        if isinstance(base, Address):  # a symbol and an offset
            found = base
            base, offset = found.base, found.offset
        while self._peek() != "]":
            sign = self._take()[1]
            if sign not in ("+", "-"):
                offset += int(sign.rstrip("U"), 0)
                continue
            offset += int(self._take()[1].rstrip("U"), 0) * (1 if sign == "+" else -1)
        self._take()
        if not isinstance(base, Register | Symbol | Integer):
            raise NotModelled("an address of several parts")
        return Address(base, offset)

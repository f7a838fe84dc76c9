"""A declaration's tokens, from one `;` or brace to the next: the names and parameters it declares."""

from __future__ import annotations

import re
from dataclasses import dataclass

from kerncap.capture.source.native.tokens import Token

# Words with parentheses of their own that may stand between `__global__` and the name, or after it.
_ATTRIBUTES = re.compile(
    r"__launch_bounds__$|__cluster_dims__$|__block_size__$|__maxnreg__$|__attribute__$|__declspec$|alignas$|"
    r"noexcept$|requires$|decltype$|__align__$|\w*LAUNCH_BOUNDS\w*$|\w*launch_bounds\w*$"
)


@dataclass(frozen=True)
class Parameter:
    """A parameter as written: its type without qualifiers ("float*", "unsigned int"), its name or ""."""

    type: str
    name: str


@dataclass(frozen=True)
class Group:
    """`scopes::name(…)` in a head; ``at`` is the name's token."""

    name: str
    scopes: tuple[str, ...]
    at: int
    signature: tuple[Parameter, ...]
    parameters: int | None


def groups(head: list[Token]) -> list[Group]:
    """What may be a function's name and parameters at the top level of a declaration."""
    found: list[Group] = []
    index = 0
    while index < len(head):
        if head[index].text == "template" and index + 1 < len(head) and head[index + 1].text == "<":
            index = _end_of_angles(head, index + 1) + 1
            continue
        if head[index].text in ("[[", "["):
            index = _end_of_brackets(head, index) + 1
            continue
        if head[index].text != "(" or head[index].kind != "mark":
            index += 1
            continue
        end = end_of_group(head, index)
        at = _name_before(head, index)
        if at is not None and not _ATTRIBUTES.match(head[at].text):
            scopes: list[str] = []
            before = at
            while before >= 2 and head[before - 1].text == "::" and head[before - 2].kind == "word":
                before -= 2
                scopes.insert(0, head[before].text)
            inner = head[index + 1 : end]
            signature = _signature(inner)
            count = None if signature is None else len(signature)
            found.append(Group(head[at].text, tuple(scopes), at, signature or (), count))
        index = end + 1
    return found


def _name_before(head: list[Token], paren: int) -> int | None:
    """The name that a parenthesis belongs to; a specialisation's `<…>` between them is passed over."""
    at = paren - 1
    if at >= 0 and head[at].text == ">":
        depth = 0
        while at >= 0:
            depth += (head[at].text == ">") - (head[at].text == "<")
            at -= 1
            if depth == 0:
                break
    return at if at >= 0 and head[at].kind == "word" else None


def end_of_group(head: list[Token], start: int) -> int:
    depth = 0
    for index in range(start, len(head)):
        depth += (head[index].text == "(") - (head[index].text == ")")
        if depth == 0:
            return index
    return len(head) - 1


def _end_of_brackets(head: list[Token], start: int) -> int:
    depth = 0
    for index in range(start, len(head)):
        text = head[index].text
        depth += {"[[": 2, "[": 1, "]]": -2, "]": -1}.get(text, 0)
        if depth <= 0:
            return index
    return len(head) - 1


def _end_of_angles(head: list[Token], start: int) -> int:
    depth = 0
    index = start
    while index < len(head):
        text = head[index].text
        if text == "(":
            index = end_of_group(head, index)
        else:
            depth += (text == "<") - (text == ">")
            if depth == 0:
                return index
        index += 1
    return len(head) - 1


def arguments(head: list[Token]) -> list[str]:
    """The arguments of a macro's call, as text."""
    start = next((i for i, each in enumerate(head) if each.text == "("), None)
    if start is None:
        return []
    values: list[list[str]] = [[]]
    depth = 0
    for token in head[start + 1 : end_of_group(head, start)]:
        depth += (token.text in "([{") - (token.text in ")]}")
        if token.text == "," and depth == 0:
            values.append([])
        else:
            values[-1].append(token.text)
    return [" ".join(value) for value in values]


_QUALIFIERS = frozenset(
    ("const", "volatile", "__restrict__", "__restrict", "restrict", "__grid_constant__", "struct", "class",
     "typename", "register", "enum", "__align__")
)  # fmt: skip
_BUILT_IN = frozenset(
    ("unsigned", "signed", "int", "long", "short", "char", "float", "double", "bool", "void", "auto")
)


def _signature(parameters: list[Token]) -> tuple[Parameter, ...] | None:
    """The parameters of a list; None for a pack, whose number only the compiler knows."""
    if any(
        first.text == second.text == "." for first, second in zip(parameters, parameters[1:], strict=False)
    ):
        return None
    if not parameters or [each.text for each in parameters] == ["void"]:
        return ()
    pieces: list[list[Token]] = [[]]
    depth = 0
    for token in parameters:
        if token.kind == "mark":
            depth += (token.text in "([{<") - (token.text in ")]}>")
        if token.text == "," and depth == 0:
            pieces.append([])
        else:
            pieces[-1].append(token)
    return tuple(_parameter(piece) for piece in pieces)


def _parameter(tokens: list[Token]) -> Parameter:
    """One parameter; a type with parentheses or brackets (a function, an array) stands as it was written."""
    end = next((n for n, each in enumerate(tokens) if each.text == "="), len(tokens))
    kept = [each for each in tokens[:end] if each.text not in _QUALIFIERS]
    if any(each.text in "([" for each in kept):
        name = next(
            (
                kept[n + 1].text
                for n, each in enumerate(kept[:-1])
                if each.text in "*&" and kept[n + 1].kind == "word"
            ),
            "",
        )
        return Parameter(" ".join(each.text for each in kept), name)
    words = [each for each in kept if each.kind == "word"]
    named = len(kept) > 1 and len(words) > 1 and kept[-1].kind == "word" and kept[-2].text != "::"
    named = named or (bool(kept) and kept[-1].kind == "word" and len(kept) > 1 and kept[-2].text in "*&>")
    if named and kept[-1].text in _BUILT_IN:
        named = False
    name = kept.pop().text if named else ""
    return Parameter(_type_text(kept), name)


def _type_text(tokens: list[Token]) -> str:
    text = ""
    for token in tokens:
        text += " " if text and token.kind == "word" and (text[-1].isalnum() or text[-1] in "_>") else ""
        text += token.text + (" " if token.text == "," else "")
    return {"unsigned": "unsigned int", "signed": "int", "long long int": "long long"}.get(text, text)


def without_attributes(head: list[Token]) -> list[Token]:
    left: list[Token] = []
    index = 0
    while index < len(head):
        if head[index].text in ("[[", "["):
            index = _end_of_brackets(head, index)
        elif head[index].text == "(":
            index = end_of_group(head, index)
            if left:
                left.pop()  # the attribute's own name
        elif head[index].text not in ("inline", "::"):
            left.append(head[index])
        index += 1
    return left


def is_class(head: list[Token]) -> bool:
    return any(each.text in ("class", "struct", "union") for each in head if each.kind == "word")


def class_name(head: list[Token]) -> str:
    at = next(i for i, each in enumerate(head) if each.text in ("class", "struct", "union"))
    rest: list[str] = []
    for token in without_attributes(head[at + 1 :]):
        if token.kind != "word":
            break
        rest.append(token.text)
    return rest[-1] if rest else ""

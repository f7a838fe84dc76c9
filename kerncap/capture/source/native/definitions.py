"""Where a kernel is defined in a file: its namespaces, its name, its lines.

Tolerant: macros stay unexpanded, both branches of `#if` are read, what is not understood is skipped.
"""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field

from kerncap.capture.source.native.declaration_heads import (
    Parameter,
    arguments,
    class_name,
    end_of_group,
    groups,
    is_class,
    without_attributes,
)
from kerncap.capture.source.native.tokens import Token, tokenize
from kerncap.format.kernel_names import ANONYMOUS, KernelName

_DEFINE = re.compile(r"#\s*define\s+([A-Za-z_]\w*)(\(([^)]*)\))?(.*)\Z", re.DOTALL)
_MAX_DEPTH = 512


@dataclass(frozen=True)
class Macro:
    """A macro whose replacement makes a kernel; ``parameters`` is None for one that takes none."""

    name: str
    parameters: tuple[str, ...] | None
    body: str
    line: int


@dataclass(frozen=True)
class Definition:
    """A function's definition; ``line`` is the name's, ``first`` to ``last`` the whole, counted from 1."""

    name: str
    scopes: tuple[str, ...]
    inline_scopes: frozenset[int]  # which of them are inline namespaces
    is_kernel: bool
    is_template: bool
    parameters: int | None
    line: int
    first: int
    last: int
    macro: str | None = None  # the macro that makes it
    signature: tuple[Parameter, ...] = ()  # empty also if `parameters` is None

    @property
    def parameter_pairs(self) -> tuple[tuple[str, str], ...] | None:
        """(type, name) of each parameter; None if their number is not known."""
        return None if self.parameters is None else tuple((each.type, each.name) for each in self.signature)


def kernel_macros(text: str) -> dict[str, Macro]:
    """The macros of a file that put `__global__` somewhere."""
    found: dict[str, Macro] = {}
    if "define" in text and "__global__" in text:
        for token in tokenize(text):
            if token.kind == "directive" and "__global__" in token.text:
                match = _DEFINE.match(token.text.replace("\\\n", " \n"))
                if match is not None:
                    listed = match[3]
                    names = None if listed is None else tuple(part.strip() for part in listed.split(","))
                    found[match[1]] = Macro(match[1], names, match[4].strip(), token.line)
    return found


def definitions(
    text: str, wanted: frozenset[str] | None = None, macros: Mapping[str, Macro] | None = None
) -> list[Definition]:
    """Functions defined in a file: all its kernels, and other functions of the ``wanted`` names.

    ``macros`` are those of other files that make kernels; the file's own are found.
    """
    known = {**(macros or {}), **kernel_macros(text)}
    return _Scanner(wanted, known).scan(text)


def matching(name: KernelName, found: Sequence[Definition]) -> list[Definition]:
    """The definitions that may be the kernel: narrowed by all that the name says, while any is left."""
    left = [each for each in found if each.is_kernel and each.name == name.base]
    count = None if name.parameters is None else len(name.parameters)
    for kept in (
        [each for each in left if _same_scopes(name.scopes, each)],
        [each for each in left if each.is_template == (name.template_arguments is not None)],
        [each for each in left if count is None or each.parameters in (None, count)],
    ):
        left = [each for each in left if each in kept] or left
    return left


def fits_scopes(name: KernelName, definition: Definition) -> bool:
    """Whether the namespaces around the definition are the kernel's."""
    return _same_scopes(name.scopes, definition)


def may_hide_scopes(name: KernelName, definition: Definition) -> bool:
    """Whether the definition's namespaces are some of the kernel's, in order: macros may open the others."""
    left = iter(name.scopes)
    return all(any(scope == each for each in left) for scope in definition.scopes if scope)


def _same_scopes(scopes: tuple[str, ...], definition: Definition) -> bool:
    if scopes == definition.scopes:
        return True
    plain = tuple(scope for n, scope in enumerate(definition.scopes) if n not in definition.inline_scopes)
    return scopes == plain


@dataclass
class _Scope:
    kind: str  # "namespace", "linkage", "class", "body"
    name: str = ""
    inline: bool = False
    definition: Definition | None = None


@dataclass
class _State:
    scopes: list[_Scope] = field(default_factory=list)
    head: list[Token] = field(default_factory=list)


class _Scanner:
    def __init__(self, wanted: frozenset[str] | None, macros: Mapping[str, Macro]) -> None:
        self.wanted = wanted or frozenset()
        self.macros = macros
        self.found: list[Definition] = []
        self.state = _State()
        self.conditions: list[_State] = []

    def scan(self, text: str) -> list[Definition]:
        for token in tokenize(text):
            if token.kind == "directive":
                self._directive(token)
            elif token.text == "{" and token.kind == "mark":
                self._open(token)
            elif token.text == "}" and token.kind == "mark":
                self._close(token)
            elif self._inside_body():
                continue
            elif token.text == ";" and token.kind == "mark":
                self._made_by_macro(token)
                self.state.head.clear()
            else:
                self.state.head.append(token)
        return self.found

    def _inside_body(self) -> bool:
        return bool(self.state.scopes) and self.state.scopes[-1].kind == "body"

    def _directive(self, token: Token) -> None:
        """Each branch of a condition starts from the same braces: both may open the same body."""
        match = re.match(r"#\s*(if|ifdef|ifndef|elif|elifdef|elifndef|else|endif)\b", token.text)
        if match is None:
            return
        if match[1].startswith("if"):
            if len(self.conditions) < _MAX_DEPTH:
                self.conditions.append(_State(list(self.state.scopes), list(self.state.head)))
        elif match[1] == "endif":
            if self.conditions:
                self.conditions.pop()
        elif self.conditions:
            start = self.conditions[-1]
            self.state = _State(list(start.scopes), list(start.head))

    def _open(self, token: Token) -> None:
        scopes, head = self.state.scopes, self.state.head
        if len(scopes) > _MAX_DEPTH:
            return
        if self._inside_body():
            scopes.append(_Scope("body"))
            return
        head = self._after_macro_calls(head)
        words = [each.text for each in head if each.kind == "word"]
        if "namespace" in words:
            self._open_namespaces(head)
        elif words[:1] == ["extern"] and head[-1].kind == "string":
            scopes.append(_Scope("linkage"))
        else:
            definition = self._function(head, token)
            if definition is not None:
                scopes.append(_Scope("body", definition=definition))
            elif is_class(head):
                scopes.append(_Scope("class", class_name(head)))
            else:
                scopes.append(_Scope("body"))
        self.state.head = []

    def _open_namespaces(self, head: list[Token]) -> None:
        inline = any(each.text == "inline" for each in head)
        start = next(i for i, each in enumerate(head) if each.text == "namespace")
        names = [each.text for each in without_attributes(head[start + 1 :]) if each.kind == "word"] or [
            ANONYMOUS
        ]
        for name in names[:-1]:
            self.state.scopes.append(_Scope("namespace+", name))
        self.state.scopes.append(_Scope("namespace", names[-1], inline))

    def _close(self, token: Token) -> None:
        scopes = self.state.scopes
        if scopes:
            ended = scopes.pop()
            while ended.kind == "namespace" and scopes and scopes[-1].kind == "namespace+":
                scopes.pop()  # `namespace a::b {` has one brace
            if ended.definition is not None:
                made = ended.definition
                self.found.append(Definition(**{**made.__dict__, "last": token.line}))
        if not self._inside_body():
            self.state.head = []

    def _scopes(self) -> tuple[tuple[str, ...], frozenset[int]]:
        named = [each for each in self.state.scopes if each.kind in ("namespace", "namespace+", "class")]
        return tuple(each.name for each in named), frozenset(n for n, each in enumerate(named) if each.inline)

    def _function(self, head: list[Token], brace: Token) -> Definition | None:
        """The function whose body begins, if it is a kernel or wanted."""
        kernel_at = self._kernel_word(head)
        named = groups(head)
        if not named:
            return self._by_macro(head, brace)
        if kernel_at is None:
            name = next((each for each in named if each.name in self.wanted), None)
            if name is None:
                return self._by_macro(head, brace)
        else:
            after = [each for each in named if each.at > kernel_at] or named
            name = next((each for each in after if each.name in self.wanted), after[-1])
        scopes, inline = self._scopes()
        return Definition(
            name.name,
            scopes + name.scopes,
            inline,
            kernel_at is not None,
            any(each.text == "template" for each in head),
            name.parameters,
            head[name.at].line,
            head[0].line,
            brace.line,
            signature=name.signature,
        )

    def _kernel_word(self, head: list[Token]) -> int | None:
        for index, token in enumerate(head):
            if token.kind != "word":
                continue
            macro = self.macros.get(token.text)
            if token.text == "__global__" or (macro is not None and macro.parameters is None):
                return index
        return None

    def _after_macro_calls(self, head: list[Token]) -> list[Token]:
        """`MACRO(…)` calls with no semicolon stand before a head: nothing of them belongs to it."""
        index = 0
        while index + 1 < len(head) and head[index].text in self.macros and head[index + 1].text == "(":
            end = end_of_group(head, index + 1)
            if end >= len(head) - 1:
                break
            self._record_call(head[: end + 1], head[index], head[end].line)
            head = head[end + 1 :]
        return head

    def _made_by_macro(self, end: Token) -> None:
        """A declaration's end: `KERNEL(scale);` may have been a whole definition."""
        head = self._after_macro_calls(self.state.head)
        if head and (macro := self.macros.get(head[0].text)) is not None and macro.parameters is not None:
            self._record_call(head, head[0], end.line)

    def _by_macro(self, head: list[Token], brace: Token) -> Definition | None:
        """`KERNEL(scale) {`: the macro makes everything up to the body."""
        for index, token in enumerate(head):
            macro = self.macros.get(token.text)
            if macro is not None and macro.parameters is not None:
                return self._called(macro, head[index:], head[0].line, brace.line)
        return None

    def _record_call(self, head: list[Token], name: Token, last: int) -> None:
        macro = self.macros[name.text]
        made = self._called(macro, head, name.line, last)
        if made is not None:
            self.found.append(made)

    def _called(self, macro: Macro, head: list[Token], first: int, last: int) -> Definition | None:
        """The kernel that a macro makes of these arguments, as its replacement names it."""
        values = arguments(head)
        body = macro.body
        for parameter, value in zip(macro.parameters or (), values, strict=False):
            body = re.sub(rf"(?<!\w){re.escape(parameter)}(?!\w)", value.replace("\\", r"\\"), body)
        body = re.sub(r"\s*##\s*", "", body)
        tokens = list(tokenize(body.replace("\\\n", "\n")))
        stop = next((i for i, each in enumerate(tokens) if each.text == "{"), len(tokens))
        named = groups(tokens[:stop])
        if not named:
            return None
        name = next((each for each in named if each.name in self.wanted), named[-1])
        scopes, inline = self._scopes()
        template = any(each.text == "template" for each in tokens[:stop])
        return Definition(
            name.name, scopes + name.scopes, inline, True, template, name.parameters, first, first, last,
            macro.name, name.signature,
        )  # fmt: skip

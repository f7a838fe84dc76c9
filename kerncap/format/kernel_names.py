"""A kernel's name taken apart: what to look for in a source file.

The demangled name serves if there is one; the mangled name's nested part if there is not.
"""

from __future__ import annotations

import re
from dataclasses import dataclass

ANONYMOUS = ""  # as a part of `scopes`
_ANONYMOUS_TEXTS = ("(anonymous namespace)", "<unnamed>", "{anonymous}")
MAX_NAME = 256 * 1024
_IDENTIFIER = re.compile(r"[A-Za-z_$][\w$]*\Z")
_OPEN, _CLOSE = "<([{", ">)]}"


@dataclass(frozen=True)
class KernelName:
    """``scopes`` are its namespaces, outermost first; ``parameters`` is None if the name doesn't say.

    ``readable`` is the whole name as its language writes it, if that is not how C++ does.
    """

    base: str
    scopes: tuple[str, ...] = ()
    template_arguments: str | None = None  # "float, 4"
    parameters: tuple[str, ...] | None = None
    readable: str = ""

    @property
    def qualified(self) -> str:
        """As a use of it in the same file would say it: anonymous namespaces left out."""
        arguments = "" if self.template_arguments is None else f"<{self.template_arguments}>"
        return "::".join([scope for scope in self.scopes if scope] + [self.base + arguments])

    @property
    def has_lambda(self) -> bool:
        return "lambda" in (self.template_arguments or "")

    def enclosing_functions(self) -> tuple[str, ...]:
        """Names of the functions whose lambdas it was given: ``run`` of ``run(float*)::{lambda(int)#1}``."""
        found = re.findall(
            r"([A-Za-z_]\w*)(?:<[^<>]*>)?\((?:[^()]|\([^()]*\))*\)(?: const)?::\{?'?lambda",
            self.template_arguments or "",
        )
        return tuple(dict.fromkeys(found))


def parse(mangled: str, demangled: str = "") -> KernelName:
    """The parts of a kernel's name. A name that can't be taken apart is its own base."""
    plain = _without_static(mangled)
    text = plain if demangled in ("", mangled) else demangled
    mangled = plain
    if len(text) <= MAX_NAME and not text.startswith("_Z"):
        found = _from_demangled(text)
        if found is not None:
            return found
    if mangled.startswith("_Z"):
        parts = nested_parts(mangled)
        if parts:
            scopes = tuple(ANONYMOUS if part.startswith("_GLOBAL__N_") else part for part in parts[:-1])
            template = "" if re.search(rf"{re.escape(parts[-1])}I", mangled) else None
            return KernelName(parts[-1], scopes, template)
    return KernelName(mangled)


def nested_parts(mangled: str) -> tuple[str, ...]:
    """The plain names of a mangled name, template arguments and parameters left out."""
    offset = 2
    if mangled[offset : offset + 1] == "N":
        offset += 1
        offset += len(re.match(r"[rVKRO]*", mangled[offset:]).group())  # type: ignore[union-attr]
    offset += 2 if mangled[offset : offset + 2] == "St" else 0
    offset += 1 if mangled[offset : offset + 1] == "L" else 0
    parts: list[str] = []
    while digits := re.match(r"\d{1,6}", mangled[offset : offset + 6]):
        offset += digits.end()
        size = int(digits.group())
        part = mangled[offset : offset + size]
        if len(part) != size:
            break
        parts.append(part)
        offset += size
        if mangled[1:3] != "ZN":
            break
    return tuple(parts)


_LOCAL = re.compile(r"(\d{1,9})((?:_GLOBAL__N_|_INTERNAL_))")
_RELOCATABLE = re.compile(r"__nv_static_(\d{1,4})_")


def without_file_hash(mangled: str) -> str:
    """The name with what nvcc makes of the file's path taken out of it, so that two builds compare.

    Anonymous namespaces are ``_GLOBAL__N__<hash of the path>_<file>_<first name>``.
    """
    text = _without_static(mangled)
    pieces: list[str] = []
    offset = 0
    while found := _LOCAL.search(text, offset):
        # "12_GLOBAL__N_": digits before may belong to the name before it, so the longest fitting count wins.
        end = found.start(2)
        size = next(
            (int(found[1][i:]) for i in range(len(found[1])) if end + int(found[1][i:]) <= len(text)),
            len(found[2]),
        )
        pieces += [text[offset : found.start()], f"12{found[2]}1"]
        offset = end + max(size, len(found[2]))
    return "".join(pieces) + text[offset:]


def _without_static(mangled: str) -> str:
    """Without what -rdc puts before a name of internal linkage: a length, then the file's hash and name."""
    static = _RELOCATABLE.match(mangled)
    return mangled if static is None else mangled[static.end() + int(static[1]) + 1 :] or mangled


def _from_demangled(text: str) -> KernelName | None:
    for anonymous in _ANONYMOUS_TEXTS:
        text = text.replace(anonymous, "$anonymous")
    text = re.sub(r"\s*\[clone [^\]]*\]\s*$", "", text.strip())
    head, parameters = _split_parameters(text)
    head = _last_word(head)
    pieces = _split(head, "::")
    if not pieces:
        return None
    base, arguments = _split_template(pieces[-1])
    scopes = tuple(_split_template(piece)[0] for piece in pieces[:-1])
    if not _IDENTIFIER.match(base):
        return None
    restored = None if arguments is None else arguments.replace("$anonymous", _ANONYMOUS_TEXTS[0])
    return KernelName(
        base,
        tuple(ANONYMOUS if scope == "$anonymous" else scope for scope in scopes),
        restored,
        None
        if parameters is None
        else tuple(each.replace("$anonymous", _ANONYMOUS_TEXTS[0]) for each in parameters),
    )


def _split_parameters(text: str) -> tuple[str, tuple[str, ...] | None]:
    """What stands before the parameter list, and its parameters."""
    depth = 0
    for index, character in enumerate(text):
        if character == "(" and depth == 0:
            end = _matching(text, index)
            inner = text[index + 1 : end].strip()
            listed = tuple(part.strip() for part in _split(inner, ",")) if inner not in ("", "void") else ()
            return text[:index], listed
        depth += (character in _OPEN) - (character in _CLOSE and not _arrow(text, index))
    return text, None


def _split(text: str, separator: str) -> list[str]:
    pieces: list[str] = []
    depth = start = index = 0
    while index < len(text):
        character = text[index]
        if depth == 0 and text.startswith(separator, index):
            pieces.append(text[start:index])
            index += len(separator)
            start = index
            continue
        depth += (character in _OPEN) - (character in _CLOSE and not _arrow(text, index))
        index += 1
    return [*pieces, text[start:]] if text else []


def _last_word(head: str) -> str:
    """The name without the return type before it."""
    depth = 0
    for index in range(len(head) - 1, -1, -1):
        character = head[index]
        if character == " " and depth == 0:
            return head[index + 1 :]
        depth += (character in _CLOSE and not _arrow(head, index)) - (character in _OPEN)
    return head


def _split_template(piece: str) -> tuple[str, str | None]:
    at = piece.find("<")
    return (piece, None) if at <= 0 else (piece[:at], piece[at + 1 : piece.rfind(">")].strip())


def _matching(text: str, start: int) -> int:
    depth = 0
    for index in range(start, len(text)):
        depth += (text[index] in _OPEN) - (text[index] in _CLOSE and not _arrow(text, index))
        if depth == 0:
            return index
    return len(text)


def _arrow(text: str, index: int) -> bool:
    return text[index] == ">" and index > 0 and text[index - 1] == "-"

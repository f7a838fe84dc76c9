"""PTX, the compiler's assembly text: the few facts that a capture needs of it."""

from __future__ import annotations

import re

_COMMENT = re.compile(rb"//[^\n]*|/\*.*?(?:\*/|\Z)", re.DOTALL)
_TARGET = re.compile(rb"^\s*\.target\s+sm_(\d{1,4})([af]?)", re.MULTILINE)
_ENTRY = re.compile(rb"\.entry\s+([A-Za-z_$%][\w$]*)")
# A declaration outside of every function: space, alignment and attributes, type, name.
_VARIABLE = re.compile(
    rb"^[ \t]*(?:\.(?:visible|weak|common)\s+)*\.(?:global|const)\b"
    rb"((?:\s*\.(?:align\s+\d+|attribute\s*\([^)]*\)|v[24]|[usbf]\d+|f16x2|bf16|pred))*)\s+([A-Za-z_$%][\w$]*)",
    re.MULTILINE,
)
MAX_VARIABLES = 4096
MAX_SCANNED = 64 << 20


def is_ptx(data: bytes | memoryview) -> bool:
    """Whether it reads like PTX: text with a ``.version`` in its beginning."""
    head = bytes(data[:4096])
    return b"\0" not in head.rstrip(b"\0") and b".version" in head


def arch(text: bytes) -> tuple[int, str] | None:
    """(90, "a") for ``.target sm_90a``."""
    found = _TARGET.search(text[:65536])
    return (int(found[1]), found[2].decode()) if found else None


def without_comments(text: bytes) -> bytes:
    """As much of the text as is looked at."""
    return _COMMENT.sub(b"", text[:MAX_SCANNED])


def kernels(text: bytes) -> list[str]:
    return [name.decode() for name in _ENTRY.findall(without_comments(text))]


def variables(text: bytes) -> list[str]:
    """Names of the module's ``.global`` and ``.const`` variables."""
    names = []
    for found in _VARIABLE.finditer(without_comments(text)):
        name = found[2].decode()
        if not name.startswith("$"):
            names.append(name)
        if len(names) >= MAX_VARIABLES:
            break
    return names

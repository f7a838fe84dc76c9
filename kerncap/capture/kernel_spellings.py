"""A native kernel's names: as people say them, as a folder may be called."""

from __future__ import annotations

import re
from functools import lru_cache

from kerncap.capture import languages

MAX_STEM = 80


@lru_cache(maxsize=8192)  # a listing asks for those of each kernel to tell it from every other one
def spellings(mangled: str, demangled: str) -> tuple[str, ...]:
    """What a ``-k`` may mean the kernel by: its full names, and the demangled one without its parameters
    and template arguments, with and without its namespaces."""
    found = languages.parse_name(mangled, demangled)
    scopes = [scope or "(anonymous namespace)" for scope in found.scopes]
    whole = [found.readable] if found.readable else []
    every = [mangled, demangled or mangled, *whole, "::".join([*scopes, found.base]), found.base]
    return tuple(dict.fromkeys(every))


def base_name(symbol: str) -> str:
    """A kernel's name without namespaces, template arguments and parameters."""
    return spellings(symbol, symbol)[-1]


def short_name(mangled: str, demangled: str) -> str:
    """The last component without template arguments: safe as a folder's name, at most 80 characters."""
    base = languages.parse_name(mangled, demangled).base
    plain = re.sub(r"[^A-Za-z0-9._-]+", "_", base).strip("._")[:MAX_STEM]
    return plain or "kernel"

"""What of a unit's device code a kernel leads to: the unit's other kernels may need code of other units."""

from __future__ import annotations

import bisect
import re
from collections import defaultdict
from collections.abc import Iterable, Mapping

from kerncap.format.elf import FUNCTION, OBJECT, RELA, SYMTAB, Elf

_HEAD = re.compile(
    r"^[ \t]*(?:\.(?:visible|weak|extern)\s+)*\.(?:entry|func)\s+(?:\([^)]*\)\s*)?"
    r"(?P<name>[A-Za-z_$%][\w$%]*)[^;{]*(?P<end>[;{])",
    re.MULTILINE,
)
_IDENTIFIER = re.compile(r"[A-Za-z_$%][\w$%]*")
_BRACE = re.compile(r'"[^"\n]*"|//[^\n]*|/\*.*?\*/|[{}]', re.DOTALL)


def kernel_alone(ptx: str, kernel: str) -> str:
    """PTX without the functions that neither ``kernel`` nor a variable leads to."""
    bodies, declared = _functions(ptx)
    outside = re.sub("//.*", "", _without(ptx, [*bodies.values(), *declared]))  # comments name each function
    kept = _reached([kernel, *_IDENTIFIER.findall(outside)], _used(ptx, bodies))
    return _without(ptx, [span for name, span in bodies.items() if name not in kept])


def names_in_ptx(ptx: str, kernel: str) -> set[str]:
    """What ``kernel`` and the functions that it leads to name."""
    return _reached([kernel], _used(ptx, _functions(ptx)[0]))


def undefined_in_code_object(data: bytes, kernel: str) -> frozenset[str]:
    """The mangled names that ``kernel`` leads to and that nothing defines.

    The code object was linked with each function in a section of its own, and has its relocations: where
    code or data lead from one symbol to another, there is one. Raises ValueError if it can't be read.
    """
    elf = Elf(data)
    symbols = {symbol.index: symbol for symbol in elf.symbols()}
    places = sorted(
        (each.value, each.name)
        for each in symbols.values()
        if each.section and each.type in (FUNCTION, OBJECT)
    )

    def at(address: int) -> str:
        """What lies there; data without a name counts to what lies before it."""
        index = bisect.bisect_right(places, (address, "\uffff")) - 1
        return places[index][1] if index >= 0 else ""

    used: dict[str, set[str]] = defaultdict(set)
    for section in elf.sections:
        if section.type != RELA or elf.sections[section.link].type != SYMTAB:
            continue
        if section.name.startswith(".rela.debug"):
            continue
        for each in elf.relocations(section):
            target = symbols.get(each.symbol)
            if target is not None:
                used[at(each.offset)].add(target.name or at(target.value + each.addend))
    missing = {symbol.name for symbol in symbols.values() if not symbol.section}
    return frozenset(missing & _reached([kernel, f"{kernel}.kd"], used))


def _functions(ptx: str) -> tuple[dict[str, tuple[int, int]], list[tuple[int, int]]]:
    """Where functions are defined, by their names, and where some are only declared."""
    bodies: dict[str, tuple[int, int]] = {}
    declared: list[tuple[int, int]] = []
    at = 0
    while head := _HEAD.search(ptx, at):
        if head["end"] == ";":
            at = head.end()
            declared.append((head.start(), at))
        else:
            at = _closed(ptx, head.start("end"))
            bodies[head["name"]] = head.start(), at
    return bodies, declared


def _used(ptx: str, bodies: Mapping[str, tuple[int, int]]) -> dict[str, set[str]]:
    return {name: set(_IDENTIFIER.findall(ptx, *span)) for name, span in bodies.items()}


def _reached(names: Iterable[str], used: Mapping[str, set[str]]) -> set[str]:
    found: set[str] = set()
    waiting = list(names)
    while waiting:
        name = waiting.pop()
        if name not in found:
            found.add(name)
            waiting += used.get(name, ())
    return found


def _closed(text: str, start: int) -> int:
    """Behind the brace that closes the one at ``start``."""
    depth = 0
    for found in _BRACE.finditer(text, start):
        depth += {"{": 1, "}": -1}.get(found.group(), 0)
        if depth == 0:
            return found.end()
    return len(text)


def _without(text: str, spans: Iterable[tuple[int, int]]) -> str:
    kept, at = [], 0
    for start, end in sorted(spans):
        kept.append(text[at:start])
        at = end
    return "".join([*kept, text[at:]])

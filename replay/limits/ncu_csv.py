"""Reads what ``ncu --csv --page raw`` prints: a row of names, a row of units, a row for each kernel."""

from __future__ import annotations

import csv
import io
import math
from collections.abc import Mapping
from dataclasses import dataclass

from kerncap.errors import ReplayError

_MAX_CHARACTERS = 64 << 20
# What a unit is a multiple of; the rest of a unit ("/second", "/cycle") is kept as it is.
_PREFIXES = {"n": 1e-9, "u": 1e-6, "m": 1e-3, "K": 1e3, "M": 1e6, "G": 1e9, "T": 1e12}
_BASES = ("byte", "second", "cycle", "inst", "hz", "sector", "thread", "warp", "request", "op")
_SHORT = {"ns": 1e-9, "us": 1e-6, "usecond": 1e-6, "nsecond": 1e-9, "ms": 1e-3, "msecond": 1e-3, "s": 1.0}


@dataclass(frozen=True)
class KernelRow:
    """One kernel of a report. ``metrics`` are numbers in base units (bytes, seconds, per cent as they are);
    ``texts`` whatever was no number; ``units`` as ncu printed them."""

    kernel: str
    metrics: Mapping[str, float]
    texts: Mapping[str, str]
    units: Mapping[str, str]

    def first(self, *names: str) -> tuple[str, float] | None:
        """The first of these metrics that the report has: which are there differs between chips."""
        for name in names:
            if name in self.metrics:
                return name, self.metrics[name]
        return None

    def value(self, *names: str) -> float | None:
        found = self.first(*names)
        return None if found is None else found[1]


def parse(text: str) -> list[KernelRow]:
    """The kernels of the text. Raises ReplayError for one that is no such table.

    Lines before the header (``==PROF== …``) are skipped. Numbers may have commas between thousands.
    """
    if len(text) > _MAX_CHARACTERS:
        raise ReplayError(f"ncu printed {len(text)} characters; at most {_MAX_CHARACTERS} are read")
    lines = text.splitlines(keepends=True)
    start = next((i for i, line in enumerate(lines) if _is_header(line)), None)
    if start is None:
        said = text.strip().splitlines()[-1:] or ["nothing"]
        raise ReplayError(f"ncu printed no table with a column 'Kernel Name': {said[0][:300]}")
    rows = [row for row in csv.reader(io.StringIO("".join(lines[start:]))) if row]
    header, rest = rows[0], [row for row in rows[1:] if len(row) == len(rows[0])]
    units: dict[str, str] = {}
    if rest and not _cell(header, rest[0], "Kernel Name"):
        units = {name: unit for name, unit in zip(header, rest[0], strict=True) if unit}
        rest = rest[1:]
    return [_row(header, row, units) for row in rest]


def _is_header(line: str) -> bool:
    return "Kernel Name" in line and line.lstrip().startswith(('"ID"', "ID,"))


def _cell(header: list[str], row: list[str], name: str) -> str:
    return row[header.index(name)] if name in header else ""


def _row(header: list[str], row: list[str], units: Mapping[str, str]) -> KernelRow:
    metrics: dict[str, float] = {}
    texts: dict[str, str] = {}
    for name, cell in zip(header, row, strict=True):
        number = _number(cell)
        if number is None:
            texts[name] = cell
        else:
            metrics[name] = number * _factor(units.get(name, ""))
    return KernelRow(_cell(header, row, "Kernel Name"), metrics, texts, dict(units))


def _number(cell: str) -> float | None:
    """A number as ncu prints it: ``1,234.5``; some cells have an instance list behind it.

    None for ``nan`` too, which ncu prints for a counter that it could not read (others used the GPU).
    """
    head = cell.strip().split(" ", 1)[0]
    try:
        found = float(head.replace(",", ""))
    except ValueError:
        return None
    return found if math.isfinite(found) else None


def _factor(unit: str) -> float:
    """What a number of this unit is multiplied by to be in base units."""
    if unit in _SHORT:
        return _SHORT[unit]
    above, _, below = unit.partition("/")
    factor = _prefix(above)
    return factor / _prefix(below) if below else factor


def _prefix(unit: str) -> float:
    if unit in _SHORT:
        return _SHORT[unit]
    if unit and unit[0] in _PREFIXES and unit[1:].lower().startswith(_BASES):
        return _PREFIXES[unit[0]]
    return 1.0

"""Histograms and maps of errors as text."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any

_MOST_BINS = 8
_BAR = 12
_SHADES = ".123456789#"  # none, tenths, all
_SPECIAL = "N"


def histogram_lines(histograms: Sequence[Any]) -> list[str]:
    """How many err by how much: a column for each measure."""
    columns = [column for one in histograms if (column := _histogram(one))]
    if not columns:
        return []
    height = max(map(len, columns))
    widths = [max(map(len, column)) for column in columns]
    rows = zip(*(column + [""] * (height - len(column)) for column in columns), strict=True)
    lines = ["   ".join(f"{cell:<{width}}" for cell, width in zip(row, widths, strict=True)) for row in rows]
    special = max(one.special for one in histograms)
    none = histograms[0].none
    rest = [f"{none:,} are the same value in other bits"] if none else []
    rest += [f"{special:,} have no such error (NaN, infinity, or from zero)"] if special else []
    return [*(line.rstrip() for line in lines), *([f"and {', '.join(rest)}"] if rest else [])]


def _histogram(one: Any) -> list[str]:
    bins = _fewer(one.bins)
    if not bins:
        return []
    most = max(count for _, _, count in bins)
    edge = _power_of_two if one.measure == "ulps" else _edge
    edges = [f"{edge(least)} to {edge(below)}" for least, below, _ in bins]
    wide, width = max(map(len, edges)), len(f"{most:,}")
    return [
        "ulps" if one.measure == "ulps" else f"{one.measure} error",
        *(
            f"  {shown:>{wide}} {count:>{width},} {'#' * max(1, round(_BAR * count / most))}"
            for shown, (_, _, count) in zip(edges, bins, strict=True)
        ),
    ]


def heat_lines(heat: Any) -> list[str]:
    """The map: a cell is ``.`` if nothing differs, a digit for the tenths that do, ``#`` for all."""
    if heat is None:
        return []
    if heat.different == heat.elements and not any(map(any, heat.special)):
        return ["where: everywhere"]
    if heat.wrapped:
        cell = f"{heat.column_step:,} elements" if heat.column_step > 1 else "one element"
        head = f"where (a cell is {cell}, rows run on):"
    else:
        cell = f"{heat.row_step:,} x {heat.column_step:,}"
        head = f"where (a cell is {cell}; {heat.rows:,} rows, {heat.columns:,} columns):"
    labels = [
        f"{row * heat.row_step * (heat.columns if heat.wrapped else 1):,}"
        for row in range(len(heat.different))
    ]
    width = max(map(len, labels))
    lines = [head]
    for label, different, elements, special in zip(
        labels, heat.different, heat.elements, heat.special, strict=True
    ):
        cells = zip(different, elements, special, strict=True)
        row = "".join(" " if not n else _SPECIAL if s else _shade(d, n) for d, n, s in cells)
        lines.append(f"  {label:>{width}} {row}".rstrip())
    if any(map(any, heat.special)):
        lines.append(f"  {_SPECIAL}: NaN or infinite on one side only")
    return lines


def _shade(different: int, elements: int) -> str:
    if not different:
        return _SHADES[0]
    if different >= elements:
        return _SHADES[-1]
    return _SHADES[1 + min(8, 10 * different // elements)]


def _fewer(bins: Sequence[Any]) -> list[tuple[float, float, int]]:
    """Neighbours joined until there are few enough to be looked at."""
    found = [(one.least, one.below, one.count) for one in bins]
    step = -(-len(found) // _MOST_BINS) if found else 1
    groups = [found[at : at + step] for at in range(0, len(found), step)]
    return [(group[0][0], group[-1][1], sum(count for _, _, count in group)) for group in groups]


def _power_of_two(value: float) -> str:
    return str(round(value)) if 1 <= value <= 64 else f"2^{round(math.log2(value))}"


def _edge(value: float) -> str:
    return f"{value:.3g}"

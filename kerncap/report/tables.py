"""Aligned columns as plain text: nothing is cut, so that a command in a cell can be copied."""

from __future__ import annotations

from collections.abc import Sequence

from kerncap.printable import visible

_LONGEST = 1 << 20  # characters of a cell: a table is for what can be looked at


def table(headers: Sequence[str], rows: Sequence[Sequence[str]], right: Sequence[int] = ()) -> str:
    """Columns as wide as their widest cell; ``right`` names those that align right; the last is free.

    No cell ends its line, for any content.
    """
    rows = [[visible(cell, _LONGEST) for cell in row] for row in rows]
    widths = [max(len(row[column]) for row in (headers, *rows)) for column in range(len(headers))]
    lines = []
    for row in (headers, *rows):
        cells = [
            cell.rjust(width) if column in right else cell.ljust(width)
            for column, (cell, width) in enumerate(zip(row, widths, strict=True))
        ]
        lines.append("  ".join(cells).rstrip())
    return "\n".join(lines) + "\n"

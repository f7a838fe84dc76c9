"""Reads of unwritten memory by torch itself, as text and SARIF."""

from __future__ import annotations

from collections.abc import Iterator

from kerncap.printable import visible
from kerncap.report.sanitize_finding import place, shown_path, source_lines
from kerncap.sanitizer.findings import HostRead
from kerncap.sanitizer.ttir.ir import Frame, Location

_SHOWN_FRAMES = 6


def location_of(read: HostRead) -> Location:
    """The innermost frame of the program."""
    if not read.python_stack:
        return Location()
    file, line, _ = read.python_stack[-1]
    return Location((Frame(file, line, 0),))


def message_of(read: HostRead) -> str:
    """``aten::sum uses 128 unwritten elements of 640 in self (float32[10, 64]), first [8, 0]``."""
    total = 1
    for extent in read.shape:
        total *= extent
    tensor = f"{read.argument} ({read.dtype}{list(read.shape)})"
    if total == 1:
        return f"{read.operation} uses {tensor}, which is unwritten"
    return (
        f"{read.operation} uses {read.unwritten:,} unwritten elements of {total:,} in {tensor}, "
        f"first {list(read.first)}"
    )


def lines_of(read: HostRead) -> Iterator[str]:
    """Message, source with its context, then both places."""
    location = location_of(read)
    yield f"  error[uninit]: {visible(message_of(read))}"
    yield f"    --> {place(location)}"
    yield from source_lines(location, {})
    for name, stack in (("used     ", read.python_stack), ("allocated", read.allocated)):
        for file, line, function in reversed(stack[-_SHOWN_FRAMES:]):
            yield f"    {name}  {visible(f'{shown_path(file)}:{line} in {function}')}"


def known_read_line(read: HostRead) -> str:
    """One that a baseline has."""
    return f"  known[uninit]: {place(location_of(read))}: {visible(message_of(read))}"

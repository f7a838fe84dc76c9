"""Lines on stderr, the only place for what is not a result; strangers' text is escaped."""

from __future__ import annotations

import sys
import threading
from pathlib import Path

from kerncap.printable import printable, visible

_lock = threading.Lock()


def line(text: str) -> None:
    """Write ``kerncap: text`` to stderr as one piece; a closed stderr is no error."""
    block("".join(f"kerncap: {part}\n" for part in text.rstrip("\n").split("\n")))


def block(text: str) -> None:
    """Write a prepared block (a table, a listing) to stderr in one piece.

    One write per block, because the target shares the same descriptor: its own lines
    may come between two blocks, not into the middle of one.
    """
    if sys.stderr is None:  # started with it closed
        return
    with _lock:
        try:
            sys.stderr.write(printable(text if text.endswith("\n") or not text else text + "\n"))
            sys.stderr.flush()
        except (OSError, ValueError):
            pass  # nobody reads it any more; the result does not depend on that


def from_here(path: Path | str) -> str:
    """A path as it is opened from the working folder, if it lies in that."""
    try:
        return str(Path(path).relative_to(Path.cwd()))
    except (ValueError, OSError):  # it lies elsewhere; the working folder was deleted
        return str(path)


def size(count: int) -> str:
    """Bytes for people: ``1.2 GiB``, ``12 KiB``, ``96 B``."""
    value = float(count)
    for unit in ("B", "KiB", "MiB", "GiB"):
        if value < 1024:
            return f"{value:.0f} {unit}" if unit == "B" or value >= 100 else f"{value:.1f} {unit}"
        value /= 1024
    return f"{value:.1f} TiB"


def counted(count: int, noun: str) -> str:
    """``1 launch``, ``2,048 launches``."""
    ending = "" if count == 1 else "es" if noun.endswith(("h", "s")) else "s"
    return f"{count:,} {noun}{ending}"


def duration(nanoseconds: int) -> str:
    """A time for people: ``830 us``, ``12 ms``, ``3.4 s``."""
    value = float(nanoseconds)
    for unit in ("ns", "us", "ms"):
        if value < 1000:
            return f"{value:.0f} {unit}" if unit == "ns" or value >= 10 else f"{value:.1f} {unit}"
        value /= 1000
    return f"{value:.1f} s"


def one_line(text: object, limit: int = 600) -> str:
    """Prose on one line: line ends become blanks, the rest `printable`; cut at ``limit``."""
    return visible(str(text).replace("\n", " ").replace("\t", " ").strip(), limit)

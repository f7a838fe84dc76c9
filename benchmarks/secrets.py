"""How fast the search for private things goes through text, against SHA-256 of the same bytes.

Ordinary sources, and texts that are made to take long. What counts is that none is far from the others: the
search is linear, whatever the text.
"""

from __future__ import annotations

import hashlib
import sys
import time
from collections.abc import Callable
from pathlib import Path

from _harness import ROOT, Row, arguments, finish

from kerncap.format.private import Names, Scrubber
from kerncap.format.private.pieces import secrets_of

SIZE = 4 << 20
TEXTS = {
    "letters of a JWT": b"eyJ-",
    "a name a few bytes": b"token",
    "assignments alone": b"key=aaaa;",
    "beginnings of URLs": b"://a:",
    "beginnings of keys": b"-----BEGIN PRIVATE KEY-----\n",
    "one long run": b"a1B2c3D4",
    "secrets alone": b"password=hunter2;",
}


def sources() -> bytes:
    """The project's own Python, as often as it takes."""
    own = b"\n".join(path.read_bytes() for path in sorted(Path(ROOT / "kerncap").rglob("*.py")))
    return (own * (SIZE // len(own) + 1))[:SIZE]


def seconds(work: Callable[[], object]) -> float:
    start = time.process_time()
    work()
    return time.process_time() - start


def main() -> int:
    given = arguments(__doc__).parse_args()
    secrets_of(b"warm")
    texts = {"sources": sources()} | {
        name: (unit * (SIZE // len(unit) + 1))[:SIZE] for name, unit in TEXTS.items()
    }
    rows = []
    for name, text in texts.items():
        hashed = min(seconds(lambda text=text: hashlib.sha256(text).digest()) for _ in range(3))  # type: ignore[misc]
        took = min(seconds(lambda text=text: secrets_of(text)) for _ in range(3))  # type: ignore[misc]
        half = min(seconds(lambda text=text: secrets_of(text[: SIZE // 2])) for _ in range(3))  # type: ignore[misc]
        rows.append(Row(name, SIZE / 1e6 / took, "MB/s", "SHA-256", hashed / took))
        looked = min(seconds(lambda text=text: Scrubber(Names()).look("x.txt", text)) for _ in range(3))  # type: ignore[misc]
        rows.append(Row(f"{name}: people too", SIZE / 1e6 / looked, "MB/s", "SHA-256", hashed / looked))
        rows.append(Row(f"{name}: twice the text", took, "s", "half of it", took / half, most=2.6))
    return finish("secrets", rows, given.json)


if __name__ == "__main__":
    sys.exit(main())

"""The page of a stranger's reproducer: nothing in it, drawn at once or later, steers or hides text."""

from __future__ import annotations

import base64
import json
import re
import zlib
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from kerncap.api.report import report
from kerncap.printable import printable
from tests.hostile.terminal.stranger import hostile_copy
from tests.parameters import first_of

BLOCK = re.compile(
    r'<script type="application/json" id="([^"]*)"( data-packed="deflate")?>(.*?)</script>', re.S
)


def _texts(value: Any) -> Iterator[str]:
    if isinstance(value, str):
        yield value
    elif isinstance(value, dict):
        for key, item in value.items():
            yield key
            yield from _texts(item)
    elif isinstance(value, list):
        for item in value:
            yield from _texts(item)


@first_of("version", ["v1.2", "v1.0", "v1.1", "v1.3"])
def test_nothing_raw(version: str, tmp_path: Path) -> None:
    made = report(hostile_copy(version, tmp_path), tmp_path / "page.html")
    page = made.path.read_text()
    assert [c for c in page if printable(c) != c] == []
    assert "\\x1b]0;t\\x07" in page
    blocks = 0
    for name, packed, text in BLOCK.findall(page):
        data = zlib.decompress(base64.b64decode(text)) if packed else text
        found = [one for one in _texts(json.loads(data)) if printable(one) != one]
        assert found == [], name
        blocks += 1
    assert blocks > 1

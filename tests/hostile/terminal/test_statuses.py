"""One table has all exit statuses, and no other page has another."""

from __future__ import annotations

import re
from pathlib import Path

from kerncap import errors, streams
from kerncap.answer import Answer
from kerncap.errors import KerncapError
from kerncap.exit_status import exit_status

ROOT = Path(__file__).parents[3]


def test_the_table_has_every_status() -> None:
    page = (ROOT / "docs/reference/cli.md").read_text()
    rows = re.findall(r"^\| (\d+|128 \+ n) \| ([^|]+) \|", page, re.MULTILINE)
    found = [status for status, _ in rows]
    assert found == ["0", "1", "2", "3", "4", "5", "70", "128 + n"]
    raised = {
        kind.exit_status
        for module in (errors, streams)
        for kind in vars(module).values()
        if isinstance(kind, type) and issubclass(kind, KerncapError)
    }
    answered = {exit_status(answer) for answer in Answer}
    assert raised | answered == {int(status) for status in found if status.isdigit()}
    assert f"{streams.NobodyReads.exit_status}: the reader of stdout has gone" in page


def test_no_page_repeats_it() -> None:
    """A second list would not be kept."""
    pages = [ROOT / "README.md", *(ROOT / "docs").rglob("*.md")]
    listing = [page.name for page in pages if "3 the reproducer is malformed" in page.read_text()]
    assert listing == []

"""A seeded slice of hostile archives; `make fuzz` runs 100,000 of them."""

from __future__ import annotations

import os
import re
import shutil
from pathlib import Path

from tests.fuzz.archives import one_case
from tests.parameters import first_of

CASES = int(os.environ.get("KERNCAP_FUZZ_ARCHIVES", "2000"))
PARTS = 8
# A campaign has its machine for itself; of a slice, only what hangs is told.
LONGEST_S = 5.0 if CASES >= 100_000 else 100.0


@first_of("part", range(PARTS))
def test_nothing_but_one_line_comes_out(tmp_path: Path, part: int) -> None:
    refusals, whole = set(), 0
    for seed in range(part, CASES, PARTS):
        folder = tmp_path / "case"
        text = one_case(seed, folder, LONGEST_S)
        shutil.rmtree(folder)
        if text is None:
            whole += 1
        else:
            refusals.add(re.sub(r"'[^']*'|[0-9a-f]{6,}|\d+", "#", text.split(": ", 1)[1])[:60])
    # A campaign that always fails at the first check, or never, would prove nothing.
    assert len(refusals) >= 15 and whole >= CASES // PARTS // 50, (len(refusals), whole)

"""A seeded slice of the reader's fuzzing, without atheris: only FormatError may come out."""

from __future__ import annotations

import os
import re
from pathlib import Path

import pytest

from tests.fuzz.mutate import one_case

CASES = int(os.environ.get("KERNCAP_FUZZ_CASES", "300"))
PARTS = 6


@pytest.mark.parametrize("part", range(PARTS))
def test_only_format_errors_come_out(tmp_path: Path, part: int) -> None:
    errors = set()
    for seed in range(part, CASES, PARTS):
        text = one_case(seed, tmp_path)
        if text is not None:
            errors.add(re.sub(r"[0-9a-f]{6,}|\d+", "#", text.split(": ", 2)[2])[:60])
    # A campaign that always fails at the first check would prove nothing.
    assert len(errors) >= 10

"""Memory from each of the driver's allocators: seen, kept, placed again."""

from __future__ import annotations

import json

import pytest

from tests.integration.cuda.conftest import Bench
from tests.parameters import first_of


@first_of(
    ("case", "kind"),
    [
        ("managed", "managed"),
        ("pinned", "host"),
        ("registered", "host"),
        ("pool", "device"),
        ("segments", "device"),
        ("pitched", "device"),
        ("reused", "device"),
    ],
)
def test_an_allocator(bench: Bench, case: str, kind: str) -> None:
    last = ("--last", "1") if case == "pool" else ()  # the third round: blocks with two lives before
    captured = bench.capture("-k", "vector_add", *last, client=("memory_kinds", case))
    manifest = captured.manifest()
    assert kind in {region.kind for region in manifest.regions}
    bench.passes(captured.path)


def test_pieces_of_a_segment_that_were_taken_away_are_left_alone(bench: Bench) -> None:
    captured = bench.capture("-k", "vector_add", client=("memory_kinds", "segments"))
    # Four mappings of 2 MiB are left of six; neighbours count as one range, 64 were reserved.
    assert captured.manifest().closure.included_bytes <= 8 << 20


@pytest.mark.long
def test_what_of_an_arena_is_zero_is_no_reason_to_refuse_a_launch(bench: Bench) -> None:
    options = ("-k", "vector_add", "--max-size", "1MiB")
    captured = bench.capture(*options, client=("memory_kinds", "arena"), self_check=True)
    [check] = captured.document["self_checks"].values()
    assert check["result"] == "pass"
    manifest = captured.manifest()
    first, second = manifest.regions
    assert (first.size, second.size) == (2 << 20, 10 << 20)
    assert second.base - first.base == 190 << 20
    assert [zero.size for zero in manifest.zeros] == [188 << 20]
    assert any("are zeros before and after it" in note for note in manifest.notes)
    document = bench.judge(captured.path, "--candidate", bench.candidate("astray", 4))
    assert document["result"] == "fail"
    assert "memory that the application left zero" in json.dumps(document)

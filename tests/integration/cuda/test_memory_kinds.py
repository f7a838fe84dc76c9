"""Memory from each of the driver's allocators: seen, kept, placed again."""

from __future__ import annotations

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


def test_a_launch_that_is_given_a_texture_is_refused_by_name(bench: Bench) -> None:
    captured = bench.capture("-k", "sample", client=("memory_kinds", "texture"), expect=0)
    assert "parameter 0 is a texture or surface object" in captured.reason, captured.reason


def test_a_texture_is_named(bench: Bench) -> None:
    captured = bench.capture("-k", "vector_add", client=("memory_kinds", "texture"), expect=None)
    told = captured.reason + " ".join(captured.document["notes"]) + captured.done.stderr
    if captured.paths:
        told += " ".join(captured.manifest().notes)
    assert "texture" in told

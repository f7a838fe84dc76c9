"""Pointers with a tag in their upper bits: capture does not follow them, and a replay says so."""

from __future__ import annotations

from .conftest import Bench, Programs


def test_what_only_they_lead_to_is_named(shared_bench: Bench, programs: Programs) -> None:
    program = (programs("tagged"),)
    [path] = shared_bench.capture("-k", "tagged", program=program).paths
    document = shared_bench.judge(path)
    assert document["result"] == "undecided", document
    assert "and 63 more may have a tag in the upper bits" in " ".join(document["reasons"]), document
    [path] = shared_bench.capture("-k", "tagged", "--memory", "all", "-o", "all", program=program).paths
    assert shared_bench.judge(path)["result"] == "pass"

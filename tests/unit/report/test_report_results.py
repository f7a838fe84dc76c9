"""Documents beside a reproducer: told by their keys, checked, refused in one line."""

from __future__ import annotations

import json

import pytest

from kerncap.errors import UsageError
from kerncap.report.html.results import checked, told


@pytest.mark.parametrize(
    ("document", "kind"),
    [
        ({"judged_by": "it", "stages": []}, "verify"),
        ({"judged_by": "it"}, "replay"),
        ({"bounds": [], "times_ms": {}}, "limits"),
        ({"trials": [], "space": {}, "shapes": []}, "tune"),
        ({"launches": []}, "sanitize"),
        ({"claims": [], "metrics": {}, "device": "d"}, "profile"),
        ({"traceEvents": []}, "list"),
    ],
)
def test_documents_are_told_apart(document: dict[str, object], kind: str) -> None:
    assert told("x.json", json.dumps({"kernel": "k", "result": "pass", **document}).encode())[0] == kind


@pytest.mark.parametrize("data", [b"", b"[]", b"{", b'{"x": 1}', b"\xff", b"[" * 100_000])
def test_what_is_no_result_is_refused(data: bytes) -> None:
    with pytest.raises(UsageError, match="^x.json: "):
        told("x.json", data)


def test_a_wrong_type_is_named() -> None:
    document = {"result": "pass", "kernel": "k", "judged_by": 3}
    with pytest.raises(UsageError, match=r"kerncap verify --json.*judged_by"):
        checked("verify", document, "x.json")

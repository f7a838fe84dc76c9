"""What digests and arguments of two launches say; and files of recorded runs."""

from __future__ import annotations

from pathlib import Path

import pytest

from kerncap.api.diverge.launch_differences import Pair, pairs_of
from kerncap.api.diverge.noise import Noise
from kerncap.capture import trace_file
from kerncap.capture.payloads import HashedRegion, TracedRecord
from kerncap.errors import FormatError
from kerncap.format import schema
from kerncap.report.documents.diff import Change
from tests.unit.diverge.launches import digest, launch, run


def pair(a: TracedRecord, b: TracedRecord) -> Pair:
    [found] = pairs_of(run([a]), run([b]))
    return found


def test_memory_before_and_after() -> None:
    same = pair(launch("f"), launch("f"))
    assert (same.before, same.after, same.differs, same.changed) == ((), (), False, ())
    assert pair(launch("f", 0, 1), launch("f", 0, 2)).after == ("x",)
    late = pair(launch("f", 0, 1), launch("f", 5, 1))
    assert (late.before, late.differs) == (("x",), False)  # whatever was there: it left the same


def test_arguments() -> None:
    found = pair(launch("f"), launch("f", scale="2", grid=(4, 1, 1)))
    assert found.changed == (Change("grid", "1×1×1", "4×1×1"), Change("scale", "1", "2"))
    found = pair(launch("f"), launch("f", n=32))
    assert [(one.what, one.a, one.b) for one in found.changed] == [("x", "float32[64]", "float32[32]")]
    assert found.differs  # other sizes are other results


def test_an_address_is_no_value() -> None:
    def with_pointer(address: int) -> TracedRecord:
        value = schema.PointerValue(address=address, dtype="float32")
        return launch("f", arguments=(schema.Argument(name="p", role="runtime", value=value),))

    found = pair(with_pointer(4096), with_pointer(8192))
    assert not found.changed and found.uncompared == "p is a bare pointer, and its memory was not hashed"
    null = pair(with_pointer(0), with_pointer(0))
    assert not null.uncompared


def test_memory_that_holds_addresses_is_not_compared() -> None:
    def with_addresses(contents: object) -> TracedRecord:
        region = HashedRegion(4096, 256, before=digest(contents), after=digest(contents), addresses=True)
        return launch("f", hashed=(region,))

    found = pair(with_addresses(1), with_addresses(2))
    assert not found.differs and "x holds addresses" in found.uncompared


def test_what_was_not_hashed_and_what_raised() -> None:
    reason = "it is inside a graph capture"
    missing = pair(launch("f"), launch("f", hashed=(), reason=reason))
    assert not missing.differs and missing.uncompared == f"not hashed: {reason}"
    raised = pair(launch("f"), launch("f", hashed=(), error="ValueError: no"))
    assert raised.differs and raised.raised == (None, "ValueError: no")
    both = [launch("f", hashed=(), error="ValueError: no")] * 2
    assert not pair(*both).differs


def test_processes_are_paired_by_their_place() -> None:
    found = pairs_of(run([launch("f")], [launch("g")]), run([launch("f")]))
    assert [(one.process, one.is_matched) for one in found] == [(0, True), (1, False)]


def test_noise_is_where_one_side_differs_from_itself() -> None:
    """A: f is deterministic, g is not, and h follows from g."""
    a = run([launch("f", 0, 1), launch("g", 1, 2), launch("h", 2, 3)])
    again = run([launch("f", 0, 1), launch("g", 1, 7), launch("h", 7, 8)])
    b = run([launch("f", 0, 9), launch("g", 9, 8), launch("h", 8, 7), launch("k")])
    noise = Noise(0, a, again)
    found = {one.launch.kernel.name: one for one in pairs_of(a, b)}
    assert [(name, noise.explains(one)) for name, one in found.items()] == [
        ("f", False), ("g", True), ("h", True), ("k", False)
    ]  # fmt: skip
    assert noise.begins_at(found["g"]) and not noise.begins_at(found["h"])


def test_a_file_holds_what_was_recorded(tmp_path: Path) -> None:
    recorded = run([launch("f"), launch("g", scale="3")])
    trace_file.write(tmp_path / "t", recorded)
    assert trace_file.read(tmp_path / "t") == recorded


@pytest.mark.parametrize(
    "data, said",
    [
        (b"{", "not a trace"),
        (b"[]", "not a trace"),
        (b'{"format": "kerncap-reproducer"}', "its format is 'kerncap-reproducer'"),
        (b'{"version": 1}', "trace of version 1; this kerncap reads 3"),
        (b'{"processes": [{"pid": -1}]}', "processes"),
    ],
)
def test_what_is_no_trace_is_refused(tmp_path: Path, data: bytes, said: str) -> None:
    (tmp_path / "t").write_bytes(data)
    with pytest.raises(FormatError, match=said):
        trace_file.read(tmp_path / "t")


def test_a_view_of_nothing_is_refused(tmp_path: Path) -> None:
    trace_file.write(tmp_path / "t", run([launch("f")]))
    text = (tmp_path / "t").read_text().replace('"region":0', '"region":1')
    (tmp_path / "t").write_text(text)
    with pytest.raises(FormatError, match="a view of a region that does not exist"):
        trace_file.read(tmp_path / "t")

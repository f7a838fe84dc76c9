"""States of a native launch: in stripes, cut short by a fault."""

from __future__ import annotations

from typing import Any

import pytest

from kerncap.capture.target import TargetResult
from kerncap.format import Reproducer, schema
from kerncap.format.records import RecordKind
from tests.unit.capture.native_seal.session import CUBIN, Run
from tests.unit.capture.recorded import BASE, native_payload, pre_bytes


def test_stripes_are_read_as_one(run: Run) -> None:
    unit = schema.CHUNK_BYTES
    before = bytes(position // 1000 % 251 for position in range(5 * unit + 12_288))
    after = before[:unit] + bytes(reversed(before[unit : 2 * unit])) + before[2 * unit :]
    process = run.process()
    regions = [
        {"base": BASE, "size": 8192, "kind": "device", "device": 0},
        {"base": BASE + (1 << 30), "size": 5 * unit, "kind": "device", "device": 0},
    ]
    for number in range(3):
        rows = range(number, -(-len(before) // unit), 3)
        name = "0.pre" if number == 0 else f"0.pre.{number}"
        (process.folder / name).write_bytes(b"".join(before[row * unit : (row + 1) * unit] for row in rows))
    changed = [2, 4]
    for place, chunk in enumerate(changed):
        start = 8192 + chunk * unit
        name = "0.post" if place == 0 else f"0.post.{place}"
        (process.folder / name).write_bytes(after[start : start + unit])
    process.say(
        RecordKind.LAUNCH,
        native_payload(
            0,
            regions=regions,
            pre={"file": "0.pre", "stripes": 3, "stripe_bytes": unit},
            pre_offsets=[0, 8192],
            image=None,
        ),
    )
    process.say(
        RecordKind.COMPLETE,
        {
            "launch": 0,
            "status": "complete",
            "post": {"file": "0.post", "stripes": 2, "stripe_bytes": unit},
            "chunks": [[1, chunk] for chunk in changed],
        },
    )
    run.finish(process)
    [sealed] = run.collector.sealed
    with Reproducer.open(sealed.path) as reproducer:
        reproducer.verify()
        assert reproducer.read("pre", 0, 0, 8192) == before[:8192]
        assert reproducer.read("pre", 1, 0, 5 * unit) == before[8192 : 8192 + 5 * unit]
        for chunk in changed:
            start = 8192 + chunk * unit
            assert reproducer.read("post", 1, chunk * unit, unit) == after[start : start + unit]
    assert not list(process.folder.glob("0.pre*")) and not list(process.folder.glob("0.post*"))


@pytest.mark.parametrize(
    "state", [{"file": "0.pre", "stripes": 2}, {"file": "0.pre", "stripes": 65, "stripe_bytes": 1 << 20}]
)
def test_stripes_that_say_too_little_or_too_much_are_refused(run: Run, state: dict[str, Any]) -> None:
    process = run.process()
    process.native(0, CUBIN, pre=state)
    (process.folder / "0.pre").write_bytes(pre_bytes(0))
    (process.folder / "0.pre.1").write_bytes(b"")
    process.complete(0)
    run.finish(process)
    assert run.collector.sealed == [] and list(run.output.iterdir()) == []
    [process_log] = run.collector.processes.values()
    assert len(run.collector.failed) + len(process_log.complaints) >= 1


def test_a_launch_cut_short_under_on_fault_is_its_fault(run: Run) -> None:
    process = run.process()
    process.native(0, CUBIN, condition="on_fault")
    run.finish(process, target=TargetResult(139, 4242, signal=11))
    manifest = run.only()
    assert manifest.oracle.kind == "fault" and "SIGSEGV" in (manifest.oracle.error or "")

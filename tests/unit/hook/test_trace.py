"""`kerncap trace`: digests of a launch's memory, and what has none."""

from __future__ import annotations

import struct
from typing import Any

from kerncap.capture import payloads
from kerncap.format.records import RecordKind
from tests import traced_digests
from tests.unit.hook.conftest import ADD, Run

PROGRAM = (
    ADD
    + """
@triton.jit
def indirect(addresses, out, BLOCK: tl.constexpr):
    i = tl.arange(0, BLOCK)
    tl.store(out + i, tl.load(tl.load(addresses).to(tl.pointer_type(tl.float32)) + i))

x, out = torch.ones(64), torch.zeros(64)
add[(1,)](x, x, out, 64, BLOCK=64)
add[(1,)](out[32:], x, out, 32, BLOCK=32)
indirect[(1,)](torch.tensor([x.data_ptr()]), out, BLOCK=8)
try:
    add[(1,)](x, None, out, 64, BLOCK=64)
except Exception:
    print("raised")
"""
)


def digest(*values: float) -> str:
    return traced_digests.digest(struct.pack(f"<{len(values)}f", *values))


def traced(run: Run, program: str, **options: Any) -> list[payloads.TracedRecord]:
    found = run(program, list_only=True, trace=True, **options)
    assert found.status == 0, found.stderr
    records = found.only.all(RecordKind.TRACED)
    return [payloads.convert(record, payloads.TracedRecord, "TRACED") for record in records]


def test_what_a_launch_finds_and_leaves(run: Run) -> None:
    first, second, third, last = traced(run, PROGRAM)
    assert [(one.kernel.name, one.ordinal, one.launch) for one in (first, second, third, last)] == [
        ("add", 0, 0), ("add", 1, 1), ("indirect", 0, 2), ("add", 2, 3)
    ]  # fmt: skip
    ones, twos = digest(*[1.0] * 64), digest(*[2.0] * 64)
    assert [(one.before, one.after) for one in first.hashed] == [
        (ones, ones), (digest(*[0.0] * 64), twos)
    ]  # fmt: skip
    # A part of a tensor is hashed with its storage, which it shares with `out`: one region for both.
    names = {view.name: view.region for view in second.views}
    assert names["x"] == names["out"] and len(second.hashed) == 2
    assert second.hashed[names["out"]].after == digest(*[3.0] * 32, *[2.0] * 32)
    assert first.python_stack[0][0].endswith("target.py") and len(first.python_stack) == 1


def test_memory_of_several_chunks(run: Run) -> None:
    program = (
        ADD
        + """
data = torch.arange(40_003, dtype=torch.uint8)  # ten chunks, the last of them with a part of a word
add[(1,)](data, data, data, 3, BLOCK=4)
"""
    )
    [found] = traced(run, program, chunk_bytes=4096)
    before = bytes(i % 256 for i in range(40_003))
    after = bytes([0, 2, 4]) + before[3:]
    assert [(one.before, one.after) for one in found.hashed] == [
        (traced_digests.digest(before, 4096), traced_digests.digest(after, 4096))
    ]  # fmt: skip


def test_addresses_and_errors(run: Run) -> None:
    *_, indirect, last = traced(run, PROGRAM)
    assert [one.addresses for one in indirect.hashed] == [True, False, False]
    assert last.error is not None and not last.hashed and last.reason is None
    assert {argument.name for argument in last.arguments} == {"x", "y", "out", "n", "BLOCK"}


def test_numbers_are_no_addresses(run: Run) -> None:
    program = (
        ADD
        + """
x = torch.tensor([0, 7, 5_000_000, -1, 2**62])
add[(1,)](x, x, x, 4, BLOCK=4)
"""
    )
    [found] = traced(run, program)
    assert [one.addresses for one in found.hashed] == [False]


def test_only_what_is_asked_for(run: Run) -> None:
    assert [one.kernel.name for one in traced(run, PROGRAM, kernel="^indirect$")] == ["indirect"]
    assert [(one.kernel.name, one.ordinal) for one in traced(run, PROGRAM, launch=(1, 3))] == [
        ("add", 1), ("add", 2)
    ]  # fmt: skip


def test_what_is_too_large_is_said(run: Run) -> None:
    found = traced(run, PROGRAM, max_size=300)
    assert found[0].reason is not None and "more than 300 bytes" in found[0].reason and not found[0].hashed

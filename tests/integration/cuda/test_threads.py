"""Other threads, other streams, a kernel that waits for the host: consistent or released, never stuck."""

from __future__ import annotations

import struct

import pytest

from tests.integration.cuda.conftest import Bench, opened
from tests.parameters import first_of


@pytest.mark.long
def test_one_thread_captures_while_seven_allocate_free_and_launch(bench: Bench) -> None:
    captured = bench.capture("-k", "mix", "--launch", "10:14", client=("threads",), expect=4)
    for path in captured.paths:
        manifest = captured.manifest(path)
        parameters = manifest.launch.parameters
        assert parameters is not None
        address = int.from_bytes(bytes.fromhex(parameters.bytes)[:8], "little")
        own, region = next(
            (i, r) for i, r in enumerate(manifest.regions) if r.base <= address < r.base + r.size
        )
        with opened(path) as reproducer:
            before = struct.unpack("<2048I", reproducer.read("pre", own, address - region.base, 2048 * 4))
            after = struct.unpack("<2048I", reproducer.read("post", own, address - region.base, 2048 * 4))
        # Between launches all values of a block are equal: a torn snapshot would show.
        assert len(set(before)) == 1 and len(set(after)) == 1
        value = before[0]
        for _ in range(3):
            value = (value * 1664525 + 1013904223) % 2**32
        assert after[0] == value
        bench.passes(path)


@first_of("launch", [31, 0, 77])
@pytest.mark.parametrize("modules", ["shared", "own"])
def test_ordinals_count_launches_of_a_name(bench: Bench, launch: int, modules: str) -> None:
    # "own": eight modules with one kernel's name. A launch is the n-th of that name, whichever has it.
    captured = bench.capture("-k", "mix", "--launch", str(launch), client=("threads", modules))
    assert captured.manifest().launch.ordinal == launch


def test_a_kernel_that_polls_a_flag_of_a_gated_thread(bench: Bench) -> None:
    # The flag is set by a thread that the gate holds up: only opening it again ends the kernel.
    captured = bench.capture("-k", "increment", client=("flag", "before"), expect=None)
    if not captured.paths:
        assert "did not finish" in captured.reason or "stream" in captured.reason, captured.reason
    for path in captured.paths:
        bench.passes(path)


def test_what_a_busy_stream_waits_for_is_let_through(bench: Bench) -> None:
    """A kernel waits for a thread whose launches the capture holds: one passes, and it is captured."""
    captured = bench.capture("-k", "increment", client=("flag", "through"))
    notes = " ".join(captured.manifest().notes)
    assert "(last launched there: wait_for_flag(int volatile*, int*)) was busy for" in notes, notes
    assert "until other threads were let through: the launch of nothing(float*, int) in thread" in notes
    bench.passes(captured.path)


def test_a_stream_that_waits_for_the_thread_that_is_captured(bench: Bench) -> None:
    captured = bench.capture("-k", "increment", client=("flag", "own"), expect=0)
    assert "(last launched there: wait_for_flag(int volatile*, int*)) did not finish within 5 s" in (
        captured.reason
    )
    assert "it may wait for this launch or for what this thread does next" in captured.reason


@pytest.mark.long
def test_the_polling_kernel_itself(bench: Bench) -> None:
    captured = bench.capture("-k", "wait_for_flag", client=("flag", "itself"), expect=0)
    assert captured.done.status == 1
    assert "did not finish within 5 s after the launch, while the launch of increment(int*) in thread" in (
        captured.reason
    )
    # And the next match is taken all the same.
    captured = bench.capture("-k", "wait_for_flag|increment", client=("flag", "itself"), expect=1)
    assert captured.manifest().kernel.name == "increment"

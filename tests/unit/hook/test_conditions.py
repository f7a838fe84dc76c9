"""--on-fault, --when nonfinite, --when differs."""

from __future__ import annotations

import signal
import struct

from kerncap.format.records import RecordKind

from .conftest import ADD, Run


def floats(data: bytes) -> list[float]:
    return list(struct.unpack(f"<{len(data) // 4}f", data))


CRASH = """
import ctypes, torch, triton, triton.language as tl

@triton.jit
def step(x, crash: tl.constexpr):
    i = tl.arange(0, 4)
    v = tl.load(x + i)
    tl.store(x + i, v + 1)
    if crash:
        ctypes.memset(8, 0, 8)  # an address that nobody has

x = torch.zeros(4)
for n in range(5):
    print(n, flush=True)
    step[(1,)](x, crash=n == 3)
"""


def test_a_crash_leaves_its_pre_state_with_the_command_line(run: Run) -> None:
    outcome = run(CRASH, on_fault=True, keep_memfds=True)
    process = outcome.only
    assert outcome.status == -signal.SIGSEGV and outcome.stdout == "0\n1\n2\n3\n"
    dropped = [record["launch"] for record in process.all(RecordKind.DROPPED)]
    open_launch = [launch for launch in process.launches if launch["launch"] not in dropped]
    assert [launch["ordinal"] for launch in open_launch] == [3]
    assert open_launch[0]["condition"] == "on_fault" and open_launch[0]["pre"] == {"memfd": 0}
    assert not process.completes
    assert floats(process.pre(open_launch[0]["launch"], "x")) == [3.0] * 4
    assert list(process.memfds) == [0]  # one, used again for every launch


def test_without_a_socket_files_serve(run: Run) -> None:
    process = run(CRASH, on_fault=True).only
    assert process.launches[-1]["pre"] == {"file": "3.pre"}
    assert floats(process.pre(3, "x")) == [3.0] * 4
    assert [path.name for path in process.folder.glob("*.pre")] == ["3.pre"]


def test_an_interpreter_error_is_a_fault_and_still_raised(run: Run) -> None:
    script = CRASH.replace(
        "ctypes.memset(8, 0, 8)  # an address that nobody has", "tl.static_assert(False, 'boom')"
    )
    plain, outcome = run(script, hooked=False), run(script, on_fault=True, keep_memfds=True)
    process = outcome.only
    assert outcome.status == plain.status == 1
    assert outcome.stderr.splitlines()[-1] == plain.stderr.splitlines()[-1]
    complete = process.completes[0]
    assert complete["status"] == complete["oracle"] == "fault" and "InterpreterError" in complete["error"]
    assert floats(process.pre(complete["launch"], "x")) == [3.0] * 4


# Puts host memory in the device's place, so that the whole way of a conditional launch runs here.
STAND_IN = """
import contextlib, sys, types, torch, triton
from kerncap_triton import conditions, memory_state as state, torch_device as cuda
state.is_on_device = conditions.is_on_device = lambda region: True
made, clones_of, copy_out = [], cuda.clones_of, cuda.copy_out
cuda.clones_of = lambda regions, timeout_s: made.append(len(regions)) or clones_of(regions, timeout_s)
cuda.copy_out = lambda *given: made.append("fetched") or copy_out(*given)
Event = type("Event", (), {"record": lambda self, stream=None: None, "query": lambda self: True})
torch.cuda = types.SimpleNamespace(
    Event=Event, Stream=lambda device: None,
    device=lambda index: contextlib.nullcontext(), stream=lambda stream: contextlib.nullcontext(),
    is_initialized=lambda: False, mem_get_info=lambda index: (1 << 30, 1 << 40),
    memory_reserved=lambda index: 0, memory_allocated=lambda index: 0)
cuda._pinned_ring = lambda torch: [torch.empty(cuda.PIECE, dtype=torch.uint8) for _ in range(2)]
"""

NONFINITE = """
import torch, triton, triton.language as tl

@triton.jit
def divide(x, out, n, BLOCK: tl.constexpr):
    i = tl.arange(0, BLOCK)
    tl.store(out + i, 1.0 / tl.load(x + i, mask=i < n, other=1.0), mask=i < n)

out = torch.full((3, 4), float("nan"))
for step in range(10):
    x = torch.ones(3, 4)
    if step == 6:
        x[1, 2] = x[2, 3] = 0.0
    divide[(1,)](x, out, 12, BLOCK=16)
print(out[0, 0].item())
"""


def test_nonfinite_keeps_exactly_the_launch_that_made_it(run: Run) -> None:
    outcome = run(NONFINITE, when="nonfinite", keep_memfds=True, kernel="divide")
    process = outcome.only
    assert outcome.stdout == "1.0\n"
    assert [complete["launch"] for complete in process.completes] == [6]
    complete = process.completes[0]
    assert complete["oracle"] == "suspect" and complete["condition"] == "nonfinite"
    assert complete["detail"] == "out[1, 2] = inf, 2 elements"
    assert floats(process.pre(6, "x"))[6] == 0.0
    assert floats(process.post(6, "out"))[6] == float("inf")
    assert len(process.all(RecordKind.DROPPED)) == 6
    assert process.counts("__main__.divide")["filtered"] == {"ordinal": 3}


def test_a_nan_that_was_there_before_is_not_this_launchs(run: Run) -> None:
    script = ADD + "x = torch.full((8,), float('nan')); y = torch.ones(8)\nadd[(1,)](y, y, y, 0, BLOCK=8)\n"
    assert not run(
        script + "add[(1,)](x, y, y, 0, BLOCK=8)", when="nonfinite", keep_memfds=True
    ).only.completes


def test_nonfinite_sees_fp8_and_half(run: Run) -> None:
    script = """
import torch, triton, triton.language as tl
@triton.jit
def widen(x, out):
    i = tl.arange(0, 4)
    tl.store(out + i, tl.load(x + i) * 60000.0)
widen[(1,)](torch.full((4,), 60000.0, dtype=torch.float32), torch.zeros(4, dtype=torch.float16))
"""
    process = run(script, when="nonfinite", keep_memfds=True).only
    assert process.completes[0]["detail"] == "out[0] = inf, 4 elements"


DIFFERS = """
import torch, triton, triton.language as tl
CALLS = [0]

@triton.jit
def unstable(x, steady: tl.constexpr):
    i = tl.arange(0, 4)
    if not steady:
        CALLS[0] += 1
    tl.store(x + i, tl.load(x + i) + 1 + CALLS[0])

x = torch.zeros(4)
unstable[(1,)](x, True)
unstable[(1,)](x, False)
print(x.tolist())
"""


def test_differs_keeps_a_launch_that_does_not_repeat_and_restores_memory(run: Run) -> None:
    outcome = run(DIFFERS, when="differs", keep_memfds=True)
    process = outcome.only
    assert outcome.stdout == "[3.0, 3.0, 3.0, 3.0]\n"  # the application's own result, not the second one
    complete = process.completes[0]
    assert [r["launch"] for r in process.all(RecordKind.DROPPED)] == [0] and complete["launch"] == 1
    assert complete["oracle"] == "suspect" and complete["detail"].startswith("1 chunk differ")
    assert floats(process.pre(1, "x")) == [1.0] * 4 and floats(process.post(1, "x")) == [3.0] * 4


def test_on_a_device_only_the_kept_launch_is_fetched(run: Run) -> None:
    process = (
        outcome := run(
            STAND_IN + NONFINITE + "print(made)", when="nonfinite", keep_memfds=True, kernel="divide"
        )
    ).only
    # seven launches were copied there; of the last one the pre-state came, and what it had written
    assert outcome.stdout == f"1.0\n{[2] * 7 + ['fetched', 'fetched']}\n", outcome.stderr
    assert [complete["detail"] for complete in process.completes] == ["out[1, 2] = inf, 2 elements"]
    assert floats(process.pre(6, "x"))[6] == 0.0 and floats(process.post(6, "out"))[6] == float("inf")


def test_on_a_device_differing_results_are_found_there(run: Run) -> None:
    outcome = run(STAND_IN + DIFFERS + "print(made)", when="differs", keep_memfds=True)
    process = outcome.only
    assert outcome.stdout == f"[3.0, 3.0, 3.0, 3.0]\n{[1] * 4 + ['fetched', 'fetched']}\n", outcome.stderr
    assert [complete["launch"] for complete in process.completes] == [1]
    assert floats(process.pre(1, "x")) == [1.0] * 4 and floats(process.post(1, "x")) == [3.0] * 4


def test_on_a_device_a_fault_is_survived_on_the_host(run: Run) -> None:
    process = run(STAND_IN + CRASH, on_fault=True, keep_memfds=True).only
    assert floats(process.pre(3, "x")) == [3.0] * 4 and list(process.memfds) == [0]

"""Launches `add` some times, then ends in the way that its first argument names."""

import os
import signal
import sys

import torch
import triton
import triton.language as tl


@triton.jit
def add(x, y, out, n, BLOCK: tl.constexpr):
    offsets = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    mask = offsets < n
    tl.store(out + offsets, tl.load(x + offsets, mask=mask) + tl.load(y + offsets, mask=mask), mask=mask)


@triton.jit
def wild(x, index, n, BLOCK: tl.constexpr):
    offsets = tl.arange(0, BLOCK)
    mask = offsets < n
    far = tl.load(index + offsets, mask=mask, other=0)
    tl.store(x + far, tl.load(x + far, mask=mask), mask=mask)


def launch(count):
    for step in range(count):
        x = torch.full((300,), float(step))
        add[(2,)](x, x, torch.zeros(300), 300, BLOCK=256)
    print("launched", count, flush=True)


how, count = sys.argv[1], int(sys.argv[2])
launch(count)
if how == "segv":
    os.kill(os.getpid(), signal.SIGSEGV)
elif how == "kill":
    os.kill(os.getpid(), signal.SIGKILL)
elif how == "exit":
    os._exit(3)
elif how == "raise":
    raise RuntimeError("as asked")
elif how == "wild":
    wild[(1,)](torch.zeros(64), torch.full((64,), 1 << 44), 64, BLOCK=64)
elif how == "wait":
    sys.stdin.read()
elif how == "signal":

    def on_signal(number, frame):
        os.write(1, b"signal %d\n" % number)  # it may interrupt a print
        sys.exit(41)

    signal.signal(signal.SIGTERM, on_signal)
    print("ready", flush=True)
    while True:
        signal.pause()

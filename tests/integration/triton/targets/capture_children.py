"""Launches in children: forked, spawned, or a session of their own that outlives this process."""

import multiprocessing
import os
import sys

import torch
import triton
import triton.language as tl


@triton.jit
def mark(out, value, n, BLOCK: tl.constexpr):
    offsets = tl.arange(0, BLOCK)
    tl.store(out + offsets, tl.zeros((BLOCK,), tl.float32) + value, mask=offsets < n)


def launch(value):
    out = torch.zeros(16)
    mark[(1,)](out, float(value), 16, BLOCK=16)
    assert out.sum().item() == 16.0 * value


def forked():
    launch(1)
    child = os.fork()
    if child == 0:
        launch(2)
        os._exit(0)
    assert os.waitpid(child, 0)[1] == 0


def spawned():
    child = multiprocessing.get_context("spawn").Process(target=launch, args=(3,))
    child.start()
    child.join()
    assert child.exitcode == 0


def daemon():
    """The child launches once while the parent lives, and once more when it is gone."""
    ready_read, ready_write = os.pipe()
    alive_read, alive_write = os.pipe()
    if os.fork() == 0:
        os.setsid()
        os.close(alive_write)
        launch(4)
        os.write(ready_write, b"x")
        os.read(alive_read, 1)  # its end comes with the parent's
        launch(5)
        os._exit(0)
    os.read(ready_read, 1)


if __name__ == "__main__":
    {"fork": forked, "spawn": spawned, "daemon": daemon}[sys.argv[1]]()

"""Runs one launch in a forked child: a crash or a hang there ends the child alone.

Only for host memory, which is shared with the child; a CUDA context does not survive a fork.
"""

from __future__ import annotations

import faulthandler
import json
import os
import select
import signal
import sys
import time
import traceback
from collections.abc import Callable
from typing import Any


def run_isolated(launch: Callable[[], None], timeout_s: float) -> dict[str, Any]:
    """The outcome of ``launch``: status ok (with ``ns``), error, fault or timeout, and why."""
    read_fd, write_fd = os.pipe()
    sys.stdout.flush()
    sys.stderr.flush()
    pid = os.fork()
    if pid == 0:
        os.close(read_fd)
        _child(launch, write_fd)
    os.close(write_fd)
    try:
        data, finished = _read_all(read_fd, time.monotonic() + timeout_s)
    finally:
        os.close(read_fd)
    if not finished:
        os.kill(pid, signal.SIGKILL)
    _, status = os.waitpid(pid, 0)
    if not finished:
        return {"status": "timeout", "message": f"the kernel did not end within {timeout_s:g} s"}
    if os.WIFSIGNALED(status):
        name = signal.Signals(os.WTERMSIG(status)).name
        return {"status": "fault", "message": f"the kernel died with {name}"}
    try:
        outcome = json.loads(data)
    except ValueError:
        return {
            "status": "fault",
            "message": f"the kernel ended its process with status {os.WEXITSTATUS(status)}",
        }
    return dict(outcome)


def _child(launch: Callable[[], None], write_fd: int) -> None:
    try:
        faulthandler.enable(file=sys.stderr)
        outcome = run_here(launch)
        os.write(write_fd, json.dumps(outcome).encode()[: 1 << 20])
        sys.stdout.flush()
        sys.stderr.flush()
    finally:
        os._exit(0)  # no exit handlers: they belong to the process that forked


def run_here(launch: Callable[[], None]) -> dict[str, Any]:
    """The outcome of ``launch`` in this process."""
    start = time.perf_counter_ns()
    try:
        launch()
    except BaseException as error:  # a kernel may raise anything, SystemExit included
        detail = traceback.format_exc()
        cause: BaseException = error
        while cause.__cause__ is not None:
            cause = cause.__cause__
        return {"status": "error", "message": f"{type(cause).__name__}: {cause}", "detail": detail[-20000:]}
    return {"status": "ok", "ns": time.perf_counter_ns() - start}


def _read_all(fd: int, deadline: float) -> tuple[bytes, bool]:
    """Everything until end of file, and whether that came before the deadline."""
    parts: list[bytes] = []
    while True:
        left = deadline - time.monotonic()
        ready, _, _ = select.select([fd], [], [], max(0.0, left))
        if not ready:
            return b"".join(parts), False
        part = os.read(fd, 1 << 16)
        if not part:
            return b"".join(parts), True
        parts.append(part)

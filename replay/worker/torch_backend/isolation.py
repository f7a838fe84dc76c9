"""Loads a source module and runs one launch of it in a forked child: what it breaks, it breaks there.

A crash or a hang ends the child alone, and what the module's own code does to Python (patched functions,
closed descriptors) never reaches the process that compares. Only for host memory, which is shared with the
child; a CUDA context does not survive a fork.
"""

from __future__ import annotations

import contextlib
import ctypes
import faulthandler
import os
import re
import select
import signal
import sys
import time
import traceback
from collections.abc import Callable
from dataclasses import dataclass, replace
from pathlib import Path

from .. import typed_json
from ..common import printed
from ..common.failures import Refused
from ..protocol import Ended
from . import confine, replaced_functions

LEAST_LOAD_S = 10.0  # a module may take this long to load, however short a launch must be
MODULE_PREFIX = "_kerncap_source_"  # of the names of source modules
_PR_SET_CHILD_SUBREAPER = 36
_MOST_TEXT, _MOST_DETAIL = 1 << 20, 20_000  # characters
_DENIED = re.compile(r"PermissionError|Permission denied|Operation not permitted")


@dataclass(frozen=True)
class Rights:
    """What a module may do beside its launch; see `confine.confine`."""

    readable: list[str] | None = None
    memory_bytes: int | None = None


def run_isolated(
    load: Callable[[], Callable[[], None]], timeout_s: float, rights: Rights | None = None
) -> Ended:
    """How the launch ended that ``load`` gives.

    A load that fails is an error, or refused. The time limit is that of the launch alone. With ``rights``
    the module has no others.
    """
    ctypes.CDLL(None).prctl(_PR_SET_CHILD_SUBREAPER, 1, 0, 0, 0)
    others = _children()
    read_fd, write_fd = os.pipe()
    sys.stdout.flush()
    sys.stderr.flush()
    pid = os.fork()
    if pid == 0:
        os.close(read_fd)
        _child(load, write_fd, rights)
    os.close(write_fd)
    load_s = max(LEAST_LOAD_S, timeout_s)
    try:
        data, loaded, finished, ns = _read_all(read_fd, load_s, timeout_s)
    finally:
        os.close(read_fd)
    if not finished:
        os.kill(pid, signal.SIGKILL)
    _, status = os.waitpid(pid, 0)
    _end_strays(others)
    if not finished:
        what, limit_s = ("the kernel", timeout_s) if loaded else ("the module's own code", load_s)
        return Ended("timeout", f"{what} did not end within {limit_s:g} s")
    if os.WIFSIGNALED(status):
        number = signal.Signals(os.WTERMSIG(status))
        if number is signal.SIGKILL:  # which no instruction of a kernel raises
            return Ended("killed", "its process was killed")
        return Ended("fault", f"the kernel died with {number.name}")
    try:
        ended = typed_json.read(Ended, data)
    except typed_json.Unreadable:  # its code ended the process, or got at the pipe
        ended = Ended("fault")
    if ended.status in ("fault", "timeout", "killed"):  # which are not the child's to say
        return Ended("fault", f"the kernel ended its process with status {os.WEXITSTATUS(status)}")
    return replace(ended, ns=ns if ended.status == "ok" else 0)


def _child(load: Callable[[], Callable[[], None]], write_fd: int, rights: Rights | None) -> None:
    try:
        # The worker's own pipes are none of the kernel's business.
        for fd in map(int, os.listdir("/proc/self/fd")):
            if fd > 2 and fd != write_fd:
                with contextlib.suppress(OSError):
                    os.close(fd)
        faulthandler.enable(file=sys.stderr)
        clocks = replaced_functions.clocks()
        if rights is not None:
            confine.confine(rights.readable, memory_bytes=rights.memory_bytes)
        ended, launch = _loaded(load)
        if launch is not None and not (problem := replaced_functions.replaced_clocks(clocks)):
            os.write(write_fd, b"\n")
            ended = run_here(launch)
            problem = replaced_functions.replaced_clocks(clocks)
        if launch is not None and problem:
            ended = Ended("refused", problem)
        if rights is not None and _DENIED.search(ended.message):
            why = "while it is judged a candidate writes no file and opens no connection"
            ended = replace(ended, message=f"{ended.message} ({why})")
        printed.flush()  # before it is read
        typed_json.send(write_fd, typed_json.line(replace(ended, message=ended.message[:_MOST_TEXT])))
        sys.stderr.flush()
    finally:
        os._exit(0)  # no exit handlers: they belong to the process that forked


def _loaded(load: Callable[[], Callable[[], None]]) -> tuple[Ended, Callable[[], None] | None]:
    """The launch, or why there is none."""
    try:
        return Ended("ok"), load()
    except Refused as error:
        return Ended("refused", str(error)), None
    except BaseException as error:
        detail = getattr(error, "detail", "") or traceback.format_exc()
        message, place = str(error) or repr(error), getattr(error, "place", None)
        return Ended("error", message, detail[-_MOST_DETAIL:], place=place), None


def _children() -> set[int]:
    """The children of this process; none on a Linux that does not list them."""
    try:
        tasks = [Path(f"/proc/self/task/{task}/children") for task in os.listdir("/proc/self/task")]
        return {int(pid) for task in tasks for pid in task.read_text().split()}
    except OSError:
        return set()


def _end_strays(others: set[int]) -> None:
    """End what the child has started and left behind: it still has the memory that is compared next.

    The child's orphans become children of this process, its subreaper. ``others`` were there before.
    """
    while strays := _children() - others:
        for pid in strays:
            os.kill(pid, signal.SIGKILL)
            os.waitpid(pid, 0)


def run_here(launch: Callable[[], None]) -> Ended:
    """How ``launch`` ends in this process."""
    start = time.perf_counter_ns()
    try:
        launch()
    except BaseException as error:  # a kernel may raise anything, SystemExit included
        detail = traceback.format_exc()
        cause: BaseException = error
        while cause.__cause__ is not None:
            cause = cause.__cause__
        message = f"{type(cause).__name__}: {cause}".removesuffix(": ")
        return Ended("error", message, detail[-_MOST_DETAIL:], line=_line(cause) or _line(error))
    return Ended("ok", ns=time.perf_counter_ns() - start)


def _line(error: BaseException) -> int | None:
    """The last line of a source module that an error went through."""
    found, trace = None, error.__traceback__
    while trace is not None:
        if str(trace.tb_frame.f_globals.get("__name__", "")).startswith(MODULE_PREFIX):
            found = trace.tb_lineno
        trace = trace.tb_next
    return found


def _read_all(fd: int, load_s: float, launch_s: float) -> tuple[bytes, bool, bool, int]:
    """What the child says; whether its module was loaded, whether all came in time, how long the launch took.

    A line ends the load and one the outcome: other holders of the pipe are not waited for. The time is
    this process's: the child's clock is in the hands of the module.
    """
    data, loaded, began = b"", False, time.perf_counter_ns()
    deadline = time.monotonic() + load_s
    while True:
        ready, _, _ = select.select([fd], [], [], max(0.0, deadline - time.monotonic()))
        if not ready:
            return data, loaded, False, 0
        part = os.read(fd, 1 << 16)
        if not part:
            return data, loaded, True, time.perf_counter_ns() - began
        data += part
        if not loaded and data.startswith(b"\n"):
            loaded, deadline, began = True, time.monotonic() + launch_s, time.perf_counter_ns()
        if data.lstrip(b"\n").endswith(b"\n"):
            return data, loaded, True, time.perf_counter_ns() - began

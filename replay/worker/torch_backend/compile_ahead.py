"""Compiles configurations ahead of their launch, in forked children of a process that imported Triton once.

No device is touched: the arguments have the captured types and alignments, and the driver is a stand-in that
tells the target. What is compiled lies in Triton's own cache, where the process that launches finds it.
Started by `bootstrap.py`; requests and replies are JSON lines.
"""

from __future__ import annotations

import contextlib
import fcntl
import gc
import json
import os
import select
import signal
import sys
import time
import traceback
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

from .. import typed_json
from ..common.failures import KernelError, Refused
from ..compile_messages import Compilation, CompilationEnded, CompilerReply, Compiling, Target
from ..job import Job
from ..protocol import Config, Failure

_NUMBERS = ("COMPUTE_CAPABILITY_MAJOR", "COMPUTE_CAPABILITY_MINOR", "MAX_SHARED_MEMORY_PER_BLOCK_OPTIN")
_REPLY_BYTES = 1 << 16


class _Pool:
    """The children and what they were asked; this process loops in `serve`."""

    def __init__(
        self, jobs: list[Job], capability: int, processes: int, reply: Callable[[Any], None]
    ) -> None:
        self.jobs = jobs
        self.capability = capability
        self.processes = processes
        self.reply = reply
        self.waiting: list[Compilation] = []
        self.running: dict[int, tuple[int, Compilation, bytes, float]] = {}  # fd -> pid, request, data, end
        self.ties: dict[int, int] = {}  # pid -> fd; the kernel ends its group when this process ends

    def start_some(self) -> None:
        while self.waiting and len(self.running) < self.processes:
            request = self.waiting.pop(0)
            read_fd, write_fd = os.pipe()
            held, tie = os.pipe()
            sys.stdout.flush()
            sys.stderr.flush()
            pid = os.fork()
            if pid == 0:
                os.setpgid(0, 0)  # with what it starts (ptxas) it is ended
                os.close(read_fd)
                os.close(tie)  # else its own end would be waited for
                _child(self.jobs[request.job], self.capability, request, write_fd)
            os.close(write_fd)
            _bind(held, pid)
            self.ties[pid] = tie
            self.running[read_fd] = (pid, request, b"", time.monotonic() + request.limit_s)

    def hear(self, ready: list[int]) -> None:
        for fd in ready:
            pid, request, data, end = self.running[fd]
            part = os.read(fd, _REPLY_BYTES)
            if part:
                self.running[fd] = (pid, request, data + part, end)
            else:
                self._finish(fd)
        now = time.monotonic()
        for fd, (pid, _, _, end) in list(self.running.items()):
            if now > end:
                with contextlib.suppress(ProcessLookupError, PermissionError):
                    os.killpg(pid, signal.SIGKILL)
                self._finish(fd, timed_out=True)

    def _finish(self, fd: int, timed_out: bool = False) -> None:
        pid, request, data, _ = self.running.pop(fd)
        os.close(fd)
        if timed_out:
            with contextlib.suppress(ProcessLookupError):
                os.kill(pid, signal.SIGKILL)
        _, status = os.waitpid(pid, 0)
        os.close(self.ties.pop(pid))
        if timed_out:
            answer = CompilationEnded(request.id, f"it did not compile within {request.limit_s:g} s")
        else:
            try:
                answer = typed_json.read(CompilationEnded, data)
            except typed_json.Unreadable:
                how = (
                    signal.Signals(os.WTERMSIG(status)).name
                    if os.WIFSIGNALED(status)
                    else f"status {os.WEXITSTATUS(status)}"
                )
                answer = CompilationEnded(request.id, f"the compiler died with {how}")
        self.reply(replace(answer, id=request.id))

    def end(self) -> None:
        for pid, *_ in self.running.values():
            with contextlib.suppress(ProcessLookupError, PermissionError):
                os.killpg(pid, signal.SIGKILL)


def _bind(held: int, pid: int) -> None:
    """SIGKILL for the group of ``pid`` when the pipe that it holds has no writing end any more.

    As `Tie` in kerncap/child.py, which ends this process's own group alone.
    """
    with contextlib.suppress(OSError):  # it may be gone already
        os.setpgid(pid, pid)  # the child does so too, whichever comes first
    with contextlib.suppress(OSError):
        fcntl.fcntl(held, fcntl.F_SETOWN, -pid)
        fcntl.fcntl(held, fcntl.F_SETSIG, signal.SIGKILL)
        fcntl.fcntl(held, fcntl.F_SETFL, fcntl.fcntl(held, fcntl.F_GETFL) | os.O_ASYNC)
    os.close(held)


def serve(jobs_path: str, read_fd: int, write_fd: int, processes: int) -> None:
    """Answer compile requests until the pipe closes."""
    jobs = json.loads(Path(jobs_path).read_text())
    for fd in (read_fd, write_fd):
        os.set_inheritable(fd, False)

    def reply(answer: CompilerReply) -> None:
        typed_json.send(write_fd, typed_json.line(answer))

    try:
        asked = _ask(typed_json.fit(Target, jobs["target"]))
        _import()
        target = asked()
        _load_backend(target.capability)
        gc.freeze()  # a child that looks for garbage would copy the pages of all that is loaded
        gc.enable()
    except BaseException as error:
        reply(Failure("refused", f"{type(error).__name__}: {error}"))
        return
    reply(target)
    pool = _Pool(jobs["jobs"], target.capability, processes, reply)
    buffer = b""
    while True:
        pool.start_some()
        timeout = 1.0 if pool.running else None
        ready, _, _ = select.select([read_fd, *pool.running], [], [], timeout)
        pool.hear([fd for fd in ready if fd != read_fd])
        if read_fd in ready:
            part = os.read(read_fd, _REPLY_BYTES)
            if not part:
                pool.end()
                os._exit(0)  # an orderly end of a Python that has loaded torch takes half a second
            buffer += part
            *lines, buffer = buffer.split(b"\n")
            pool.waiting += [typed_json.read(Compilation, line) for line in lines]


def _import() -> None:
    """Whatever every child would have to load and hash for itself."""
    import torch  # noqa: F401
    import triton.language
    import triton.runtime.jit  # noqa: F401

    from ..triton_launch import config  # noqa: F401
    from . import compile_source  # noqa: F401
    from .warm_triton import warm

    warm()


def _load_backend(capability: int) -> None:
    from triton.backends.compiler import GPUTarget
    from triton.compiler import compiler

    with contextlib.suppress(Exception):  # kept by the backend for later calls; that is all it is for
        compiler.make_backend(GPUTarget("cuda", capability, 32)).hash()


def _ask(wanted: Target) -> Callable[[], Compiling]:
    """Ask for architecture and shared memory of the device; what this gives waits for the answer.

    In a child, while this process imports: it must get no context.
    """
    if (capability := wanted.capability) is not None:
        return lambda: Compiling(capability, None)
    read_fd, write_fd = os.pipe()
    pid = os.fork()
    if pid == 0:
        try:
            from ..cuda.driver import Driver

            driver = Driver()
            driver.call("cuInit", 0)
            numbers = [driver.attribute(name, wanted.device) for name in _NUMBERS]
            os.write(write_fd, json.dumps(numbers).encode())
        except BaseException as error:
            os.write(write_fd, json.dumps(str(error)).encode())
        finally:
            os._exit(0)
    os.close(write_fd)

    def answer() -> Compiling:
        data = os.read(read_fd, 4096)
        os.close(read_fd)
        os.waitpid(pid, 0)
        found = json.loads(data)
        if isinstance(found, str):
            raise Refused(found)
        return Compiling(10 * found[0] + found[1], found[2])

    return answer


# --- in a child ----------------------------------------------------------------------------------------


def _child(job: Job, capability: int, request: Compilation, write_fd: int) -> None:
    try:
        start = time.perf_counter()
        try:
            answer = CompilationEnded(request.id, shared_bytes=_compile(job, capability, request.config))
        except (KernelError, Refused) as error:
            answer = CompilationEnded(request.id, str(error), getattr(error, "detail", "")[-4000:])
        except BaseException as error:
            answer = CompilationEnded(request.id, _first_line(error), traceback.format_exc()[-4000:])
        answer = replace(answer, ms=(time.perf_counter() - start) * 1000)
        typed_json.send(write_fd, typed_json.line(answer))
        sys.stdout.flush()
        sys.stderr.flush()
    finally:
        os._exit(0)


def _first_line(error: BaseException) -> str:
    cause = error
    while cause.__cause__ is not None:
        cause = cause.__cause__
    lines = [line for line in str(cause).splitlines() if line.strip()]
    return f"{type(cause).__name__}: {lines[-1].strip() if lines else ''}"[:500]


def _compile(job: Job, capability: int, config: Config) -> int:
    """Bytes of shared memory that it comes to."""
    from triton.backends.compiler import GPUTarget

    from ..triton_launch.config import configured
    from .compile_source import compiled_for

    # Exactly as the launcher does it, so that it finds in the cache what is made here.
    target = GPUTarget("cuda", capability, 32)
    compiled = compiled_for(target, Path(job["folder"], job["source"] or ""), configured(job, config))
    return int(getattr(compiled.metadata, "shared", 0) or 0)

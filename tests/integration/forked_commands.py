"""`kerncap` with no start of Python for each command: one process has imported it, and forks.

To start Python and import costs more than most commands do. A forked command is a process of its own all the
same: with its environment, streams, signals and end. What only the start of a process reads (see `_AT_START`)
is the same for all of them: a command that is given something else there is started as a user starts it.
"""

from __future__ import annotations

import atexit
import contextlib
import gc
import importlib
import json
import os
import pkgutil
import selectors
import signal
import socket
import subprocess
import sys
import threading
import time
import traceback
from collections.abc import Mapping, Sequence
from functools import cache
from pathlib import Path
from typing import NoReturn

# Prefixes of variables. LD_LIBRARY_PATH is not among them: kerncap's own process opens no library by name.
_AT_START = ("PYTHON", "LD_PRELOAD", "LD_AUDIT", "LANG", "LC_", "OMP_", "OPENBLAS_", "MALLOC_", "GLIBC_")
_LEFT_OUT = (".worker.", ".mcp", ".tuning.cluster", ".pytest_plugin", ".__main__")  # dear, and rarely run
_MOST_BYTES = 1 << 20  # of a request
Finished = tuple[int, str, str]  # exit status as of `subprocess`, stdout, stderr


def run(words: Sequence[str], cwd: Path, environment: Mapping[str, str], timeout_s: float) -> Finished:
    """Run ``kerncap WORDS``; raises subprocess.TimeoutExpired."""
    forking = _forking(os.getpid())
    if forking.serves(environment):
        return forking.run(words, cwd, environment, timeout_s)
    done = subprocess.run(
        [sys.executable, "-m", "kerncap", *words], cwd=cwd, env=environment, capture_output=True, text=True,
        timeout=timeout_s, check=False,
    )  # fmt: skip
    return done.returncode, done.stdout, done.stderr


@cache
def _forking(_process: int) -> _Forking:
    return _Forking()


class _Forking:
    """The process; it ends with this one."""

    def __init__(self) -> None:
        self._environment = _at_start(os.environ)
        self._control, theirs = socket.socketpair(socket.AF_UNIX, socket.SOCK_SEQPACKET)
        with theirs:
            self._process = subprocess.Popen(
                [sys.executable, __file__, str(theirs.fileno())], pass_fds=[theirs.fileno()],
                stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, stderr=subprocess.PIPE,
            )  # fmt: skip
        atexit.register(self._end)

    def _end(self) -> None:
        self._control.close()
        self._process.communicate()

    def serves(self, environment: Mapping[str, str]) -> bool:
        return _at_start(environment) == self._environment

    def run(
        self, words: Sequence[str], cwd: Path, environment: Mapping[str, str], timeout_s: float
    ) -> Finished:
        asked = json.dumps([list(words), str(cwd), dict(environment)]).encode()
        pipes = [os.pipe() for _ in range(3)]
        try:
            socket.send_fds(self._control, [asked], [theirs for _, theirs in pipes])
        finally:
            for _, theirs in pipes:
                os.close(theirs)
        said, out, err = _read_all([ours for ours, _ in pipes], words, timeout_s)
        assert said.count(b"\n") == 2, f"the process that forks is gone: {self._process.communicate()}"
        return int(said.split()[1]), out.decode(), err.decode()


def _at_start(environment: Mapping[str, str]) -> dict[str, str]:
    return {name: value for name, value in environment.items() if name.startswith(_AT_START)}


def _read_all(pipes: list[int], words: Sequence[str], timeout_s: float) -> list[bytes]:
    """What comes from each until its end. The first says the command's process, then its status."""
    found = dict.fromkeys(pipes, b"")
    until = time.monotonic() + timeout_s
    with selectors.DefaultSelector() as selector, contextlib.ExitStack() as closing:
        for pipe in pipes:
            closing.callback(os.close, pipe)
            selector.register(pipe, selectors.EVENT_READ)
        while selector.get_map():
            ready = selector.select(max(0.0, until - time.monotonic()))
            if not ready:
                with contextlib.suppress(ProcessLookupError, IndexError):
                    os.kill(int(found[pipes[0]].split()[0]), signal.SIGKILL)
                raise subprocess.TimeoutExpired(["kerncap", *words], timeout_s)
            for key, _ in ready:
                part = os.read(key.fd, 1 << 16)
                found[key.fd] += part
                if not part:
                    selector.unregister(key.fd)
    return [found[pipe] for pipe in pipes]


# --- in the process ------------------------------------------------------------------------------------


def _serve(control: socket.socket) -> None:
    """Fork for each request until there are no more."""
    nurseries, at_start = forked_nurseries.serve_apart(), forked_nurseries.at_start()
    _import_all()
    gc.freeze()  # what a fork collects, it copies
    while True:
        asked, pipes, _, _ = socket.recv_fds(control, _MOST_BYTES, 3, socket.MSG_CMSG_CLOEXEC)
        if not asked:
            return
        if not os.fork():
            control.close()
            forked_nurseries.install(nurseries, at_start)
            _supervise(json.loads(asked), *pipes)
        for pipe in pipes:
            os.close(pipe)
        with contextlib.suppress(ChildProcessError):
            while os.waitpid(-1, os.WNOHANG)[0]:
                pass


def _import_all() -> None:
    import kerncap
    import kerncap.__main__

    for module in pkgutil.walk_packages(kerncap.__path__, "kerncap.", onerror=lambda _: None):
        if not any(part in f"{module.name}." for part in _LEFT_OUT):
            with contextlib.suppress(ImportError):  # an optional library
                importlib.import_module(module.name)


def _supervise(asked: tuple[list[str], str, dict[str, str]], said: int, out: int, err: int) -> NoReturn:
    """Fork once more, and say how that ends: so commands can run at the same time."""
    pid = os.fork()
    if not pid:
        os.close(said)
        _end(_command(*asked, out, err))
    os.write(said, f"{pid}\n".encode())
    os.close(out)
    os.close(err)
    os.write(said, f"{os.waitstatus_to_exitcode(os.waitpid(pid, 0)[1])}\n".encode())
    os._exit(0)


def _command(words: list[str], cwd: str, environment: dict[str, str], out: int, err: int) -> int:
    from kerncap import __main__

    for number, pipe in ((1, out), (2, err)):
        os.dup2(pipe, number)
        os.close(pipe)
    try:
        os.chdir(cwd)
        os.environ.clear()
        os.environ.update(environment)
        sys.argv = [str(__main__.__file__), *words]
        return __main__.main()
    except BaseException:
        traceback.print_exc()
        return 1


def _end(status: int) -> NoReturn:
    """As Python ends, without what takes it longest: every module being taken apart."""
    for thread in threading.enumerate():
        if thread is not threading.main_thread() and not thread.daemon:
            thread.join()
    atexit._run_exitfuncs()
    sys.stdout.flush()
    sys.stderr.flush()
    os._exit(status)


if __name__ == "__main__":
    import forked_nurseries

    del sys.path[0]  # this folder, which has a `triton` of its own
    with socket.socket(fileno=int(sys.argv[1])) as _control:
        _serve(_control)

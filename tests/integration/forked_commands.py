"""`kerncap` with no start of Python for each command: one process has imported it, and forks.

To start Python and import costs more than most commands do. A forked command is a process of its own all the
same: with its environment, streams, signals and end. What only the start of a process reads (see `_AT_START`)
is the same for all of them: a command that is given something else there is started as a user starts it.
Where pytest has several workers, its own process starts the one that forks, for all of them (`addresses`).
"""

from __future__ import annotations

import atexit
import contextlib
import dataclasses
import functools
import importlib
import json
import os
import pkgutil
import select
import selectors
import signal
import socket
import subprocess
import sys
import tempfile
import threading
import time
import traceback
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import NoReturn

from tests.integration import forked_nurseries, forked_targets, forked_torch

# Prefixes of variables. LD_LIBRARY_PATH is not among them: kerncap's own process opens no library by name.
_AT_START = ("PYTHON", "LD_PRELOAD", "LD_AUDIT", "LANG", "LC_", "OMP_", "OPENBLAS_", "MALLOC_", "GLIBC_")
_LEFT_OUT = (".worker.", ".mcp", ".tuning.cluster", ".pytest_plugin", ".__main__")  # dear, and rarely run
_MOST_BYTES = 1 << 20  # of a request
_ROOT = Path(__file__).parents[2]
_MODULE = "tests.integration.forked_commands"
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


def program(words: Sequence[str], cwd: Path, environment: Mapping[str, str], timeout_s: float) -> Finished:
    """Run a program, which is a fork if it can be; raises subprocess.TimeoutExpired."""
    forking = _forking(os.getpid())
    command = list(map(str, words))
    if forking.serves_program(environment) and forked_targets.needs_torch(command, cwd, environment):
        return forking.run(command, cwd, environment, timeout_s, program=True)
    done = subprocess.run(
        command, cwd=cwd, env=environment, stdin=subprocess.DEVNULL, capture_output=True, text=True,
        timeout=timeout_s, check=False,
    )  # fmt: skip
    return done.returncode, done.stdout, done.stderr


def client() -> Path:
    """A program that stands for `kerncap` in a shell."""
    return Path(_forking(os.getpid()).at.client)


def compilers() -> str:
    """Where compilers are forked: see `forked_nurseries.use_compilers`."""
    return _forking(os.getpid()).at.compilers


def nurseries() -> str:
    """Where nurseries are forked: see `forked_nurseries.started_by`."""
    return _forking(os.getpid()).at.nurseries


_CLIENT = """#!{python} -IS
import json, os, socket, sys
environment = dict(os.environ)
if {{name: environment[name] for name in environment if name.startswith({prefixes})}} != {at_start}:
    os.execv({python!r}, [{python!r}, "-m", "kerncap", *sys.argv[1:]])
with socket.socket(socket.AF_UNIX, socket.SOCK_SEQPACKET) as asking:
    asking.connect({address!r})
    reading, said = os.pipe()
    message = json.dumps([sys.argv[1:], os.getcwd(), environment, False]).encode()
    socket.send_fds(asking, [message], [said, 1, 2, 0])
os.close(said)
with open(reading) as lines:
    status = int(lines.read().split()[1])
sys.exit(status if status >= 0 else 128 - status)
"""


def addresses() -> dict[str, str]:
    """Where the process is asked that forks for this one, for another process to `use`."""
    return dataclasses.asdict(_forking(os.getpid()).at)


def use(at: dict[str, str]) -> None:
    """Ask the process of `addresses`, from now on."""
    global _given
    _given = _Addresses(**at)


@dataclass(frozen=True)
class _Addresses:
    """Sockets of what forks, and the path of `client`."""

    plain: str
    with_torch: str
    nurseries: str
    compilers: str
    client: str


@functools.cache
def _started(_process: int) -> _Addresses:
    """Of a process that ends with this one."""
    folder = tempfile.TemporaryDirectory()
    client = Path(folder.name) / "kerncap"
    control, theirs = socket.socketpair(socket.AF_UNIX, socket.SOCK_SEQPACKET)
    with theirs:
        process = subprocess.Popen(
            [sys.executable, "-m", _MODULE, str(theirs.fileno()), client], pass_fds=[theirs.fileno()],
            cwd=_ROOT, stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, stderr=subprocess.PIPE,
        )  # fmt: skip

    def end() -> None:
        control.close()
        sys.stderr.write("".join(map(bytes.decode, process.communicate())))
        folder.cleanup()

    atexit.register(end)
    at = _Addresses(*json.loads(control.recv(_MOST_BYTES)), str(client))
    known = {"at_start": _at_start(os.environ), "prefixes": _AT_START, "address": at.with_torch}
    client.write_text(_CLIENT.format(python=sys.executable, **known))
    client.chmod(0o755)
    return at


_given: _Addresses | None = None


@functools.cache
def _forking(process: int) -> _Forking:
    return _Forking(_given or _started(process))


class _Forking:
    """What is asked of the process."""

    def __init__(self, at: _Addresses) -> None:
        self.at = at
        self._environment = _at_start(os.environ)
        self._of_programs = forked_targets.without_kerncap(os.environ)

    def serves(self, environment: Mapping[str, str]) -> bool:
        return _at_start(environment) == self._environment

    def serves_program(self, environment: Mapping[str, str]) -> bool:
        return forked_targets.without_kerncap(environment) == self._of_programs

    def run(
        self, words: Sequence[str], cwd: Path, environment: Mapping[str, str], timeout_s: float,
        program: bool = False,
    ) -> Finished:  # fmt: skip
        asked = json.dumps([list(words), str(cwd), dict(environment), program]).encode()
        with_torch = program or forked_targets.served(words, cwd, environment)
        pipes = [os.pipe() for _ in range(3)]
        try:
            with socket.socket(socket.AF_UNIX, socket.SOCK_SEQPACKET) as asking:
                asking.connect(self.at.with_torch if with_torch else self.at.plain)
                socket.send_fds(asking, [asked], [theirs for _, theirs in pipes])
        finally:
            for _, theirs in pipes:
                os.close(theirs)
        said, out, err = _read_all([ours for ours, _ in pipes], words, timeout_s)
        assert said.count(b"\n") == 2, "the process that forks is gone"
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


def _serve(control: socket.socket, client: str) -> None:
    """Fork for each request until the other side is gone."""
    plain = forked_torch.listen("plain")
    nurseries, compilers = forked_torch.serve_apart(
        functools.partial(forked_nurseries.serve, forked_nurseries.INTERPRETER),
        functools.partial(forked_nurseries.serve, forked_nurseries.COMPILERS),
    )
    # Started, not forked: what a program has at an address is free in the workers that replay it.
    ours, theirs = socket.socketpair(socket.AF_UNIX, socket.SOCK_SEQPACKET)
    with theirs:
        words = [str(theirs.fileno()), client, json.dumps([nurseries, compilers])]
        subprocess.Popen(
            [sys.executable, "-m", _MODULE, *words], cwd=_ROOT, pass_fds=[theirs.fileno()]
        ).returncode = 0  # it ends with this one
    with_torch = ours.recv(_MOST_BYTES).decode()
    control.send(json.dumps([forked_torch.address_of(plain), with_torch, nurseries, compilers]).encode())
    if plain in select.select([plain, control], [], [])[0]:
        _import_all()
        _fork_for_requests(plain, lambda: _install((nurseries, compilers), client), until=control)
    plain.close()


def _serve_programs(control: socket.socket, client: str, nurseries: Sequence[str]) -> None:
    """The same, for commands whose program needs torch, and for such programs."""
    [address] = forked_torch.serve_apart(functools.partial(_serve_with_torch, client, nurseries))
    control.send(address.encode())
    control.recv(1)  # until the other side is gone


def _serve_with_torch(client: str, nurseries: Sequence[str], listening: socket.socket) -> NoReturn:
    signal.signal(signal.SIGCHLD, signal.SIG_DFL)
    torch = forked_targets.Torch()
    _import_all()

    def install() -> None:
        _install(nurseries, client)
        torch.install()

    _fork_for_requests(listening, install, torch)
    raise AssertionError("it is ended with the process that started it")


def _install(nurseries: Sequence[str], client: str) -> None:
    """In a command: what it starts of kerncap are forks, too."""
    from kerncap import child

    own = child.kerncap

    def started(module: str, *arguments: str) -> list[str]:
        return [client, *arguments] if module == "kerncap.cli" else own(module, *arguments)

    child.kerncap = started
    forked_nurseries.install(*nurseries)


def _fork_for_requests(
    listening: socket.socket, install: Callable[[], None], torch: forked_targets.Torch | None = None,
    until: socket.socket | None = None,
) -> None:  # fmt: skip
    """A command for each, at the same time if so asked; ends when the other side of ``until`` is gone."""
    with selectors.DefaultSelector() as selector:
        selector.register(listening, selectors.EVENT_READ)
        if until is not None:
            selector.register(until, selectors.EVENT_READ)
        while True:
            for key, _ in selector.select():
                if key.fileobj is until:
                    return
                if key.fileobj is not listening:  # a command has ended
                    selector.unregister(key.fileobj)
                    os.close(key.fd)
                    pid, said = key.data
                    status = os.waitstatus_to_exitcode(os.waitpid(pid, 0)[1])
                    _say(said, status)
                    os.close(said)
                    continue
                asked, _ = listening.accept()
                message, pipes, _, _ = socket.recv_fds(asked, _MOST_BYTES, 4, socket.MSG_CMSG_CLOEXEC)
                asked.close()
                pid = os.fork()
                if not pid:
                    for other in list(selector.get_map().values()):
                        os.close(other.fd)
                        if other.data:
                            os.close(other.data[1])
                    selector.close()
                    _be(message, pipes, install, torch)
                said, *streams = pipes
                _say(said, pid)
                for stream in streams:
                    os.close(stream)
                selector.register(os.pidfd_open(pid), selectors.EVENT_READ, (pid, said))


def _say(said: int, number: int) -> None:
    with contextlib.suppress(OSError):  # whoever asked has given up
        os.write(said, f"{number}\n".encode())


def _be(
    message: bytes, pipes: list[int], install: Callable[[], None], torch: forked_targets.Torch | None
) -> NoReturn:
    """In the fork. ``pipes`` end with stdout, stderr, and stdin if there is one."""
    words, cwd, environment, program = json.loads(message)
    if not program:
        install()
    os.close(pipes[0])
    for number, stream in zip((1, 2, 0), pipes[1:], strict=False):
        os.dup2(stream, number)
        os.close(stream)
    os.chdir(cwd)
    if program and torch is not None:
        torch.be(words, environment)
    _end(_command(words, environment))


def _import_all() -> None:
    import kerncap
    import kerncap.__main__

    for module in pkgutil.walk_packages(kerncap.__path__, "kerncap.", onerror=lambda _: None):
        if not any(part in f"{module.name}." for part in _LEFT_OUT):
            with contextlib.suppress(ImportError):  # an optional library
                importlib.import_module(module.name)
    forked_torch.make_forks_cheap()


def _command(words: list[str], environment: dict[str, str]) -> int:
    from kerncap import __main__, child

    try:
        os.environ.clear()
        os.environ.update(environment)
        child.restore()
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
    del sys.path[0]  # the folder of the checkout
    with socket.socket(fileno=int(sys.argv[1])) as _control:
        if len(sys.argv) == 3:
            _serve(_control, sys.argv[2])
        else:
            _serve_programs(_control, sys.argv[2], json.loads(sys.argv[3]))

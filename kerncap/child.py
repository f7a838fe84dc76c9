"""The only place where kerncap starts processes, and looks for tools.

The current folder may be a stranger's: an unpacked reproducer holds any `json.py`, `nvcc` or `libcuda.so.1`.
So nothing is found by way of it. A Python child runs a script of ours by its absolute path, in an empty
folder; a tool is an absolute path; what of the environment means "here" (an empty or a relative entry) or
leads into a reproducer is dropped. And a child ends with this process, however this one ends.

What the user names (the program under capture, an editor, a command of `--keep-failing`) runs as given.
"""

from __future__ import annotations

import contextlib
import errno
import fcntl
import json
import os
import shutil
import signal
import subprocess
import sys
import threading
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import IO, Any, TypeAlias

from kerncap import scratch
from kerncap.scratch import Scratch
from kerncap.search_path import is_safe, kept

_SEARCHED = ("PATH", "PYTHONPATH", "LD_LIBRARY_PATH")
_PRELOADED = ("LD_PRELOAD", "LD_AUDIT")
_FOLDERS = ("PYTHONHOME", "PYTHONUSERBASE", "PYTHONPYCACHEPREFIX")
_GIVEN = "KERNCAP_GIVEN_ENVIRONMENT"  # to a kerncap that we start: what of it was dropped, for a target
_START = Path(__file__).resolve().parent / "start.py"

Stream: TypeAlias = "int | IO[Any] | None"


# --- looking -----------------------------------------------------------------------------------------


def find(name: str, path: str | None = None) -> str | None:
    """The tool ``name`` by its absolute path; None if no folder of PATH (or of ``path``) has it.

    Folders that are given relatively, or lie inside a reproducer, are not searched.
    """
    searched = os.environ.get("PATH", os.defpath) if path is None else path
    return shutil.which(name, path=kept(searched)) if os.sep not in name else None


def program(word: str) -> str:
    """The absolute path of what the user names: a path from here, or a name that PATH has.

    Raises FileNotFoundError.
    """
    found = os.path.abspath(word) if os.sep in word else find(word)
    if found is None:
        raise FileNotFoundError(errno.ENOENT, "not found on PATH", word)
    return found


# --- the environment ---------------------------------------------------------------------------------


def environment(given: Mapping[str, str] | None = None) -> dict[str, str]:
    """``given`` (or this process's own) for a child of ours: nothing in it leads to the current folder."""
    found = dict(os.environ if given is None else given)
    for name in (*_SEARCHED, *_FOLDERS):
        _put(found, name, kept(found.get(name, "")))
    for name in _PRELOADED:  # a bare name is one for the loader's own folders
        entries = found.get(name, "").replace(" ", ":").split(":")
        safe = (each for each in entries if each and (os.sep not in each or is_safe(each)))
        _put(found, name, ":".join(safe))
    return found


def _put(into: dict[str, str], name: str, value: str) -> None:
    """An empty search path may mean the current folder, an absent one never does."""
    into.pop(name, None)
    if value:
        into[name] = value


def for_kerncap(given: Mapping[str, str] | None = None) -> dict[str, str]:
    """`environment` for a kerncap that may start the user's program: `restore` gives it what was dropped."""
    before = dict(os.environ if given is None else given)
    after = environment(before)
    dropped = {name: before[name] for name in before if after.get(name) != before[name]}
    return {**after, _GIVEN: json.dumps(dropped)} if dropped else after


def restore() -> None:
    """In a kerncap that `for_kerncap` was made for: the environment as the user gave it, for a target."""
    with contextlib.suppress(ValueError, TypeError, AttributeError):
        os.environ.update(json.loads(os.environ.pop(_GIVEN, "{}")))


# --- starting ----------------------------------------------------------------------------------------


def python(python: str, script: Path, *arguments: str) -> list[str]:
    """The words that run a script of ours under a Python, which need not have kerncap."""
    return [program(python), str(script), *arguments]


def kerncap(module: str, *arguments: str) -> list[str]:
    """The words that run ``main`` of one of kerncap's own modules in this Python."""
    return [sys.executable, str(_START), module, *arguments]


class Tie:
    """What ends a process, and all of its group, when this process ends.

    ``held`` is the reading end of a pipe: the process inherits it. When the writing end closes, which is
    here alone, the kernel itself sends SIGKILL to the group. That needs no help of the process, which may
    be any program, and no thread or signal handler of ours: it holds for SIGKILL, too.

    Between the start of a process and `bind` it is not tied: a worker that nobody asks anything ends by the
    end of its requests, and a tool has that little left to do on its own.

    Source: fcntl(2), F_SETOWN and F_SETSIG; pipe_release in Linux's fs/pipe.c.
    """

    def __init__(self) -> None:
        self.held, self._end = os.pipe()
        self._lock = threading.Lock()

    def bind(self, group: int) -> None:
        """To a process that has inherited ``held`` and leads its group."""
        with contextlib.suppress(OSError):  # gone already; or a kernel that can't: the child ends by itself
            fcntl.fcntl(self.held, fcntl.F_SETOWN, -group)
            fcntl.fcntl(self.held, fcntl.F_SETSIG, signal.SIGKILL)
            flags = fcntl.fcntl(self.held, fcntl.F_GETFL)
            fcntl.fcntl(self.held, fcntl.F_SETFL, flags | os.O_ASYNC)
        self._close("held")

    def cut(self) -> None:
        """End what is left of the group; nothing happens the second time."""
        self._close("_end")
        self._close("held")

    def _close(self, name: str) -> None:
        with self._lock:
            fd = getattr(self, name)
            setattr(self, name, -1)
        if fd >= 0:
            os.close(fd)


class _Tied(subprocess.Popen[bytes]):
    """A process that leads a session and group of its own, tied to this process."""

    def __init__(
        self, words: Sequence[str], cwd: Path | None, env: Mapping[str, str], stdin: Stream, stdout: Stream,
        stderr: Stream, pass_fds: Sequence[int],
    ) -> None:  # fmt: skip
        self._tie = Tie()
        try:
            super().__init__(
                list(words), cwd=cwd, env=env, stdin=stdin, stdout=stdout, stderr=stderr,
                pass_fds=(*pass_fds, self._tie.held), start_new_session=True,
            )  # fmt: skip
        except BaseException:
            self._tie.cut()
            raise
        self._tie.bind(self.pid)

    def poll(self) -> int | None:
        status = super().poll()
        if status is not None:
            self._tie.cut()
        return status

    def wait(self, timeout: float | None = None) -> int:
        status = super().wait(timeout)
        self._tie.cut()
        return status

    def kill_all(self) -> None:
        """SIGKILL for the process and its group, whatever has become of it."""
        with contextlib.suppress(ProcessLookupError, PermissionError):
            os.killpg(self.pid, signal.SIGKILL)

    def end(self) -> int:
        """End the process, and what it started, at once; its status."""
        self.kill_all()
        return self.wait()

    def __del__(self) -> None:
        with contextlib.suppress(AttributeError):  # it did not get that far
            self._tie.cut()
        super().__del__()


class Child(_Tied):
    """A process of ours. ``words[0]`` is an absolute path.

    The folder is an empty one unless ``cwd`` names another that is ours; ``env``, or this process's own
    environment, goes through `environment`. Raises OSError.
    """

    def __init__(
        self, words: Sequence[str], *, cwd: Path | None = None, env: Mapping[str, str] | None = None,
        stdin: Stream = subprocess.DEVNULL, stdout: Stream = None, stderr: Stream = None,
        pass_fds: Sequence[int] = (),
    ) -> None:  # fmt: skip
        assert os.path.isabs(words[0]), words
        super().__init__(words, cwd or folder(), environment(env), stdin, stdout, stderr, pass_fds)


def run(
    words: Sequence[str], *, timeout: float, cwd: Path | None = None, env: Mapping[str, str] | None = None,
    data: bytes | None = None, check: bool = False,
) -> subprocess.CompletedProcess[bytes]:  # fmt: skip
    """A child to its end, its streams kept; ended with all that it started if it takes too long.

    Raises OSError, TimeoutExpired, and with ``check`` CalledProcessError.
    """
    with Child(
        words, cwd=cwd, env=env, stdin=subprocess.DEVNULL if data is None else subprocess.PIPE,
        stdout=subprocess.PIPE, stderr=subprocess.PIPE,
    ) as child:  # fmt: skip
        try:
            out, err = child.communicate(data, timeout)
        except BaseException:
            child.kill_all()
            raise
    if check and child.returncode:
        raise subprocess.CalledProcessError(child.returncode, list(words), out, err)
    return subprocess.CompletedProcess(list(words), child.returncode, out, err)


def run_text(
    words: Sequence[str], *, timeout: float, cwd: Path | None = None, env: Mapping[str, str] | None = None,
    data: str | None = None, check: bool = False,
) -> subprocess.CompletedProcess[str]:  # fmt: skip
    """`run` for streams of text."""
    given = None if data is None else data.encode()
    done = run(words, timeout=timeout, cwd=cwd, env=env, data=given, check=check)
    out, err = (stream.decode(errors="replace") for stream in (done.stdout, done.stderr))
    return subprocess.CompletedProcess(done.args, done.returncode, out, err)


# --- what the user names -----------------------------------------------------------------------------


class Given(_Tied):
    """A command of the user's, in the user's folder and environment, its streams shut. Raises OSError."""

    def __init__(self, words: Sequence[str]) -> None:
        null = subprocess.DEVNULL
        super().__init__([program(words[0]), *words[1:]], None, os.environ, null, null, null, ())


def editor(words: Sequence[str], *, window: bool) -> subprocess.Popen[bytes]:
    """The user's editor: with this terminal, or in a ``window`` of its own. It may outlive us.

    Raises OSError.
    """
    null = subprocess.DEVNULL if window else None
    return subprocess.Popen(
        [program(words[0]), *words[1:]], stdin=null, stdout=null, stderr=null, start_new_session=window
    )


def detached(words: Sequence[str], *, pass_fds: Sequence[int]) -> None:
    """A kerncap of our own that outlives this one, by `kerncap`'s words, its streams shut. Raises OSError."""
    null = subprocess.DEVNULL
    process = subprocess.Popen(
        list(words), cwd="/", env=for_kerncap(), stdin=null, stdout=null, stderr=null, pass_fds=pass_fds,
        start_new_session=True,
    )  # fmt: skip
    process.returncode = 0  # nobody here waits for it


# --- what a library starts ----------------------------------------------------------------------------


@contextlib.contextmanager
def protected() -> Iterator[None]:
    """Inside of it, what a library starts from this process is looked for as a `Child` is.

    A browser is one, and the `uname` that `platform` runs for Dask.
    """
    before, after = dict(os.environ), environment()
    changed = {name: value for name, value in before.items() if after.get(name) != value}
    for name in changed:
        os.environ.pop(name)
    os.environ.update({name: after[name] for name in changed if name in after})
    try:
        yield
    finally:
        os.environ.update(changed)


# --- an empty folder ---------------------------------------------------------------------------------

_folders: dict[int, Scratch] = {}  # by process: a fork has one of its own
_folders_lock = threading.Lock()


def folder() -> Path:
    """An empty folder that only we can write, one for the life of this process."""
    with _folders_lock:
        found = _folders.get(os.getpid())
        if found is None or not found.is_there or not found.path.is_dir():
            try:
                found = _folders[os.getpid()] = scratch.folder("empty")
            except OSError:
                return Path("/")  # no room even for that; only root writes there
        return found.path

"""Runs commands as a user whom modes keep out, as they do everybody but root, and in folders that vanish.

One process has lost the capabilities that let root in, and so has whatever it starts. It has imported every
command, and forks for each that is asked for: to start Python again costs more than most of these do. A
folder vanishes by an event, never by time: right before the n-th call of that fork that names something in
it. `python -m tests.hostile.folders.ordinary_user FOLDER` is that process.
"""

from __future__ import annotations

import atexit
import contextlib
import ctypes
import importlib
import json
import os
import pkgutil
import shutil
import subprocess
import sys
import tempfile
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import Any

ROOT = Path(__file__).parents[3]
CAP_DAC_OVERRIDE, CAP_DAC_READ_SEARCH = 1, 2
PR_CAPBSET_DROP = 24
PYTEST = "pytest"  # in place of a command's name: pytest with kerncap's plugin
STREAMS = ("in", "out", "err")


@dataclass(frozen=True)
class Vanishing:
    """A folder that is deleted right before a call that names something in it: the first is number 0."""

    folder: str
    call: int


@dataclass(frozen=True)
class Asked:
    words: Sequence[str]
    cwd: str | None  # None: one that was deleted
    environment: Mapping[str, str] = field(default_factory=dict)  # more of it
    vanishing: Vanishing | None = None
    only_tmpdir: bool = False  # no other place for temporary files, as in a container that is read-only


@dataclass(frozen=True)
class Done:
    status: int
    out: str
    err: str
    calls: int  # that named something in the folder that was to vanish

    @property
    def last(self) -> str:
        return self.err.splitlines()[-1] if self.err else ""


class OrdinaryUser:
    """The process; a context manager."""

    def __init__(self, folder: Path) -> None:
        self._folder = folder
        self._process = subprocess.Popen(
            [sys.executable, "-m", __name__, str(folder)], cwd=ROOT, text=True, preexec_fn=lose_capabilities,
            stdin=subprocess.PIPE, stdout=subprocess.PIPE, env={**os.environ, "OPENBLAS_NUM_THREADS": "1"},
        )  # fmt: skip

    def __enter__(self) -> OrdinaryUser:
        return self

    def __exit__(self, *_: object) -> None:
        self._process.communicate()

    def run(self, asked: Asked) -> Done:
        assert self._process.stdin is not None and self._process.stdout is not None
        self._process.stdin.write(json.dumps(asdict(asked)) + "\n")
        self._process.stdin.flush()
        status = int(self._process.stdout.readline())
        out, err, calls = (self._read(name) for name in ("out", "err", "calls"))
        return Done(status, out, err, int(calls or "0"))

    def _read(self, name: str) -> str:
        return (self._folder / name).read_text(errors="replace")


def lose_capabilities() -> None:
    """Before an exec, which gives root no more than the bounding set has."""
    prctl = ctypes.CDLL(None, use_errno=True).prctl
    for capability in (CAP_DAC_OVERRIDE, CAP_DAC_READ_SEARCH):
        if prctl(PR_CAPBSET_DROP, capability, 0, 0, 0) and os.geteuid() == 0:
            raise PermissionError(ctypes.get_errno(), "this root can't lose a capability")


# --- in the process ------------------------------------------------------------------------------------


def main(folder: Path) -> None:
    _import_all()
    for line in sys.stdin:
        pid = os.fork()
        if not pid:
            status = 70
            try:
                status = _run(json.loads(line), folder)
            finally:
                os._exit(status)
        print(os.waitstatus_to_exitcode(os.waitpid(pid, 0)[1]), flush=True)


def _import_all() -> None:
    import kerncap

    for module in pkgutil.walk_packages(kerncap.__path__, "kerncap.", onerror=lambda _: None):
        if ".worker." not in module.name and not module.name.endswith("__main__"):
            with contextlib.suppress(ImportError):  # an optional library
                importlib.import_module(module.name)


def _run(asked: dict[str, Any], folder: Path) -> int:
    for name in ("in", "calls"):
        (folder / name).write_text("")
    flags = (os.O_RDONLY, *[os.O_WRONLY | os.O_CREAT | os.O_TRUNC | os.O_APPEND] * 2)
    for number, name in enumerate(STREAMS):
        os.dup2(os.open(folder / name, flags[number], 0o600), number)
    sys.stdin, sys.stdout, sys.stderr = (
        os.fdopen(number, mode, encoding="utf-8", closefd=False) for number, mode in enumerate("rww")
    )
    os.environ.update(asked["environment"])
    tempfile.tempdir = None
    if asked["only_tmpdir"]:
        tempfile._candidate_tempdir_list = lambda: [os.environ["TMPDIR"]]  # type: ignore[attr-defined]
    cwd = asked["cwd"] or tempfile.mkdtemp(dir=folder)
    os.chdir(cwd)
    if asked["cwd"] is None:
        os.rmdir(cwd)
    if asked["vanishing"]:
        _watch(asked["vanishing"]["folder"], asked["vanishing"]["call"], folder / "calls")
    try:
        return _command(asked["words"])
    finally:
        for stream in (sys.stdout, sys.stderr):
            stream.flush()
        atexit._run_exitfuncs()


def _command(words: list[str]) -> int:
    if words[0] == PYTEST:
        import pytest

        return int(pytest.main(words[1:]))
    from kerncap import cli

    return cli.main(words)


def _watch(folder: str, number: int, counter: Path) -> None:
    """By the interpreter's audit events, which come before the call that they tell of."""
    seen = 0
    calls = os.open(counter, os.O_WRONLY)

    def hook(event: str, given: tuple[Any, ...]) -> None:
        nonlocal seen
        if not event.startswith(("open", "os.")) or not any(_is_in(folder, each) for each in given):
            return
        here, seen = seen, seen + 1
        os.pwrite(calls, str(seen).encode(), 0)
        if here == number:
            shutil.rmtree(folder)

    sys.addaudithook(hook)


def _is_in(folder: str, given: Any) -> bool:
    """Whether an argument is a path in the folder, or a descriptor of something there."""
    if isinstance(given, bytes | os.PathLike):
        given = os.fsdecode(given)
    if isinstance(given, int) and not isinstance(given, bool) and given > 2:
        try:
            given = os.readlink(f"/proc/self/fd/{given}")
        except OSError:
            return False
    return isinstance(given, str) and (given == folder or given.startswith(folder + os.sep))


if __name__ == "__main__":
    main(Path(sys.argv[1]))

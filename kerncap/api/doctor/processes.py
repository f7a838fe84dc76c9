"""The processes of a program, watched from outside while it runs: what is loaded, what they were given.

They are looked at every few milliseconds: one that lives for less may be missed, unless a shim or the hook
left its mark. Nothing is done to them.
"""

from __future__ import annotations

import os
import re
import stat
import threading
from dataclasses import dataclass, field
from pathlib import Path

from kerncap.capture.program_loader import asked_loader

POLL_S = 0.01
_MOST_PROCESSES = 4096
# Libraries that tell what a process is about; file names without what follows ".so".
_KNOWN = {
    "libcuda": "libcuda", "libcudart": "libcudart", "libhsa-runtime64": "ROCr", "libamdhip64": "HIP",
    "librocprofiler-register": "rocprofiler-register",
    "libtriton": "Triton", "libkerncap_cuda": "CUDA shim", "libkerncap_hip": "HIP shim",
    "libkerncap_amd_gpu": "emulated AMD GPU",
}  # fmt: skip
_LIBRARY = re.compile(r"/(lib[\w-]+?)\.so[\w.]*(?: \(deleted\))?$", re.MULTILINE)


@dataclass
class Seen:
    """One process. ``preload``: whether its environment has the shims' LD_PRELOAD; None if unreadable."""

    pid: int
    parent: int
    argv: tuple[str, ...] = ()
    executable: str = ""
    libraries: set[str] = field(default_factory=set)
    preload: bool | None = None
    pythonpath: bool | None = None
    session: bool | None = None
    problem: str | None = None  # why the loader puts nothing into it
    bare: bool = False  # it showed no environment: it has none, or its exec was under way


class Watcher:
    """Watches the descendants of this process in a thread, from `start` to `stop`."""

    def __init__(self, root: int) -> None:
        self.seen: dict[int, Seen] = {}
        self._root = root
        self._stop = threading.Event()
        self._thread = threading.Thread(target=self._run, name="kerncap-doctor-watch", daemon=True)

    def start(self) -> None:
        self._thread.start()

    def stop(self) -> list[Seen]:
        """The processes in the order in which they were met."""
        self._stop.set()
        self._thread.join()
        return list(self.seen.values())

    def _run(self) -> None:
        from kerncap.capture.target import block_signals_in_this_thread

        block_signals_in_this_thread()
        wait = POLL_S
        while not self._stop.wait(wait):
            wait = POLL_S if self._look() else min(2 * wait, 0.1)  # a long run costs a look each 0.1 s

    def _look(self) -> bool:
        """Take in what is there now; whether anything was new."""
        news = False
        for pid in [*_descendants(self._root), *self.seen]:  # a daemon is nobody's descendant any more
            known = self.seen.get(pid)
            if known is None:
                if len(self.seen) >= _MOST_PROCESSES:
                    continue
                known = self.seen[pid] = Seen(pid, _parent(pid))
                news = True
            news |= _update(known)
        return news


def _update(one: Seen) -> bool:
    """Read what a process shows now; an exec replaces the program, so that all is read again."""
    try:
        executable = os.readlink(f"/proc/{one.pid}/exe")
    except OSError:
        return False
    news = executable != one.executable
    if news:
        one.executable = executable
        one.libraries = set()  # those of the program that was there before went with it
        one.problem = barrier(Path(f"/proc/{one.pid}/exe"), executable)
    if news or one.bare:
        one.argv = _words(one.pid, "cmdline") or (() if news else one.argv)
        environment = _words(one.pid, "environ")
        one.bare = environment == ()
        one.preload = _has(environment, "LD_PRELOAD=", "libkerncap")
        one.pythonpath = _has(environment, "PYTHONPATH=", "triton")
        one.session = _has(environment, "KERNCAP_SESSION=")
    try:
        maps = Path(f"/proc/{one.pid}/maps").read_text(errors="replace")
    except OSError:
        return news
    found = {_KNOWN[name] for name in _LIBRARY.findall(maps) if name in _KNOWN}
    news |= bool(found - one.libraries)
    one.libraries |= found
    return news


def _words(pid: int, name: str) -> tuple[str, ...] | None:
    """A file of words that end with a NUL; None if it can't be read."""
    try:
        data = Path(f"/proc/{pid}/{name}").read_bytes()
    except OSError:
        return None
    return tuple(word.decode(errors="replace") for word in data.split(b"\0") if word)


def _has(environment: tuple[str, ...] | None, variable: str, part: str = "") -> bool | None:
    if environment is None:
        return None
    return any(word.startswith(variable) and part in word for word in environment)


def _parent(pid: int) -> int:
    try:
        text = Path(f"/proc/{pid}/stat").read_text()
        return int(text.rpartition(")")[2].split()[1])
    except (OSError, ValueError, IndexError):
        return 0


def _descendants(root: int) -> list[int]:
    """Children first met first. Source: proc(5), /proc/PID/task/TID/children."""
    found: list[int] = []
    waiting = [root]
    while waiting and len(found) < _MOST_PROCESSES:
        pid = waiting.pop(0)
        try:
            tasks = os.listdir(f"/proc/{pid}/task")
        except OSError:
            continue
        for task in tasks:
            try:
                children = Path(f"/proc/{pid}/task/{task}/children").read_text().split()
            except OSError:
                continue
            found += map(int, children)
            waiting += map(int, children)
    return found


def barrier(path: Path, name: str) -> str | None:
    """Why the loader puts nothing into the program at ``path``; None if it does, or nobody can tell."""
    try:
        with open(path, "rb") as file:
            head = file.read(5)
            mode = os.fstat(file.fileno()).st_mode
    except OSError:
        return "runs with other rights than yours: the system drops LD_PRELOAD for it"
    if mode & (stat.S_ISUID | stat.S_ISGID):
        return "is setuid: the system drops LD_PRELOAD for it"
    try:
        os.getxattr(name, "security.capability")
        return "has file capabilities: the system drops LD_PRELOAD for it"
    except OSError:
        pass
    if head[:4] == b"\x7fELF" and head[4] == 1:
        return "is a 32-bit program: the shims are 64-bit"
    interpreter = asked_loader(path)
    if interpreter == "":
        return "is linked statically: nothing can be preloaded into it"
    if interpreter and "musl" in interpreter:
        return "uses musl's loader: the shims need glibc"
    return None

"""The process that launches a module on the host: forked before this one has anything of the oracle.

What a module's code can find in its own address space, and in that of the process that it is forked from, is
the launch's memory, and no result of it. The two processes share no more than that memory and two pipes.
"""

from __future__ import annotations

import gc
import os
import signal
from collections.abc import Callable
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

from .. import typed_json
from ..common.failures import Fault, Killed
from ..job import Job
from ..protocol import Ended, Variation
from ..triton_launch.config import varied
from .isolation import Rights, run_isolated
from .launchers.interpreter import Interpreter, prepare
from .placed_values import PlacedValues


@dataclass(frozen=True)
class Request:
    """One launch of the module in ``path``; ``only_load``: it is imported, and no more."""

    path: str
    variation: Variation
    rights: Rights | None
    limit_s: float = 0.0
    only_load: bool = False


class Apart:
    """Runs launches in children of its own, one after the other."""

    def __init__(self, job: Job, memory: Any) -> None:
        """Fork. ``memory`` is placed, and shared with whatever is forked from here on."""
        prepare()
        requests, self._requests = os.pipe()
        replies_read, replies = os.pipe()
        self._replies = typed_json.Lines(replies_read)
        self._pid = os.fork()
        if self._pid == 0:
            try:
                _keep_only(requests, replies)
                _serve(job, memory, requests, replies)
            finally:
                os._exit(0)
        os.close(requests)
        os.close(replies)

    def launch(self, path: Path, variation: Variation, rights: Rights | None) -> Launch:
        """A launch of the module in ``path``, as often as it is asked for its outcome."""
        return Launch(self, Request(str(path), variation, rights))

    def ask(self, request: Request) -> Ended:
        """How one launch ends."""
        try:
            typed_json.send(self._requests, typed_json.line(request))
        except OSError as error:
            raise self._gone() from error
        try:
            reply = self._replies.next()
            if reply is not None:
                return typed_json.read(Ended, reply)
        except typed_json.Unreadable as error:
            raise Fault(f"the process that launches answers {error}") from error
        raise self._gone()

    def _gone(self) -> Exception:
        _, status = os.waitpid(self._pid, 0)
        if os.WIFSIGNALED(status) and os.WTERMSIG(status) == signal.SIGKILL:
            return Killed()
        return Fault("the process that launches is gone")


@dataclass(frozen=True)
class Launch:
    """One module with the arguments of one launch."""

    apart: Apart
    request: Request

    def outcome(self, limit_s: float, only_load: bool = False) -> Ended:
        """What came of running it: see `run_isolated`. ``only_load``: its module is imported, and no more."""
        return self.apart.ask(replace(self.request, limit_s=limit_s, only_load=only_load))


def _keep_only(*kept: int) -> None:
    """Close every other descriptor but the standard ones: the engine's pipes are none of this process's."""
    for fd in map(int, os.listdir("/proc/self/fd")):
        if fd > 2 and fd not in kept:
            try:
                os.close(fd)
            except OSError:
                pass  # that of the listing


def _serve(job: Job, memory: Any, requests: int, replies: int) -> None:
    gc.freeze()
    gc.enable()
    with open(requests, encoding="utf-8") as lines:
        for line in lines:
            ended = _outcome(job, memory, typed_json.read(Request, line))
            typed_json.send(replies, typed_json.line(ended))


def _outcome(job: Job, memory: Any, request: Request) -> Ended:
    def load() -> Callable[[], None]:
        asked = varied(job, request.variation)
        loaded = Interpreter(Path(request.path), asked, PlacedValues(asked, memory))
        return _nothing if request.only_load else loaded.run

    return run_isolated(load, request.limit_s, request.rights)


def _nothing() -> None:
    """The launch of a module that is only tried."""

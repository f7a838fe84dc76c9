"""The process that launches a module on the host: forked before this one has anything of the oracle.

What a module's code can find in its own address space, and in that of the process that it is forked from, is
the launch's memory, and no result of it. The two processes share no more than that memory and two pipes.
"""

from __future__ import annotations

import gc
import json
import os
import signal
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from ..common.failures import Fault, Killed
from .isolation import Rights, run_isolated
from .launch_values import Values
from .launchers.config import configured, with_scalars
from .launchers.interpreter import Interpreter, prepare

_REPLY_BYTES = 1 << 16


class Apart:
    """Runs launches in children of its own, one after the other."""

    def __init__(self, job: dict[str, Any], memory: Any) -> None:
        """Fork. ``memory`` is placed, and shared with whatever is forked from here on."""
        prepare()
        requests, self._requests = os.pipe()
        self._replies, replies = os.pipe()
        self._pid = os.fork()
        if self._pid == 0:
            try:
                _keep_only(requests, replies)
                _serve(job, memory, requests, replies)
            finally:
                os._exit(0)
        os.close(requests)
        os.close(replies)

    def launch(
        self, path: Path, config: dict[str, Any] | None, scalars: dict[str, str] | None, rights: Rights | None
    ) -> Launch:
        """A launch of the module in ``path``, as often as it is asked for its outcome."""
        return Launch(self, {
            "path": str(path), "config": config, "scalars": scalars,
            "rights": None if rights is None else rights.as_dict(),
        })  # fmt: skip

    def ask(self, request: dict[str, Any]) -> dict[str, Any]:
        """The outcome of one launch."""
        data = json.dumps(request).encode() + b"\n"
        try:
            while data:
                data = data[os.write(self._requests, data) :]
        except OSError as error:
            raise self._gone() from error
        reply = b""
        while not reply.endswith(b"\n"):
            part = os.read(self._replies, _REPLY_BYTES)
            if not part:
                raise self._gone()
            reply += part
        return dict(json.loads(reply))

    def _gone(self) -> Exception:
        _, status = os.waitpid(self._pid, 0)
        if os.WIFSIGNALED(status) and os.WTERMSIG(status) == signal.SIGKILL:
            return Killed()
        return Fault("the process that launches is gone")


@dataclass(frozen=True)
class Launch:
    """One module with the arguments of one launch."""

    apart: Apart
    request: dict[str, Any]

    def outcome(self, limit_s: float, only_load: bool = False) -> dict[str, Any]:
        """What came of running it: see `run_isolated`. ``only_load``: its module is imported, and no more."""
        return self.apart.ask({**self.request, "limit_s": limit_s, "only_load": only_load})


def _keep_only(*kept: int) -> None:
    """Close every other descriptor but the standard ones: the engine's pipes are none of this process's."""
    for fd in map(int, os.listdir("/proc/self/fd")):
        if fd > 2 and fd not in kept:
            try:
                os.close(fd)
            except OSError:
                pass  # that of the listing


def _serve(job: dict[str, Any], memory: Any, requests: int, replies: int) -> None:
    gc.freeze()
    gc.enable()
    with open(requests, encoding="utf-8") as lines:
        for line in lines:
            answer = json.dumps(_outcome(job, memory, json.loads(line))).encode() + b"\n"
            while answer:
                answer = answer[os.write(replies, answer) :]


def _outcome(job: dict[str, Any], memory: Any, request: dict[str, Any]) -> dict[str, Any]:
    def load() -> Callable[[], None]:
        asked = with_scalars(configured(job, request["config"]), request["scalars"])
        loaded = Interpreter(Path(request["path"]), asked, Values(asked, memory))
        return _nothing if request["only_load"] else loaded.run

    given = request["rights"]
    return run_isolated(load, request["limit_s"], None if given is None else Rights(**given))


def _nothing() -> None:
    """The launch of a module that is only tried."""

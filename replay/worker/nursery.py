"""A process that loads what workers need, once, and forks one for each job: a fork costs milliseconds.

Nothing of a reproducer, and no candidate, ever runs in this process itself, and it starts no driver: what is
forked is as one that was started now. Each fork leads a process group of its own, so that it can be ended
with all that it started. Whoever asks holds the other end of the socket; when it closes, this process ends.
"""

from __future__ import annotations

import contextlib
import gc
import importlib
import os
import socket
import threading

from . import cuda_bindings, typed_json
from .nursery_messages import Asked, Told

_MOST_BYTES = 1 << 16
_MODULES = {
    "cuda": (".native.operations", ".native.cuda_vendor", ".cuda.placement"),
    "hip": (".native.operations", ".hip.hip_vendor", ".hip.placement"),
    "compiler": (".torch_backend.code_object", ".torch_backend.compile_source"),
    "compiled": (
        ".torch_backend.operations",
        ".torch_backend.code_object",
        ".torch_backend.compile_source",
        ".torch_backend.launchers.triton_jit",
    ),
    "interpreter": (".torch_backend.operations", ".torch_backend.apart", ".common.host_memory"),
}


def serve(fd: int) -> list[str]:
    """Answer until the socket closes. In a fork: the words that say what it is now, its descriptors last."""
    control = socket.socket(fileno=fd)
    while True:
        try:
            message, given, _, _ = socket.recv_fds(control, _MOST_BYTES, 3)
        except ConnectionError:
            message = b""
        if not message:
            os._exit(0)
        asked = typed_json.read(Asked, message)
        if asked.what == "load":
            _load(asked.words[0])
            continue
        if asked.what == "reap":
            _, status = os.waitpid(int(asked.words[0]), 0)
            control.send(typed_json.line(Told(os.waitstatus_to_exitcode(status))))
            continue
        pid = os.fork()
        if pid == 0:
            os.setpgid(0, 0)
            control.close()
            return _become(asked, given)
        with contextlib.suppress(OSError):  # it has done so itself
            os.setpgid(pid, pid)
        for each in given:
            os.close(each)
        control.send(typed_json.line(Told(pid)))


def _load(kind: str) -> None:
    """What is wrong with a module, whoever needs it will say."""
    if kind in ("compiled", "interpreter"):
        with contextlib.suppress(Exception):
            importlib.import_module("torch")
            importlib.import_module("triton")
    beside = None
    if kind in ("cuda", "compiled"):  # beside the others: an import waits for files most of its time
        beside = threading.Thread(target=_load_bindings)
        beside.start()
    for name in _MODULES[kind]:
        with contextlib.suppress(Exception):
            importlib.import_module(name, __package__)
    if beside is not None:
        beside.join()  # whoever forks has one thread
    if kind == "interpreter":
        with contextlib.suppress(Exception):
            importlib.import_module(".torch_backend.launchers.interpreter", __package__).prepare()
    elif kind == "compiler":
        with contextlib.suppress(Exception):  # imported when the first argument is looked at
            importlib.import_module("triton.experimental.gluon")
        with contextlib.suppress(Exception):
            importlib.import_module(".torch_backend.compile_source", __package__).look_at_no_tensor()
    elif kind == "compiled":
        importlib.import_module(".torch_backend.warm_triton", __package__).warm()
    gc.freeze()


def _load_bindings() -> None:
    with contextlib.suppress(Exception):
        cuda_bindings.load("driver")


def _become(asked: Asked, given: list[int]) -> list[str]:
    *words, last = asked.words
    log = os.open(last, os.O_WRONLY | os.O_CREAT | os.O_APPEND | os.O_CLOEXEC, 0o600)
    os.dup2(log, 1)
    os.dup2(log, 2)
    os.close(log)
    os.chdir(os.path.dirname(last))
    return [*words, *map(str, given[:-1])]

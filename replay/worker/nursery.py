"""A process that loads what workers need, once, and forks one for each job: a fork costs milliseconds.

Nothing of a reproducer, and no candidate, ever runs in this process itself, and it starts no driver: what is
forked is as one that was started now. The first may be forked, and start the driver, before there is a job.
Each fork leads a process group of its own, so that it can be ended with all that it started. Whoever asks
holds the other end of the socket; when it closes, this process ends.
"""

from __future__ import annotations

import contextlib
import gc
import importlib
import os
import socket
import threading
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from .nursery_messages import Asked

_MOST_BYTES = 1 << 16
# A context with one queue, which is enough for one launch, is made in less than half the time of one with 8.
_QUEUES = "CUDA_DEVICE_MAX_CONNECTIONS"
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


def serve(fd: int, begin: bool = False) -> list[str]:
    """Answer until the socket closes. In a fork: the words that say what it is now, its descriptors last.

    ``begin``: the first fork starts CUDA's driver, and loads what its launches need, before it is asked for.
    """
    control = socket.socket(fileno=fd)
    begun: tuple[int, socket.socket] | None = None
    if begin:
        ours, theirs = socket.socketpair(socket.AF_UNIX, socket.SOCK_SEQPACKET)
        pid = _fork()
        if pid == 0:
            control.close()
            ours.close()
            return _begin(theirs)
        theirs.close()
        begun = pid, ours
    from . import typed_json  # the driver starts meanwhile
    from .nursery_messages import Asked, Told

    unloaded = ""
    while True:
        message, given = _next(control)
        asked = typed_json.read(Asked, message)
        if asked.what == "load":
            [unloaded] = asked.words
            if not begin:
                _load(unloaded)
                unloaded = ""
            continue
        if asked.what == "reap":
            _, status = os.waitpid(int(asked.words[0]), 0)
            control.send(typed_json.line(Told(os.waitstatus_to_exitcode(status))))
            continue
        pid = _woken(*begun, message, given) if begun is not None else 0
        begun = None
        if not pid:
            if unloaded:
                _load(unloaded)
                unloaded = ""
            pid = _fork()
            if pid == 0:
                control.close()
                return _become(asked, given)
        for each in given:
            os.close(each)
        control.send(typed_json.line(Told(pid)))


def _next(control: socket.socket) -> tuple[bytes, list[int]]:
    """A message and its descriptors. The process ends if there will be none."""
    try:
        message, given, _, _ = socket.recv_fds(control, _MOST_BYTES, 3)
    except ConnectionError:
        message, given = b"", []
    if not message:
        os._exit(0)
    return message, given


def _fork() -> int:
    """As `os.fork`; the fork leads a process group."""
    pid = os.fork()
    with contextlib.suppress(OSError):  # the other side has done so
        os.setpgid(pid, pid)
    return pid


def _begin(control: socket.socket) -> list[str]:
    """In a fork that has no job yet: load, start the driver meanwhile, then wait for the words."""
    driver = _load_bindings()  # first, and alone: the driver takes longer to start than the rest to load
    starting = threading.Thread(target=_start_driver, args=(driver,))
    starting.start()
    _load("cuda")
    from . import typed_json
    from .nursery_messages import Asked

    message, given = _next(control)
    control.close()
    starting.join()
    return _become(typed_json.read(Asked, message), given)


def _woken(pid: int, begun: socket.socket, message: bytes, given: list[int]) -> int:
    """The process of the fork that has begun, with a job now; 0 if it has ended."""
    with begun:
        try:
            socket.send_fds(begun, [message], given)
        except OSError:
            return 0
    return pid


def _load(kind: str) -> None:
    """What is wrong with a module, its first use will say."""
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
        beside.join()  # a process that forks has one thread
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


def _load_bindings() -> Any:
    """The driver's bindings; None without them."""
    with contextlib.suppress(Exception):
        return importlib.import_module(".cuda_bindings", __package__).load("driver")


def _start_driver(driver: Any) -> None:
    """Start CUDA's driver, and the context of its only device: that is nine tenths of a worker's start.

    Of several devices it is not known which will be wanted, and a device that takes one context at a time may
    be wanted by another process.
    """
    os.environ.setdefault(_QUEUES, "1")
    with contextlib.suppress(Exception):  # the driver's first use will say what is wrong with it
        driver.cuInit(0)
        if driver.cuDeviceGetCount()[1] != 1:
            return
        device = driver.cuDeviceGet(0)[1]
        wanted = driver.CUdevice_attribute.CU_DEVICE_ATTRIBUTE_COMPUTE_MODE
        if driver.cuDeviceGetAttribute(wanted, device)[1] == driver.CUcomputemode.CU_COMPUTEMODE_DEFAULT:
            driver.cuDevicePrimaryCtxRetain(device)


def _become(asked: Asked, given: list[int]) -> list[str]:
    *words, last = asked.words
    log = os.open(last, os.O_WRONLY | os.O_CREAT | os.O_APPEND | os.O_CLOEXEC, 0o600)
    os.dup2(log, 1)
    os.dup2(log, 2)
    os.close(log)
    os.chdir(os.path.dirname(last))
    return [*words, *map(str, given[:-1])]

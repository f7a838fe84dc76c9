"""A process that is started before it is known what it will run: what takes seconds is loaded meanwhile."""

from __future__ import annotations

import contextlib
import ctypes
import importlib
import os
import threading

from . import typed_json
from .protocol import Order
from .torch_backend import warm_triton


def wait(read_fd: int, device: bool) -> list[str]:
    """Import torch, then read what to be: its arguments. It goes on where it prints into that one's log.

    Regions are placed after torch was loaded, then. Where their addresses are taken by that, whoever asked
    starts a fresh process, as for any other address that is taken.
    """
    if device:
        threading.Thread(target=_load_driver, daemon=True).start()
    with contextlib.suppress(Exception):  # whoever needs it will say what is wrong
        importlib.import_module("torch")
    if device:  # goes on while memory is placed
        threading.Thread(target=warm_triton.warm, daemon=True).start()
    line = b""
    while not line.endswith(b"\n"):
        part = os.read(read_fd, 1)  # what comes behind the line is another's to read
        if not part:
            os._exit(0)
        line += part
    order = typed_json.read(Order, line)
    log = os.open(order.log, os.O_WRONLY | os.O_CREAT | os.O_APPEND | os.O_CLOEXEC, 0o600)
    os.dup2(log, 1)
    os.dup2(log, 2)
    os.close(log)
    os.chdir(os.path.dirname(order.log))
    return order.arguments


def _load_driver() -> None:
    """It takes a while, and holds no lock of the interpreter."""
    with contextlib.suppress(OSError):
        ctypes.CDLL("libcuda.so.1").cuInit(0)

"""A process that has loaded torch and forks those that need it: `forked_nurseries`, `forked_targets`."""

from __future__ import annotations

import contextlib
import ctypes
import gc
import importlib
import os
import selectors
import signal
import socket
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import NoReturn, TypeAlias

# Prefixes of variables that only the start of a process, or the import of torch, reads.
_AT_START = ("PYTHON", "LD_", "LANG", "LC_", "OMP_", "MKL_", "OPENBLAS_", "MALLOC_", "GLIBC_", "TORCH_")
_PR_SET_PDEATHSIG = 1
_MADV_COLLAPSE = 25  # since Linux 6.1; where it is refused, forks only stay dear


# Gets its socket; serves for ever.
Server: TypeAlias = "Callable[[socket.socket], NoReturn]"


def of_start(environment: Mapping[str, str]) -> dict[str, str]:
    """What an environment must have in common with the one that torch was loaded in."""
    return {name: value for name, value in environment.items() if name.startswith(_AT_START)}


def listen(name: str) -> socket.socket:
    where = socket.socket(socket.AF_UNIX, socket.SOCK_SEQPACKET)
    where.bind(f"\0kerncap-tests-{os.getpid()}-{name}")
    where.listen(64)
    return where


def address_of(listening: socket.socket) -> str:
    address = listening.getsockname()
    return address.decode() if isinstance(address, bytes) else str(address)


def make_forks_cheap() -> None:
    """For a process that has loaded what its forks need.

    Of a fork of torch two thirds are entries of pages, copied and dropped; huge pages have few.
    """
    gc.freeze()  # what a fork collects, it copies
    advise = ctypes.CDLL(None).madvise
    for line in Path("/proc/self/maps").read_text().splitlines():
        addresses, rights, _, _, inode, *name = line.split(maxsplit=5)
        if (rights, inode) == ("rw-p", "0") and name in ([], ["[heap]"]):
            start, end = (int(each, 16) for each in addresses.split("-"))
            advise(ctypes.c_void_p(start), ctypes.c_size_t(end - start), _MADV_COLLAPSE)


def serve_apart(*servers: Server) -> list[str]:
    """An address for each server, which becomes a process with torch when it is first asked.

    Nothing is loaded before; the processes end with this one.
    """
    listening = {listen(str(number)): serve for number, serve in enumerate(servers)}
    if not os.fork():
        _end_with_parent()
        _serve(listening)
    addresses = [address_of(where) for where in listening]
    for where in listening:
        where.close()
    return addresses


def _end_with_parent() -> None:
    ctypes.CDLL(None).prctl(_PR_SET_PDEATHSIG, signal.SIGKILL)


def _serve(listening: dict[socket.socket, Server]) -> NoReturn:
    null = os.open(os.devnull, os.O_RDWR)
    for stream in range(3):
        os.dup2(null, stream)
    for fd in map(int, os.listdir("/proc/self/fd")):
        if fd > 2 and fd not in [where.fileno() for where in listening]:
            with contextlib.suppress(OSError):
                os.close(fd)
    signal.signal(signal.SIGCHLD, signal.SIG_IGN)  # nobody waits for them
    with selectors.DefaultSelector() as selector:
        for where in listening:
            selector.register(where, selectors.EVENT_READ, where)
        while listening:
            for key, _ in selector.select():
                gc.disable()
                with contextlib.suppress(ImportError):  # whoever needs it will say
                    importlib.import_module("torch")
                where = key.data
                serve = listening.pop(where)
                if not os.fork():
                    _end_with_parent()
                    selector.close()
                    for other in listening:
                        other.close()
                    serve(where)
                selector.unregister(where)
                where.close()
    while True:
        signal.pause()  # the others end with this one

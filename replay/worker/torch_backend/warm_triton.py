"""What Triton loads and hashes once in a process, before it compiles or finds the first kernel.

Most of it is a hash of its own files, which is part of every key of its cache: a second, or half of one.
"""

from __future__ import annotations

import contextlib
import importlib
import threading

KEY_PLACES = ("triton.runtime.cache", "triton.compiler.compiler")  # of Triton 3.5 and later, and before
_ONE = threading.Lock()  # a thread that comes meanwhile waits for it


def warm() -> None:
    """Do it now. If a Triton has it elsewhere, the first compilation pays, as without this."""
    with _ONE:
        with contextlib.suppress(Exception):  # imported when the first argument is looked at
            importlib.import_module("triton.experimental.gluon")
        for place in KEY_PLACES:
            with contextlib.suppress(Exception):
                importlib.import_module(place).triton_key()
                return


def start() -> threading.Thread:
    """Do it, and load Triton's driver, beside other work: hashing and building hold no lock."""
    thread = threading.Thread(target=_with_driver, daemon=True)
    thread.start()
    return thread


def _with_driver() -> None:
    warm()
    with contextlib.suppress(Exception):  # builds its helper with the host's compiler, once a cache
        getattr(importlib.import_module("triton.runtime").driver.active, "utils", None)

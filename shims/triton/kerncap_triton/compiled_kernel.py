"""Triton's CompiledKernel: the name that the driver will see, known just before the launch.

That name is the function's own, unless `@triton.jit(repr=...)` gives another for each
specialisation. Two moments say it. When a CompiledKernel is made, which no launch precedes, its
name becomes ours (`own`). And `CompiledKernel.launch_metadata` is the last thing that a run calls,
with the kernel compiled, before it launches: while a chosen launch is under way, that method is
wrapped. Triton's `launch_enter_hook` would tell as much, but torch.compile gives up its static
launcher for a process where that one is set.
"""

from __future__ import annotations

import functools
import os
import sys
import threading
from typing import Any, Callable, Optional, Tuple

from . import native_shims


class _ThisThread(threading.local):
    awaiting: "Tuple[Awaiting, ...]" = ()  # chosen launches under way, innermost last


_this_thread = _ThisThread()
_lock = threading.Lock()
_waiting = 0  # the same of all threads
_installed: Any = None
_original: Any = None


def _after_fork() -> None:
    global _lock
    _lock = threading.Lock()


os.register_at_fork(after_in_child=_after_fork)


def patch(module: Any) -> None:
    kind = module.CompiledKernel
    original = kind.__init__

    @functools.wraps(original)
    def made(self: Any, /, *args: Any, **kwargs: Any) -> None:
        original(self, *args, **kwargs)
        try:
            if hasattr(self.src, "fn"):  # one that was compiled from IR is launched past the hook
                native_shims.own(str(self.name))
        except Exception:
            pass  # a kernel without a name can't be launched either

    kind.__init__ = made


class Awaiting:
    """Calls ``launching(kernel)`` on this thread when ``fn`` is compiled and about to be launched."""

    def __init__(self, fn: Any, launching: Callable[[Any], None]) -> None:
        self._outer = _this_thread.awaiting
        self._fn = fn
        self._launching: Optional[Callable[[Any], None]] = launching
        _this_thread.awaiting = (*self._outer, self)
        _wrap()

    def stop(self) -> None:
        _this_thread.awaiting = self._outer
        _unwrap()

    def met(self, kernel: Any) -> bool:
        launching = self._launching
        if launching is None or getattr(kernel.src, "fn", self._fn) is not self._fn:
            return False  # a launch of its own that a grid or a pre-hook makes
        self._launching = None
        launching(kernel)
        return True


def _wrap() -> None:
    global _waiting, _installed, _original
    with _lock:
        _waiting += 1
        if _installed is not None:
            return
        kind = sys.modules["triton.compiler.compiler"].CompiledKernel
        original = kind.launch_metadata

        @functools.wraps(original)
        def launch_metadata(self: Any, /, *args: Any, **kwargs: Any) -> Any:
            try:
                any(waiting.met(self) for waiting in reversed(_this_thread.awaiting))
            except Exception:
                pass  # the launch goes on, and is found not to have been chosen
            return original(self, *args, **kwargs)

        kind.launch_metadata = _installed = launch_metadata
        _original = original


def _unwrap() -> None:
    global _waiting, _installed
    with _lock:
        _waiting -= 1
        kind = sys.modules["triton.compiler.compiler"].CompiledKernel
        # Somebody else's wrap over ours stays where it is, with ours inside.
        if not _waiting and vars(kind).get("launch_metadata") is _installed:
            kind.launch_metadata = _original
            _installed = None

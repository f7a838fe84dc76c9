"""Tells an exception that a signal handler of the target's raised inside our work from one of ours.

Python runs handlers between any two steps of the main thread. What they raise (a timeout, mostly) is the
target's own, and must come out of the launch as it would without us.
"""

from __future__ import annotations

import signal
from types import CodeType, TracebackType
from typing import Any, Optional, Set


def raised(error: Optional[BaseException], outer: Optional[BaseException]) -> Optional[BaseException]:
    """The exception of a handler that ``error`` is, or was raised over; None if no handler raised.

    ``outer`` is what the target was handling when our work began: that is not looked at.
    """
    codes: Optional[Set[CodeType]] = None
    seen: Set[int] = set()
    while error is not None and error is not outer and id(error) not in seen:
        seen.add(id(error))
        codes = _handlers() if codes is None else codes
        if not codes:
            return None
        if _passes(error.__traceback__, codes):
            return error
        error = error.__cause__ or error.__context__
    return None


def _passes(traceback: Optional[TracebackType], codes: Set[CodeType]) -> bool:
    while traceback is not None:
        if traceback.tb_frame.f_code in codes:
            return True
        traceback = traceback.tb_next
    return False


def _handlers() -> Set[CodeType]:
    """The code of every handler that is a Python function, however it is wrapped."""
    found = set()
    for number in signal.valid_signals():
        code = _code_of(signal.getsignal(number))
        if code is not None:
            found.add(code)
    return found


def _code_of(handler: Any) -> Optional[CodeType]:
    for _ in range(8):
        if handler is None or isinstance(handler, (int, signal.Handlers)):
            return None
        code = getattr(handler, "__code__", None)
        if isinstance(code, CodeType):
            return code
        inner = getattr(handler, "__func__", None) or getattr(handler, "func", None)
        handler = inner if inner is not None else vars(type(handler)).get("__call__")
    return None

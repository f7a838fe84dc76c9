"""The NVTX ranges around a launch: the native shim's, or those that Python functions open.

Without a shim that NVTX has loaded, C code's ranges are not seen. What is wrapped here are Python
functions alone, and those only in a session that asks about ranges.
"""

from __future__ import annotations

import functools
import itertools
import json
import threading
import time
from typing import Any, Callable, Dict, List, Optional

from . import native_shims, timeline
from .contract import Options, key, word

MODULES = ("torch.cuda.nvtx", "nvtx.nvtx")
MAX_NAME = 1024


class _Thread(threading.local):
    def __init__(self) -> None:
        self.names: List[str] = []
        self.serials: List[int] = []
        self.starts_ns: List[int] = []


_thread = _Thread()
_of_process: Dict[Any, str] = {}  # ranges from start to end, in the order of their starts
_starts_ns: Dict[Any, int] = {}  # of those
_serials = itertools.count(1)  # of what is pushed


def names() -> List[str]:
    """The open ranges around this thread's next launch, outermost first."""
    found = _of_shim()
    if found is not None:
        return found
    return [*_of_process.values(), *_thread.names]


def _of_shim() -> Optional[List[str]]:
    """What the shim to which NVTX itself tells of ranges has; None if there is no such."""
    shim = native_shims.find(word.shim.cuda)
    return shim.ranges() if shim is not None else None


def text() -> str:
    """The same as ``--where`` and ``--range`` have it."""
    return "/".join(names())


def occurrence(pattern: Any) -> int:
    """A number for the outermost range within which ``--range`` matches, that no other one gets.

    0 if none matches, or if the shim counts them.
    """
    if _of_shim() is not None:
        return 0
    serials = [*(serial for _, serial in _of_process), *_thread.serials]
    text = ""
    for name, serial in zip([*_of_process.values(), *_thread.names], serials):
        text = f"{text}/{name}" if text else name
        if pattern.search(text):
            return serial
    return 0


def are_asked_for(options: Options) -> bool:
    """Whether this session's reports or selectors use ranges; an armed one may at any time."""
    in_where = [word.step.name, "range"] in (options.where or [])
    return bool(options.list_only or options.dormant or options.range or in_where)


def watch(session_path: str, name: str, module: Any) -> None:
    """Called once, right after the target imported one of `MODULES`."""
    with open(session_path, encoding="utf-8") as file:
        if are_asked_for(Options(json.load(file))):
            _PATCHES[name](module)


def push(name: Any) -> None:
    _thread.names.append(_clean(name))
    _thread.serials.append(next(_serials))
    _thread.starts_ns.append(time.perf_counter_ns())


def pop() -> None:
    if _thread.names:
        _has_closed(_thread.names.pop(), _thread.starts_ns.pop(), threading.get_native_id())
        _thread.serials.pop()


def close_all() -> None:
    """At the process's end: this thread's ranges and the process's end here, for the timeline."""
    while _thread.names:
        pop()
    while _of_process:
        range_, name = _of_process.popitem()
        _has_closed(name, _starts_ns.pop(range_), None)


def _has_closed(name: str, start_ns: int, thread: Optional[int]) -> None:
    if timeline.is_on and _of_shim() is None:
        thing = {key.kind: word.timed.range, key.name: name, key.thread: thread}
        timeline.add(thing, start_ns, time.perf_counter_ns() - start_ns)


def _clean(name: Any) -> str:
    text = str(name)[:MAX_NAME].replace("\n", " ")
    return text.encode("utf-8", "replace").decode()


def _torch(module: Any) -> None:
    """torch.cuda.nvtx; its context manager calls the functions of its module, that is these."""
    module.range_push = _after(module.range_push, lambda result, args, kwargs: push(_first(args, kwargs)))
    module.range_pop = _after(module.range_pop, lambda result, args, kwargs: pop())
    _start_and_end(module, "range_start", "range_end")


def _nvtx(module: Any) -> None:
    """Package nvtx. The functions' own work goes on below ours, where a profiler listens."""
    module.push_range = _after(module.push_range, lambda result, args, kwargs: push(_first(args, kwargs)))
    module.pop_range = _after(module.pop_range, lambda result, args, kwargs: pop())
    _start_and_end(module, "start_range", "end_range")
    _annotate(module.annotate)


def _annotate(kind: Any) -> None:
    enter, leave, decorate = kind.__enter__, kind.__exit__, kind.__call__

    @functools.wraps(enter)
    def entered(self: Any) -> Any:
        result = enter(self)
        push(_message(self) or "")
        return result

    @functools.wraps(leave)
    def left(self: Any, *error: Any) -> Any:
        pop()
        return leave(self, *error)

    @functools.wraps(decorate)
    def decorated(self: Any, function: Any) -> Any:
        inner = decorate(self, function)
        name = _message(self) or getattr(function, "__name__", "")

        @functools.wraps(inner)
        def call(*args: Any, **kwargs: Any) -> Any:
            push(name)
            try:
                return inner(*args, **kwargs)
            finally:
                pop()

        return call

    kind.__enter__, kind.__exit__, kind.__call__ = entered, left, decorated


def _message(annotation: Any) -> Optional[str]:
    """What `annotate` was made with; it keeps its arguments to be pickled."""
    given = getattr(annotation, "init_args", None) or (None,)
    return None if given[0] is None else str(given[0])


def _start_and_end(module: Any, start: str, end: str) -> None:
    keys: Dict[Any, List[Any]] = {}  # one handle may stand for several: without a profiler all are 0

    def started(result: Any, args: Any, kwargs: Any) -> None:
        range_ = (start, next(_serials))
        keys.setdefault(_hashable(result), []).append(range_)
        _of_process[range_] = _clean(_first(args, kwargs))
        _starts_ns[range_] = time.perf_counter_ns()

    def ended(result: Any, args: Any, kwargs: Any) -> None:
        open_ones = keys.get(_hashable(_first(args, kwargs)))
        if open_ones:
            range_ = open_ones.pop()
            name = _of_process.pop(range_, None)
            if name is not None:
                _has_closed(name, _starts_ns.pop(range_), None)

    setattr(module, start, _after(getattr(module, start), started))
    setattr(module, end, _after(getattr(module, end), ended))


def _after(original: Callable[..., Any], note: Callable[[Any, Any, Any], None]) -> Callable[..., Any]:
    """``original``, and a note of a call that did not raise."""

    @functools.wraps(original)
    def noted(*args: Any, **kwargs: Any) -> Any:
        result = original(*args, **kwargs)
        try:
            note(result, args, kwargs)
        except Exception:
            pass  # a range of ours is missing; the target has what it asked for
        return result

    return noted


def _first(args: Any, kwargs: Dict[str, Any]) -> Any:
    return args[0] if args else next(iter(kwargs.values()), "")


def _hashable(value: Any) -> Any:
    return tuple(value) if isinstance(value, list) else value


_PATCHES: Dict[str, Callable[[Any], None]] = {"torch.cuda.nvtx": _torch, "nvtx.nvtx": _nvtx}

"""The wrap around a kernel's ``run``: cheap for what is not wanted, guarded for what is."""

from __future__ import annotations

import functools
import sys
import time
from types import MethodType
from typing import Any, Callable, Dict, Optional, Tuple

from . import autotune, launch_span, native_shims, nvtx_ranges, signal_handlers, torch_device, where
from .annotate import Annotation
from .call import Call, python_stack
from .capture import Capture
from .chosen_launch import Refused, Watch
from .contract import word
from .kernels import Counters, Kernel
from .launch_digests import Trace
from .launch_span import LaunchSpan
from .listing_rows import Key
from .listing_times import Timing
from .reachable_memory import Unsupported
from .session import Session
from .where_names import WhereNames

MAX_WHERE_REASONS = 16

Bind = Callable[[Kernel], Call]


class RunHook:
    """Stands for a class's ``run``; the whole cost of a launch that is surely not wanted.

    A descriptor, because a wrapping function would pack and unpack every argument once more: for
    such a launch the look-up counts it and hands out the original method. So what is counted here
    is look-ups of ``run``, which Triton does once per launch. Two threads in the same subtraction
    may lose a count; a lock would cost more than the launch may.
    """

    def __init__(self, session: Session, original: Callable[..., Any], watched: Callable[..., Any]) -> None:
        self._get = session.by_object.get
        self._original = original
        self._watched = functools.wraps(original)(watched)

    def __get__(self, fn: Any, owner: Any = None) -> Callable[..., Any]:
        counters = self._get(id(fn))
        if counters is not None and counters.left > 0:
            counters.left -= 1
            return MethodType(self._original, fn)
        return self._watched if fn is None else MethodType(self._watched, fn)


class ArmableRunHook(RunHook):
    """The same in a session that can be armed: one word of the session's page more per launch."""

    def __init__(self, session: Session, original: Callable[..., Any], watched: Callable[..., Any]) -> None:
        super().__init__(session, original, watched)
        assert session.page is not None
        self._session = session
        self._words = session.page.words

    def __get__(self, fn: Any, owner: Any = None) -> Callable[..., Any]:
        if self._words[0] == self._session.generation:
            counters = self._get(id(fn))
            if counters is not None and counters.left > 0:
                counters.left -= 1
                return MethodType(self._original, fn)
        return self._watched if fn is None else MethodType(self._watched, fn)


def run_hook(session: Session, original: Callable[..., Any], watched: Callable[..., Any]) -> Any:
    if session.lookups is not None:
        made = session.lookups.descriptor(original, functools.wraps(original)(watched))
        if made is not None:
            return made
    kind = RunHook if session.page is None else ArmableRunHook
    return kind(session, original, watched)


def is_skipped(session: Session, fn: Any) -> bool:
    """For launches that have no `RunHook`: whether this one is surely not wanted; it is counted then."""
    if session.page is not None and session.page.generation != session.generation:
        return False
    counters = session.by_object.get(id(fn))
    if counters is None or counters.left <= 0:
        return False
    counters.left -= 1
    return True


def patch(session: Session, kind: Any, mode: str) -> None:
    """Put the hook on JITFunction or InterpretedFunction."""
    original, warmup = kind.run, kind.warmup

    def watched(self: Any, /, *args: Any, **kwargs: Any) -> Any:
        return _slow(session, original, mode, self, args, kwargs)

    @functools.wraps(warmup)
    def warm_up(self: Any, /, *args: Any, **kwargs: Any) -> Any:
        counters = session.by_object.get(id(self))
        if counters is not None and counters.left > 0:
            counters.left += 1  # it looks up `run` too, and launches nothing
        return warmup(self, *args, **kwargs)

    kind.run = run_hook(session, original, watched)
    kind.warmup = warm_up


def _slow(
    session: Session,
    original: Callable[..., Any],
    mode: str,
    fn: Any,
    args: Tuple[Any, ...],
    kwargs: Dict[str, Any],
) -> Any:
    if kwargs.get("warmup") or session.thread.busy:
        return original(fn, *args, **kwargs)

    def bind(kernel: Kernel) -> Call:
        arguments, options = kernel.bind(args, kwargs)
        return Call(kernel, arguments, options, kwargs.get("grid"))

    watch = consider(session, fn, lambda f: Kernel(f, mode), bind)
    if watch is None:
        return original(fn, *args, **kwargs)
    return observe(session, watch, lambda: original(fn, *args, **kwargs))


def observe(session: Session, watch: Any, launch: Callable[[], Any]) -> Any:
    """Launch between the two halves of a watch (or of a timing); only the target's errors leave here."""
    watch.again = launch
    if not guarded(session, watch, watch.begin):
        return launch()
    try:
        result = launch()
    except BaseException as error:
        caught = error  # the name `error` ends with this block
        guarded(session, watch, lambda: watch.raised(caught))
        raise
    guarded(session, watch, lambda: watch.finish(result))
    return result


def consider(session: Session, fn: Any, make: Callable[[Any], Kernel], bind: Bind) -> Any:
    """What to do with this launch: None, a Watch or a Timing. Never raises."""
    started = time.perf_counter_ns()
    outer = sys.exc_info()[1]
    session.thread.busy = True
    try:
        return _consider(session, fn, make, bind)
    except Exception as error:
        _report(session, "", f"a launch could not be examined: {type(error).__name__}: {error}")
        _hand_on(error, outer)
        return None
    finally:
        session.thread.busy = False
        session.overhead_ns += time.perf_counter_ns() - started


def _consider(session: Session, fn: Any, make: Callable[[Any], Kernel], bind: Bind) -> Any:
    counters = session.counters_of(fn, make)
    if session.page is not None and session.page.generation != session.generation:
        session.rearm()
    selection = session.selection
    with session.lock:
        counters.launches += 1
        if counters.done:
            counters.filter(counters.reason)
            session.tick(counters)
            return None
        counters.fold()
        if session.thread.tuning:
            counters.filter(word.filter.autotuner)
            if selection.list_only:
                counters.rows.launched(Key(route=word.filter.autotuner))
            return None
    call: Optional[Call] = None
    config: Optional[str] = None
    if selection.where is not None:
        call = bind(counters.kernel)
        reason = _where_refuses(counters, selection.where, call)
        if reason is not None:
            with session.lock:
                counters.filter(reason)
            return None
    if selection.range is not None and not selection.in_range(nvtx_ranges.text()):
        with session.lock:
            counters.filter(word.filter.range)
        return None
    if selection.trace:
        return _traced(session, counters, call or bind(counters.kernel), fn)
    if selection.list_only:
        return _listed(session, counters, call or bind(counters.kernel))
    if selection.per_config:
        call = call or bind(counters.kernel)
        config = call.config_key()
    position: Optional[int] = None
    if selection.span is not None and not _is_for_graph(session):
        position = _position(session, counters, selection.span)
        if position is None:
            return None
    with session.lock:
        ordinal = counters.ordinal
        counters.ordinal += 1
        counters.matched += 1
        if config is not None:
            counters.configs.add(config)
        refusal = selection.wants(counters, ordinal, config)
        if refusal is not None:
            counters.filter(refusal)
            session.tick(counters)
            return None
    watch = _capture(session, counters, call, fn, ordinal, config, bind)
    if watch is not None:
        watch.position = position
    return watch


def _is_for_graph(session: Session) -> bool:
    """With --graph: whether the launch becomes a node, of which the shim is to know what the hook knows."""
    return session.options.graph is not None and torch_device.is_capturing()


def _position(session: Session, counters: Counters, span: LaunchSpan) -> Optional[int]:
    """Where the launch is in the range that was asked for; None, and it is counted, where it is not in it."""
    shim = _shim_for(session, counters.kernel)
    with session.lock:
        if shim is not None and torch_device.is_capturing():
            counters.filter("graph capture")  # nothing is launched
            return None
        position = span.position(counters.kernel, shim)
        if position >= 0:
            return position
        counters.filter(word.filter.ordinal)
        if position == launch_span.BEHIND:
            counters.finish(word.filter.ordinal)
        session.tick(counters)
        return None


def _listed(session: Session, counters: Counters, call: Call) -> Timing:
    with session.lock:
        counters.ordinal += 1
        counters.matched += 1
        if counters.matched == 1:
            counters.stack = python_stack()
    return Timing(session, counters, call)


def _traced(session: Session, counters: Counters, call: Call, fn: Any) -> Optional[Trace]:
    with session.lock:
        ordinal = counters.ordinal
        counters.ordinal += 1
        counters.matched += 1
        if not session.selection.is_in_launches(ordinal):
            counters.filter(word.filter.ordinal)
            return None
    return Trace(session, counters, call, fn, ordinal)


def _capture(
    session: Session,
    counters: Counters,
    call: Optional[Call],
    fn: Any,
    ordinal: int,
    config: Optional[str],
    bind: Bind,
) -> Optional[Watch]:
    try:
        call = call or bind(counters.kernel)
    except Exception as error:
        with session.lock:
            session.selection.settle(counters, config, "failed", 0)
        session.failed(counters.kernel.qualified_name, f"its call can't be bound: {error}")
        return None
    watch: Watch
    shim = _shim_for(session, counters.kernel)
    if shim is not None:
        watch = Annotation(session, counters, call, fn, ordinal, config, shim)
    elif session.options.collective is not None:
        with session.lock:
            session.selection.settle(counters, config, "failed", 0)
        session.failed(
            counters.kernel.qualified_name, "--collective needs the native shim, which is not in use"
        )
        return None
    else:
        watch = Capture(session, counters, call, fn, ordinal, config)
    try:
        watch.autotune = autotune.describe(session, fn, call)
    except Exception as error:
        session.failed(counters.kernel.qualified_name, f"its autotuner can't be described: {error!r}")
    return watch


def _shim_for(session: Session, kernel: Kernel) -> Optional[native_shims.Shim]:
    """The native shim that takes this launch's memory; None: the hook does."""
    try:
        return native_shims.serving(kernel.mode)
    except Exception as error:
        session.failed(kernel.qualified_name, f"the native shim could not be asked: {error!r}")
        return None


def _where_refuses(counters: Counters, expression: Any, call: Call) -> Optional[str]:
    try:
        return None if where.holds(expression, WhereNames(call)) else word.filter.where
    except where.Unanswerable as error:
        reason = f"where: {error}"[:200]
        known = reason in counters.filtered
        return reason if known or len(counters.filtered) < MAX_WHERE_REASONS else "where: …"


def guarded(session: Session, watch: Any, step: Callable[[], None]) -> bool:
    """Run our half of a capture; an error in it fails the capture, never the target."""
    started = time.perf_counter_ns()
    outer = sys.exc_info()[1]
    session.thread.busy = True
    try:
        step()
        return True
    except Refused as reason:
        watch.refuse(str(reason))
    except Unsupported as reason:
        _fail(session, watch, str(reason))
        _hand_on(reason, outer)
    except Exception as error:
        _fail(session, watch, f"{type(error).__name__}: {error}")
        _hand_on(error, outer)
    except BaseException as error:  # a Ctrl-C is the target's; the place is free for the next match
        _fail(session, watch, f"interrupted by {type(error).__name__}")
        raise
    finally:
        session.thread.busy = False
        session.overhead_ns += time.perf_counter_ns() - started
    return False


def _hand_on(error: Exception, outer: Optional[BaseException]) -> None:
    """Raise what a signal handler of the target's raised inside our work: it is the target's to catch."""
    its = signal_handlers.raised(error, outer)
    if its is not None:
        raise its


def _fail(session: Session, watch: Any, reason: str) -> None:
    try:
        watch.fail(reason)
    except Exception as error:
        _report(session, "", f"{reason}; then {type(error).__name__}: {error}")


def _report(session: Session, kernel: str, reason: str) -> None:
    try:
        session.failed(kernel, reason)
    except Exception:
        pass  # the session folder is gone or full: nothing is left to say it with

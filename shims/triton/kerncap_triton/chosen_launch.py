"""A chosen launch: what is known of it and recorded, by the hook or for a native shim."""

from __future__ import annotations

import collections
import itertools
import json
from typing import Any, Callable, Deque, Dict, List, Optional

from . import compiled_facts, encoded_values, nvtx_ranges, record_writer
from .call import Call, callable_source, python_stack
from .contract import key, word
from .kernels import Counters
from .pointed_tensors import pointed_tensors
from .reachable_memory import ReachableMemory, Unsupported
from .session import Session

MAX_SOURCES = 64  # sets of passed functions of one kernel that are remembered


class Refused(Exception):
    """The limits of the default selection leave no room; no failure."""


class Watch:
    """Used in this order: ``begin``, then the launch, then ``finish`` or ``raised``.

    ``again`` launches a second time (``--when differs``). The caller guards each step: an error
    in one of them goes to ``fail`` and never to the target.
    """

    def __init__(
        self, session: Session, counters: Counters, call: Call, fn: Any, ordinal: int, config: Optional[str]
    ):
        self.session = session
        self.counters = counters
        self.call = call
        self.fn = fn
        self.ordinal = ordinal
        self.config = config
        self.position: Optional[int] = None  # in a range of launches
        self.generation = session.generation
        self.again: Optional[Callable[[], Any]] = None
        self.autotune: Optional[Dict[str, Any]] = None
        self.describe_compiled: Callable[[Any], Dict[str, Any]] = self._describe_compiled
        self.size = 0  # bytes, as the limits count them
        self.settled = False

    def begin(self) -> None:
        """Raises Unsupported or Refused with the reason."""
        raise NotImplementedError

    def finish(self, result: Any) -> None:
        """The launch returned."""
        raise NotImplementedError

    def raised(self, error: BaseException) -> None:
        """The launch raised; the caller raises the same error on."""
        raise NotImplementedError

    def fail(self, reason: str) -> None:
        """The capture did not work out; the next match gets its place."""
        raise NotImplementedError

    def refuse(self, reason: str) -> None:
        """The default selection's limit: counted, not reported as a failure."""
        with self.session.lock:
            self.counters.filter(reason)
            self.counters.finish(reason)
        self._settle("refused")

    # --- what is known before the launch ---------------------------------------------------------

    def _encode_arguments(self, add_view: encoded_values.AddView) -> List[Dict[str, Any]]:
        call, encoded = self.call, []
        for name, value in call.arguments.items():
            argument: Dict[str, Any] = {
                key.name: name,
                key.role: word.role.constexpr_ if call.is_constexpr(name) else word.role.runtime,
                key.value: encoded_values.encode(value, name, add_view),
            }
            if name in call.kernel.keyword_only:
                argument[key.keyword_only] = True
            if name in call.signature:
                argument[key.signature] = call.signature[name]
            encoded.append(argument)
        return encoded

    def _close(self, reachable: ReachableMemory) -> None:
        """The arguments are in it; so is then what they point to, as far as it is a tensor on the host."""
        if self.call.kernel.mode == word.mode.interpreter:
            numbers = [(name, value) for name, value in self.call.arguments.items() if type(value) is int]
            for name, tensor in pointed_tensors([*reachable.tensors(), *numbers]):
                reachable.add(name, tensor)
        reachable.close()

    def _grid(self) -> List[int]:
        try:
            return list(self.call.grid_value())
        except Exception as error:
            raise Unsupported(f"its grid can't be evaluated: {type(error).__name__}: {error}") from error

    def _describe(self, arguments: List[Dict[str, Any]], grid: List[int]) -> Dict[str, Any]:
        """The fields of LAUNCH that have nothing to do with memory."""
        return {
            key.mode: self.call.kernel.mode,
            key.kernel: self.call.kernel.describe(),
            key.ordinal: self.ordinal,
            key.grid: grid,
            key.grid_source: callable_source(self.call.grid) if callable(self.call.grid) else None,
            key.arguments: arguments,
            key.options: {
                name: encoded_values.encode(value, name) for name, value in self.call.options.items()
            },
            key.autotune: self.autotune,
            key.source: self._source(),
            key.python_stack: python_stack(),
            key.range: nvtx_ranges.names(),
            **({} if self.position is None else {key.position: self.position}),
        }

    def _source(self) -> Optional[str]:
        """Collect the kernel's source graph, once for each set of functions that it is passed."""
        passed = [one for value in self.call.arguments.values() for one in encoded_values.functions(value)]
        which = tuple(map(id, passed))
        known = self.counters.sources.get(which)
        if known is None:
            if len(self.counters.sources) >= MAX_SOURCES:
                self.counters.sources.clear()  # functions made again for every launch would pile up
            known = self.counters.sources[which] = (self._collect_source(passed), passed)
        return known[0]

    def _collect_source(self, passed: List[Any]) -> Optional[str]:
        try:
            from . import source_graph

            graph = source_graph.collect(self.fn, passed)
            number = self.session.resources.setdefault("sources", itertools.count())
            name = f"source-{next(number)}.json"
            record_writer.write_file(self.session.path(name), json.dumps(graph).encode())
            return name
        except Exception as error:
            reason = f"its source could not be collected: {type(error).__name__}: {error}"
            self.session.failed(self.call.kernel.qualified_name, reason)
            return None

    # --- after the launch ------------------------------------------------------------------------

    def _compiled(self, result: Any) -> Dict[str, Any]:
        empty: Dict[str, Any] = {key.code: [], key.compiled: {}, key.signature: {}, key.divisibility: {}}
        try:
            return {**empty, **self.describe_compiled(result)}
        except Exception as error:
            self.session.failed(
                self.call.kernel.qualified_name, f"its compiled code could not be kept: {error!r}"
            )
            return empty

    def _describe_compiled(self, result: Any) -> Dict[str, Any]:
        if self.call.kernel.mode == word.mode.interpreter:
            return {}
        return compiled_facts.describe(
            self.session, result, self.call.kernel.name, self.call.kernel.arg_names
        )

    def _remember_last(self, kept: Any) -> List[Any]:
        """``--last N``: takes ``kept`` in; gives what has to make room for it, off the counts."""
        limit = self.session.options.last
        gone: List[Any] = []
        if not limit:
            return gone
        with self.session.lock:
            ring: Deque[Any] = self.session.resources.setdefault("last", collections.deque())
            ring.append((self.counters, kept))
            while len(ring) > limit:
                counters, oldest = ring.popleft()
                counters.captured -= 1
                gone.append(oldest)
        return gone

    def _settle(self, outcome: str) -> None:
        session = self.session
        with session.lock:
            self.settled = True
            if self.generation != session.generation:
                done = session.selection.release(self.counters, outcome)  # what is wanted now was armed since
            else:
                done = session.selection.settle(self.counters, self.config, outcome, self.size)
            done = done or session.selection.range_done(session.all_counters())
        if outcome in ("kept", "failed"):
            session.write_counts()
        if done and outcome == "kept" and session.options.stop:
            session.stop()

"""What a kernel is and how a call binds to it; counters of one kernel in one process."""

from __future__ import annotations

import inspect
import os
import time
from typing import Any, Dict, List, Optional, Set, Tuple

from .contract import key, word
from .listing_rows import Rows

# Launch options of Triton's backends that travel among the keyword arguments.
OPTIONS = frozenset(
    ("num_warps", "num_stages", "num_ctas", "maxnreg", "num_consumer_groups", "num_buffers_warp_spec",
     "waves_per_eu", "matrix_instr_nonkdim", "kpack", "enable_fp_fusion", "debug", "launch_cooperative_grid",
     "launch_pdl", "ir_override", "extern_libs")
)  # fmt: skip
_NOT_ARGUMENTS = frozenset(("grid", "warmup"))
MAX_STEP = 4096


class Kernel:
    """Identity and signature of a `@triton.jit` function, taken once."""

    def __init__(self, fn: Any, mode: str, name: Optional[str] = None) -> None:
        python = getattr(fn, "fn", None)  # None: Inductor dropped it before pickling
        code = getattr(python, "__code__", None)
        self.mode = mode
        self.name: str = name or str(getattr(fn, "__name__", None) or getattr(python, "__name__", "kernel"))
        self.module = (
            getattr(python, "__module__", None)
            or getattr(fn, "module", None)
            or fn.__dict__.get("__module__")
        )
        qualname = getattr(python, "__qualname__", None) or self.name
        self.qualified_name = f"{self.module}.{qualname}" if self.module else qualname
        self.file = getattr(code, "co_filename", None) or getattr(fn, "file_name", None)
        self.line = getattr(code, "co_firstlineno", None) or getattr(fn, "starting_line_number", None)
        self.source_known = bool(getattr(fn, "_src", None) or getattr(fn, "raw_src", None)) or _has_source(
            python
        )
        self.parameters = _parameters(fn, python)
        self.arg_names: List[str] = list(fn.arg_names)
        declared = self.parameters
        self.defaults: Dict[str, Any] = {
            name: p.default for name, p in declared.items() if p.default is not inspect.Parameter.empty
        }
        self.keyword_only = {n for n, p in declared.items() if p.kind is inspect.Parameter.KEYWORD_ONLY}
        self.variadic = next(
            (n for n, p in declared.items() if p.kind is inspect.Parameter.VAR_POSITIONAL), None
        )
        self.constexprs: Set[str] = {n for n, p in declared.items() if _is_constexpr(p.annotation)}

    @property
    def key(self) -> Tuple[Any, ...]:
        return (self.qualified_name, self.name, self.file, self.line)

    def describe(self) -> Dict[str, Any]:
        return {
            key.name: self.name,
            key.qualified_name: self.qualified_name,
            key.module: self.module,
            key.file: self.file,
            key.line: self.line,
        }

    def bind(self, args: Tuple[Any, ...], kwargs: Dict[str, Any]) -> Tuple[Dict[str, Any], Dict[str, Any]]:
        """Arguments by name in signature order, and launch options. TypeError if the call does not fit."""
        given: Dict[str, Any] = {}
        names = self.arg_names
        if self.variadic is not None:
            fixed = names.index(self.variadic)
            given[self.variadic] = tuple(args[fixed:])
            args = args[:fixed]
        if len(args) > len(names):
            raise TypeError(f"{self.name} takes {len(names)} arguments, {len(args)} were given")
        given.update(zip(names, args))
        options = {}
        known = set(names)
        for name, value in kwargs.items():
            if name in _NOT_ARGUMENTS:
                continue
            if name in known:
                given[name] = value
            if name not in known or name in OPTIONS:
                options[name] = value
        missing = [n for n in names if n not in given and n not in self.defaults]
        if missing:
            raise TypeError(f"{self.name}: no value for {', '.join(missing)}")
        return {n: given[n] if n in given else self.defaults[n] for n in names}, options


class Counters:
    """One kernel's state in this process.

    ``left`` is all that the unmatched path looks at: so many launches go straight through before
    the slow path is asked again. A kernel that is of interest keeps it at zero.
    """

    __slots__ = (
        "kernel", "left", "start", "step", "tick_s", "reason", "launches", "matched", "captured", "filtered",
        "ordinal", "configs", "wanted_configs", "bytes", "failures", "reserved", "sources",
        "name_matches", "done", "before", "configurations", "listed", "stack",
    )  # fmt: skip

    def __init__(self, kernel: Kernel, name_matches: bool, listed: Optional[Rows] = None) -> None:
        self.kernel = kernel
        self.name_matches = name_matches
        self.listed = listed  # with `kerncap list` alone
        self.stack: List[Tuple[str, int, str]] = []  # of its first launch, likewise
        self.configurations: Dict[Any, Tuple[str, str]] = {}  # what Call.configuration has made of them
        self.before = 0  # captured in generations before this one
        self.left = self.start = 0
        self.step = 1
        self.tick_s = time.monotonic()
        self.reason = word.filter.ordinal if name_matches else word.filter.name
        self.launches = self.matched = self.captured = self.ordinal = 0
        self.filtered: Dict[str, int] = {}
        self.configs: Set[str] = set()
        self.wanted_configs: Set[str] = set()
        self.bytes = self.failures = self.reserved = 0
        # One graph per set of jit functions that were arguments; the functions are kept for their ids.
        self.sources: Dict[Tuple[int, ...], Tuple[Optional[str], List[Any]]] = {}
        self.done = not name_matches

    @property
    def rows(self) -> Rows:
        assert self.listed is not None
        return self.listed

    def rearm(self, name_matches: bool) -> None:
        """A new selection: ordinals, sets and failures start again, the counts go on."""
        self.freeze()
        self.name_matches = name_matches
        self.step, self.ordinal, self.failures = 1, 0, 0
        self.wanted_configs = set()
        self.before = self.captured
        self.reason = word.filter.ordinal if name_matches else word.filter.name
        self.done = not name_matches

    def filter(self, reason: str, count: int = 1) -> None:
        self.filtered[reason] = self.filtered.get(reason, 0) + count

    def fold(self) -> None:
        """Move what the fast path counted into the totals."""
        left = self.left
        passed = self.start - left
        self.start = left
        if passed > 0:
            self.launches += passed
            self.filter(self.reason, passed)
            if not self.done:  # passed over on the way to a wanted ordinal
                self.ordinal += passed
                self.matched += passed

    def freeze(self) -> None:
        """Every launch goes through the slow path again."""
        self.fold()
        self.left = self.start = 0

    def refill(self, now_s: float, most: int) -> None:
        """Let about a second's worth of launches pass, at most ``most``, before the slow path looks again."""
        self.fold()
        elapsed = now_s - self.tick_s
        if elapsed < 0.5:
            self.step = min(self.step * 2, MAX_STEP)
        elif elapsed > 2.0:
            self.step = max(self.step // 4, 1)
        self.tick_s = now_s
        self.start = self.left = min(self.step, most)

    def finish(self, reason: str) -> None:
        """Nothing more is wanted of this kernel; later launches count as filtered for this reason."""
        if not self.done:
            self.fold()
            self.done = True
            self.reason = reason

    def as_record(self) -> Dict[str, Any]:
        return {
            key.launches: self.launches,
            key.matched: self.matched,
            key.captured: self.captured,
            key.filtered: dict(self.filtered),
            key.configs: len(self.configs),
            key.time_ns: 0,
            key.bytes: self.bytes,
            **self._as_listed(),
        }

    def _as_listed(self) -> Dict[str, Any]:
        if self.listed is None:
            return {}
        return {**self.listed.total.times(), key.rows: self.listed.as_records(), key.stack: self.stack}


def _parameters(fn: Any, python: Any) -> Dict[str, inspect.Parameter]:
    signature = getattr(fn, "signature", None)
    if not isinstance(signature, inspect.Signature):
        signature = inspect.signature(python)
    return dict(signature.parameters)


def _is_constexpr(annotation: Any) -> bool:
    if isinstance(annotation, str):
        return "constexpr" in annotation
    return getattr(annotation, "__name__", "") == "constexpr"


def _has_source(python: Any) -> bool:
    code = getattr(python, "__code__", None)
    if code is None:
        return False
    if os.path.isfile(code.co_filename):
        return True
    try:
        return bool(inspect.getsource(python))
    except (OSError, TypeError):
        return False

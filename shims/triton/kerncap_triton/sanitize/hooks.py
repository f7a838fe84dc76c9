"""Where Triton launches: `JITFunction.run` and the autotuner's, handed to a watcher."""

from __future__ import annotations

import functools
import threading
import warnings
from importlib import import_module
from typing import Any, Callable, Dict, List, Optional, Tuple

from .. import torch_device
from . import compilation, gpu_targets
from .arguments import Undescribable, tensors
from .launch_description import Description, describe, grid_of
from .messages import HostRead

_install_lock = threading.Lock()


class Watcher:
    """Gets every launch of a program, or of a thread's block of code. ``target`` None: the one at hand."""

    def __init__(self, target: Optional[str] = None, every_configuration: bool = True) -> None:
        self.target = target
        self.every_configuration = every_configuration
        self.collects_only = False  # nothing is launched, neither on a GPU nor on the CPU
        self.allocations: Optional[Callable[[Any], Tuple[int, int]]] = None

    def launched(self, description: Description, carry_out: bool) -> None:
        """Before the launch. With ``carry_out`` it is this call that changes the tensors' memory.

        What is raised from here goes to the target.
        """
        raise NotImplementedError

    def missed(self, kernel: str, reason: str) -> None:
        """A launch that could not be described. It goes on where a GPU runs it."""
        raise NotImplementedError

    def host_read(self, read: HostRead) -> None:
        """An operation of torch that reads what nobody wrote."""

    def note(self, text: str) -> None:
        """What the user should know of the run as a whole."""


RunTuner = Callable[[Watcher, Any, Tuple[Any, ...], Dict[str, Any]], Any]


class CannotCarryOut(RuntimeError):
    """A launch on CPU tensors that kerncap can't even describe: there is nobody else to run it."""


class NotCarriedOut(UserWarning):
    """A launch on CPU tensors was looked at, but its results are not in memory."""


def warn_not_carried_out(kernel: str, reason: str) -> None:
    """Once for each place that launches; later launches are not judged by what it would have written."""
    warnings.warn(
        f"kerncap sanitize looked at {kernel}, but can't carry it out on the CPU: {reason}. "
        "What it would write is missing from here on.",
        NotCarriedOut,
        stacklevel=2,
    )


class _State(threading.local):
    watcher: Optional[Watcher] = None  # of this thread alone; goes before the program's
    busy = False  # we are at work: launches from here are nobody's
    checks_only = False  # an autotuner's other configurations: looked at, not carried out
    label = ""
    measured: Optional[List[bool]] = None  # while a GPU autotuner measures: whether one launch was looked at


_state = _State()
_program: Optional[Watcher] = None


def watch_program(watcher: Optional[Watcher]) -> None:
    global _program
    _program = watcher


def current() -> Optional[Watcher]:
    return None if _state.busy else _state.watcher or _program


class watching:
    """``with watching(watcher):`` this thread's launches are its."""

    def __init__(self, watcher: Watcher) -> None:
        self._watcher = watcher

    def __enter__(self) -> Watcher:
        self._before, _state.watcher = _state.watcher, self._watcher
        return self._watcher

    def __exit__(self, *_: Any) -> None:
        _state.watcher = self._before


def install(run_tuner: RunTuner) -> None:
    """Put the hooks on Triton, which is imported. Without a watcher they cost a look at a variable.

    ``run_tuner``: `autotuner.run`.
    """
    patch_jit(import_module("triton.runtime.jit"))
    patch_autotuner(import_module("triton.runtime.autotuner"), run_tuner)
    gpu_targets.provide(launch_compiled)


def patch_jit(module: Any) -> None:
    kind = module.JITFunction
    with _install_lock:
        if "kerncap_sanitize" in vars(kind):
            return
        kind.kerncap_sanitize = True
        original = kind.run

        @functools.wraps(original)
        def run(self: Any, /, *args: Any, **kwargs: Any) -> Any:
            watcher = current()
            if watcher is None or kwargs.get("warmup"):
                return original(self, *args, **kwargs)
            return _run(watcher, original, self, args, kwargs)

        kind.run = run


def patch_autotuner(module: Any, run_tuner: RunTuner) -> None:
    """``run_tuner``: `autotuner.run`."""
    kind = module.Autotuner
    with _install_lock:
        if "kerncap_sanitize" in vars(kind):
            return
        kind.kerncap_sanitize = True
        original_run, original_bench = kind.run, kind._bench

        @functools.wraps(original_run)
        def run(self: Any, /, *args: Any, **kwargs: Any) -> Any:
            watcher = current()
            if watcher is None or not (watcher.collects_only or _is_on_cpu(args, kwargs)):
                return original_run(self, *args, **kwargs)
            return run_tuner(watcher, self, args, kwargs)

        @functools.wraps(original_bench)
        def bench(self: Any, /, *args: Any, **kwargs: Any) -> Any:
            outer, outer_label = _state.measured, _state.label
            _state.measured = [False]
            _state.label = _configuration_label(self, kwargs.get("config"))
            try:
                return original_bench(self, *args, **kwargs)
            finally:
                _state.measured, _state.label = outer, outer_label

        kind.run = run
        kind._bench = bench


def _configuration_label(tuner: Any, config: Any) -> str:
    for number, one in enumerate(tuner.configs):
        if one is config:
            return f"configuration {number + 1} of {len(tuner.configs)}"
    return ""


def check_configuration(label: str, launch: Callable[[], Any]) -> Any:
    """An autotuner's configuration: described, never carried out."""
    before = _state.checks_only, _state.label
    _state.checks_only, _state.label = True, label
    try:
        return launch()
    finally:
        _state.checks_only, _state.label = before


def with_label(label: str, launch: Callable[[], Any]) -> Any:
    before, _state.label = _state.label, label
    try:
        return launch()
    finally:
        _state.label = before


def _run(
    watcher: Watcher, original: Callable[..., Any], fn: Any, args: Tuple[Any, ...], kwargs: Dict[str, Any]
) -> Any:
    on_cpu = _is_on_cpu(args, kwargs)
    ours = watcher.collects_only or on_cpu or _state.checks_only
    if not ours:
        measured = _state.measured
        if measured is not None and (measured[0] or not watcher.every_configuration):
            return original(fn, *args, **kwargs)
        if measured is not None:
            measured[0] = True
    given = {name: value for name, value in kwargs.items() if name not in ("grid", "warmup")}
    if ours:
        for hook in getattr(fn, "pre_run_hooks", ()):
            hook(*args, **given)
    description = None
    kernel = str(getattr(fn, "__name__", "kernel"))
    _state.busy = True
    try:
        description = _describe(watcher, fn, args, given, kwargs.get("grid"), original)
    except Undescribable as error:
        watcher.missed(kernel, str(error))
        if ours:
            raise CannotCarryOut(f"kerncap sanitize: {kernel}: {error}") from error
    except Exception as error:
        if ours:
            raise  # a call that does not fit, a kernel that does not compile: the target's own
        watcher.missed(kernel, f"{type(error).__name__}: {error}")
    finally:
        _state.busy = False
    if description is not None:
        hand_over(watcher, description, carry_out=on_cpu and not _state.checks_only)
    if not ours:
        return original(fn, *args, **kwargs)
    return description.result if description is not None else None


def quietly(work: Callable[[], Any]) -> Any:
    """Our own work: launches from inside are nobody's."""
    _state.busy = True
    try:
        return work()
    finally:
        _state.busy = False


def hand_over(watcher: Watcher, description: Description, carry_out: bool) -> None:
    quietly(lambda: watcher.launched(description, carry_out and not watcher.collects_only))


def _describe(
    watcher: Watcher, fn: Any, args: Tuple[Any, ...], given: Dict[str, Any], grid: Any, original: Any
) -> Description:
    target = gpu_targets.parse(watcher.target or gpu_targets.current())
    bound = compilation.bind(fn, args, given, target)
    text = compilation.ttir(fn, bound, target)
    complaint = compilation.changed_global(fn)
    if complaint is not None:
        raise RuntimeError(complaint)
    numbers = grid_of(grid, bound.arguments)
    options = dict(compilation.options_of(bound, given))
    description = describe(fn, bound, text, numbers, target, options, _state.label, watcher.allocations)
    description.result = Carried(fn, text, bound, target)
    return description


class Carried:
    """What a launch on the CPU returns in place of a CompiledKernel; ``[grid](…)`` launches it again."""

    n_regs = n_spills = 0

    def __init__(self, fn: Any, ttir: str, bound: Any, target: Any) -> None:
        self.name = str(fn.__name__)
        self.asm = {"ttir": ttir}
        self.metadata = bound.options
        self._fn, self._bound, self._target = fn, bound, target

    def __getitem__(self, grid: Any) -> Callable[..., None]:
        return functools.partial(self._launch, grid)

    def _launch(self, grid: Any, *args: Any, stream: Any = None) -> None:
        watcher = current()
        if watcher is None:
            raise CannotCarryOut(f"kerncap sanitize: {self.name}: no one carries out this launch")
        bound = self._bound
        arguments = {**bound.arguments, **dict(zip(self._fn.arg_names, args))}
        bound = compilation.Bound(
            arguments, bound.signature, bound.constants, bound.attributes, bound.options, bound.key
        )
        _launch_bound(watcher, self._fn, bound, self.asm["ttir"], grid_of(tuple(grid), {}), self._target)


def launch_compiled(source: Any, grid: Tuple[int, int, int], arguments: Tuple[Any, ...]) -> None:
    """``compiled[grid](…)`` of a kernel that was compiled ahead of time, on a machine with no GPU."""
    watcher = current()
    fn = getattr(source, "fn", None)
    if watcher is None or fn is None:
        raise CannotCarryOut("kerncap sanitize: only kernels of @triton.jit can be carried out with no GPU")
    target = gpu_targets.parse(watcher.target or gpu_targets.current())
    text = quietly(lambda: compilation.compile_source(source, None, target))
    names = [str(name) for name in fn.arg_names]
    constants = dict(getattr(source, "constants", None) or {})
    bound = compilation.Bound(dict(zip(names, arguments)), dict(source.signature), constants, {}, None, "")
    _launch_bound(watcher, fn, bound, text, grid, target)


def _launch_bound(watcher: Watcher, fn: Any, bound: Any, text: str, grid: Any, target: Any) -> None:
    try:
        description = quietly(
            lambda: describe(fn, bound, text, grid, target, {}, _state.label, watcher.allocations)
        )
    except Undescribable as error:
        watcher.missed(str(fn.__name__), str(error))
        raise CannotCarryOut(f"kerncap sanitize: {fn.__name__}: {error}") from error
    hand_over(watcher, description, carry_out=not _state.checks_only)


def _is_on_cpu(args: Tuple[Any, ...], kwargs: Dict[str, Any]) -> bool:
    """Whether kerncap carries the launch out: its tensors lie on the CPU, or there is no GPU at all.

    Pinned memory is a GPU's to use if there is one.
    """
    found = False
    for tensor in tensors([*args, *kwargs.values()]):
        if tensor.device.type != "cpu" or (torch_device.is_live() and getattr(tensor, "is_pinned", bool)()):
            return False
        found = True
    return found or not gpu_targets.has_gpu()

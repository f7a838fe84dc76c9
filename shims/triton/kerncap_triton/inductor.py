"""Kernels of torch.compile: `CachingAutotuner.run` (torch 2.11 to 2.13).

Its first runs compile and measure; what may be captured is the one call of the chosen launcher at
the end. So for a wanted run the launcher is replaced by a stand-in for as long as the run lasts:
wherever the run takes its launcher from (it had one, `precompile` made the only one, autotuning or
coordinate descent chose one), the stand-in is called at exactly the application's launch.
"""

from __future__ import annotations

import functools
import os
import sys
import types
from typing import Any, Callable, Dict, List, Optional, Tuple

from . import compiled_facts, encoded_values, native_shims, run_hook, triton_generations
from .annotate import Annotation
from .call import Call
from .chosen_launch import Watch
from .contract import key, word
from .kernels import Kernel
from .listing_times import Timing
from .reachable_memory import Unsupported
from .session import Session

_TUNING = ("bench", "autotune_to_one_config", "coordinate_descent_tuning", "_combo_sequential_autotune")
_WARP_SPECIALIZATION = ("num_consumer_groups", "num_buffers_warp_spec")


def patch(session: Session, module: Any) -> None:
    tuner = module.CachingAutotuner
    for name in ("precompile", *_TUNING):
        if name in vars(tuner):
            setattr(tuner, name, _wrap_step(session, getattr(tuner, name), name))
    original, debug_class = tuner.run, getattr(module, "DebugAutotuner", ())

    def watched(self: Any, *args: Any, **kwargs: Any) -> Any:
        return _slow(session, original, debug_class, self, args, kwargs)

    tuner.run = run_hook.run_hook(session, original, watched)


def _wrap_step(session: Session, original: Callable[..., Any], name: str) -> Callable[..., Any]:
    """A step of tuning: what it launches is its own, what it chooses gets the stand-in."""
    measures = name in _TUNING

    @functools.wraps(original)
    def step(self: Any, *args: Any, **kwargs: Any) -> Any:
        thread = session.thread
        thread.tuning += measures
        try:
            result = original(self, *args, **kwargs)
        finally:
            thread.tuning -= measures
        if name == "precompile":
            _own(self)
        interception = thread.interception
        if interception is not None and interception.tuner is self and not thread.tuning:
            if name in ("precompile", "autotune_to_one_config"):
                interception.place()
            elif name != "bench":
                return interception.stand_in(result)
        return result

    return step


def _own(tuner: Any) -> None:
    """No native shim takes these kernels on its own account. Workers compiled them: nobody saw them made."""
    try:
        for launcher in tuner.launchers:
            native_shims.own(compiled_name(_real(launcher)))
    except Exception:
        pass  # they are then captured twice: as Triton's, and as native kernels


def _slow(
    session: Session,
    original: Callable[..., Any],
    debug_class: Any,
    tuner: Any,
    args: Tuple[Any, ...],
    kwargs: Dict[str, Any],
) -> Any:
    thread = session.thread
    if thread.busy or getattr(tuner, "triton_interpret", False) or thread.interception is not None:
        return original(tuner, *args, **kwargs)  # the interpreter's own hook sees those
    is_measuring = bool(kwargs.get("benchmark_run")) and not isinstance(tuner, debug_class)
    thread.tuning += is_measuring
    try:
        watch = run_hook.consider(
            session, tuner, lambda t: make_kernel(t), lambda kernel: bind_early(kernel, tuner, args, kwargs)
        )
    finally:
        thread.tuning -= is_measuring
    if watch is None:
        return original(tuner, *args, **kwargs)
    interception = Interception(session, tuner, watch)
    thread.interception = interception
    interception.place()
    try:
        return original(tuner, *args, **kwargs)
    except BaseException as error:
        interception.never_launched(f"the run raised {type(error).__name__}: {error}")
        raise
    finally:
        thread.interception = None
        interception.remove()
        interception.never_launched("the run ended without calling its launcher")


class Interception:
    """One wanted run of one tuner, on one thread."""

    def __init__(self, session: Session, tuner: Any, watch: Any) -> None:
        self.session = session
        self.tuner = tuner
        self.watch = watch
        self.used = False
        # torch 2.13 keeps the launcher of later runs apart; without it the run takes the long way.
        self._fast = getattr(tuner, "_cached_launcher", None)
        if self._fast is not None:
            tuner._cached_launcher = None

    def place(self) -> None:
        """Put the stand-in where the run will take its launcher from, once there is only one."""
        launchers = self.tuner.launchers
        if len(launchers) == 1:
            self.tuner.launchers = [self.stand_in(launchers[0])]

    def stand_in(self, launcher: Any) -> Any:
        return launcher if isinstance(launcher, StandIn) else StandIn(launcher, self)

    def remove(self) -> None:
        tuner = self.tuner
        tuner.launchers = [_real(launcher) for launcher in tuner.launchers]
        if hasattr(tuner, "_cached_launcher"):
            tuner._cached_launcher = self._fast if self._fast is not None else _real(tuner._cached_launcher)

    def called(self, launcher: Any, args: Tuple[Any, ...], kwargs: Dict[str, Any]) -> Any:
        thread = self.session.thread
        if self.used or thread.interception is not self or thread.tuning:
            return launcher(*args, **kwargs)
        self.used = True
        if isinstance(self.watch, Timing):
            run_hook.guarded(
                self.session, self.watch, functools.partial(self._launched_with, launcher, args, kwargs)
            )
        elif isinstance(self.watch, Watch):
            prepare = functools.partial(self._prepare, launcher, args, kwargs)
            if not run_hook.guarded(self.session, self.watch, prepare):
                return launcher(*args, **kwargs)
        return run_hook.observe(self.session, self.watch, lambda: launcher(*args, **kwargs))

    def _prepare(self, launcher: Any, args: Tuple[Any, ...], kwargs: Dict[str, Any]) -> None:
        capture = self.watch
        capture.call = bind_launcher(capture.counters.kernel, self.tuner, launcher, args, kwargs)
        capture.fn = self.tuner.fn if capture.counters.sources else _with_python(self.tuner)
        capture.describe_compiled = lambda _: describe_compiled(self.session, self.tuner, launcher)
        if isinstance(capture, Annotation):
            capture.compiled_name = compiled_name(launcher)
        if capture.config is not None:
            with self.session.lock:  # only now it is known which configuration this is
                capture.counters.wanted_configs.discard(capture.config)
                capture.config = capture.call.config_key()
                capture.counters.wanted_configs.add(capture.config)

    def _launched_with(self, launcher: Any, args: Tuple[Any, ...], kwargs: Dict[str, Any]) -> None:
        """For a listing: only now it is known which configuration this is."""
        self.watch.call = bind_launcher(self.watch.counters.kernel, self.tuner, launcher, args, kwargs)

    def never_launched(self, reason: str) -> None:
        if not self.used:
            self.used = True
            run_hook.guarded(self.session, self.watch, lambda: self.watch.fail(reason))


class StandIn:
    """A launcher that tells the interception of its call and is the real one in all else."""

    def __init__(self, launcher: Any, interception: Interception) -> None:
        self.__dict__["_launcher"] = launcher
        self.__dict__["_interception"] = interception

    def __call__(self, *args: Any, **kwargs: Any) -> Any:
        return self._interception.called(self._launcher, args, kwargs)

    def __getattr__(self, name: str) -> Any:
        return getattr(self._launcher, name)

    def __setattr__(self, name: str, value: Any) -> None:
        setattr(self._launcher, name, value)


def _real(launcher: Any) -> Any:
    return launcher.__dict__["_launcher"] if isinstance(launcher, StandIn) else launcher


def make_kernel(tuner: Any) -> Kernel:
    fn = tuner.fn
    name = str(getattr(fn, "__name__", "triton_"))
    if name == "triton_":  # Inductor's placeholder; the unique name is in its notes
        name = str(tuner.inductor_meta.get("kernel_name") or name)
    kernel = Kernel(fn, word.mode.inductor, name)
    kernel.file = kernel.file or tuner.filename
    kernel.constexprs |= {fn.arg_names[i] for i in getattr(fn, "constexprs", ()) if i < len(fn.arg_names)}
    return kernel


def _with_python(tuner: Any) -> Any:
    """The JIT function with its Python function, which a kernel compiled in a worker has lost."""
    fn = tuner.fn
    if getattr(fn, "fn", None) is None and callable(getattr(tuner, "_reload_kernel", None)):
        fn = tuner._reload_kernel().fn
    return fn


def bind_early(kernel: Kernel, tuner: Any, args: Tuple[Any, ...], kwargs: Dict[str, Any]) -> Call:
    """Arguments for ``--where``, before it is sure which launcher will run."""
    if len(tuner.launchers) == 1:
        return bind_launcher(kernel, tuner, _real(tuner.launchers[0]), args, kwargs)
    names = [n for n in kernel.arg_names if n not in kernel.constexprs]
    arguments = {**dict(zip(names, args)), **{n: v for n, v in kwargs.items() if n in kernel.arg_names}}
    return Call(kernel, arguments, {}, None)


def bind_launcher(
    kernel: Kernel, tuner: Any, launcher: Any, args: Tuple[Any, ...], kwargs: Dict[str, Any]
) -> Call:
    """The call that this launcher makes: every kernel parameter by name, the grid that it computes.

    Raises Unsupported where a parameter's value is in neither the call nor the configuration.
    """
    given = dict(zip(_parameter_names(launcher), args))
    given.update(kwargs)
    given.pop("benchmark_run", None)
    stream = given.pop("stream", None)
    constants = _constants(kernel, tuner, launcher)
    arguments = {}
    for name in kernel.arg_names:
        if name in given:
            arguments[name] = given[name]
        elif name in constants:
            arguments[name] = constants[name]
        elif name in kernel.defaults:
            arguments[name] = kernel.defaults[name]
        else:
            raise Unsupported(f"Inductor's launcher passes no value for {name}")
    call = Call(
        kernel, arguments, _options(tuner, launcher.config), grid_of(tuner, launcher, args, kwargs, given)
    )
    call.stream = stream
    signature = tuner.triton_meta.get("signature") or {}
    call.signature = triton_generations.signature(
        types.SimpleNamespace(signature=signature), kernel.arg_names
    )
    return call


def _parameter_names(launcher: Any) -> List[str]:
    code = launcher.__code__
    return [name for name in code.co_varnames[: code.co_argcount] if name != "stream"]


def _constants(kernel: Kernel, tuner: Any, launcher: Any) -> Dict[str, Any]:
    found: Dict[str, Any] = {}
    for name, value in (tuner.triton_meta.get("constants") or {}).items():
        name = name[0] if isinstance(name, tuple) and len(name) == 1 else name
        if isinstance(name, int) and name < len(kernel.arg_names):
            name = kernel.arg_names[name]
        if isinstance(name, str):
            found[name] = value
    config = launcher.config
    found.update(config.kwargs)
    for name in ("num_warps", "num_stages"):
        if name in kernel.arg_names:
            found.setdefault(name, getattr(config, name))
    return found


def _options(tuner: Any, config: Any) -> Dict[str, Any]:
    """What the kernel was compiled with, as launch options of the same kernel under the JIT."""
    try:
        options = dict(tuner._create_compile_options(config, tuner._create_compile_meta(config)))
    except Exception:
        options = {"num_warps": config.num_warps, "num_stages": config.num_stages}
    return {
        name: v
        for name, v in options.items()
        if v is not None and not (name in _WARP_SPECIALIZATION and not v)
    }


def grid_of(
    tuner: Any, launcher: Any, args: Tuple[Any, ...], kwargs: Dict[str, Any], given: Dict[str, Any]
) -> Tuple[int, int, int]:
    """The grid, by the launcher's own code with a runner that only takes notes."""
    taken: List[Any] = []
    try:
        code, scope = launcher.__code__, launcher.__globals__
        note = {**scope, "runner": lambda *values: taken.extend(values[:3])}
        types.FunctionType(code, note, launcher.__name__, launcher.__defaults__)(*args, **kwargs)
        return int(taken[0]), int(taken[1]), int(taken[2])
    except Exception:
        module = sys.modules["torch._inductor.runtime.triton_heuristics"]
        expression = module.GridExpr.from_meta(tuner.inductor_meta, launcher.config)
        x, y, z = expression.eval_slow(dict(given))
        return int(x), int(y), int(z)


def describe_compiled(session: Session, tuner: Any, launcher: Any) -> Dict[str, Any]:
    """Stages and facts: of the CompiledKernel, or of what a static launcher left in Triton's cache."""
    scope = launcher.__globals__
    names = list(tuner.fn.arg_names)
    binary = scope.get("bin")
    if binary is not None:
        return compiled_facts.describe(session, binary, str(tuner.fn.__name__), names)
    kernel = getattr(scope.get("runner"), "__self__", None)
    folder = cache_folder(tuner, launcher)
    stages: List[Tuple[str, Any]] = compiled_facts.stages_in_folder(folder) if folder else []
    facts = {}
    for name in ("name", "num_warps", "shared", "n_regs", "n_spills"):
        value = getattr(kernel, name, None)
        if value is not None:
            facts[name] = encoded_values.encode(value)
    facts = {**compiled_facts.facts_of_metadata(stages), **facts}
    meta = tuner.triton_meta
    attributes = next(iter(meta.get("configs") or ()), None)
    source = types.SimpleNamespace(attrs=attributes, signature=meta.get("signature") or {})
    return {
        key.code: compiled_facts.store_stages(
            session, str(tuner.fn.__name__), str(launcher.cache_hash), stages
        ),
        key.compiled: facts,
        key.signature: triton_generations.signature(source, names),
        key.divisibility: triton_generations.divisibility(source, names),
    }


def compiled_name(launcher: Any) -> str:
    """The kernel's name in its image: of the CompiledKernel, or of a static launcher's kernel."""
    scope = launcher.__globals__
    kernel = scope.get("bin") or scope["runner"].__self__
    return str(getattr(kernel, "name", None) or kernel.metadata.name)


def cache_folder(tuner: Any, launcher: Any) -> Optional[str]:
    """Triton's cache folder of the compiled kernel; None if it is gone."""
    utils = sys.modules.get("torch._inductor.runtime.runtime_utils")
    find = getattr(utils, "triton_cache_dir", None)
    roots = [find(tuner.triton_meta.get("device", 0) or 0)] if find is not None else []
    roots.extend(filter(None, [os.environ.get("TRITON_CACHE_DIR"), os.path.expanduser("~/.triton/cache")]))
    for root in roots:
        folder = os.path.join(root, str(launcher.cache_hash))
        if os.path.isdir(folder):
            return folder
    return None

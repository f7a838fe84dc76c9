"""Binds a launch as `JITFunction.run` does, and compiles it to optimised TTIR, with no GPU."""

from __future__ import annotations

import os
import sys
import tempfile
import threading
import warnings
import weakref
from contextlib import contextmanager
from typing import Any, Callable, Dict, Iterator, List, Mapping, Optional, Tuple

from .. import triton_generations
from . import gpu_targets

_HOOK = "add_stages_inspection_hook"
MAX_VARIANTS = 4096  # compiled variants that are kept for one kernel


class Bound:
    """One launch's arguments by name, and how they specialise. ``signature`` maps names to types.

    A type is ``"*fp32"``, ``"i32"``, ``"constexpr"``, ``"tensordesc<…>"``, or a tuple of types.
    """

    def __init__(
        self,
        arguments: Dict[str, Any],
        signature: Dict[str, Any],
        constants: Dict[Tuple[int, ...], Any],
        attributes: Dict[Tuple[int, ...], Any],
        options: Any,
        key: str,
        specialization: str = "",
    ) -> None:
        self.arguments = arguments
        self.signature = signature
        self.constants = constants
        self.attributes = attributes
        self.options = options
        self.key = key
        self.specialization = specialization  # the key without the options


class _Cached:
    """What is kept of a jit function: its binders by target, its TTIR by specialisation."""

    def __init__(self) -> None:
        self.binders: Dict[Any, Tuple[Any, Any]] = {}
        self.packed: Dict[Any, Tuple[Any, Any, Any, Any]] = {}
        self.ttir: Dict[Any, str] = {}
        # By what is specialised but for options: what was read of these, and the text that came of it.
        self.variants: Dict[Any, List[Tuple[Dict[str, Any], str]]] = {}


class _Read:
    """Stands for the options in one compilation, and knows what of them it read.

    Warps and stages seldom matter before the GPU's own stages: configurations that differ only in these are
    compiled once, unless the kernel asks for them.
    """

    __slots__ = ("_options", "read")

    def __init__(self, options: Any) -> None:
        self._options = options
        self.read: Dict[str, Any] = {}

    def __getattr__(self, name: str) -> Any:
        value = self.read[name] = getattr(self._options, name)
        return value


_by_id: Dict[int, Tuple[Any, _Cached]] = {}
_lock = threading.RLock()


def bind(fn: Any, args: Tuple[Any, ...], kwargs: Mapping[str, Any], target: Any) -> Bound:
    """``kwargs`` without grid and warmup. Raises what Triton raises for a call that does not fit."""
    cached = _cache_of(fn)
    known = cached.binders.get(target)
    if known is None:
        known = cached.binders[target] = _binder(fn, target)
    backend, binder = known
    given = dict(kwargs)
    given["debug"] = given.get("debug", getattr(fn, "debug", None)) or _runtime_debug()
    arguments, specialization, options = binder(*args, **given)
    specialized = [_replace_functions(one) for one in specialization]
    key = str((specialized, str(options)))
    packed = cached.packed.get((target, key))
    if packed is None:
        packed = fn._pack_args(backend, given, arguments, specialization, options)
        if len(cached.packed) >= MAX_VARIANTS:
            cached.packed.clear()
        cached.packed[target, key] = packed
    options, signature, constants, attributes = packed
    return Bound(arguments, signature, constants, attributes, options, key, str(specialized))


def ttir(fn: Any, bound: Bound, target: Any) -> str:
    """Optimised TTIR as the backend's first stage leaves it, with locations. About 30 ms, once per
    specialisation. Raises Triton's CompilationError."""
    cached = _cache_of(fn)
    key = (target, bound.key, fn.cache_key)
    text = cached.ttir.get(key)
    if text is None:
        with _lock:
            text = cached.ttir.get(key)
            if text is None:
                text = _compiled(fn, bound, target, cached)
                if len(cached.ttir) >= MAX_VARIANTS:
                    cached.ttir.clear()
                    cached.variants.clear()
                cached.ttir[key] = text
    return text


def _compiled(fn: Any, bound: Bound, target: Any, cached: _Cached) -> str:
    """The text of a variant whose options are equal as far as they were read, else of a new compilation."""
    known = cached.variants.setdefault((target, bound.specialization, fn.cache_key), [])
    missing = object()
    for read, text in known:
        if all(getattr(bound.options, name, missing) == value for name, value in read.items()):
            return text
    with _name_that_compiles(fn):
        options = _Read(bound.options)
        try:
            text = compile_source(_source(fn, bound), options, target)
        except Exception:  # the kernel's own error, or a Triton that takes no stand-in
            return compile_source(_source(fn, bound), bound.options, target)
    known.append((options.read, text))
    return text


def compile_source(source: Any, options: Any, target: Any) -> str:
    """TTIR of an ASTSource, TTGIR of one in Gluon."""
    from triton._C.libtriton import ir
    from triton.compiler.compiler import make_backend

    backend: Any = make_backend(target)
    if options is None or isinstance(options, dict):
        options = backend.parse_options(dict(options or {}))
    context = ir.context()
    ir.load_dialects(context)
    backend.load_dialects(context)
    implementation = backend.get_codegen_implementation(options)
    with _lock, gpu_targets.as_current(target), _with_line_info():
        module = source.make_ir(target, options, implementation, backend.get_module_map(), context)
        stages: Dict[str, Any] = {}
        backend.add_stages(stages, options, source.language)
        # Gluon has no TTIR: its first stage is TTGIR.
        module = stages["ttir" if "ttir" in stages else "ttgir"](module, {})
    # `str` is the printed form with locations; a module must not outlive its context.
    return str(module)


def every_stage(fn: Any, bound: Bound, target: Any, keep: Callable[[str, str], None]) -> None:
    """Compile as far as text goes; ``keep`` gets "source", "ttir", … and then the text after it.

    If a plugin changes the stages, it also gets what TTIR and TTGIR would be without: "plain-ttir", … in the
    end. What Triton's own MLIR_ENABLE_DUMP prints meanwhile is about the stage that is kept next. Raises what
    Triton raises.
    """
    from triton._C.libtriton import ir
    from triton.compiler.compiler import make_backend

    backend: Any = make_backend(target)
    context = ir.context()
    ir.load_dialects(context)
    backend.load_dialects(context)
    options = bound.options
    implementation = backend.get_codegen_implementation(options)
    source = _source(fn, bound)
    stages: Dict[str, Any] = {}
    plain: Dict[str, Any] = {}
    given: Dict[str, Tuple[str, Dict[str, Any]]] = {}
    metadata = {"target": target, **getattr(options, "__dict__", {})}
    with _lock, gpu_targets.as_current(target), _with_line_info(), _name_that_compiles(fn):
        module = source.make_ir(target, options, implementation, backend.get_module_map(), context)
        keep("source", str(module))
        backend.add_stages(stages, options, source.language)
        if plugin() is not None:
            with _without_plugin():
                backend.add_stages(plain, options, source.language)
        for name, stage in stages.items():
            if name in ("cubin", "hsaco"):
                break
            if name in plain and name in ("ttir", "ttgir"):
                given[name] = str(module), dict(metadata)
            module = stage(module, metadata)
            keep(name, str(module))
        for name, (text, metadata) in given.items():
            keep("plain-" + name, str(plain[name](_parsed(text, context), metadata)))


def plugin() -> Optional[str]:
    """The hook that adds and replaces stages of every compilation in this process (Triton 3.5 on)."""
    import triton

    hook = getattr(getattr(getattr(triton, "knobs", None), "runtime", None), _HOOK, None)
    if hook is None:
        return None
    return f"{getattr(hook, '__module__', '?')}.{getattr(hook, '__qualname__', type(hook).__name__)}"


@contextmanager
def _without_plugin() -> Iterator[None]:
    from triton import knobs

    runtime: Any = knobs.runtime
    hook = getattr(runtime, _HOOK)
    setattr(runtime, _HOOK, None)
    try:
        yield
    finally:
        setattr(runtime, _HOOK, hook)


def _parsed(text: str, context: Any) -> Any:
    from triton._C.libtriton import ir

    with tempfile.TemporaryDirectory(prefix="kerncap-") as folder:
        path = os.path.join(folder, "given.mlir")
        with open(path, "w", encoding="utf-8") as file:
            file.write(text)
        module = ir.parse_mlir_module(path, context)
    module.context = context
    return module


@contextmanager
def _with_line_info() -> Iterator[None]:
    """Triton's builder of IR asks the environment itself whether to keep locations; some libraries turn them
    off for smaller binaries, and a finding would have no place."""
    before = os.environ.pop("TRITON_DISABLE_LINE_INFO", None)
    try:
        yield
    finally:
        if before is not None:
            os.environ["TRITON_DISABLE_LINE_INFO"] = before


def changed_global(fn: Any) -> Optional[str]:
    """Triton's own complaint about a global that changed since the kernel was compiled; None: all is well."""
    missing = object()
    for (name, _), (value, scope) in getattr(fn, "used_global_vals", {}).items():
        now = scope.get(name, missing)
        if now is not value and now != value:
            return f"Global variable {name} has changed since we compiled this kernel, from {value} to {now}"
    return None


def parameter_name(fn: Any, path: Tuple[int, ...]) -> str:
    """``tiles.0`` for the first element of the tuple parameter ``tiles``."""
    return ".".join([str(fn.arg_names[path[0]]), *map(str, path[1:])])


@contextmanager
def _name_that_compiles(fn: Any) -> Iterator[None]:
    """Triton's compiler takes no kernel whose name has letters outside of ASCII, which Python and Triton's
    interpreter do. The name of the function in the TTIR is nobody's but the compiler's."""
    if fn.__name__.isascii():
        yield
        return
    own = fn.repr
    before = vars(fn).get("repr")
    fn.repr = lambda specialization: _ascii(own(specialization))
    try:
        yield
    finally:
        if before is None:
            del fn.repr
        else:
            fn.repr = before


def _ascii(name: str) -> str:
    return "".join(c if c.isascii() else f"_u{ord(c):x}" for c in name)


def _source(fn: Any, bound: Bound) -> Any:
    if getattr(fn, "is_gluon", bool)():
        from triton.experimental.gluon._runtime import GluonASTSource as ASTSource
    else:
        from triton.compiler import ASTSource

    return ASTSource(fn, bound.signature, bound.constants, bound.attributes)


def _binder(fn: Any, target: Any) -> Tuple[Any, Any]:
    from triton.compiler.compiler import make_backend

    jit: Any = sys.modules["triton.runtime.jit"]
    backend = make_backend(target)
    if not gpu_targets.has_gpu():
        # Some generations warn, once, of coming defaults of code generation: there is none here.
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            backend.parse_options({})
    create = getattr(jit, "create_function_from_signature", None)
    if create is None:
        found = triton_generations.version()
        raise RuntimeError(f"Triton {found}: its way to bind arguments is not known to this kerncap")
    return backend, create(fn.signature, fn.params, backend)


def _runtime_debug() -> bool:
    knobs = sys.modules.get("triton.knobs")
    return bool(knobs.runtime.debug) if knobs is not None else False


def _replace_functions(value: Any) -> Any:
    """Functions by the hash of their source, as Triton's own cache key has them."""
    if isinstance(value, (tuple, list)):
        return [_replace_functions(one) for one in value]
    key = getattr(value, "cache_key", None)
    return key if isinstance(key, str) else value


def _cache_of(fn: Any) -> _Cached:
    # By identity: a jit function's own hash is that of its source, and equal sources may differ in globals.
    number = id(fn)
    found = _by_id.get(number)
    if found is not None and found[0]() is fn:
        return found[1]
    cached = _Cached()
    _by_id[number] = (weakref.ref(fn, lambda _: _by_id.pop(number, None)), cached)
    return cached


def options_of(bound: Bound, given: Mapping[str, Any]) -> List[Tuple[str, Any]]:
    """The launch options that the call names, as the backend took them."""
    names = set(bound.arguments)
    return [
        (name, getattr(bound.options, name, value))
        for name, value in given.items()
        if name not in names and name != "debug"
    ]

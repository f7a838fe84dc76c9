"""Starts the sanitizer in a Python process of the target: patches modules once the target imported them."""

from __future__ import annotations

import json
import sys
from typing import Any, Callable, Dict, Optional

from .. import importer
from .gpu_figures import DEFAULT
from .messages import HostRead, Session

_make_watcher: Optional[Callable[[], Any]] = None
_watcher: Any = None
_fills_fresh = True
_target: Optional[str] = None  # for which a GPU's stand-in answers; None: there is none


def install(path: str) -> None:
    """``path``: sanitize.json, as the command line wrote it. Imports nothing that the target did not."""
    with open(path, encoding="utf-8") as file:
        session = Session(**json.load(file))

    def make() -> Any:
        from . import client

        return client.LiveWatcher(session)

    watch_process(make, session.fresh, session.target or DEFAULT)


def watch_process(make_watcher: Callable[[], Any], fresh: bool, target: Optional[str] = None) -> None:
    """Hook what is imported by now, and the rest when it is. The watcher is made when Triton comes.

    ``target``: on a machine with no GPU, a stand-in answers for one of this architecture.
    """
    global _make_watcher, _fills_fresh, _target
    _make_watcher, _fills_fresh, _target = make_watcher, fresh, target
    for name in _PATCHES:
        module = sys.modules.get(name)
        if module is not None:
            _patch(name, module)
    sys.meta_path.insert(0, importer.Finder(_patch, tuple(_PATCHES)))


def _patch(name: str, module: Any) -> None:
    try:
        _PATCHES[name](module)
    except Exception as error:  # a generation that we don't fit: said, and the target goes on as it is
        _watch()
        _watcher.missed("every kernel", f"kerncap's hook does not fit this {name}: {error!r}")


def _watch() -> None:
    global _watcher
    from . import hooks

    if _watcher is None and _make_watcher is not None:
        _watcher = _make_watcher()
        hooks.watch_program(_watcher)


def force_jit(module: Any) -> None:
    """`@triton.jit` makes a JITFunction whatever ``TRITON_INTERPRET`` says: there is nothing to sanitize in a
    kernel that the interpreter runs line by line, and what reads the variable itself still sees it."""
    runtime = module.runtime_knobs
    knob = vars(runtime)["interpret"]
    if getattr(knob, "kerncap", False):
        return

    class Never(type(knob)):  # type: ignore[misc]
        kerncap = True

        def __get__(self, obj: Any, owner: Any = None) -> bool:
            return False

    never = Never(knob.key)
    never.__set_name__(runtime, "interpret")
    runtime.interpret = never


def _jit(module: Any) -> None:
    from . import hooks

    _watch()
    hooks.patch_jit(module)


def _autotuner(module: Any) -> None:
    from . import autotuner, hooks

    hooks.patch_autotuner(module, autotuner.run)


def _driver(module: Any) -> None:
    from . import gpu_targets, hooks

    gpu_targets.provide(hooks.launch_compiled, module, _target or DEFAULT)


def _compiled(module: Any) -> None:
    from . import compiled_launches

    compiled_launches.patch(module.CompiledKernel)


def _inductor(module: Any) -> None:
    from . import inductor

    inductor.patch(module)


def _dynamo(module: Any) -> None:
    """Dynamo runs our frames as they are instead of tracing into them."""
    module.add("kerncap_triton")


def _torch(module: Any) -> None:
    if _fills_fresh:
        from . import fresh_memory

        fresh_memory.patch(module)
        if _target is not None:  # a run of `sanitize --`
            from . import host_reads

            host_reads.watch(module, _host_read)
    if _target is not None:
        from . import gpu_targets, stand_in_gpu

        if stand_in_gpu.is_wanted(module):
            stand_in_gpu.install(module, _target, gpu_targets.parse, _note)


def _host_read(read: HostRead) -> None:
    _watch()
    _watcher.host_read(read)


def _note(text: str) -> None:
    _watch()
    _watcher.note(text)


_PATCHES: Dict[str, Callable[[Any], None]] = {
    "torch": _torch,
    "torch._dynamo.trace_rules": _dynamo,
    "torch._inductor.runtime.triton_heuristics": _inductor,
    "triton.compiler.compiler": _compiled,
    "triton.knobs": force_jit,
    "triton.runtime.autotuner": _autotuner,
    "triton.runtime.driver": _driver,
    "triton.runtime.jit": _jit,
}

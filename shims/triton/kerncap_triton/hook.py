"""Puts the wraps on Triton's classes, one session per process."""

from __future__ import annotations

import threading
from typing import Any, Dict, Optional

from . import autotune, compiled_kernel, precompiled, run_hook
from .contract import word
from .session import Session

_session: Optional[Session] = None
_lock = threading.Lock()


def patch(session_path: str, name: str, module: Any) -> None:
    """Called once per watched module, right after the target imported it."""
    global _session
    with _lock:
        if _session is None:
            _session = Session(session_path)
    _PATCHES[name](_session, module)


def _jit(session: Session, module: Any) -> None:
    run_hook.patch(session, module.JITFunction, word.mode.jit)


def _interpreter(session: Session, module: Any) -> None:
    run_hook.patch(session, module.InterpretedFunction, word.mode.interpreter)


def _inductor(session: Session, module: Any) -> None:
    from . import inductor

    inductor.patch(session, module)


def _compiled(session: Session, module: Any) -> None:
    compiled_kernel.patch(module)
    precompiled.patch(session, module.CompiledKernel)


def _dynamo(session: Session, module: Any) -> None:
    """Dynamo must run our frames as they are, like Triton's own, instead of tracing into them."""
    module.add("kerncap_triton")


_PATCHES: Dict[str, Any] = {
    "triton.runtime.jit": _jit,
    "triton.runtime.interpreter": _interpreter,
    "triton.runtime.autotuner": autotune.patch,
    "triton.compiler.compiler": _compiled,
    "torch._inductor.runtime.triton_heuristics": _inductor,
    "torch._dynamo.trace_rules": _dynamo,
}

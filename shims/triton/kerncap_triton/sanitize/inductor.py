"""Kernels of torch.compile: their chosen launcher is looked at just before it launches."""

from __future__ import annotations

import functools
import os
from typing import Any, Dict, Optional, Tuple

from .. import inductor
from ..session import ThreadState
from . import gpu_targets, hooks
from .arguments import Undescribable
from .launch_description import Description, make, text_of


class _Session:
    """What `kerncap_triton.inductor` needs of a capture's session: where this thread is."""

    def __init__(self) -> None:
        self.thread = ThreadState()


def patch(module: Any) -> None:
    tuner, session = module.CachingAutotuner, _Session()
    for name in ("precompile", *inductor._TUNING):
        if name in vars(tuner):
            setattr(tuner, name, inductor._wrap_step(session, getattr(tuner, name), name))  # type: ignore[arg-type]
    original = tuner.run

    def run(self: Any, /, *args: Any, **kwargs: Any) -> Any:
        watcher = hooks.current()
        if (
            watcher is None
            or kwargs.get("benchmark_run")
            or getattr(self, "triton_interpret", False)
            or session.thread.interception is not None
        ):
            return original(self, *args, **kwargs)
        look = _Look(session, self, watcher)
        session.thread.interception = look
        look.place()
        try:
            return original(self, *args, **kwargs)
        finally:
            session.thread.interception = None
            look.remove()

    tuner.run = functools.wraps(original)(run)


class _Look(inductor.Interception):
    def __init__(self, session: Any, tuner: Any, watcher: hooks.Watcher) -> None:
        super().__init__(session, tuner, None)
        self._watcher = watcher

    def called(self, launcher: Any, args: Tuple[Any, ...], kwargs: Dict[str, Any]) -> Any:
        thread = self.session.thread
        if not (self.used or thread.interception is not self or thread.tuning):
            self.used = True
            self._look_at(launcher, args, kwargs)
        return launcher(*args, **kwargs)

    def _look_at(self, launcher: Any, args: Tuple[Any, ...], kwargs: Dict[str, Any]) -> None:
        name = str(getattr(self.tuner.fn, "__name__", "triton_"))
        try:
            described = hooks.quietly(lambda: _describe(self._watcher, self.tuner, launcher, args, kwargs))
        except Undescribable as error:
            return self._watcher.missed(name, str(error))
        except Exception as error:
            return self._watcher.missed(name, f"{type(error).__name__}: {error}")
        hooks.hand_over(self._watcher, described, carry_out=False)


def _describe(
    watcher: hooks.Watcher, tuner: Any, launcher: Any, args: Tuple[Any, ...], kwargs: Dict[str, Any]
) -> Description:
    kernel = inductor.make_kernel(tuner)
    call = inductor.bind_launcher(kernel, tuner, launcher, args, kwargs)
    text = _ttir(tuner, launcher)
    if text is None:
        raise Undescribable("torch.compile kept no TTIR of it")
    constants = {
        name: value
        for name, value in call.arguments.items()
        if call.signature.get(name, "constexpr") == "constexpr"
    }
    configuration = {name: text_of(value) for name, value in {**constants, **call.options}.items()}
    return make(
        kernel.name,
        call.arguments,
        dict(call.signature),
        text,
        call.grid_value(),
        gpu_targets.current(),
        configuration,
        allocations=watcher.allocations,
    )


def _ttir(tuner: Any, launcher: Any) -> Optional[str]:
    """Of the CompiledKernel, or what a static launcher left in Triton's cache."""
    binary = launcher.__globals__.get("bin")
    if binary is not None and "ttir" in getattr(binary, "asm", ()):
        return str(binary.asm["ttir"])
    folder = inductor.cache_folder(tuner, launcher)
    if folder is None:
        return None
    for name in sorted(os.listdir(folder)):
        if name.endswith(".ttir"):
            with open(os.path.join(folder, name), encoding="utf-8") as file:
                return file.read()
    return None

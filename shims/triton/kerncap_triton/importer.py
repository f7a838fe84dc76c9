"""Patches modules right after the target has imported them; imports none itself."""

from __future__ import annotations

import sys
import threading
from typing import Any, Callable, Dict, Optional, Sequence

from .session_marks import mark

WATCHED = (
    "triton.runtime.jit",
    "triton.runtime.interpreter",
    "triton.runtime.autotuner",
    "triton.compiler.compiler",
    "torch._inductor.runtime.triton_heuristics",
    "torch._dynamo.trace_rules",
    "torch.cuda",
    "torch.cuda.nvtx",
    "nvtx.nvtx",
    "cutlass.base_dsl.dsl",
)


def install(session_path: str) -> None:
    """Watch for the modules that launch kernels; the rest of the hook is loaded when one comes."""

    mark(session_path, "python")

    def patch(name: str, module: Any) -> None:
        if name == "torch.cuda":
            from . import torch_allocator

            return torch_allocator.watch(module)
        if name.endswith("nvtx"):
            from . import nvtx_ranges

            return nvtx_ranges.watch(session_path, name, module)
        if name.startswith("cutlass."):
            from . import cute_dsl

            return cute_dsl.patch(session_path, module)
        from . import hook

        if name.startswith("triton."):
            mark(session_path, "triton")
        hook.patch(session_path, name, module)

    sys.meta_path.insert(0, Finder(patch))


class Finder:
    """First on `sys.meta_path`: lets the others find a watched module, then hangs on its loader.

    The loader stays the one that was found (its class, `get_source`, resources); only this
    instance's `exec_module` is wrapped. So a spec that is looked up and never loaded, or loaded
    lazily, costs and changes nothing.
    """

    def __init__(self, patch: Callable[[str, Any], None], watched: Sequence[str] = WATCHED) -> None:
        self._patch = patch
        self._watched = frozenset(watched)
        self._looking: Dict[int, str] = {}

    def find_spec(self, name: str, path: Optional[Sequence[str]] = None, target: Any = None) -> Any:
        if name not in self._watched:
            return None
        thread = threading.get_ident()
        if self._looking.get(thread) == name:
            return None  # another finder asks the whole meta_path again
        self._looking[thread] = name
        try:
            for finder in list(sys.meta_path):
                find = None if finder is self else getattr(finder, "find_spec", None)
                spec = find(name, path, target) if find is not None else None
                if spec is not None:
                    self._hang_on(name, spec)
                    return spec
        finally:
            self._looking.pop(thread, None)
        return None

    def _hang_on(self, name: str, spec: Any) -> None:
        try:
            loader: Any = spec.loader
            # importlib.util.LazyLoader only prepares the module; the real loader is inside.
            loader = getattr(loader, "loader", None) if type(loader).__name__ == "LazyLoader" else loader
            original = loader.exec_module
            patch = self._patch

            def exec_module(module: Any) -> None:
                original(module)
                if getattr(module, "__name__", None) != name:
                    return  # a loader that serves several modules
                loader.__dict__.pop("exec_module", None)
                try:
                    patch(name, module)
                except Exception:
                    pass

            loader.exec_module = exec_module
        except Exception:
            pass  # a loader that takes no attributes: this module stays as it is

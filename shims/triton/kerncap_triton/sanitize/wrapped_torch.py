"""Functions of torch with something around them, which still look like torch's own."""

from __future__ import annotations

import functools
import sys
from typing import Any, Callable, Dict


def wrap(owner: Any, name: str, around: Callable[[Any, Any, Dict[str, Any]], Any]) -> None:
    """``around(original, args, kwargs)`` in place of ``owner.name``, a function of torch or of its Tensor.

    Dynamo and fx look functions up by name, and so find the wrapped one. Nothing happens if this torch has no
    such function, or keeps in another way what goes by its identity.
    """
    original = getattr(owner, name, None)
    if original is None or getattr(original, "kerncap", None) is around:
        return

    @functools.wraps(original)
    def wrapped(*args: Any, **kwargs: Any) -> Any:
        return around(original, args, kwargs)

    wrapped.kerncap = around  # type: ignore[attr-defined]
    wrapped.__module__, wrapped.__qualname__ = "torch", _qualified(owner, name)  # what pickle goes by
    try:
        _tell_those_who_know_it(original, wrapped)
    except (ImportError, AttributeError):
        return
    setattr(owner, name, wrapped)


def _qualified(owner: Any, name: str) -> str:
    return f"{owner.__name__}.{name}" if isinstance(owner, type) else name


def _tell_those_who_know_it(original: Any, wrapped: Any) -> None:
    """Who goes by the function's identity: TorchScript's compiler, and ``with torch.device(…)``."""
    builtins: Any = sys.modules.get("torch.jit._builtins")
    if builtins is not None:
        operator = builtins._find_builtin(original)
        if operator is not None:
            builtins._register_builtin(wrapped, operator)
    # Of torch's own modules the one that may not be imported yet; it would then find our functions alone.
    from torch.utils import _device

    constructors = _device._device_constructors()
    if original in constructors:
        constructors.add(wrapped)

"""What differs between Triton's generations. One that is newer than the known ones is tried, and said."""

from __future__ import annotations

import sys
from typing import Any, Dict, List, Optional, Tuple

OLDEST = (3, 4)
NEWEST = (3, 9)  # the newest one that these adapters were checked against


def version() -> Optional[Tuple[int, int]]:
    text = str(getattr(sys.modules.get("triton"), "__version__", ""))
    parts = text.split("+")[0].split(".")
    try:
        return int(parts[0]), int(parts[1])
    except (ValueError, IndexError):
        return None


def notes() -> List[str]:
    """What the reader of the records should know about this Triton."""
    found = version()
    if found is None:
        return ["Triton's version could not be read"] if "triton" in sys.modules else []
    if found > NEWEST:
        return [f"Triton {found[0]}.{found[1]} is newer than the newest checked ({NEWEST[0]}.{NEWEST[1]})"]
    if found < OLDEST:
        return [f"Triton {found[0]}.{found[1]} is older than the oldest checked ({OLDEST[0]}.{OLDEST[1]})"]
    return []


def compiled_kernel(result: Any) -> Any:
    """The CompiledKernel that a JIT launch returned; a future's result where compilation was asynchronous."""
    future = getattr(result, "result", None)
    return future() if callable(future) and not hasattr(result, "asm") else result


def compiled_count(fn: Any) -> Optional[int]:
    """How many variants of a jit function this process holds; None if that can't be told."""
    caches = getattr(fn, "device_caches", None)
    if not isinstance(caches, dict):
        return None
    try:
        return sum(len(cache[0]) for cache in list(caches.values()))
    except (TypeError, IndexError):
        return None


def divisibility(source: Any, names: List[str]) -> Dict[str, int]:
    """Specialised alignments of a compiled kernel: 3.x keeps ``{(position, ...): [[name, n]]}`` in attrs."""
    found: Dict[str, int] = {}
    attributes = getattr(source, "attrs", None)
    if not isinstance(attributes, dict):
        return found
    for path, properties in attributes.items():
        path = path if isinstance(path, tuple) else (path,)
        if not path or not isinstance(path[0], int) or path[0] >= len(names):
            continue
        label = names[path[0]] + "".join(f"[{step}]" for step in path[1:])
        for item in properties or ():
            if len(item) == 2 and item[0] == "tt.divisibility":
                found[label] = int(item[1])
    return found


def signature(source: Any, names: List[str]) -> Dict[str, str]:
    """Argument types as compiled."""
    found: Dict[str, str] = {}
    for key, kind in dict(getattr(source, "signature", None) or {}).items():
        name = names[key] if isinstance(key, int) and key < len(names) else str(key)
        found[name] = kind if isinstance(kind, str) else str(kind)
    return found

"""Fresh memory: what `torch.empty` gives is filled with a pattern, by which unwritten bytes are known later.

Its contents are undefined, so a program may find anything in it. Memory that comes from anywhere else
counts as written.
"""

from __future__ import annotations

import ctypes
import sys
import threading
from typing import Any, Callable, Dict, List, Optional, Tuple

from .. import cuda
from . import wrapped

# No value of any type that a program is likely to compute.
PATTERN = bytes((0x7B, 0xE3, 0x95, 0xC1, 0x5D, 0xA9, 0xF6, 0xFD))
# Bytes. On the host filling commits memory that the program may never touch; a device's is committed already.
MAX_FILL = {"cpu": 256 << 20, "cuda": 4 << 30}
NOT_FILLED = b""
_FACTORIES = ("empty", "empty_like", "empty_strided", "empty_permuted")
_METHODS = ("new_empty", "new_empty_strided")
_PURGE_AT = 4096

_lock = threading.Lock()
_filled: Dict[int, Tuple[Any, int]] = {}  # by address: weak reference to the storage, bytes
_purge_at = _PURGE_AT


def patch(torch: Any) -> None:
    """Wrap what allocates without writing. A torch that lacks what is needed here stays as it is."""
    for name in _FACTORIES:
        wrapped.wrap(torch, name, _filled_after)
    for name in _METHODS:
        wrapped.wrap(torch.Tensor, name, _filled_after)


def pattern_of(holders: List[Any], address: int, size: int) -> Optional[bytes]:
    """The pattern if exactly this storage was filled by us and is still the same.

    NOT_FILLED if it came with what nobody wrote, and was too large to be filled; None for any other.
    """
    known = _filled.get(address)
    if known is None or len(holders) != 1 or known[1] != size:
        return None
    if known[0].cdata != holders[0]._cdata or known[0].expired():
        return None
    return PATTERN if size <= MAX_FILL[str(holders[0].device.type)] else NOT_FILLED


def _filled_after(original: Any, args: Any, kwargs: Dict[str, Any]) -> Any:
    tensor = original(*args, **kwargs)
    if kwargs.get("out") is None:
        try:
            _fill(tensor)
        except Exception:
            pass  # it then counts as written
    return tensor


def _fill(tensor: Any) -> None:
    torch: Any = sys.modules["torch"]
    kind = type(tensor)
    if kind is not torch.Tensor and kind is not torch.nn.Parameter:
        return  # a fake tensor, a subclass that may hold none of its own memory
    device = tensor.device.type
    if device not in MAX_FILL or tensor.layout is not torch.strided or _is_traced(torch):
        return
    storage = tensor.untyped_storage()
    address, size = int(storage.data_ptr()), int(storage.nbytes())
    if not address or size < 4:
        return
    if size > MAX_FILL[device]:
        pass
    elif device == "cpu":
        fill_host(address, size)
    elif not _fill_device(torch, storage, tensor.device, size):
        return
    _remember(torch, storage, address, size)


def _is_traced(torch: Any) -> bool:
    jit = torch.jit
    return bool(
        torch.compiler.is_compiling()
        or jit.is_tracing()
        or jit.is_scripting()
        or torch._C._len_torch_dispatch_stack()
        or torch._C._functorch.peek_interpreter_stack() is not None
    )


def fill_host(address: int, size: int) -> None:
    """By copies that double: the memory is touched once, and nothing is allocated."""
    first = min(len(PATTERN), size)
    ctypes.memmove(address, PATTERN, first)
    done = first
    while done < size:
        # In steps that stay in the cache: the first 64 KiB over and over.
        step = min(done, size - done, 1 << 16)
        ctypes.memmove(address + done, address, step)
        done += step


def _fill_device(torch: Any, storage: Any, device: Any, size: int) -> bool:
    """On the current stream, as any other kernel that would write it."""
    if device.type == "cuda" and cuda.is_capturing():
        return False
    with cuda.quiet():
        if size >= 8:
            words = torch.tensor([], dtype=torch.int64, device=device)
            words.set_(storage, 0, (size // 8,), (1,))
            words.fill_(int.from_bytes(PATTERN, "little", signed=True))
        if size % 8:
            rest = torch.tensor([], dtype=torch.uint8, device=device)
            rest.set_(storage, size // 8 * 8, (size % 8,), (1,))
            rest.copy_(torch.frombuffer(bytearray(PATTERN[: size % 8]), dtype=torch.uint8))
    return True


def _remember(torch: Any, storage: Any, address: int, size: int) -> None:
    global _purge_at
    reference = _weak(torch)(storage)
    with _lock:
        _filled[address] = (reference, size)
        if len(_filled) >= _purge_at:
            for known in [at for at, (one, _) in _filled.items() if one.expired()]:
                del _filled[known]
            _purge_at = max(_PURGE_AT, 2 * len(_filled))


def _weak(torch: Any) -> Callable[[Any], Any]:
    # The module is torch's own: importing it brings nothing in that torch does not have already.
    from torch.multiprocessing.reductions import StorageWeakRef

    return StorageWeakRef  # type: ignore[no-any-return, unused-ignore]

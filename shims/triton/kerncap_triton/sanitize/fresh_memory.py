"""Fresh memory: what `torch.empty` gives is filled with a pattern, by which unwritten bytes are known later.

Its contents are undefined, so a program may find anything in it. Memory that comes from anywhere else
counts as written.
"""

from __future__ import annotations

import ctypes
import re
import sys
import threading
from typing import Any, Callable, Dict, List, NamedTuple, Optional, Tuple

from .. import torch_device
from ..call import python_stack
from . import backed_pages, wrapped_torch

# No value of any type that a program is likely to compute.
PATTERN = bytes((0x7B, 0xE3, 0x95, 0xC1, 0x5D, 0xA9, 0xF6, 0xFD))
# Bytes. On the host filling commits memory that the program may never touch; a device's is committed already.
MAX_FILL = {"cpu": 256 << 20, "cuda": 4 << 30}
# On the host memory of this size is a mapping of its own, of which nothing is backed that nobody wrote: only
# its ends are filled, where a write of part of a page is likely. Source: glibc, DEFAULT_MMAP_THRESHOLD_MAX
_MAPPED_FROM = 32 << 20
_END = 1 << 20
_NO_HUGE_PAGES = 15  # MADV_NOHUGEPAGE, of Linux
WORD = int.from_bytes(PATTERN, "little", signed=True)
NOT_FILLED = b""
_PATTERN_IN = re.compile(re.escape(PATTERN))
_FACTORIES = ("empty", "empty_like", "empty_strided", "empty_permuted")
_METHODS = ("new_empty", "new_empty_strided")
_PURGE_AT = 4096

_lock = threading.Lock()
_filled: Dict[int, "_Filled"] = {}  # by address
_purge_at = _PURGE_AT
own_modes = 0  # of torch's dispatch modes: ours, which traces nothing

Stack = List[Tuple[str, int, str]]


class _Filled(NamedTuple):
    reference: Any  # weak, to the storage
    size: int  # bytes
    made: Stack  # the allocation, the innermost frame last; empty on a device
    by_page: bool = False  # what nothing backs is unwritten, and is not filled


def patch(torch: Any) -> None:
    """Wrap what allocates without writing. A torch that lacks what is needed here stays as it is."""
    for name in _FACTORIES:
        wrapped_torch.wrap(torch, name, _filled_after)
    for name in _METHODS:
        wrapped_torch.wrap(torch.Tensor, name, _filled_after)


def pattern_of(holders: List[Any], address: int, size: int) -> Optional[bytes]:
    """The pattern if exactly this storage was filled by us and is still the same.

    NOT_FILLED if it came with what nobody wrote, and was too large to be filled; None for any other.
    """
    if len(holders) != 1:
        return None
    known = _known(holders[0])
    if known is None or known.size != size:
        return None
    device = str(holders[0].device.type)
    return PATTERN if device == "cpu" or size <= MAX_FILL[device] else NOT_FILLED


def _known(storage: Any) -> Optional["_Filled"]:
    known = _filled.get(int(storage.data_ptr()))
    if known is None or known.reference.cdata != storage._cdata or known.reference.expired():
        return None
    return known


def any_left() -> bool:
    """Whether any memory may be unwritten: a quick no before every operation of torch."""
    return bool(_filled)


def may_be_unwritten(storage: Any) -> bool:
    """Whether the storage was filled, and was not seen written since."""
    known = _known(storage)
    return known is not None and known.size <= MAX_FILL["cpu"] and known.size == int(storage.nbytes())


def holds_pattern(storage: Any, first: int, last: int) -> bool:
    """Whether any whole word in [first, last) of it is unwritten; both are multiples of a word.

    In this thread alone: torch's would wait for each other.
    """
    address, known = int(storage.data_ptr()), _known(storage)
    if known is not None and known.by_page:
        _fill_pages(address, known.size, first, last)
    memory = (ctypes.c_char * (last - first)).from_address(address + first)
    return any(found.start() % len(PATTERN) == 0 for found in _PATTERN_IN.finditer(memory))


def forget(storage: Any) -> None:
    """Every word of it was written."""
    with _lock:
        _filled.pop(int(storage.data_ptr()), None)


def place_of(storage: Any) -> Stack:
    """Where it was allocated, the innermost frame last; empty if nobody knows."""
    known = _known(storage)
    return known.made if known is not None else []


def carry(torch: Any, tensor: Any, made: Stack) -> None:
    """What nobody wrote, and was allocated at ``made``, was moved to here."""
    storage = tensor.untyped_storage()
    address, size = int(storage.data_ptr()), int(storage.nbytes())
    if address and tensor.device.type == "cpu" and size <= MAX_FILL["cpu"]:
        _remember(torch, storage, address, size, made)


def fill_grown(tensor: Any, before: int) -> None:
    """A storage of ``before`` bytes was resized: what it grew by is as fresh as what `torch.empty` gives."""
    storage = tensor.untyped_storage()
    start, size = -(-before // len(PATTERN)) * len(PATTERN), int(storage.nbytes())
    if tensor.device.type == "cpu" and start < size <= MAX_FILL["cpu"]:
        fill_host(int(storage.data_ptr()) + start, size - start)
        carry(sys.modules["torch"], tensor, python_stack())


def is_plain(torch: Any, tensor: Any) -> bool:
    """Neither a fake tensor nor a subclass, which may hold none of its own memory."""
    kind = type(tensor)
    return (kind is torch.Tensor or kind is torch.nn.Parameter) and tensor.layout is torch.strided


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
    device = tensor.device.type
    if device not in MAX_FILL or not is_plain(torch, tensor) or _is_traced(torch):
        return
    storage = tensor.untyped_storage()
    address, size = int(storage.data_ptr()), int(storage.nbytes())
    if not address or size < 4:
        return
    by_page = device == "cpu" and size >= _MAPPED_FROM and not address % len(PATTERN)
    if by_page:
        _fill_ends(address, size)
    elif size > MAX_FILL[device]:
        pass
    elif device == "cpu":
        fill_host(address, size)
    elif not _fill_device(torch, storage, tensor.device, size):
        return
    _remember(torch, storage, address, size, python_stack() if device == "cpu" else [], by_page)


def _is_traced(torch: Any) -> bool:
    jit = torch.jit
    return bool(
        torch.compiler.is_compiling()
        or jit.is_tracing()
        or jit.is_scripting()
        or torch._C._len_torch_dispatch_stack() > own_modes
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


def _fill_ends(address: int, size: int) -> None:
    """Of a mapping, whose pages are backed one by one as they are written."""
    inner = -(-address // backed_pages.PAGE) * backed_pages.PAGE
    length = (address + size - inner) // backed_pages.PAGE * backed_pages.PAGE
    ctypes.CDLL(None).madvise(ctypes.c_void_p(inner), ctypes.c_size_t(length), _NO_HUGE_PAGES)
    # To the ends of pages: the rest of a page that is backed would count as written.
    fill_host(address, -(-(address + _END) // backed_pages.PAGE) * backed_pages.PAGE - address)
    last = (address + size - _END) // backed_pages.PAGE * backed_pages.PAGE
    fill_host(last, address + size - last)


def _fill_pages(address: int, size: int, first: int, last: int) -> None:
    """Fill the pages of [first, last) that nobody wrote, before torch reads there: a read backs them."""
    low = max((address + first) // backed_pages.PAGE * backed_pages.PAGE, address)
    high = min(-(-(address + last) // backed_pages.PAGE) * backed_pages.PAGE, address + size)
    at = 0
    for start, end in [*backed_pages.ranges(low, high - low), (high - low, high - low)]:
        if at < start:
            fill_host(low + at, start - at)
        at = end


def _fill_device(torch: Any, storage: Any, device: Any, size: int) -> bool:
    """On the current stream, as any other kernel that would write it."""
    if device.type == "cuda" and torch_device.is_capturing():
        return False
    with torch_device.quiet():
        if size >= 8:
            words = torch.tensor([], dtype=torch.int64, device=device)
            words.set_(storage, 0, (size // 8,), (1,))
            words.fill_(WORD)
        if size % 8:
            rest = torch.tensor([], dtype=torch.uint8, device=device)
            rest.set_(storage, size // 8 * 8, (size % 8,), (1,))
            rest.copy_(torch.frombuffer(bytearray(PATTERN[: size % 8]), dtype=torch.uint8))
    return True


def _remember(torch: Any, storage: Any, address: int, size: int, made: Stack, by_page: bool = False) -> None:
    global _purge_at
    reference = _weak(torch)(storage)
    with _lock:
        _filled[address] = _Filled(reference, size, made, by_page)
        if len(_filled) >= _purge_at:
            for known in [at for at, one in _filled.items() if one.reference.expired()]:
                del _filled[known]
            _purge_at = max(_PURGE_AT, 2 * len(_filled))


def _weak(torch: Any) -> Callable[[Any], Any]:
    # The module is torch's own: importing it brings nothing in that torch does not have already.
    from torch.multiprocessing.reductions import StorageWeakRef

    return StorageWeakRef  # type: ignore[no-any-return, unused-ignore]

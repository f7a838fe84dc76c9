"""The device side, through the target's own torch: draining, pinned copies, facts of the device.

Nothing here waits without a deadline, and the current device and stream are as before afterwards.
"""

from __future__ import annotations

import contextlib
import itertools
import os
import queue
import sys
import threading
import time
from typing import Any, Dict, Iterator, List, Optional, Tuple

from . import region_copies
from .contract import key, word
from .reachable_memory import Region, Unsupported
from .region_copies import PIECE, Work

RING = 8  # pinned buffers of PIECE bytes

_ring: List[Any] = []
_ring_lock = threading.Lock()
_sides: Dict[int, Any] = {}
_abandoned: List[Any] = []


def _after_fork() -> None:
    """A child can use none of this, and freeing pinned memory there would call into CUDA."""
    global _ring, _ring_lock, _sides
    _abandoned.extend((_ring, _sides))
    _ring, _ring_lock, _sides = [], threading.Lock(), {}


os.register_at_fork(after_in_child=_after_fork)


def torch_module() -> Any:
    return sys.modules["torch"]


def is_live() -> bool:
    """Whether the target has a CUDA (or HIP) context; asks without making one."""
    torch = sys.modules.get("torch")
    cuda = getattr(torch, "cuda", None)
    return bool(cuda is not None and cuda.is_initialized())


def is_capturing() -> bool:
    return is_live() and bool(torch_module().cuda.is_current_stream_capturing())


@contextlib.contextmanager
def quiet() -> Iterator[None]:
    """Our own tensor operations: no autograd, no dispatch or function modes of the target."""
    torch = torch_module()
    with contextlib.ExitStack() as stack:
        stack.enter_context(torch.no_grad())
        modes = sys.modules.get("torch.utils._python_dispatch")
        if modes is not None and hasattr(modes, "_disable_current_modes"):
            stack.enter_context(modes._disable_current_modes())
        disable = getattr(torch._C, "DisableTorchFunction", None)
        if disable is not None:
            stack.enter_context(disable())
        yield


def current(index: int) -> Any:
    """A scope in which this device is the calling thread's."""
    return torch_module().cuda.device(index)


def record_event() -> Any:
    """An event at the end of the current stream's work."""
    event = torch_module().cuda.Event()
    event.record()
    return event


def drain(event: Any, timeout_s: float) -> bool:
    """Poll until the event has happened; False past the deadline. A fault of the device raises."""
    deadline = time.monotonic() + timeout_s
    pause_s = 0.0
    while not event.query():
        if time.monotonic() > deadline:
            return False
        time.sleep(pause_s)
        pause_s = min(pause_s + 20e-6, 1e-3)
    return True


def copy_out(
    regions: List[Tuple[int, Region]],
    work: Work,
    timeout_s: float,
    piece: int = PIECE,
    threads_from: int = region_copies.INLINE_BELOW,
) -> None:
    """Bring device regions to the host piece by piece and apply ``work`` to each piece there.

    Copies run on a side stream through a ring of pinned buffers while the writers work on the
    pieces before. The caller has drained the launch's stream. ``piece`` divides `PIECE`; from
    ``threads_from`` bytes there are several writers.
    """
    with _ring_lock, quiet():
        _copy_out(regions, work, timeout_s, piece, threads_from)


def _copy_out(
    regions: List[Tuple[int, Region]], work: Work, timeout_s: float, piece: int, threads_from: int
) -> None:
    torch = torch_module()
    buffers = [part for buffer in _pinned_ring(torch) for part in buffer.split(piece)]
    addresses = [buffer.data_ptr() for buffer in buffers]
    events = [torch.cuda.Event() for _ in buffers]
    # Taken in turns: a native launch may reach the ring, and what is left there is then the same in each run.
    free = [threading.Semaphore() for _ in buffers]
    ready: "queue.SimpleQueue[Optional[Tuple[int, int, int, int]]]" = queue.SimpleQueue()
    errors: List[BaseException] = []

    def loop() -> None:
        while True:
            item = ready.get()
            if item is None:
                return
            slot, number, offset, length = item
            try:
                if not errors:
                    if not drain(events[slot], timeout_s):
                        raise Unsupported("a copy from the device did not finish")
                    work(number, offset, addresses[slot], length)
            except BaseException as error:
                errors.append(error)
            finally:
                free[slot].release()

    total = sum(region.size for _, region in regions)
    count = 1 if total < threads_from else min(region_copies.writer_count(), -(-total // piece))
    threads = [threading.Thread(target=loop, daemon=True) for _ in range(count)]
    for thread in threads:
        thread.start()
    turns = itertools.cycle(range(len(buffers)))
    try:
        for number, region in regions:
            side = _side_stream(torch, region.device_index)
            with torch.cuda.device(region.device_index), torch.cuda.stream(side):
                source = as_bytes(region)
                for offset in range(0, region.size, piece):
                    length = min(piece, region.size - offset)
                    slot = next(turns)
                    free[slot].acquire()
                    if errors:
                        return
                    buffers[slot][:length].copy_(source[offset : offset + length], non_blocking=True)
                    events[slot] = torch.cuda.Event()
                    events[slot].record(side)
                    ready.put((slot, number, offset, length))
    finally:
        for _ in threads:
            ready.put(None)
        region_copies.join(threads, errors)


def copy_in(region: Region, image: int, base: int, changed: List[int], chunk: int) -> None:
    """Write the chunks of ``changed`` from an image at this offset back to the device, synchronously."""
    torch = torch_module()
    with _ring_lock, quiet(), torch.cuda.device(region.device_index):
        buffer = _pinned_ring(torch)[0]
        target = as_bytes(region)
        for number in changed:
            offset = number * chunk
            length = min(chunk, region.size - offset)
            region_copies.read_all(image, buffer.data_ptr(), length, base + offset)
            target[offset : offset + length].copy_(buffer[:length])
        torch.cuda.current_stream().synchronize()


def clones_of(regions: List[Tuple[int, Region]], timeout_s: float) -> Dict[int, Region]:
    """Copies of device regions on their own devices, by number.

    Those of a device where this would take more than half of what is free are left out. The copies
    are made by the current stream, before whatever is launched into it next.
    """
    torch = torch_module()
    found: Dict[int, Region] = {}
    with quiet():
        for index in sorted({region.device_index for _, region in regions}):
            here = [(number, region) for number, region in regions if region.device_index == index]
            if 2 * sum(region.size for _, region in here) > _free_bytes(torch, index):
                continue
            with torch.cuda.device(index):
                try:
                    found.update([(number, _clone(torch, region)) for number, region in here])
                except torch.cuda.OutOfMemoryError:  # free, but in pieces that are too small
                    continue
                _finish("a copy on the device", timeout_s)
    return found


def put_back(region: Region, clone: Region, timeout_s: float) -> None:
    """Copy a clone's bytes to where they came from, and wait."""
    with quiet(), torch_module().cuda.device(region.device_index):
        as_bytes(region).copy_(as_bytes(clone))
        _finish("a copy on the device", timeout_s)


def changed_chunks(region: Region, clone: Region, chunk: int) -> List[int]:
    """The chunks in which a region differs from its clone; compared on the device, piece by piece."""
    torch = torch_module()
    step = max(1, PIECE // chunk) * chunk
    with quiet(), torch.cuda.device(region.device_index):
        now, then = as_bytes(region), as_bytes(clone)
        flags = []
        for start in range(0, region.size, step):
            unequal = now[start : start + step] != then[start : start + step]
            whole = unequal.numel() // chunk * chunk
            flags.append(unequal[:whole].view(-1, chunk).any(1))
            if whole < unequal.numel():
                flags.append(unequal[whole:].any().view(1))
        return [int(number) for number in torch.cat(flags).nonzero().flatten().tolist()] if flags else []


def _clone(torch: Any, region: Region) -> Region:
    source = as_bytes(region)
    copy = torch.empty(region.size, dtype=torch.uint8, device=source.device)
    copy.copy_(source)
    kind, index = region.device_type, region.device_index
    return Region(int(copy.data_ptr()), region.size, kind, index, region.reason, copy.untyped_storage())


def _free_bytes(torch: Any, index: int) -> int:
    """What an allocation through torch may hope for: free memory, and what torch keeps unused."""
    free, _ = torch.cuda.mem_get_info(index)
    return int(free) + max(0, torch.cuda.memory_reserved(index) - torch.cuda.memory_allocated(index))


def _finish(what: str, timeout_s: float) -> None:
    if not drain(record_event(), timeout_s):
        raise Unsupported(f"{what} did not finish within {timeout_s:g} s")


def _pinned_ring(torch: Any) -> List[Any]:
    if not _ring:
        for _ in range(RING):
            _ring.append(torch.empty(PIECE, dtype=torch.uint8, device="cpu", pin_memory=True))
    return _ring


def _side_stream(torch: Any, device: int) -> Any:
    if device not in _sides:
        _sides[device] = torch.cuda.Stream(device=device)
    return _sides[device]


class _ByAddress:
    """Any device range as a tensor, through the array interface."""

    def __init__(self, base: int, size: int) -> None:
        self.__cuda_array_interface__ = {
            "data": (base, False),
            "shape": (size,),
            "typestr": "|u1",
            "version": 3,
        }


def as_bytes(region: Region) -> Any:
    """A region as a tensor of its bytes, over the same memory."""
    torch = torch_module()
    if len(region.storages) == 1:
        empty = torch.empty(0, dtype=torch.uint8, device=region.storages[0].device)
        return empty.set_(region.storages[0], 0, (region.size,), (1,))
    device = torch.device("cuda", region.device_index)
    return torch.as_tensor(_ByAddress(region.base, region.size), device=device)


def describe_device(index: int) -> Dict[str, Any]:
    torch = torch_module()
    facts = torch.cuda.get_device_properties(index)
    is_hip = bool(getattr(torch.version, "hip", None))
    arch = (
        str(getattr(facts, "gcnArchName", "")).split(":")[0] if is_hip else f"sm_{facts.major}{facts.minor}"
    )
    return {
        key.kind: word.device_kind.hip if is_hip else word.device_kind.cuda,
        key.name: str(facts.name),
        key.arch: arch,
        key.ordinal: index,
        key.memory_bytes: int(facts.total_memory),
        key.driver: _driver(torch),
    }


def _driver(torch: Any) -> Optional[str]:
    try:
        number = int(torch._C._cuda_getDriverVersion())
        return f"{number // 1000}.{number % 1000 // 10}"
    except Exception:
        return None

"""`--when nonfinite` and `--when differs`: judge a launch by what it left in memory."""

from __future__ import annotations

import ctypes
from typing import TYPE_CHECKING, Any, List, Optional, Tuple

from . import copying, cuda
from .images import images_of
from .memory import Closure

if TYPE_CHECKING:
    from .capture import Capture

_BITS = {1: "int8", 2: "int16", 4: "int32", 8: "int64"}


def nonfinite(closure: Closure, image: int, offsets: List[int]) -> Optional[str]:
    """Where a float view holds a NaN or an infinity that this launch wrote; None if nowhere.

    ``image`` is the address of the pre-state. An element counts if it is not finite now and had
    other bits before: a NaN that was there already is not this launch's.
    """
    found = []
    with cuda.quiet():
        for (name, tensor), view in zip(closure.tensors(), closure.views):
            if not tensor.is_floating_point() or not tensor.numel():
                continue
            text = _first_nonfinite(name, tensor, view, closure, image, offsets)
            if text is not None and text not in found:
                found.append(text)
    return "; ".join(found) or None


def _first_nonfinite(
    name: str, tensor: Any, view: Any, closure: Closure, image: int, offsets: List[int]
) -> Optional[str]:
    torch = cuda.torch_module()
    bad = ~torch.isfinite(tensor.detach().to(torch.float32 if tensor.element_size() < 8 else torch.float64))
    if not bool(bad.any()):
        return None
    region = closure.regions[view["region"]]
    raw = _tensor_over(torch, image + offsets[view["region"]], region.size)
    start = view["offset"] % view["itemsize"]
    whole = (region.size - start) // view["itemsize"] * view["itemsize"]
    typed = raw[start : start + whole].to(tensor.device).view(tensor.dtype)
    before = torch.as_strided(typed, view["shape"], view["strides"], view["offset"] // view["itemsize"])
    bits = getattr(torch, _BITS[view["itemsize"]])
    bad &= before.view(bits) != tensor.detach().view(bits)
    count = int(bad.sum())
    if not count:
        return None
    flat = int(bad.flatten().to(torch.uint8).argmax())
    index = _unravel(flat, view["shape"])
    value = float(tensor.detach()[index])
    place = ", ".join(map(str, index))
    return f"{name}[{place}] = {value}, {count} element{'s' if count > 1 else ''}"


def differs(capture: "Capture") -> Optional[str]:
    """Run the launch once more from the same pre-state; where its results differ, or None.

    The application's own post-state is back in memory afterwards, whatever happened.
    """
    assert capture.pre is not None and capture.again is not None and capture.launch is not None
    images = images_of(capture.session)
    first = images.surviving(capture.launch, "post")
    try:
        first.resize(capture.size)
        capture.each_piece(copying.Store(first.fd, capture.offsets, capture.chunk))
        with capture.mapped(first) as after, capture.mapped(capture.pre) as before:
            try:
                _restore(capture, before)
                capture.again()
                capture._drain("after the second launch")
                compare = copying.Compare(after, capture.offsets, capture.chunk)
                capture.each_piece(compare)
                return _first_difference(capture, compare.chunks, after)
            finally:
                _restore(capture, after)
    finally:
        images.discard(first)


def _restore(capture: "Capture", image: int) -> None:
    for number, region in enumerate(capture.closure.regions):
        start = image + capture.offsets[number]
        if region.is_host:
            copying.restore_host(region, start, capture.chunk)
    device = [(n, r) for n, r in enumerate(capture.closure.regions) if not r.is_host and r.size]
    if not device:
        return
    compare = copying.Compare(image, capture.offsets, capture.chunk)
    cuda.copy_out(device, compare, capture.drain_s)
    for number, region in device:
        changed = sorted(chunk for r, chunk in compare.chunks if r == number)
        cuda.copy_in(region, image + capture.offsets[number], changed, capture.chunk)


def _first_difference(capture: "Capture", chunks: List[Tuple[int, int]], image: int) -> Optional[str]:
    if not chunks:
        return None
    number, chunk = min(chunks)
    region = capture.closure.regions[number]
    offset = chunk * capture.chunk
    if region.is_host:
        length = min(capture.chunk, region.size - offset)
        now = bytes(copying.read_bytes(region.base + offset, length))
        then = ctypes.string_at(image + capture.offsets[number] + offset, length)
        offset += next(i for i in range(length) if now[i] != then[i])
    names = [v["name"] for v in capture.closure.views if v["region"] == number]
    place = f"{', '.join(names)} near byte {offset}"
    return f"{len(chunks)} chunk{'s' if len(chunks) > 1 else ''} differ, first in {place}"


def _tensor_over(torch: Any, address: int, size: int) -> Any:
    return torch.frombuffer((ctypes.c_char * size).from_address(address), dtype=torch.uint8)


def _unravel(flat: int, shape: List[int]) -> Tuple[int, ...]:
    index = []
    for extent in reversed(shape):
        index.append(flat % extent)
        flat //= extent
    return tuple(reversed(index))

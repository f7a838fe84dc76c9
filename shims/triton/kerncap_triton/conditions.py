"""`--when nonfinite` and `--when differs`: judge a launch by what it left in memory."""

from __future__ import annotations

import ctypes
import itertools
from typing import Any, Callable, Iterator, List, Optional, Tuple

from . import region_copies, torch_device
from .contract import key
from .memory_state import Chunks, State, is_on_device
from .reachable_memory import ReachableMemory

PIECE_ELEMENTS = 4 << 20  # looked at in one go: bounds the scratch memory on the target's device
_BITS = {1: "int8", 2: "int16", 4: "int32", 8: "int64"}


def nonfinite(reachable: ReachableMemory, before: State) -> Optional[str]:
    """Where a float view holds a NaN or an infinity that this launch wrote; None if nowhere.

    An element counts if it is not finite now and had other bits ``before``: a NaN that was there
    already is not this launch's. Only the pieces with such an element are compared with it.
    """
    found = []
    with torch_device.quiet():
        for (name, tensor), view in zip(reachable.tensors(), reachable.views):
            if not _can_be_nonfinite(tensor):
                continue
            region = view[key.region]
            text = _first_nonfinite(name, tensor.detach(), region, reachable.regions[region].base, before)
            if text is not None and text not in found:
                found.append(text)
    return "; ".join(found) or None


def _can_be_nonfinite(tensor: Any) -> bool:
    kind = str(tensor.dtype)
    return bool(tensor.is_floating_point() and tensor.numel() and not kind.startswith("torch.float4"))


def _first_nonfinite(name: str, tensor: Any, region: int, base: int, before: State) -> Optional[str]:
    torch = torch_device.torch_module()
    pieces = list(_pieces(tensor))
    # One number comes back for all of them, so a device does not wait for the host in between.
    if bool(torch.stack([torch.isfinite(_wide(piece)).all() for _, piece in pieces]).all()):
        return None
    count, first = 0, ""
    for origin, piece in pieces:
        bad = ~torch.isfinite(_wide(piece))
        if not bool(bad.any()):
            continue
        bad &= _bits(torch, _as_before(piece, region, base, before)) != _bits(torch, piece)
        here = int(bad.sum())
        if here and not count:
            index = _unravel(int(bad.flatten().to(torch.uint8).argmax()), list(piece.shape))
            place = ", ".join(str(start + step) for start, step in zip(origin, index))
            first = f"{name}[{place}]" if place else name
            first += f" = {float(piece[index])}"
        count += here
    return f"{first}, {count} element{'s' if count > 1 else ''}" if count else None


def _pieces(tensor: Any) -> Iterator[Tuple[Tuple[int, ...], Any]]:
    """Parts of at most PIECE_ELEMENTS in row-major order, each with the index where it starts.

    A dimension of stride 0 shows the same elements again and is looked at once.
    """
    strides = tensor.stride()
    tensor = tensor[tuple(slice(0, 1) if stride == 0 else slice(None) for stride in strides)]
    shape = list(tensor.shape)
    inner, split = 1, len(shape)
    while split and inner * shape[split - 1] <= PIECE_ELEMENTS:
        split -= 1
        inner *= shape[split]
    if not split:
        yield (0,) * len(shape), tensor
        return
    step = max(1, PIECE_ELEMENTS // inner)
    outer = [range(extent) for extent in shape[: split - 1]]
    rest = (0,) * (len(shape) - split)
    for index in itertools.product(*outer, range(0, shape[split - 1], step)):
        part = [slice(start, start + 1) for start in index[:-1]] + [slice(index[-1], index[-1] + step)]
        yield index + rest, tensor[tuple(part)]


def _as_before(piece: Any, region: int, base: int, before: State) -> Any:
    """What a part of a tensor on this region held then, in its own shape."""
    torch = torch_device.torch_module()
    size = piece.element_size()
    reach = sum((extent - 1) * stride for extent, stride in zip(piece.shape, piece.stride())) + 1
    raw = before.bytes_of(region, piece.data_ptr() - base, reach * size, piece.device)
    if raw.storage_offset() % size:
        raw = raw.clone()  # a view of another dtype must begin at a multiple of its size
    typed = raw.view(piece.dtype)
    return torch.as_strided(typed, piece.shape, piece.stride(), typed.storage_offset())


def _wide(tensor: Any) -> Any:
    return tensor.float() if tensor.element_size() == 1 else tensor  # isfinite knows no 8-bit floats


def _bits(torch: Any, tensor: Any) -> Any:
    return tensor.view(getattr(torch, _BITS[tensor.element_size()]))


def differs(
    reachable: ReachableMemory,
    before: State,
    after: State,
    again: Callable[[], Any],
    drain: Callable[[str], None],
) -> Optional[str]:
    """Run the launch ``again`` from the state ``before`` it; where its results differ, or None.

    The application's own results are taken as ``after`` and back in memory afterwards, whatever happened.
    """
    after.take(on_device=True)
    try:
        before.restore()
        again()
        drain("after the second launch")
        return _first_difference(reachable, after.compare(), after)
    finally:
        after.restore()


def _first_difference(reachable: ReachableMemory, chunks: Chunks, after: State) -> Optional[str]:
    if not chunks:
        return None
    number, chunk = min(chunks)
    region = reachable.regions[number]
    offset = chunk * after.chunk
    if not is_on_device(region):
        length = min(after.chunk, region.size - offset)
        now = bytes(region_copies.read_bytes(region.base + offset, length))
        image = ctypes.create_string_buffer(length)
        after.read(number, offset, ctypes.addressof(image), length)
        then = image.raw
        offset += next(i for i in range(length) if now[i] != then[i])
    names = [v[key.name] for v in reachable.views if v[key.region] == number]
    place = f"{', '.join(names)} near byte {offset}"
    return f"{len(chunks)} chunk{'s' if len(chunks) > 1 else ''} differ, first in {place}"


def _unravel(flat: int, shape: List[int]) -> Tuple[int, ...]:
    index = []
    for extent in reversed(shape):
        index.append(flat % extent)
        flat //= extent
    return tuple(reversed(index))

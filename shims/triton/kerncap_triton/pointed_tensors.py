"""Live tensors that 64-bit integers of a launch point to: a table of pointers passes tensors too."""

from __future__ import annotations

import array
import bisect
import gc
import sys
from collections import deque
from typing import Any, Deque, Dict, Iterable, Iterator, List, Optional, Tuple

from . import region_copies, torch_device
from .reachable_memory import storage_of

_WORD = 8
_MOST_WORDS = 1 << 17  # of one tensor that are looked at
_LEAST_ADDRESS = 1 << 32  # sizes, offsets and indices are mostly less

HOST = ("cpu",)
EVERYWHERE = ("cpu", "cuda")

Named = Tuple[str, Any]


def pointed_tensors(values: Iterable[Named], devices: Tuple[str, ...] = HOST) -> List[Named]:
    """Tensors on these kinds of device by the place that holds their address: ``("table[2]", tensor)``.

    ``values``: tensors and integers by name. Those of storages that are among them are left out, and of
    several tensors over one storage one is enough. What a table leads to may be a table too.
    """
    torch = sys.modules.get("torch")
    if torch is None:
        return []
    live: Optional[_LiveTensors] = None
    known = set()
    queue: Deque[Named] = deque(values)
    found = []
    for _, value in queue:
        if isinstance(value, torch.Tensor):
            known.add(storage_of(value))
    while queue:
        name, value = queue.popleft()
        for place, address in _addresses(torch, name, value, devices):
            live = live or _LiveTensors(torch, devices)
            tensor = live.at(address)
            if tensor is None or (storage := storage_of(tensor)) in known:
                continue
            known.add(storage)
            found.append((place, tensor))
            queue.append((place, tensor))
    return found


def _addresses(torch: Any, name: str, value: Any, devices: Tuple[str, ...]) -> Iterator[Tuple[str, int]]:
    """The numbers of a value that may be addresses, each with its place."""
    if isinstance(value, int):
        if value >= _LEAST_ADDRESS:
            yield name, value
        return
    wide = (torch.int64, getattr(torch, "uint64", torch.int64))
    if not isinstance(value, torch.Tensor) or value.dtype not in wide:
        return
    if value.device.type not in devices or not value.numel() or storage_of(value) is None:
        return
    last = sum((size - 1) * stride for size, stride in zip(value.shape, value.stride()))
    count = min(int(last) + 1, _MOST_WORDS)
    if value.device.type not in HOST:
        if torch_device.is_capturing():
            return
        with torch_device.quiet():
            value = value.as_strided((count,), (1,)).cpu()
    words = array.array("Q")
    words.frombytes(region_copies.read_bytes(int(value.data_ptr()), count * _WORD))
    for index, number in enumerate(words):
        if number >= _LEAST_ADDRESS:
            yield f"{name}[{index}]", number


class _LiveTensors:
    """The tensors that Python knows of, by address."""

    def __init__(self, torch: Any, devices: Tuple[str, ...]) -> None:
        storages: Dict[Tuple[int, int], List[Any]] = {}
        kinds = (torch.Tensor, torch.nn.Parameter)
        for one in gc.get_objects():
            if type(one) in kinds and one.device.type in devices and one.layout is torch.strided:
                place = storage_of(one)
                if place is not None and place[1]:
                    storages.setdefault(place, []).append(one)
        self._places = sorted(storages)
        self._tensors = [storages[place] for place in self._places]

    def at(self, address: int) -> Optional[Any]:
        """The largest tensor that begins there, else the largest of the storage that it is in."""
        index = bisect.bisect_right(self._places, (address, sys.maxsize)) - 1
        if index < 0 or address >= sum(self._places[index]):
            return None
        return max(self._tensors[index], key=lambda one: (one.data_ptr() == address, one.numel()))

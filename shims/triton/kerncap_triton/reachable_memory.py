"""The memory of one launch: storages behind its tensors as regions, the tensors as views."""

from __future__ import annotations

import sys
from typing import Any, Dict, List, Optional, Tuple

from .contract import key, word

ALIGNMENT = 4096  # of each region in a pre-state file


class Unsupported(Exception):
    """A launch that can't be captured; the text is the reason to report."""


class Region:
    """A range of memory that stays alive as long as this does (it holds the storages)."""

    __slots__ = ("base", "size", "device_type", "device_index", "reason", "storages")

    def __init__(
        self, base: int, size: int, device_type: str, device_index: int, reason: str, storage: Any
    ) -> None:
        self.base = base
        self.size = size
        self.device_type = device_type
        self.device_index = device_index
        self.reason = reason
        self.storages = [storage]

    @property
    def is_host(self) -> bool:
        return self.device_type == "cpu"

    def as_record(self) -> Dict[str, Any]:
        return {
            key.base: self.base,
            key.size: self.size,
            key.kind: word.region_kind.host if self.is_host else word.region_kind.device,
            key.device: -1 if self.is_host else self.device_index,
            key.reason: self.reason,
        }


class ReachableMemory:
    """Collects tensors with ``add``; ``regions`` and ``views`` are final after ``close``."""

    def __init__(self) -> None:
        self._tensors: List[Tuple[str, Any]] = []
        # Per tensor: region before merging, address, and the storage's own address and bytes.
        self._found: List[Tuple[Region, int, Tuple[int, int]]] = []
        self._by_storage: Dict[Tuple[int, int, str], Region] = {}
        self.regions: List[Region] = []
        self.views: List[Dict[str, Any]] = []

    @property
    def size(self) -> int:
        return sum(region.size for region in self.regions)

    def add(self, name: str, tensor: Any) -> int:
        """The index of the tensor's view. Raises Unsupported for one without memory of its own."""
        base, size, address = _placement(name, tensor)
        device = tensor.device
        index = device.index if device.index is not None else 0
        place = (base, size, f"{device.type}:{index}")
        region = self._by_storage.get(place)
        if region is None:
            storage = tensor.untyped_storage()
            region = Region(base, size, device.type, index, f"argument {name}", storage)
            self._by_storage[place] = region
        self._tensors.append((name, tensor))
        self._found.append((region, address, (base, size)))
        return len(self._tensors) - 1

    def close(self) -> None:
        """Merge storages that overlap (a tensor made over another's memory), place the views."""
        merged: Dict[int, Region] = {}
        order = sorted(
            self._by_storage.values(), key=lambda r: (r.device_type, r.device_index, r.base, -r.size)
        )
        last = None
        for region in order:
            same = last is not None and (last.device_type, last.device_index) == (
                region.device_type,
                region.device_index,
            )
            if same and last is not None and region.base < last.base + last.size and region.size:
                last.size = max(last.base + last.size, region.base + region.size) - last.base
                last.storages.extend(region.storages)
                merged[id(region)] = last
            else:
                merged[id(region)] = last = region
        for region, _, _ in self._found:  # in the order of the arguments
            if merged[id(region)] not in self.regions:
                self.regions.append(merged[id(region)])
        for (name, tensor), (region, address, (base, size)) in zip(self._tensors, self._found):
            home = merged[id(region)]
            is_part = size != home.size and bool(tensor.numel()) and bool(address)
            self.views.append(
                {
                    key.region: self.regions.index(home),
                    key.offset: address - home.base if tensor.numel() and address else 0,
                    key.dtype: str(tensor.dtype).replace("torch.", "", 1),
                    key.itemsize: int(tensor.element_size()),
                    key.shape: [int(n) for n in tensor.shape],
                    key.strides: [int(n) for n in tensor.stride()],
                    key.name: name,
                    key.requires_grad: bool(tensor.requires_grad),
                    **({key.storage: [base - home.base, size]} if is_part else {}),
                }
            )

    def tensors(self) -> List[Tuple[str, Any]]:
        return list(self._tensors)

    def offsets(self) -> Tuple[List[int], int]:
        """Where each region starts in a pre-state file, and the file's size."""
        offsets, position = [], 0
        for region in self.regions:
            offsets.append(position)
            position += -(-region.size // ALIGNMENT) * ALIGNMENT
        return offsets, position

    def describe_sizes(self) -> str:
        """The largest arguments by name, for a refusal."""
        lines = []
        for region in sorted(self.regions, key=lambda r: -r.size)[:8]:
            views = [v for v in self.views if self.regions[v[key.region]] is region]
            names = ", ".join(f"{v[key.name]} ({v[key.dtype]} {v[key.shape]})" for v in views[:3])
            lines.append(f"{names}: {size_text(region.size)}")
        return "; ".join(lines)


def size_text(size: int) -> str:
    value, units = float(size), ("bytes", "KiB", "MiB", "GiB", "TiB")
    for unit in units:
        if value < 1024 or unit == units[-1]:
            break
        value /= 1024
    return f"{size} bytes" if unit == "bytes" else f"{value:.4g} {unit}"


def check_memory(name: str, tensor: Any) -> None:
    """Raises Unsupported for a tensor that has no bytes, or has them where nobody here can copy."""
    kind = type(tensor).__name__
    if kind in ("FakeTensor", "FunctionalTensor") or tensor.device.type == "meta":
        raise Unsupported(f"argument {name} is a {kind} on {tensor.device}: it has no memory")
    if tensor.device.type not in ("cpu", "cuda"):
        raise Unsupported(f"argument {name} is on {tensor.device}, which the Triton hook can't copy")


def storage_of(tensor: Any) -> Optional[Tuple[int, int]]:
    """Address and bytes of the tensor's own storage; None if it has none."""
    try:
        storage = tensor.untyped_storage()
        return int(storage.data_ptr()), int(storage.nbytes())
    except Exception:
        return None


def _placement(name: str, tensor: Any) -> Tuple[int, int, int]:
    check_memory(name, tensor)
    kind = type(tensor).__name__
    if "torch" in sys.modules and tensor.layout is not sys.modules["torch"].strided:
        raise Unsupported(f"argument {name} has layout {tensor.layout}")
    try:
        storage = tensor.untyped_storage()
        return int(storage.data_ptr()), int(storage.nbytes()), int(tensor.data_ptr())
    except Exception as error:
        raise Unsupported(f"argument {name} ({kind}) has no storage to copy: {error}") from error

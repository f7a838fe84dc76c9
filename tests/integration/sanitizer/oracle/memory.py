"""Memory of one interpreted launch: private copies, reached through addresses that tell the argument.

Each tensor argument gets 16 TiB of made-up addresses around its element [0, …, 0], so an address says
which argument it was computed from however far it strays, and nothing is ever touched out of bounds.
Low bits equal those of the real address: alignment stays true.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any

import numpy as np
import numpy.typing as npt

REGION_BITS = 44
FIRST_REGION = 1 << 56
LOW_BITS = 0xFFF


@dataclass
class Store:
    """One storage: its bytes before the launch (later: as the programs changed them), and who wrote it."""

    real_address: int
    contents: npt.NDArray[np.uint8]
    written: npt.NDArray[np.bool_]
    size: int  # more than there are contents: a tensor that stands for a huge one


@dataclass(frozen=True)
class Region:
    """One tensor argument. ``offset`` is that of its element [0, …, 0] in the storage, in bytes."""

    name: str
    base: int
    store: int
    offset: int
    view: npt.NDArray[np.bool_] | None  # per byte of the storage: is it part of the tensor


@dataclass(frozen=True)
class Located:
    """Elements of one access. Parallel arrays; ``store`` is -1 where there is none behind the address."""

    region: npt.NDArray[np.int64]
    store: npt.NDArray[np.int64]
    offset: npt.NDArray[np.int64]  # from the start of the storage
    relative: npt.NDArray[
        np.int64
    ]  # from the argument's element [0, …, 0]; the address itself if region is -1
    inside: npt.NDArray[np.bool_]  # all bytes of the element lie in the storage
    in_view: npt.NDArray[np.bool_]


@dataclass
class Memory:
    stores: list[Store] = field(default_factory=list)
    regions: list[Region] = field(default_factory=list)
    _by_address: dict[int, int] = field(default_factory=dict)

    def add(self, name: str, tensor: Any, fresh: bool, size_bytes: int | None = None) -> int:
        """Take a torch tensor in; the address that the kernel is to see. Equal storages are shared.

        ``size_bytes``: how large the storage is said to be. What is not there reads as zero.
        """
        storage = tensor.untyped_storage()
        key = int(storage.data_ptr()) or id(storage)
        if key not in self._by_address:
            size = int(storage.nbytes())
            contents = np.empty(0, np.uint8)
            if size:
                import torch

                flat = torch.empty(0, dtype=torch.uint8).set_(storage, 0, (size,), (1,))
                contents = flat.numpy().copy()
            self._by_address[key] = len(self.stores)
            self.stores.append(Store(key, contents, np.full(size, not fresh), size_bytes or size))
        store = self._by_address[key]
        offset = int(tensor.storage_offset()) * tensor.element_size()
        region = len(self.regions)
        real = self.stores[store].real_address + offset
        base = FIRST_REGION + (region << REGION_BITS) + (1 << (REGION_BITS - 1)) + (real & LOW_BITS)
        self.regions.append(
            Region(name, base, store, offset, self._footprint(store, offset, tensor, size_bytes))
        )
        return base

    def _footprint(
        self, store: int, offset: int, tensor: Any, size_bytes: int | None
    ) -> npt.NDArray[np.bool_] | None:
        if size_bytes is not None:
            return None
        view = np.zeros(self.stores[store].contents.size, np.bool_)
        itemsize = int(tensor.element_size())
        starts = np.array([offset], np.int64)
        for extent, stride in zip(tensor.shape, tensor.stride(), strict=True):
            if stride == 0 and extent:
                continue
            starts = np.unique((starts[:, None] + np.arange(extent) * (stride * itemsize)).ravel())
        for byte in range(itemsize):
            view[starts + byte] = True
        return view

    def locate(self, addresses: npt.NDArray[np.uint64], width: int) -> Located:
        """Where elements of ``width`` bytes at flat ``addresses`` are."""
        signed = addresses.astype(np.int64)
        region = np.where(signed >= FIRST_REGION, (signed - FIRST_REGION) >> REGION_BITS, -1)
        region = np.where(region < len(self.regions), region, -1)
        store = np.full(signed.shape, -1, np.int64)
        offset = signed.copy()
        relative = signed.copy()
        for number in np.unique(region):
            chosen = region == number
            if number >= 0:
                of = self.regions[int(number)]
                store[chosen] = of.store
                relative[chosen] = signed[chosen] - of.base
                offset[chosen] = relative[chosen] + of.offset
                continue
            for index, one in enumerate(self.stores):
                within = chosen & (signed >= one.real_address) & (signed < one.real_address + one.size)
                store[within] = index
                offset[within] = signed[within] - one.real_address
        size = np.array([one.size for one in self.stores] + [0], np.int64)[store]
        inside = (store >= 0) & (offset >= 0) & (offset + width <= size)
        in_view = inside.copy()
        for number in np.unique(region[inside & (region >= 0)]):
            chosen = np.flatnonzero(inside & (region == number))
            view = self.regions[int(number)].view
            if view is not None:
                in_view[chosen] = view[offset[chosen, None] + np.arange(width)].all(axis=1)
        return Located(region, store, offset, relative, inside, in_view)

    def _there(self, at: Located, which: npt.NDArray[np.bool_], store: int, width: int) -> Any:
        in_contents = at.offset + width <= self.stores[store].contents.size
        return np.flatnonzero(which & at.inside & (at.store == store) & in_contents)

    def load(self, at: Located, which: npt.NDArray[np.bool_], dtype: np.dtype[Any]) -> npt.NDArray[Any]:
        """Values of the elements ``which`` (others zero), flat."""
        raw = np.zeros((at.offset.size, dtype.itemsize), np.uint8)
        for number, one in enumerate(self.stores):
            chosen = self._there(at, which, number, dtype.itemsize)
            if chosen.size:
                raw[chosen] = one.contents[at.offset[chosen, None] + np.arange(dtype.itemsize)]
        return raw.view(dtype)[:, 0]

    def unwritten(self, at: Located, which: npt.NDArray[np.bool_], width: int) -> npt.NDArray[np.bool_]:
        """Of the elements ``which``: those with a byte that nobody wrote."""
        result = np.zeros(which.shape, np.bool_)
        for number, one in enumerate(self.stores):
            chosen = self._there(at, which, number, width)
            if chosen.size:
                result[chosen] = ~one.written[at.offset[chosen, None] + np.arange(width)].all(axis=1)
        return result

    def save(self, at: Located, which: npt.NDArray[np.bool_], values: npt.NDArray[Any]) -> None:
        """Store flat ``values`` where ``which`` holds and the element is inside; the rest is dropped."""
        width = values.dtype.itemsize
        raw = np.ascontiguousarray(values).view(np.uint8).reshape(values.size, width)
        for number, one in enumerate(self.stores):
            chosen = self._there(at, which, number, width)
            if chosen.size:
                places = at.offset[chosen, None] + np.arange(width)
                one.contents[places] = raw[chosen]
                one.written[places] = True

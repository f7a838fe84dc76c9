"""Placed device memory as torch sees it, for the engines that need torch."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from ..common.address_layout import gaps
from ..cuda.placement import Placement, Regions
from ..job import JobZeros

_STAGING_BYTES = 16 * 1024 * 1024


class _Bytes:
    """Placed device memory as torch takes it without a copy."""

    def __init__(self, address: int, size: int) -> None:
        self.__cuda_array_interface__ = {
            "shape": (size,), "typestr": "|u1", "data": (address, False), "strides": None, "version": 2
        }  # fmt: skip


class CudaMemory(Placement):
    """Regions on one CUDA device, as tensors; ``reserve`` runs before torch has a context there."""

    def __init__(
        self, regions: Regions, device: int, captured_device: int = 0, zeros: Sequence[JobZeros] = ()
    ) -> None:
        super().__init__(regions, device, captured_device, zeros=zeros)

    def open(self, torch: Any) -> None:
        """Make torch use the device; the regions are not copied."""
        self._torch = torch
        self._device = torch.device("cuda", self.ordinal)
        torch.cuda.set_device(self._device)
        self._staging = torch.empty(_STAGING_BYTES, dtype=torch.uint8, pin_memory=True)

    def tensor(self, region: int, offset: int, size: int) -> Any:
        """``size`` bytes of a region from ``offset`` on, as uint8."""
        if size == 0:
            return self._torch.empty(0, dtype=self._torch.uint8, device=self._device)
        return self._at(self.regions[region]["base"] + offset, size)

    def gap_tensors(self) -> list[tuple[int, Any]]:
        """(address, bytes) of what is mapped beside the regions."""
        return [(gap.start, self._at(gap.start, gap.size)) for gap in gaps(self.regions, self.mapped)]

    def zero_tensors(self) -> list[tuple[int, Any]]:
        """(address, bytes) of the pages that stand for all ranges of zeros."""
        return [(block.start, self._at(block.start, block.size)) for block in self.zero_blocks]

    def _at(self, address: int, size: int) -> Any:
        return self._torch.as_tensor(_Bytes(address, size), device=self._device)

    def to_device(self, tensor: Any) -> Any:
        """The tensor on the device; host bytes go through a pinned buffer (pageable is 60 times slower)."""
        if tensor.is_cuda:
            return tensor
        if tensor.dtype != self._torch.uint8 or not tensor.is_contiguous():
            return tensor.to(self._device)
        out = self._torch.empty(tensor.shape, dtype=tensor.dtype, device=self._device)
        for start in range(0, tensor.numel(), _STAGING_BYTES):
            part = tensor[start : start + _STAGING_BYTES]
            buffer = self._staging[: part.numel()]
            buffer.copy_(part)
            out[start : start + part.numel()].copy_(buffer)  # blocks: the buffer is used again
        return out

    def room_for(self, size: int) -> bool:
        """Whether ``size`` more bytes fit on the device with some to spare."""
        free, _ = self._torch.cuda.mem_get_info(self._device)
        return bool(size * 1.25 < free)

    def synchronize(self) -> None:
        self._torch.cuda.synchronize(self._device)

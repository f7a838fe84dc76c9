"""A launch's arguments as tensors over the memory that is placed."""

from __future__ import annotations

import ctypes
from typing import Any

import torch

from ..common.failures import Refused
from ..job import Job
from ..triton_launch.launch_values import Pointer, Values
from .compare_views import dtype_of, strided


class PlacedValues(Values):
    """Arguments over placed memory; each view is one tensor, shared by all who name it."""

    def __init__(self, job: Job, memory: Any) -> None:
        super().__init__(job)
        self.memory = memory

    def view(self, index: int) -> Any:
        """The tensor of a view, over the placed memory itself.

        Raises Refused for a dtype that this torch lacks.
        """
        view = self.job["views"][index]
        try:
            dtype = dtype_of(view["dtype"])
        except ValueError as error:
            raise Refused(f"{view['name'] or f'view {index}'}: {error}") from error
        if dtype.itemsize != view["itemsize"]:
            raise Refused(f"{view['name']}: {view['dtype']} has {view['itemsize']} bytes in the manifest")
        region, skew = view["region"], view["offset"] % view["itemsize"]
        size = self.memory.regions[region]["size"]
        data = self.memory.tensor(region, skew, max(0, size - skew))
        tensor = strided(data, {**view, "offset": view["offset"] - skew}, dtype)
        expected = self.memory.regions[region]["base"] + view["offset"]
        if tensor.numel() and tensor.data_ptr() != expected:
            raise Refused(f"{view['name']}: placed at {tensor.data_ptr():#x}, expected {expected:#x}")
        return tensor

    def pointer(self, value: dict[str, Any], name: str) -> Any:
        address = value["address"]
        dtype = self.torch_dtype(value["dtype"].removeprefix("torch."), name)
        if self.memory.kind != "host":
            return Pointer(self._moved(address), dtype)
        if address == 0:
            return torch.empty(0, dtype=dtype)  # its data_ptr() is the null pointer
        for old, region in zip(self.job["regions"], self.memory.regions, strict=True):
            if old["base"] <= address < old["base"] + old["size"]:
                address += region["base"] - old["base"]
                return torch.frombuffer(
                    (ctypes.c_ubyte * dtype.itemsize).from_address(address), dtype=torch.uint8
                ).view(dtype)
        raise Refused(f"argument {name} points to {address:#x}, which is in no captured region")

    def torch_dtype(self, dtype: str, name: str) -> Any:
        try:
            return dtype_of(dtype)
        except ValueError as error:
            raise Refused(f"argument {name}: {error}") from error

    def _moved(self, address: int) -> int:
        """Where what an address points to is now."""
        for index, old in self.memory.relocated.items():
            if 0 <= address - old < self.memory.regions[index]["size"]:
                return int(address - old + self.memory.regions[index]["base"])
        return address

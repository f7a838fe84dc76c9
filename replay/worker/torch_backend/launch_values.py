"""Values of the manifest as the Python objects that a launch passes."""

from __future__ import annotations

import collections
import ctypes
from typing import Any

import torch

from ..common.failures import Refused
from ..job import Job
from . import gluon_layouts
from .compare_views import dtype_of, strided


class Pointer:
    """A bare address with a dtype: what Triton's JIT takes in place of a tensor."""

    def __init__(self, address: int, dtype: Any) -> None:
        self.dtype = dtype
        self._address = address

    def data_ptr(self) -> int:
        return self._address


class Values:
    """Builds arguments over placed memory; each view is one tensor, shared by all who name it."""

    def __init__(self, job: Job, memory: Any) -> None:
        self.job = job
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

    def build(self, value: dict[str, Any], name: str, module: Any) -> Any:
        """The object of an encoded value; ``module`` is where function names are looked up.

        Raises Refused, naming the argument, for what can't be rebuilt.
        """
        try:
            return self._build(value, name, module)
        except (ArithmeticError, AttributeError, RuntimeError, TypeError, ValueError) as error:
            if isinstance(error, Refused):
                raise
            raise Refused(f"argument {name} can't be rebuilt: {error}") from error

    def _build(self, value: dict[str, Any], name: str, module: Any) -> Any:
        kind = value["kind"]
        if kind == "none":
            return None
        if kind in ("bool", "str"):
            return value["value"]
        if kind == "int":
            return int(value["value"])
        if kind == "float":
            text = value["value"]
            return float(text) if text.lstrip("-") in ("inf", "nan") else float.fromhex(text)
        if kind == "dtype":
            return self._dtype(value, name)
        if kind == "sequence":
            return self._sequence(value, name, module)
        if kind == "tensor":
            tensor = self.view(value["view"])
            if value.get("wrapped_dtype"):
                import triton

                return triton.reinterpret(tensor, self._triton_dtype(value["wrapped_dtype"], name))
            return tensor
        if kind == "descriptor":
            from triton.tools.tensor_descriptor import TensorDescriptor

            return TensorDescriptor(
                self.view(value["view"]), list(value["shape"]), list(value["strides"]),
                list(value["block_shape"]), value.get("padding", "zero"),
            )  # fmt: skip
        if kind == "function":
            function = getattr(module, value["name"], None)
            if function is None:
                raise Refused(f"argument {name}: the source module has no function {value['name']}")
            return function
        if kind == "pointer":
            return self._pointer(value, name)
        if kind == "opaque" and value.get("type_name", "").startswith(gluon_layouts.PACKAGE):
            return gluon_layouts.rebuilt(value["repr"])
        raise Refused(
            f"argument {name} holds a {value.get('type_name', kind)}, which a reproducer can't rebuild"
        )

    def _sequence(self, value: dict[str, Any], name: str, module: Any) -> Any:
        items = [self.build(item, f"{name}[{i}]", module) for i, item in enumerate(value["items"])]
        kind = value.get("type", "tuple")
        if kind == "list":
            return items
        if kind == "namedtuple":
            return collections.namedtuple(value["type_name"], list(value["fields"]), rename=True)(*items)
        return tuple(items)

    def _dtype(self, value: dict[str, Any], name: str) -> Any:
        if value["library"] == "torch":
            try:
                return dtype_of(value["name"].removeprefix("torch."))
            except ValueError as error:
                raise Refused(f"argument {name}: {error}") from error
        return self._triton_dtype(value["name"], name)

    def _triton_dtype(self, text: str, name: str) -> Any:
        import triton.language as tl

        short = text.rpartition(".")[2]
        found = getattr(tl, short, None)
        if isinstance(found, tl.dtype):
            return found
        try:
            return tl.dtype(short)  # the compiler's own spelling: "fp32"
        except Exception as error:
            raise Refused(f"argument {name}: Triton here has no dtype {text}") from error

    def _moved(self, address: int) -> int:
        """Where what an address points to is now."""
        for index, old in self.memory.relocated.items():
            if 0 <= address - old < self.memory.regions[index]["size"]:
                return int(address - old + self.memory.regions[index]["base"])
        return address

    def _pointer(self, value: dict[str, Any], name: str) -> Any:
        address = value["address"]
        dtype_name = value["dtype"].removeprefix("torch.")
        try:
            dtype = dtype_of(dtype_name)
        except ValueError as error:
            raise Refused(f"argument {name}: {error}") from error
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

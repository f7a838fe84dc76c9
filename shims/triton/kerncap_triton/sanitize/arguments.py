"""Arguments of a launch as messages: windows on storages, numbers, descriptors, bare addresses."""

from __future__ import annotations

import sys
from typing import Any, Dict, Iterator, List, Optional, Tuple

from ..pointed_tensors import EVERYWHERE, pointed_tensors
from .messages import Argument, Descriptor, Storage, Tensor

_DTYPES = {
    "fp8e4nv": "float8_e4m3fn", "fp8e5": "float8_e5m2", "fp8e4b8": "float8_e4m3fnuz",
    "fp8e5b16": "float8_e5m2fnuz", "fp8e4b15": "uint8", "fp16": "float16", "bf16": "bfloat16",
    "fp32": "float32", "fp64": "float64", "i1": "bool", "u1": "bool", "i8": "int8", "i16": "int16",
    "i32": "int32", "i64": "int64", "u8": "uint8", "u16": "uint16", "u32": "uint32", "u64": "uint64",
}  # fmt: skip
# What an object has that a library passes in a tensor's place, to give its memory another shape.
_OF_A_TENSOR = ("untyped_storage", "data_ptr", "element_size", "dtype", "device", "shape", "stride")
_SIZES = {"float64": 8, "int64": 8, "uint64": 8, "float32": 4, "int32": 4, "uint32": 4, "float16": 2,
          "bfloat16": 2, "int16": 2, "uint16": 2}  # fmt: skip


class Undescribable(Exception):
    """An argument that the sanitizer can't look into; the text says which and why."""


class Place:
    """A range of memory behind tensors. ``holders`` keep it alive."""

    def __init__(self, address: int, size: int, device: Any, name: str, holder: Any) -> None:
        self.address = address
        self.size = size
        self.device = device
        self.name = name
        self.holders = [holder]
        self.allocation: Tuple[int, int] = (address, size)


class Collected:
    """Arguments and places of one launch; `close` before they are read."""

    def __init__(self) -> None:
        self.arguments: List[Argument] = []
        self.places: List[Place] = []
        self._tensors: List[Tuple[str, Any]] = []
        self._windows: List[Tuple[Tensor, Place]] = []

    def add_all(self, arguments: Dict[str, Any], signature: Dict[str, Any]) -> None:
        """One for each value that is no constexpr, tuples flattened. Raises Undescribable."""
        for name, value in arguments.items():
            for leaf_name, leaf, kind in _leaves(name, value, signature.get(name, "constexpr")):
                self.arguments.append(self._argument(leaf_name, leaf, kind))

    def add_pointed(self, arguments: Dict[str, Any]) -> None:
        """What tables of pointers lead to, of `add_all`'s arguments."""
        given = [(name, value) for name, value in arguments.items() if type(value) is int]
        for name, tensor in pointed_tensors([*given, *self._tensors], EVERYWHERE):
            self._place(name, tensor)

    def close(self) -> None:
        """Merge storages that share bytes (one made over another's memory), and number them."""
        order = sorted(self.places, key=lambda place: (str(place.device), place.address, -place.size))
        home: Dict[int, Place] = {}
        last: Optional[Place] = None
        for place in order:
            overlaps = (
                last is not None
                and str(last.device) == str(place.device)
                and place.size
                and place.address < last.address + last.size
            )
            if overlaps and last is not None:
                end = max(last.address + last.size, place.address + place.size)
                last.size = end - last.address
                last.allocation = (last.address, last.size)
                last.holders.extend(place.holders)
                home[id(place)] = last
            else:
                home[id(place)] = last = place
        kept = [place for place in self.places if home[id(place)] is place]
        for tensor, place in self._windows:
            tensor.storage = kept.index(home[id(place)])
        self.places = kept

    def storages(self) -> List[Storage]:
        return [Storage(place.address, place.size, *place.allocation, place.name) for place in self.places]

    def _argument(self, name: str, value: Any, kind: str) -> Argument:
        if kind.startswith("tensordesc"):
            return Argument(name, descriptor=self._descriptor(name, value))
        if kind == "nvTmaDesc":
            return Argument(name, address=0)
        if not kind.startswith("*"):
            return Argument(name, number=_number(name, value))
        tensor = self._tensor(name, value, kind)
        address = int(value.data_ptr()) if tensor is None else None
        return Argument(name, address=address, tensor=tensor)

    def _descriptor(self, name: str, value: Any) -> Descriptor:
        tensor = self._tensor(name, value.base, "")
        if tensor is None:
            raise Undescribable(f"argument {name}: a descriptor over a bare address")
        return Descriptor(
            tensor,
            shape=[int(n) for n in value.shape],
            strides=[int(n) for n in value.strides],
            block_shape=[int(n) for n in value.block_shape],
            padding=str(getattr(value, "padding", "zero")),
            round_f32_to_tf32=bool(getattr(value, "round_f32_to_tf32", False)),
        )

    def _tensor(self, name: str, value: Any, kind: str) -> Optional[Tensor]:
        """None for what is no tensor."""
        tensor = unwrapped(value)
        if not is_tensor(tensor):
            return None
        place, address = self._place(name, tensor)
        shape, strides = [int(n) for n in tensor.shape], [int(n) for n in tensor.stride()]
        dtype = str(tensor.dtype).replace("torch.", "", 1)
        itemsize = int(tensor.element_size())
        if tensor is not value:  # triton.reinterpret
            dtype, size = _reinterpreted(value, kind)
            shape, strides = _in_elements_of(shape, strides, itemsize, size)
            itemsize = size
        window = Tensor(-1, address, dtype, itemsize, shape, strides)
        self._windows.append((window, place))
        return window

    def _place(self, name: str, tensor: Any) -> Tuple[Place, int]:
        kind = type(tensor).__name__
        if kind in ("FakeTensor", "FunctionalTensor") or tensor.device.type == "meta":
            raise Undescribable(f"argument {name} is a {kind} on {tensor.device}: it has no memory")
        try:
            storage = tensor.untyped_storage()
            base, size, address = int(storage.data_ptr()), int(storage.nbytes()), int(tensor.data_ptr())
        except Exception as error:
            raise Undescribable(f"argument {name} ({kind}) has no storage: {error}") from error
        self._tensors.append((name, tensor))
        if not base or not address:  # an empty tensor: the kernel gets a null pointer
            base = address = address or base
        for place in self.places:
            if (place.address, place.size) == (base, size) and place.device == tensor.device:
                return place, address
        place = Place(base, size, tensor.device, name, storage)
        self.places.append(place)
        return place, address


def tensors(values: Any) -> Iterator[Any]:
    """Every tensor among the arguments of a call, in descriptors, wrappers and tuples too."""
    for value in values:
        if isinstance(value, (tuple, list)):
            yield from tensors(value)
            continue
        found = unwrapped(value)
        if not is_tensor(found):
            found = unwrapped(getattr(value, "base", None))
        if is_tensor(found):
            yield found


def is_tensor(value: Any) -> bool:
    torch = sys.modules.get("torch")
    if torch is None:
        return False
    return isinstance(value, torch.Tensor) or all(hasattr(value, name) for name in _OF_A_TENSOR)


def unwrapped(value: Any) -> Any:
    """The tensor under `triton.reinterpret`, else the value itself."""
    return value.base if type(value).__name__ == "TensorWrapper" else value


def _leaves(name: str, value: Any, kind: Any) -> Iterator[Tuple[str, Any, str]]:
    if isinstance(kind, (tuple, list)):
        fields = getattr(kind, "_fields", None) or range(len(kind))
        for field, inner, inner_kind in zip(fields, value, kind):
            yield from _leaves(f"{name}.{field}", inner, inner_kind)
    elif kind != "constexpr":
        yield name, value, str(kind)


def _number(name: str, value: Any) -> Any:
    if isinstance(value, (bool, int, float)):
        return value
    item = getattr(value, "item", None)
    number = item() if callable(item) else getattr(value, "value", value)
    if isinstance(number, (bool, int, float)):
        return number
    try:
        return int(value)  # a SymInt, an integer of another library
    except (TypeError, ValueError) as error:
        raise Undescribable(f"argument {name}: a {type(value).__name__} is not a number") from error


def _reinterpreted(value: Any, kind: str) -> Tuple[str, int]:
    text = kind.lstrip("*").lstrip("k") if kind else str(value.dtype)
    dtype = _DTYPES.get(text) or _DTYPES.get(str(value.dtype)) or str(value.dtype).replace("torch.", "", 1)
    return dtype, _SIZES.get(dtype, 1)


def _in_elements_of(
    shape: List[int], strides: List[int], itemsize: int, size: int
) -> Tuple[List[int], List[int]]:
    """The same bytes as elements of another size; one row of them where the innermost does not divide."""
    if itemsize == size or not shape:
        return shape, strides
    if strides[-1] == 1 and shape[-1] * itemsize % size == 0:
        scaled = [stride * itemsize // size for stride in strides[:-1]]
        if all(stride * itemsize % size == 0 for stride in strides[:-1]):
            return [*shape[:-1], shape[-1] * itemsize // size], [*scaled, 1]
    reach = 1 + sum((n - 1) * abs(stride) for n, stride in zip(shape, strides))
    return [max(reach * itemsize // size, 0) if all(shape) else 0], [1]

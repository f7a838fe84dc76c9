"""A tensor from a file of `torch.save`, without torch and without executing anything in the pickle.

Source: torch/serialization.py: a zip file with `data.pkl`, and one file for each storage in `data/`.
"""

from __future__ import annotations

import io
import pickle
import pickletools
import zipfile
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import numpy as np

from kerncap.capture.recordings.recorded import Bytes

MAX_PICKLE_BYTES = 64 << 10  # one tensor's is a few hundred
# Of a tensor's pickle, whichever its protocol. Others may take any time: a dict hashes tuples of tuples.
_OPCODES = frozenset((
    *("PROTO", "FRAME", "STOP", "MARK", "BINPUT", "BINGET", "LONG_BINPUT", "LONG_BINGET", "MEMOIZE"),
    *("GLOBAL", "STACK_GLOBAL", "BINPERSID", "REDUCE", "BINUNICODE", "SHORT_BINUNICODE"),
    *("BININT", "BININT1", "BININT2", "LONG1", "NEWTRUE", "NEWFALSE", "NONE"),
    *("EMPTY_TUPLE", "TUPLE", "TUPLE1", "TUPLE2", "TUPLE3"),
))  # fmt: skip
_STORAGES = {
    "FloatStorage": ("float32", 4), "DoubleStorage": ("float64", 8), "HalfStorage": ("float16", 2),
    "BFloat16Storage": ("bfloat16", 2), "LongStorage": ("int64", 8), "IntStorage": ("int32", 4),
    "ShortStorage": ("int16", 2), "CharStorage": ("int8", 1), "ByteStorage": ("uint8", 1),
    "BoolStorage": ("bool", 1), "UntypedStorage": ("uint8", 1),
}  # fmt: skip


class TorchFileProblem(ValueError):
    """What is no file of one tensor, in a few words."""


@dataclass(frozen=True)
class Tensor:
    shape: tuple[int, ...]
    elements: Bytes  # (*shape, bytes of an element)


def read_tensor(data: bytes, itemsize: int, max_bytes: int) -> Tensor:
    """The tensor of a file. ``itemsize``: bytes of an element, as the log has it. Raises TorchFileProblem."""
    try:
        return _read(data, itemsize, max_bytes)
    except TorchFileProblem:
        raise
    except Exception as error:  # pickle and zipfile raise whatever the bytes lead to
        raise TorchFileProblem(f"it is not a file of torch.save ({type(error).__name__})") from error


def _read(data: bytes, itemsize: int, max_bytes: int) -> Tensor:
    with zipfile.ZipFile(io.BytesIO(data)) as archive:
        names = [name for name in archive.namelist() if name.endswith("/data.pkl")]
        if len(names) != 1 or archive.getinfo(names[0]).file_size > MAX_PICKLE_BYTES:
            raise TorchFileProblem("it has no data.pkl of a tensor")
        top = names[0].removesuffix("data.pkl")
        pickled = archive.read(names[0])
        if not {opcode.name for opcode, _, _ in pickletools.genops(pickled)} <= _OPCODES:
            raise TorchFileProblem("it holds more than a tensor")
        found = _Pickled(io.BytesIO(pickled)).load()
        if not isinstance(found, _Stored):
            raise TorchFileProblem("it holds no tensor")
        member = archive.getinfo(f"{top}data/{found.key}")
        if member.file_size > max_bytes:
            raise TorchFileProblem(f"its storage has {member.file_size:,} bytes, more than {max_bytes:,}")
        storage = np.frombuffer(archive.read(member), np.uint8)
    low = found.offset * itemsize
    high = (
        low + sum((n - 1) * s for n, s in zip(found.shape, found.strides, strict=True)) * itemsize + itemsize
    )
    if 0 in found.shape:
        return Tensor(found.shape, np.zeros((*found.shape, itemsize), np.uint8))
    if found.itemsize not in (1, itemsize) or high > len(storage):
        raise TorchFileProblem("its elements are not in its storage")
    strides = (*(stride * itemsize for stride in found.strides), 1)
    shape = (*found.shape, itemsize)
    return Tensor(
        found.shape, np.lib.stride_tricks.as_strided(storage[low:], shape, strides, writeable=False)
    )


@dataclass(frozen=True)
class _Storage:
    key: str
    itemsize: int


@dataclass(frozen=True)
class _Stored:
    key: str
    itemsize: int
    offset: int
    shape: tuple[int, ...]
    strides: tuple[int, ...]


def _rebuild(storage: object, offset: object, shape: object, strides: object, *_: object) -> _Stored:
    if not isinstance(storage, _Storage) or not isinstance(shape, tuple) or not isinstance(strides, tuple):
        raise TorchFileProblem("it holds no tensor")
    every = (offset, *shape, *strides)
    if len(shape) != len(strides) or not all(isinstance(each, int) and 0 <= each < 1 << 48 for each in every):
        raise TorchFileProblem("its shape is not valid")
    return _Stored(storage.key, storage.itemsize, int(offset), shape, strides)  # type: ignore[call-overload]


def _parameter(stored: object, *_: object) -> object:
    return stored


def _hooks(*_: object) -> None:
    """An OrderedDict that is always empty."""


class _Pickled(pickle.Unpickler):
    """Knows the names that a tensor's file has, and gives stand-ins of its own for them."""

    def find_class(self, module: str, name: str) -> Any:
        known: dict[tuple[str, str], Callable[..., object] | str] = {
            ("torch._utils", "_rebuild_tensor_v2"): _rebuild,
            ("torch._utils", "_rebuild_tensor_v3"): _rebuild,
            ("torch._utils", "_rebuild_parameter"): _parameter,
            ("collections", "OrderedDict"): _hooks,
        }
        if (module, name) in known:
            return known[module, name]
        if module in ("torch", "torch.storage") and (name in _STORAGES or name.startswith("float8_")):
            return name
        raise TorchFileProblem("it holds more than a tensor")

    def persistent_load(self, pid: Any) -> Any:
        kind, storage, key, *_ = pid
        if not all(isinstance(one, str) for one in (kind, storage, key)):
            raise TorchFileProblem("it holds more than a tensor")
        if kind != "storage" or storage not in _STORAGES or not key.isdecimal():
            raise TorchFileProblem("it holds more than a tensor")
        return _Storage(key, _STORAGES[storage][1])

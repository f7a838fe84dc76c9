"""Parameters of a kernel that no application has launched: memory of a range, and numbers."""

from __future__ import annotations

import math
from typing import Any

import numpy as np

from ..common.failures import Refused
from ..job import JobArgument
from ..protocol import KernelOfSource
from .dtypes import Number, is_known
from .triton_kernels import Addresses

_POINTER = "*"
_WORD = 8
_FLOATS = {4: "float32", 8: "float64"}


def packed(
    kernel: KernelOfSource, arguments: list[JobArgument], layout: list[tuple[int, int]] | None,
    addresses: Addresses,
) -> bytearray:  # fmt: skip
    """The bytes of ``arguments``, each at its place in ``layout``. Raises Refused for what does not fit.

    A number becomes what the source says that the parameter is. If that is not known, an integer stays one,
    of the parameter's size, and so does a float.
    """
    if layout is None:
        raise Refused("the driver does not say what parameters a kernel takes; CUDA 12.4 or newer does")
    named = kernel.parameters if kernel.parameters and len(kernel.parameters) == len(layout) else None
    if len(arguments) != len(layout):
        names = f" ({', '.join(name for name, _ in named)})" if named else ""
        raise Refused(f"{kernel.name} takes {len(layout)} arguments{names}, {len(arguments)} are passed")
    data = bytearray(max((offset + size for offset, size in layout), default=0))
    for number, (argument, (offset, size)) in enumerate(zip(arguments, layout, strict=True)):
        name, kind = named[number] if named else ("", "")
        where = f"argument {number + 1} ({name})" if name else f"argument {number + 1}"
        data[offset : offset + size] = _bytes(where, argument["value"], kind, size, addresses)
    return data


def _bytes(where: str, value: dict[str, Any], kind: str, size: int, addresses: Addresses) -> bytes:
    known = value["kind"]
    if known in ("tensor", "pointer", "none"):
        if kind not in (_POINTER, "") or size != _WORD:
            raise Refused(f"{where}: {kind or f'{size} bytes'} in the source, and memory is passed")
        return _address(value, where, addresses).to_bytes(_WORD, "little")
    if known not in ("int", "float", "bool"):
        raise Refused(f"{where}: {known}, which no parameter of a kernel is")
    if kind == _POINTER:
        raise Refused(f"{where}: a pointer in the source, and a number is passed")
    number = float.fromhex(value["value"]) if known == "float" else int(value["value"])
    if not kind:
        kind = _FLOATS.get(size, "") if known == "float" else f"int{8 * size}"
    if not is_known(kind, size):
        raise Refused(f"{where}: {kind or 'a type that is not known'} has no {size} bytes, as the image says")
    if "int" not in kind:
        return bytes(Number(kind, size).encode(np.float64(number)).tobytes())
    is_whole = math.isfinite(number) and number == int(number)
    if not is_whole or not -(1 << (8 * size - 1)) <= int(number) < 1 << 8 * size:
        raise Refused(f"{where}: {number!r} is not an {kind}")
    return (int(number) & ((1 << 8 * size) - 1)).to_bytes(size, "little")


def _address(value: dict[str, Any], where: str, addresses: Addresses) -> int:
    if value["kind"] == "none":
        return 0
    if value["kind"] == "tensor":
        return addresses.view(value["view"]).data_ptr()
    return addresses.pointer(value, where).data_ptr()

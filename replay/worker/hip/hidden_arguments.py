"""Hidden arguments of a HIP kernel: what the compiler passes behind those of the source.

They speak of the dispatch and of the process that makes it, so each is made again for the replay's own.
Source: "User Guide for AMDGPU Backend" of LLVM, the table of value kinds of an argument.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field

from ..protocol import RUNTIMES_OWN, Slot

_AXES = {"x": 0, "y": 1, "z": 2}


@dataclass(frozen=True)
class Dispatched:
    """What hidden arguments are made of: the shape of a dispatch, the queue that it goes to, and addresses
    of what the host gives (``given``, by their kinds)."""

    work_items: tuple[int, int, int]
    workgroup: tuple[int, int, int]
    dimensions: int
    dynamic_group_bytes: int
    queue_address: int
    given: Mapping[str, int] = field(default_factory=dict)


def fill(segment: bytearray, slots: Sequence[Slot], of: Dispatched) -> list[str]:
    """Write the hidden arguments into a kernarg segment; what of them can't be given here."""
    missing = []
    for slot in slots:
        value = _value(slot.kind, of)
        if value is None:
            value = 0
            missing.append(RUNTIMES_OWN.get(slot.kind, slot.kind.removeprefix("hidden_").replace("_", " ")))
        segment[slot.offset : slot.offset + slot.size] = value.to_bytes(slot.size, "little")
    return list(dict.fromkeys(missing))


def _value(kind: str, of: Dispatched) -> int | None:
    name, _, axis = kind.removeprefix("hidden_").rpartition("_")
    if axis in _AXES:
        items, group = of.work_items[_AXES[axis]], of.workgroup[_AXES[axis]]
        if name == "block_count":  # of whole ones: a partial workgroup at the end does not count
            return items // group
        if name == "group_size":
            return group
        if name == "remainder":
            return items % group
        if name == "global_offset":  # OpenCL has others
            return 0
    return {
        "hidden_grid_dims": of.dimensions,
        "hidden_dynamic_lds_size": of.dynamic_group_bytes,
        "hidden_queue_ptr": of.queue_address,
        # Bases of apertures: GPUs since gfx9 have them in registers, and are passed zeros.
        "hidden_private_base": 0,
        "hidden_shared_base": 0,
        **of.given,
    }.get(kind)

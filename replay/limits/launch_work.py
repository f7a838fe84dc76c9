"""What one launch has to do: bytes and operations, with how they are known."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Annotated, Any

from kerncap.format.document_types import Bytes, says

SECTOR_BYTES = 32  # what NVIDIA's caches and memory move at the least


@dataclass(frozen=True)
class Traffic:
    """Bytes that are read or written."""

    requested_bytes: Annotated[Bytes, says("Bytes requested by all lanes of all programs.")]
    # A sector once per tile if its neighbours in the tile share it.
    l2_bytes: Annotated[Bytes, says("Bytes of the sectors that tiles request.")]
    unique_bytes: Annotated[Bytes, says("Distinct bytes.")]
    sector_bytes: Annotated[
        Bytes, says("Bytes of the sectors that hold the distinct bytes: the minimum traffic.")
    ]


@dataclass(frozen=True)
class Work:
    """``operations`` are numbers by kind: ``tensor fp16`` and so on, ``fp32``, ``fp64``, ``fp16``
    (``bf16``), ``special`` (exponentials, roots, quotients), ``integer``, ``comparison``, ``conversion``.

    ``source`` says where the numbers come from; ``exact`` whether the bytes are more than an upper bound.
    ``contents``: they hold for the memory that was captured, on which addresses or branches depend.
    ``tensors``: name of each storage, bytes read and bytes written of it (each byte once).
    """

    source: str
    read: Traffic | None
    written: Traffic | None
    operations: Mapping[str, int]
    exact: bool = True
    contents: bool = False
    lanes: int = 0  # of all loads, stores and atomics
    masked_lanes: int = 0  # of these, switched off by a mask
    atomics: int = 0  # elements
    programs: int = 0
    tensors: tuple[tuple[str, int, int], ...] = ()
    notes: tuple[str, ...] = field(default=())

    @property
    def dram_read_bytes(self) -> int:
        return self.read.sector_bytes if self.read else 0

    @property
    def dram_written_bytes(self) -> int:
        return self.written.sector_bytes if self.written else 0

    @property
    def dram_bytes(self) -> int:
        """The least that goes through the device's memory with a cold cache: all that is touched, once."""
        return self.dram_read_bytes + self.dram_written_bytes

    @property
    def l2_bytes(self) -> int:
        return sum(one.l2_bytes for one in (self.read, self.written) if one)

    @property
    def flops(self) -> int:
        """Floating-point additions and multiplications of any unit; a fused one is two."""
        return sum(
            amount
            for kind, amount in self.operations.items()
            if kind.startswith("tensor ")
            and kind != "tensor int8"
            or kind in ("fp16", "bf16", "fp32", "fp64")
        )

    @property
    def intensity(self) -> float | None:
        """Floating-point operations per byte of memory traffic."""
        return self.flops / self.dram_bytes if self.dram_bytes else None

    def as_dict(self) -> dict[str, Any]:
        return {
            "source": self.source,
            "exact": self.exact,
            "for_these_contents": self.contents,
            "read": vars(self.read) if self.read else None,
            "written": vars(self.written) if self.written else None,
            "dram_bytes": self.dram_bytes,
            "l2_bytes": self.l2_bytes,
            "flops": self.flops,
            "flops_per_byte": self.intensity,
            "operations": dict(self.operations),
            "lanes": self.lanes,
            "masked_lanes": self.masked_lanes,
            "atomics": self.atomics,
            "programs": self.programs,
            "tensors": [{"name": n, "read_bytes": r, "written_bytes": w} for n, r, w in self.tensors],
            "notes": list(self.notes),
        }

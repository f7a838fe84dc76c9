"""The rows of a core dump's tables.

Drivers add fields at the end: a row may be shorter than here, which leaves them 0, or longer, and then what
follows is left alone. ``least`` is the size of the first version.

Source: cudacoredump.h of the CUDA toolkit 13, "Detailed section descriptions".
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np


@dataclass(frozen=True)
class Row:
    """``what`` a row is, its fields in order, and the bytes that it has at least."""

    what: str
    fields: np.dtype[np.void]
    least: int

    def kept(self, stride: int) -> int:
        """Bytes of whole fields in a row of ``stride`` bytes."""
        places = (self.fields.fields or {}).values()
        return max((at + kind.itemsize for kind, at, *_ in places if at + kind.itemsize <= stride), default=0)


def _row(what: str, least: int, wide: str, narrow: str, tail: str = "") -> Row:
    """First the fields of 8 bytes, then those of 4; ``tail``: of 8 again."""
    names = [(name, "<u8") for name in wide.split()]
    names += [(f"_{at}" if name == "_" else name, "<u4") for at, name in enumerate(narrow.split())]
    names += [(name, "<u8") for name in tail.split()]
    return Row(what, np.dtype(names), least)


METADATA = _row("metadata", 32, "generator", "driver driver_minor cuda cuda_minor flags time")
DEVICE = _row(
    "device", 72, "name type arch",
    "id pci_bus pci_device sms warps lanes registers predicates major minor instruction status "
    "uniform_registers uniform_predicates barriers",
)  # fmt: skip
CONTEXT = _row("context", 40, "id shared_window local_window global_window", "device thread")
MODULE = _row("module", 8, "handle", "")
GRID = _row(
    "grid", 104, "id context function entry module parent parameters_at",
    "kind origin status registers grid_x grid_y grid_z block_x block_y block_z blocking thread "
    "cluster_x cluster_y cluster_z",
)  # fmt: skip
SM = _row("SM", 8, "", "id _ exception error_valid", "error_pc")
BLOCK = _row("block", 24, "grid", "x y z")
WARP = _row("warp", 32, "error_pc", "id valid active broken error_valid _ registers")
LANE = _row("lane", 48, "pc offset", "lane x y z exception depth system_depth")
FRAME = _row("frame", 24, "offset pc", "level")

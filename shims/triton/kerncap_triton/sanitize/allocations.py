"""The allocator's block around a storage, for ``--bounds allocation``."""

from __future__ import annotations

import sys
from typing import Any, Tuple


def block_of(place: Any) -> Tuple[int, int]:
    """Address and bytes of the block of torch's caching allocator; the storage itself if none holds it."""
    torch: Any = sys.modules.get("torch")
    if torch is None or place.device.type != "cuda":
        return place.address, place.size
    try:
        segments = torch.cuda.memory_snapshot()
    except Exception:
        return place.address, place.size
    for segment in segments:
        base = int(segment["address"])
        if not base <= place.address < base + int(segment["total_size"]):
            continue
        for block in segment["blocks"]:
            size = int(block["size"])
            if base <= place.address < base + size:
                return base, size
            base += size
    return place.address, place.size

"""The digests of chunks: SHA-256, and BLAKE3 for large memory, at several times its speed."""

from __future__ import annotations

import hashlib
from collections.abc import Callable
from typing import Literal

Digest = Literal["sha256", "blake3"]
NAMES: dict[Digest, str] = {"sha256": "SHA-256", "blake3": "BLAKE3"}

Function = Callable[[bytes | memoryview], bytes]


def function(digest: Digest) -> Function:
    """What gives the 32 bytes. Threads run beside it."""
    if digest == "sha256":
        return lambda data: hashlib.sha256(data).digest()
    from blake3 import blake3  # most commands meet no large memory

    return lambda data: blake3(data).digest()

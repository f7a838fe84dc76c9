"""A launch of a CUDA kernel whose code is PTX."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field

from kerncap.sanitizer.launch import Launch


@dataclass(frozen=True)
class PtxLaunch(Launch):
    """``entry``: the kernel's name in the text; ``buffer``: its parameters, with captured addresses.

    ``argument_at``: the names of arguments by their offset in the buffer. ``symbols``: addresses of the
    module's variables. ``maker``: what made the text.
    """

    ptx: str = ""
    entry: str = ""
    maker: str = ""
    block: tuple[int, int, int] = (1, 1, 1)
    shared_bytes: int = 0  # dynamic
    buffer: bytes = b""
    argument_at: Mapping[int, str] = field(default_factory=dict)
    symbols: Mapping[str, int] = field(default_factory=dict)

    @property
    def threads(self) -> int:
        """Of a block."""
        return self.block[0] * self.block[1] * self.block[2]

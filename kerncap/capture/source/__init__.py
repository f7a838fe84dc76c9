"""From what a program under capture left of its kernels' sources to files that can be edited."""

from __future__ import annotations

from kerncap.capture.source.assembled_module import AssembledSource, assemble

__all__ = ["AssembledSource", "assemble"]

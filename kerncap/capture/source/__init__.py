"""From a source graph, as the hook found it in the target, to one editable module."""

from __future__ import annotations

from kerncap.capture.source.lines import SourceOrigin
from kerncap.capture.source.module import AssembledSource, assemble

__all__ = ["AssembledSource", "SourceOrigin", "assemble"]

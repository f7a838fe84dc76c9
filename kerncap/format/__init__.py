"""The reproducer format: schema, writer, reader. FORMAT.md in this folder is normative."""

from kerncap.format.checks_file import Checks, SelfCheck
from kerncap.format.launch_range import LaunchOfRange, LaunchRange
from kerncap.format.memory_index import MemoryIndex
from kerncap.format.reader import Reproducer
from kerncap.format.write_set import Masks, WriteSet
from kerncap.format.writer import ReproducerWriter

__all__ = [
    "Checks", "LaunchOfRange", "LaunchRange", "Masks", "MemoryIndex", "Reproducer", "ReproducerWriter",
    "SelfCheck", "WriteSet",
]  # fmt: skip

"""The most bytes that are read of each file of a reproducer, as FORMAT.md lists them."""

from __future__ import annotations

MAX_MANIFEST_BYTES = 16 << 20
MAX_CHECKS_BYTES = 1 << 20
MAX_WRITE_SET_BYTES = 1 << 30
MAX_REGIONS_BYTES = 1 << 40  # of memory, unpacked
MAX_INDEX_BYTES = 256 << 20
MAX_CHUNKS_BYTES = MAX_REGIONS_BYTES + (1 << 32)
MAX_FILE_BYTES = 4 << 30  # code, source and extras

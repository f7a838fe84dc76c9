"""A reproducer as one .zip file: written with equal bytes each time, read as a stranger's file."""

from kerncap.format.archive.pack import archive_bytes, packed_files, write_archive
from kerncap.format.archive.packed import PackedFile, Unviewed
from kerncap.format.archive.unpack import is_packed, unpack

__all__ = [
    "PackedFile", "Unviewed", "archive_bytes", "is_packed", "packed_files", "unpack", "write_archive",
]  # fmt: skip

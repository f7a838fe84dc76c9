"""The measured write set: which bytes of each region the launch writes (FORMAT.md, "Checks").

A mask has one bit per byte of its region, the lowest bit of a mask byte first.
"""

from __future__ import annotations

import hashlib
import re
from collections.abc import Iterator, Mapping
from pathlib import Path

import msgspec
import numpy as np
import numpy.typing as npt
import zstandard

from kerncap.format import schema
from kerncap.format.chunks import ZSTD_LEVEL, ChunkDecoder
from kerncap.format.memory import Encoding
from kerncap.format.reader import Reproducer
from kerncap.format.stored import check_digest, format_error

MAX_WRITE_SET_BYTES = 1 << 30
PIECE_BYTES = 1 << 20  # of a mask: 8 MiB of the region
WRITE_SET_VERSION = 1
Mask = npt.NDArray[np.uint8]


class _RegionFile(msgspec.Struct, frozen=True, array_like=True):
    region: schema.Index
    size: schema.Size
    also_input: bool
    pieces: list[bytes]


class _WriteSetFile(msgspec.Struct, frozen=True):
    version: int
    manifest_sha256: schema.Sha256
    regions: list[_RegionFile]


class WriteSet:
    """Per region: the bytes that are written, and whether the region is also input.

    Held compressed; a mask is unpacked when it is asked for.
    """

    def __init__(self, regions: Mapping[int, _RegionFile]) -> None:
        self._regions = dict(sorted(regions.items()))
        self._decoder = ChunkDecoder()

    @classmethod
    def from_masks(
        cls, masks: Mapping[int, tuple[bool, Mask]], sizes: Mapping[int, int] | None = None
    ) -> WriteSet:
        """From ``{region: (also_input, mask)}``; a mask has ceil(size / 8) bytes.

        ``sizes`` are the regions' sizes in bytes; without them a region is taken to end with its
        mask, and `save` sets that right.
        """
        compressor = zstandard.ZstdCompressor(level=ZSTD_LEVEL)
        regions = {}
        for region, (also_input, mask) in masks.items():
            flat = np.ascontiguousarray(mask, dtype=np.uint8).reshape(-1)
            size = sizes[region] if sizes is not None else len(flat) * 8
            if len(flat) != -(-size // 8):
                raise ValueError(f"region {region}: mask of {len(flat)} bytes for {size} bytes of memory")
            if size % 8 and int(flat[-1]) >> (size % 8):
                raise ValueError(f"region {region}: the mask has bits beyond the region's {size} bytes")
            pieces = [
                compressor.compress(flat[start : start + PIECE_BYTES].tobytes())
                for start in range(0, len(flat), PIECE_BYTES)
            ]
            regions[region] = _RegionFile(region, size, also_input, pieces)
        return cls(regions)

    @property
    def regions(self) -> tuple[int, ...]:
        """The regions that were measured, ascending."""
        return tuple(self._regions)

    def also_input(self, region: int) -> bool:
        """Whether the launch reads bytes of the region that it also writes (or faults without them)."""
        found = self._regions.get(region)
        return found is not None and found.also_input

    def mask(self, region: int) -> Mask:
        """The packed bitmap of a region: ceil(size / 8) bytes. Raises KeyError if it was not measured."""
        found = self._regions[region]
        mask = np.empty(-(-found.size // 8), dtype=np.uint8)
        for start, piece in self._pieces(found):
            mask[start : start + len(piece)] = piece
        return mask

    def written_bytes(self, region: int) -> int:
        """How many bytes of the region are written; 0 for one that was not measured."""
        found = self._regions.get(region)
        if found is None:
            return 0
        return sum(int(np.unpackbits(piece).sum(dtype=np.int64)) for _, piece in self._pieces(found))

    def save(self, reproducer: Reproducer) -> schema.StoredFile:
        """Put it into the reproducer; `Checks.write_set` must then name the file that this gives.

        The name holds the digest: an older checks.json stays valid until the new one replaces it.
        """
        sizes = [region.size for region in reproducer.manifest.regions]
        regions = []
        for number, found in self._regions.items():
            if number >= len(sizes) or -(-sizes[number] // 8) != -(-found.size // 8):
                raise ValueError(f"region {number} of {found.size} bytes is not in the reproducer")
            sized = msgspec.structs.replace(found, size=sizes[number])
            for _ in self._pieces(sized):
                pass  # raises ValueError for bits beyond the region
            regions.append(sized)
        file = _WriteSetFile(WRITE_SET_VERSION, reproducer.manifest_sha256, regions)
        data = msgspec.msgpack.encode(file)
        digest = hashlib.sha256(data).hexdigest()
        name = f"write_set-{digest[:16]}.bin"
        reproducer.replace_file(name, data)
        return schema.StoredFile(path=name, size=len(data), sha256=digest)

    @classmethod
    def load(cls, reproducer: Reproducer) -> WriteSet | None:
        """The write set that checks.json names, all rules checked; None if there is none."""
        checks = reproducer.checks()
        if checks is None or checks.write_set is None:
            return None
        stored = checks.write_set
        where = reproducer.path / stored.path
        if not re.fullmatch(r"write_set-[0-9a-f]{16}\.bin", stored.path):
            message = f"write set in {stored.path!r}; expected write_set-<16 hex>.bin"
            raise format_error(reproducer.path / "checks.json", 0, message)
        data = reproducer.read_beside(stored.path, MAX_WRITE_SET_BYTES, stored.size)
        check_digest(where, data, stored.sha256)
        return cls._decode(data, where, reproducer)

    @classmethod
    def _decode(cls, data: bytes, where: Path, reproducer: Reproducer) -> WriteSet:
        try:
            file = msgspec.msgpack.decode(data, type=_WriteSetFile)
        except (msgspec.DecodeError, RecursionError, UnicodeDecodeError) as error:
            raise format_error(where, 0, f"not a write set: {error}") from error
        if file.version != WRITE_SET_VERSION:
            raise format_error(where, 0, f"write set version {file.version} is not known")
        if file.manifest_sha256 != reproducer.manifest_sha256:
            raise format_error(where, 0, "the write set belongs to another manifest")
        sizes = [region.size for region in reproducer.manifest.regions]
        regions: dict[int, _RegionFile] = {}
        for found in file.regions:
            problem = None
            if found.region >= len(sizes) or found.region in regions:
                problem = f"region {found.region} is not in the manifest, or there twice"
            elif found.size != sizes[found.region]:
                problem = f"region {found.region} has {sizes[found.region]} bytes, not {found.size}"
            elif len(found.pieces) != -(-found.size // (8 * PIECE_BYTES)):
                problem = f"region {found.region}: {len(found.pieces)} pieces do not fit {found.size} bytes"
            if problem:
                raise format_error(where, 0, problem)
            regions[found.region] = found
        self = cls(regions)
        try:
            for found in regions.values():
                for _ in self._pieces(found):
                    pass
        except ValueError as error:
            raise format_error(where, 0, f"damaged mask: {error}") from error
        return self

    def _pieces(self, found: _RegionFile) -> Iterator[tuple[int, Mask]]:
        """(first mask byte, mask bytes) of each piece. Raises ValueError for a damaged one."""
        length = -(-found.size // 8)
        for number, piece in enumerate(found.pieces):
            start = number * PIECE_BYTES
            raw = self._decoder.unpack(Encoding.ZSTD, piece, min(PIECE_BYTES, length - start))
            if found.size % 8 and start + len(raw) == length and raw[-1] >> (found.size % 8):
                raise ValueError("bits beyond the region")
            yield start, np.frombuffer(raw, np.uint8)

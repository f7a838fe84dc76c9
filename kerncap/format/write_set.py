"""The measured write set: what the launch does to each byte of a region (FORMAT.md, "Checks").

A mask has one bit per byte of its region, the lowest bit of a mask byte first. A byte that is in no mask is
input, or was not told apart from it: it keeps its pre-state.
"""

from __future__ import annotations

import hashlib
from collections.abc import Callable, Iterator, Mapping
from pathlib import Path
from typing import Literal, get_args

import msgspec
import numpy as np
import numpy.typing as npt
import zstandard

from kerncap.format import schema
from kerncap.format.allowed_names import CHECKS_PATH, is_write_set, not_a_write_set
from kerncap.format.chunks import ChunkDecoder
from kerncap.format.memory_index import Encoding
from kerncap.format.packing import ZSTD_LEVEL
from kerncap.format.reader import Reproducer
from kerncap.format.size_limits import MAX_WRITE_SET_BYTES
from kerncap.format.stored_files import check_digest, format_error

PIECE_BYTES = 1 << 20  # of a mask: 8 MiB of the region
WRITE_SET_VERSION = 2
Mask = npt.NDArray[np.uint8]
Kind = Literal["written", "also_input", "untouched"]
_KINDS: tuple[Kind, ...] = get_args(Kind)


class _RegionFile(msgspec.Struct, frozen=True, array_like=True):
    region: schema.Index
    size: schema.Size
    written: list[bytes]
    also_input: list[bytes]
    untouched: list[bytes]


class _WriteSetFile(msgspec.Struct, frozen=True):
    version: int
    manifest_sha256: schema.Sha256
    regions: list[_RegionFile]


class WriteSet:
    """Per region: the bytes that are written, those of them that are also input, the untouched ones.

    Held compressed; a mask is unpacked when it is asked for.
    """

    def __init__(self, regions: Mapping[int, _RegionFile]) -> None:
        self._regions = dict(sorted(regions.items()))
        self._decoder = ChunkDecoder()
        self._last: tuple[bytes, Mask] = b"", np.empty(0, dtype=np.uint8)  # a whole piece, as it is stored

    @classmethod
    def from_pieces(
        cls, sizes: Mapping[int, int], piece: Callable[[int, Kind, int, int], Mask | None]
    ) -> WriteSet:
        """Of regions of these sizes; ``piece`` gives the bits of a kind for bytes [start, stop) of one.

        None stands for no bits, and an array that is given for several pieces is compressed once. Raises
        ValueError for masks that contradict each other.
        """
        packed = _Packed()
        regions = {}
        for region, size in sizes.items():
            starts = range(0, size, 8 * PIECE_BYTES)
            kinds = (
                [packed.of(piece(region, kind, at, min(at + 8 * PIECE_BYTES, size))) for at in starts]
                for kind in _KINDS
            )
            regions[region] = _RegionFile(region, size, *kinds)
        self = cls(regions)
        for region, entry in self._regions.items():
            try:
                self._check(entry)
            except ValueError as error:
                raise ValueError(f"region {region}: {error}") from error
        return self

    @property
    def regions(self) -> tuple[int, ...]:
        """The regions that were measured, ascending."""
        return tuple(self._regions)

    def mask(self, region: int, kind: Kind = "written") -> Mask:
        """The packed bitmap of a region: ceil(size / 8) bytes. Raises KeyError if it was not measured."""
        found = self._regions[region]
        mask = np.zeros(-(-found.size // 8), dtype=np.uint8)
        for start, piece in self.pieces(region, kind):
            mask[start // 8 : start // 8 + len(piece)] = piece
        return mask

    def pieces(self, region: int, kind: Kind) -> Iterator[tuple[int, Mask]]:
        """(byte of the region, its bits and those of the bytes after it), of each piece that has any.

        Raises KeyError if the region was not measured.
        """
        found = self._regions[region]
        for number in range(len(found.written)):
            piece = self._piece(found, kind, number)
            if piece is not None:
                yield number * 8 * PIECE_BYTES, piece

    def count(self, region: int, kind: Kind) -> int:
        """How many bytes of the region are in a mask; 0 for a region that was not measured."""
        if region not in self._regions:
            return 0
        return sum(int(np.unpackbits(piece).sum(dtype=np.int64)) for _, piece in self.pieces(region, kind))

    def written_bytes(self, region: int) -> int:
        """How many bytes of the region are written; 0 for one that was not measured."""
        return self.count(region, "written")

    def also_input(self, region: int) -> bool:
        """Whether the launch reads bytes of the region that it also writes (or faults without them)."""
        found = self._regions.get(region)
        return found is not None and any(found.also_input)

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
            self._check(sized)
            regions.append(sized)
        file = _WriteSetFile(WRITE_SET_VERSION, reproducer.manifest_sha256, regions)
        data = msgspec.msgpack.encode(file)
        digest = hashlib.sha256(data).hexdigest()
        name = f"write_set-{digest[:16]}.bin"
        reproducer.replace_file(name, data)
        return schema.StoredFile(path=name, size=len(data), sha256=digest)

    @classmethod
    def load(cls, reproducer: Reproducer) -> WriteSet | None:
        """The write set that checks.json names, all rules checked; None if it names none."""
        checks = reproducer.checks()
        if checks is None or checks.write_set is None:
            return None
        stored = checks.write_set
        where = reproducer.path / stored.path
        if not is_write_set(stored.path):
            raise format_error(reproducer.path / CHECKS_PATH, 0, not_a_write_set(stored.path))
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
            else:
                for pieces in (found.written, found.also_input, found.untouched):
                    if len(pieces) != -(-found.size // (8 * PIECE_BYTES)):
                        problem = f"region {found.region}: {len(pieces)} pieces do not fit {found.size} bytes"
            if problem:
                raise format_error(where, 0, problem)
            regions[found.region] = found
        self = cls(regions)
        try:
            for found in regions.values():
                self._check(found)
        except ValueError as error:
            raise format_error(where, 0, f"damaged mask: {error}") from error
        return self

    def _check(self, found: _RegionFile) -> None:
        """Raises ValueError for a damaged mask, and for masks that contradict each other."""
        for number in range(len(found.written)):
            written = self._piece(found, "written", number)
            also_input = self._piece(found, "also_input", number)
            untouched = self._piece(found, "untouched", number)
            if also_input is not None and (written is None or (also_input & ~written).any()):
                raise ValueError("a byte is also input but not written")
            if untouched is not None and written is not None and (untouched & written).any():
                raise ValueError("a byte is untouched and written")

    def _piece(self, found: _RegionFile, kind: Kind, number: int) -> Mask | None:
        packed: bytes = getattr(found, kind)[number]
        if not packed:
            return None
        if packed == self._last[0] and number < len(found.written) - 1:
            return self._last[1]  # most pieces of a large region are alike
        length, start = -(-found.size // 8), number * PIECE_BYTES
        raw = self._decoder.unpack(Encoding.ZSTD, packed, min(PIECE_BYTES, length - start))
        if found.size % 8 and start + len(raw) == length and raw[-1] >> (found.size % 8):
            raise ValueError("bits beyond the region")
        piece = np.frombuffer(raw, np.uint8)
        if len(piece) == PIECE_BYTES:
            self._last = packed, piece
        return piece


class _Packed:
    """The pieces of masks, compressed; one with no bit set is no bytes."""

    def __init__(self) -> None:
        self._compressor = zstandard.ZstdCompressor(level=ZSTD_LEVEL)
        self._last: tuple[Mask | None, bytes] = None, b""

    def of(self, piece: Mask | None) -> bytes:
        if piece is None:
            return b""
        if piece is not self._last[0]:
            self._last = piece, self._compressor.compress(piece.tobytes()) if piece.any() else b""
        return self._last[1]

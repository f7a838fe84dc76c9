"""The chunks of a unit: which are zeros, the digest of each, and what is stored of it."""

from __future__ import annotations

from collections.abc import Container
from dataclasses import dataclass, field
from typing import NamedTuple

import zstandard

from kerncap.format import digests
from kerncap.format.contract import default

CHUNK_BYTES = default.chunk_bytes
UNIT_BYTES = 16 * CHUNK_BYTES
ZSTD_LEVEL = 3
SAMPLE_PIECES, SAMPLE_PIECE_BYTES = 4, 4096
UNIT_PIECES = 16
WORTH_PACKING = 7 / 8
WORTH_A_LOOK = 31 / 32  # of samples of a whole unit: with one chunk of 16 that packs they take less
_ZEROS = bytes(64)


class Payload(NamedTuple):
    size: int
    data: bytes | memoryview | None  # packed by zstd; None for the raw bytes
    digest: bytes


@dataclass
class Unit:
    """The digest of each chunk, None for zeros; the payloads of new ones."""

    data: memoryview
    digests: list[bytes | None] = field(default_factory=list)
    payloads: dict[bytes, Payload] = field(default_factory=dict)


class Packer:
    """For one thread: its compressor is."""

    def __init__(self, digest: digests.Digest) -> None:
        self._hash = digests.function(digest)
        # The checksum would repeat what the digest does.
        self._compressor = zstandard.ZstdCompressor(
            level=ZSTD_LEVEL, write_checksum=False, write_content_size=True, write_dict_id=False
        )

    def pack(self, data: memoryview, known: Container[bytes] = ()) -> Unit:
        """``data`` in chunks; no payload for the digests that are ``known``."""
        unit = Unit(data)
        # A thread gives way to others in each call that takes long: as few as possible, as large as possible.
        looks = len(data) <= CHUNK_BYTES or self._packs(_sample(data, UNIT_PIECES), WORTH_A_LOOK)
        for start in range(0, len(data), CHUNK_BYTES):
            raw = data[start : start + CHUNK_BYTES]
            if is_zero(raw):
                unit.digests.append(None)
                continue
            digest = self._hash(raw)
            unit.digests.append(digest)
            if digest not in unit.payloads and digest not in known:
                unit.payloads[digest] = self._encode(raw, digest, looks)
        return unit

    def _encode(self, data: memoryview, digest: bytes, looks: bool) -> Payload:
        # Weights in fp32 shrink by a few percent: not worth the time, now and at every replay.
        if looks and self._packs(_sample(data, SAMPLE_PIECES), WORTH_PACKING):
            packed = self._compressor.compress(data)
            if len(packed) < len(data):
                return Payload(len(packed), packed, self._hash(packed))
        return Payload(len(data), None, digest)

    def _packs(self, sample: bytes | memoryview, worth: float) -> bool:
        return len(self._compressor.compress(sample)) <= len(sample) * worth


def _sample(data: memoryview, pieces: int) -> bytes | memoryview:
    """Some pieces of data, evenly spread; what is short as it is."""
    if len(data) <= 2 * pieces * SAMPLE_PIECE_BYTES:
        return data
    step = (len(data) - SAMPLE_PIECE_BYTES) // (pieces - 1)
    starts = range(0, pieces * step, step)
    return b"".join(bytes(data[start : start + SAMPLE_PIECE_BYTES]) for start in starts)


def is_zero(data: memoryview) -> bool:
    """Whether every byte is zero."""
    if data[: len(_ZEROS)] != _ZEROS[: len(data)]:
        return False
    import numpy as np  # the helpers of `packing_processes` mostly do without

    flat = np.frombuffer(data, np.uint8)
    words = flat[: len(flat) & ~7].view(np.uint64)
    return not words.any() and not flat[len(flat) & ~7 :].any()

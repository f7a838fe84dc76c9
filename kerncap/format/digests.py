"""The digests of chunks: SHA-256, and BLAKE3 for large memory, at several times its speed."""

from __future__ import annotations

import ctypes
import functools
import hashlib
from collections.abc import Callable
from typing import Any, Literal

from kerncap import env

Digest = Literal["sha256", "blake3"]
NAMES: dict[Digest, str] = {"sha256": "SHA-256", "blake3": "BLAKE3"}
DIGEST_BYTES = 32
NO_DIGEST = bytes(DIGEST_BYTES)  # in place of that of a chunk of zeros
_NATIVE_BYTES = 256 << 10

Function = Callable[[bytes | memoryview], bytes]


def function(digest: Digest) -> Function:
    """What gives the 32 bytes. Threads run beside it."""
    if digest == "sha256":
        return lambda data: hashlib.sha256(data).digest()
    from blake3 import blake3  # most commands meet no large memory

    return lambda data: blake3(data).digest()


def of_chunks(digest: Digest, chunk_bytes: int, without_zeros: bool = False) -> Function:
    """What gives the digests of chunks that follow each other, of which the last may be short.

    ``without_zeros``: `NO_DIGEST` for chunks of zeros. Where the machine can, BLAKE3 of many chunks is one
    native call: Python's lock, which threads take in turns for each, is else what bounds their speed.
    """
    one = function(digest)
    native = _native() if digest == "blake3" and chunk_bytes == _NATIVE_BYTES else None

    def digests(data: bytes | memoryview) -> bytes:
        view = memoryview(data)
        done = len(view) - len(view) % _NATIVE_BYTES if native else 0
        found = bytearray(done // chunk_bytes * DIGEST_BYTES)
        if native and done:
            native(_address(view), done // chunk_bytes, without_zeros, _address(found))
        for start in range(done, len(view), chunk_bytes):
            chunk = view[start : start + chunk_bytes]
            found += NO_DIGEST if without_zeros and is_zero(chunk) else one(chunk)
        return bytes(found)

    return digests


def is_zero(data: bytes | memoryview) -> bool:
    """Whether every byte is zero."""
    import numpy as np

    if data[: len(NO_DIGEST)] != NO_DIGEST[: len(data)]:
        return False
    flat = np.frombuffer(data, np.uint8)
    words = flat[: len(flat) & ~7].view(np.uint64)
    return not words.any() and not flat[len(flat) & ~7 :].any()


def _address(data: memoryview | bytearray) -> int:
    import numpy as np

    address: int = np.frombuffer(data, np.uint8).__array_interface__["data"][0]
    return address


@functools.cache
def _native() -> Any:
    """None where there is no library, or no AVX-512."""
    path = env.digests_library()
    if path is None:
        return None
    try:
        library = ctypes.CDLL(str(path))
    except OSError:  # built for another machine
        return None
    hashes = library.kerncap_chunk_digests
    hashes.argtypes = [ctypes.c_void_p, ctypes.c_size_t, ctypes.c_int, ctypes.c_void_p]
    hashes.restype = None
    return hashes if library.kerncap_has_chunk_digests() else None

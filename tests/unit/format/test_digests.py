"""The digests of chunks that follow each other: by the native library, and without it."""

from __future__ import annotations

import hashlib

import pytest
from blake3 import blake3

from kerncap.format import digests
from kerncap.format.schema import CHUNK_BYTES
from tests.golden.contents import noise

# A chunk whose first byte alone is not zero, and one whose last is not.
NEARLY = b"\1" + bytes(CHUNK_BYTES - 1) + bytes(CHUNK_BYTES - 1) + b"\1"
DATA = noise(2 * CHUNK_BYTES, 1) + bytes(CHUNK_BYTES) + NEARLY + noise(1000, 2)
CHUNKS = [DATA[at : at + CHUNK_BYTES] for at in range(0, len(DATA), CHUNK_BYTES)]


@pytest.fixture(params=["native", "package"])
def way(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> None:
    if request.param == "package":
        monkeypatch.setattr(digests, "_native", lambda: None)
    elif digests._native() is None:
        pytest.skip("this processor has no AVX-512")


@pytest.mark.usefixtures("way")
def test_each_chunk_has_its_digest() -> None:
    for given in (DATA, bytearray(DATA), memoryview(DATA)):
        found = digests.of_chunks("blake3", CHUNK_BYTES)(given)
        assert found == b"".join(blake3(chunk).digest() for chunk in CHUNKS)
    assert digests.of_chunks("blake3", CHUNK_BYTES)(b"") == b""


@pytest.mark.usefixtures("way")
def test_a_chunk_of_zeros_has_none_if_asked() -> None:
    hashed = digests.of_chunks("blake3", CHUNK_BYTES, without_zeros=True)
    each = [blake3(chunk).digest() if chunk.strip(b"\0") else digests.NO_DIGEST for chunk in CHUNKS]
    assert hashed(DATA) == b"".join(each) and each.count(digests.NO_DIGEST) == 1
    assert hashed(bytes(7)) == digests.NO_DIGEST


def test_other_chunks_and_digests() -> None:
    small = [DATA[at : at + 4096] for at in range(0, 10_000, 4096)]
    assert digests.of_chunks("blake3", 4096)(b"".join(small)) == b"".join(blake3(s).digest() for s in small)
    sha256 = b"".join(hashlib.sha256(chunk).digest() for chunk in CHUNKS)
    assert digests.of_chunks("sha256", CHUNK_BYTES)(DATA) == sha256

"""Bytes out of stripes are the bytes of one file; holes stay holes; what is missing is said."""

from __future__ import annotations

import os
from collections.abc import Sequence
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from kerncap.errors import KerncapError
from kerncap.format.region_sources import StripedFiles, pieces_of

UNIT = 1 << 16
STEP = 1 << 14


def stripe(data: bytes, count: int, unit: int) -> list[bytes]:
    """What docs/session.md says: byte o lies in stripe (o / b) % k at (o / b / k) * b + o % b."""
    stripes = [bytearray() for _ in range(count)]
    for row in range(-(-len(data) // unit)):
        stripes[row % count] += data[row * unit : (row + 1) * unit]
    return [bytes(each) for each in stripes]


def opened(folder: Path, contents: Sequence[bytes], sparse: bool = True) -> list[int]:
    """Files with these contents; runs of zeros of whole pages become holes."""
    descriptors = []
    for number, content in enumerate(contents):
        descriptor = os.open(folder / f"stripe.{number}", os.O_RDWR | os.O_CREAT | os.O_TRUNC)
        os.ftruncate(descriptor, len(content))
        for start in range(0, len(content), 4096):
            page = content[start : start + 4096]
            if any(page) or not sparse:
                os.pwrite(descriptor, page, start)
        descriptors.append(descriptor)
    return descriptors


@given(
    st.integers(1, 5),
    st.lists(st.tuples(st.integers(0, 40), st.binary(min_size=1, max_size=20)), max_size=8),
    st.integers(0, 8),
    st.integers(0, 10 * UNIT),
)
def test_stripes_read_as_the_file_that_they_are_of(
    tmp_path_factory: pytest.TempPathFactory, count: int, marks: list[tuple[int, bytes]], page: int, size: int
) -> None:
    offset = page * 4096
    data = bytearray(offset + size)
    for place, mark in marks:
        at = place * STEP + 100
        data[at : at + len(mark)] = mark[: max(0, len(data) - at)]
    descriptors = opened(tmp_path_factory.mktemp("stripes"), stripe(bytes(data), count, UNIT))
    try:
        source = StripedFiles(descriptors, UNIT)
        assert source.read(offset, size) == data[offset:]
        rebuilt = bytearray(size)
        starts = []
        for start, load in source.pieces(offset, size, STEP):
            starts.append(start)
            rebuilt[start : start + STEP] = load(memoryview(bytearray(STEP)))
        assert rebuilt == data[offset:]
        assert starts == sorted(set(starts)) and all(start % STEP == 0 for start in starts)
    finally:
        for descriptor in descriptors:
            os.close(descriptor)


def test_holes_are_not_read(tmp_path: Path) -> None:
    size = 64 * UNIT
    stripes = [bytearray(size // 4) for _ in range(4)]
    stripes[2][5 * UNIT : 5 * UNIT + 3] = b"abc"  # row 5 * 4 + 2
    descriptors = opened(tmp_path, [bytes(each) for each in stripes])
    try:
        if os.fstat(descriptors[0]).st_blocks:
            pytest.skip("this file system has no holes")
        [(start, load)] = StripedFiles(descriptors, UNIT).pieces(0, size, STEP)
        assert start == 22 * UNIT and bytes(load(memoryview(bytearray(STEP))))[:4] == b"abc\0"
    finally:
        for descriptor in descriptors:
            os.close(descriptor)


@pytest.mark.parametrize("short", [0, 1, 2])
def test_a_stripe_that_ends_early_is_no_hole(tmp_path: Path, short: int) -> None:
    stripes = stripe(bytes(9 * UNIT), 3, UNIT)
    stripes[short] = stripes[short][:-1]
    descriptors = opened(tmp_path, stripes)
    try:
        source = StripedFiles(descriptors, UNIT)
        with pytest.raises(KerncapError, match=f"ends at byte {(7 + short) * UNIT - 1}"):
            list(source.pieces(0, 9 * UNIT, STEP))
        with pytest.raises(KerncapError, match=f"ends at byte {(7 + short) * UNIT - 1}"):
            source.read(0, 9 * UNIT)
    finally:
        for descriptor in descriptors:
            os.close(descriptor)


def test_stripes_without_their_size_are_refused() -> None:
    with pytest.raises(ValueError, match="size"):
        StripedFiles([0, 1])
    with pytest.raises(ValueError, match="files"):
        StripedFiles([])


def test_a_file_alone_needs_no_size(tmp_path: Path) -> None:
    [descriptor] = opened(tmp_path, [b"0123456789"])
    try:
        pieces = [
            (start, bytes(load(memoryview(bytearray(4)))))
            for start, load in pieces_of(StripedFiles([descriptor]), 2, 7, 4)
        ]
        assert pieces == [(0, b"2345"), (4, b"678")]
    finally:
        os.close(descriptor)

"""The text of a HIP kernel's `printf`, from the words of its message."""

from __future__ import annotations

import struct

import pytest

from kerncap.replay.worker.hip.printf import formatted


def words(*values: bytes | int | float) -> list[int]:
    """A message: strings end in a zero and fill whole words."""
    data = b""
    for value in values:
        if isinstance(value, bytes):
            data += value + bytes(8 - len(value) % 8)
        else:
            data += struct.pack("<d" if isinstance(value, float) else "<q", value)
    return list(struct.unpack(f"<{len(data) // 8}Q", data))


@pytest.mark.parametrize(
    ("message", "text"),
    [
        ((b"none",), b"none"),
        ((b"%d|%u|%x", -1, 7, 255), b"-1|7|ff"),
        ((b"%hhd %lld %ld", 257, -(1 << 40), 1 << 40), b"1 -1099511627776 1099511627776"),
        ((b"%s and %-9s|", b"a text of 16 byte", b""), b"a text of 16 byte and          |"),
        ((b"%*d|%.*f", 5, 42, 2, 3.14159), b"   42|3.14"),
        ((b"%g %e %a", 0.5, 1.0, 1.0), b"0.5 1.000000e+00 0x1p+0"),
        ((b"%c%c%%%n!", 72, 105, 0), b"Hi%!"),
        ((b"%p", 0x7F00), b"0x7f00"),
        ((b"%d %d", 1), b"1 %d"),  # a word that does not come
        ((b"%s", b"no %d here"), b"no %d here"),
    ],
)
def test_text(message: tuple[bytes | int | float, ...], text: bytes) -> None:
    assert formatted(words(*message)) == text


def test_a_string_without_an_end_stops_with_the_message() -> None:
    assert formatted(list(struct.unpack("<2Q", b"%s\0\0\0\0\0\0abcdefgh"))) == b"abcdefgh"

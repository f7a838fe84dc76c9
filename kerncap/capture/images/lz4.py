"""LZ4 blocks, as older fatbins hold them: too few to need a library, small enough for Python.

Source: the LZ4 block format description of the LZ4 project.
"""

from __future__ import annotations

from kerncap.capture.images.problem import ImageProblem

MIN_MATCH = 4


def decompress(data: bytes | memoryview, size: int) -> bytes:
    """The block's contents, exactly ``size`` bytes; ImageProblem if it holds anything else."""
    source = bytes(data)
    out = bytearray()
    at = 0
    try:
        while True:
            token = source[at]
            at, literals = _length(source, at + 1, token >> 4)
            if at + literals > len(source) or len(out) + literals > size:
                raise ImageProblem("an LZ4 block whose literals lead out of it")
            out += source[at : at + literals]
            at += literals
            if at == len(source):
                break
            distance = source[at] | source[at + 1] << 8
            at, match = _length(source, at + 2, token & 15)
            match += MIN_MATCH
            if not 0 < distance <= len(out) or len(out) + match > size:
                raise ImageProblem("an LZ4 block whose match leads out of it")
            start = len(out) - distance
            if distance >= match:
                out += out[start : start + match]
            else:  # the match repeats what it is about to write
                piece = bytes(out[start:])
                out += (piece * (match // distance + 1))[:match]
    except IndexError:
        raise ImageProblem("an LZ4 block that is cut short") from None
    if len(out) != size:
        raise ImageProblem(f"an LZ4 block of {len(out)} bytes, expected {size}")
    return bytes(out)


def _length(source: bytes, at: int, length: int) -> tuple[int, int]:
    """A length whose first four bits were 15 goes on in bytes until one is not 255."""
    if length == 15:
        while source[at] == 255:
            length += 255
            at += 1
        length += source[at]
        at += 1
    return at, length

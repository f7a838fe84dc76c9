"""Which pieces of a file may hold a secret, found with numpy: regular expressions skip the rest.

Each byte is one of 32 classes, so three bytes are an index into a table of what may begin there. What
follows is looked at as well, if that costs less than a search: behind a name there has to be a sign, behind a
common word a value with a digit, and an issuer's prefix has to be there whole. A piece that is left out holds
nothing that the searches would find.
"""

from __future__ import annotations

import functools
from collections.abc import Callable, Iterable

import numpy as np
import numpy.typing as npt

from kerncap.format.private import contexts, secret_patterns

PIECE = 512
NAMES, URLS, RUNS = 1, 2, 1 << 31  # bits of a piece; those of the patterns lie between
_BLOCK = 1 << 20
_BEHIND = 512  # bytes of the next block that are looked at for what begins in this one
_LONG_RUN = 24
_PREFIX = 8

Bits = npt.NDArray[np.uint32]
_Bytes = npt.NDArray[np.uint8]
_Flags = npt.NDArray[np.bool_]
_Places = npt.NDArray[np.intp]
# Words that name a secret only if its value looks like one (`words.grade`), where they stand for themselves.
_LONGEST_COMMON = 9
_COMMON = (b"key", b"keys", b"token", b"auth", b"sig", b"signature", b"session", b"cookies", b"pass", b"dsn")


def pattern_bit(number: int) -> int:
    return 4 << number


def kinds_of_pieces(data: bytes, searched: Callable[[int], None] | None = None) -> Bits:
    """For each piece the kinds of secrets that may begin in it. ``searched`` gets the bytes done."""
    found = []
    for begin in range(0, len(data), _BLOCK):
        block = np.frombuffer(data, np.uint8, min(_BLOCK + _BEHIND, len(data) - begin), begin)
        before = data[begin - 1] if begin else ord("\n")
        found.append(_kinds(block, before, min(_BLOCK, len(data) - begin)))
        if searched is not None:
            searched(min(len(data), begin + _BLOCK))
    kinds: Bits = np.concatenate(found) if found else np.zeros(0, np.uint32)
    return kinds


def _kinds(block: _Bytes, before: int, size: int) -> Bits:
    count = (size + PIECE - 1) // PIECE
    others = _outside(block, _NAME_LETTERS)
    kinds = _long_runs(others, count)
    if len(block) < 3:
        return kinds
    bits = _beginnings(block)[:size]
    places = np.flatnonzero(bits)
    bits = bits[places]
    for bit in _bits_of_table():
        of_bit = places[(bits & np.uint32(bit)) != 0]
        if not len(of_bit):
            continue
        if bit == NAMES:
            of_bit = of_bit[_may_be_named(block, before, others, of_bit)]
        elif bit == _bit_of_prefixes():
            of_bit = of_bit[_have_prefix(block, of_bit)]
        kinds[of_bit // PIECE] |= np.uint32(bit)
    return kinds


def _beginnings(block: _Bytes) -> Bits:
    """For each byte what may begin there, by its first three classes."""
    classes = _classes()[block]
    code = classes[:-2] << 10
    code |= classes[1:-1] << 5
    code |= classes[2:]
    found: Bits = _table()[code]
    return found


# --- what follows -------------------------------------------------------------------------------------


def _may_be_named(block: _Bytes, before: int, others: _Places, stems: _Places) -> _Flags:
    """Of the places where a stem may be, those that a pattern of `contexts` may match at.

    ``others``: where bytes are that no name has.
    """
    number = np.searchsorted(others, stems)
    stop = others[number]
    start = np.where(number > 0, others[number - 1], -1) + 1
    sign_at = _skip(block, _CLOSERS, stop, _MOST_CLOSERS)
    sign = block[np.minimum(sign_at, len(block) - 1)]
    first = block[stems] & 31
    # What takes the next word (`password x`), and the headers that a comma may follow.
    word = _flags(b"\x02\x0c\x10")[first]
    header = (sign == ord(",")) & _flags(b"\x01\x03")[first]
    kept: _Flags = (block[start] == ord("-")) | word | header | (start == 0) | (sign_at >= len(block))
    kept &= stop - stems <= _LONGEST_TAIL
    assigned = (sign == ord("=")) | (sign == ord(":"))
    assigned = np.flatnonzero(assigned & ~kept & (stop - stems <= _LONGEST_TAIL))
    start, stop, sign_at = start[assigned], stop[assigned], sign_at[assigned]
    common = _is_common(block, before, start, stop)
    kept[assigned[~common]] = True
    kept[assigned[common]] = _may_be_random(block, sign_at[common])
    return kept


def _is_common(block: _Bytes, before: int, start: _Places, stop: _Places) -> _Flags:
    """Names that are one common word, and no parameter of a query or part of a dotted name."""
    size = stop - start
    code = np.zeros(len(start), np.uint64)
    for step in range(_LONGEST_COMMON):
        letter = block[np.minimum(start + step, len(block) - 1)] | 32
        code = code * np.uint64(131) + np.where(step < size, letter, 0).astype(np.uint64)
    head = np.where(start > 0, block[start - 1], before)
    common: _Flags = (size <= _LONGEST_COMMON) & np.isin(code, _common_codes()) & ~_flags(_LINKS)[head]
    return common


def _may_be_random(block: _Bytes, sign_at: _Places) -> _Flags:
    """Whether what is assigned has a digit or an equals sign, or is not seen whole."""
    begin = _skip(block, _SIGNS, sign_at, _MOST_CLOSERS)
    # `key: str = …` has its value behind the type.
    first = block[np.minimum(begin, len(block) - 1)]
    found: _Flags = (block[np.minimum(sign_at, len(block) - 1)] == ord(":")) & (first == ord("s"))
    quoted = np.zeros(len(begin), np.bool_)
    for step in range(1, _MOST_CLOSERS):
        at = sign_at + step
        quoted |= (at < begin) & _flags(_QUOTES)[block[np.minimum(at, len(block) - 1)]]
    going = np.arange(len(begin))
    for step in range(_LONGEST_VALUE):
        at = begin[going] + step
        letter = block[np.minimum(at, len(block) - 1)]
        telling = _flags(_DIGITS + b"=")[letter] | (at >= len(block))
        ended = np.where(quoted[going], _flags(_ENDS_QUOTED)[letter], _flags(_ENDS_BARE)[letter])
        if step <= 2:  # a letter before the quotes
            telling |= ended & ~quoted[going]
        found[going[telling]] = True
        going = going[~telling & ~ended]
        if not len(going):
            break
    found[going] = True
    return found


def _have_prefix(block: _Bytes, places: _Places) -> _Flags:
    """Of the places those where an issuer's prefix stands as it is written, as far as eight letters show."""
    code = np.zeros(len(places), np.uint64)
    for step in range(_PREFIX):
        letter = block[np.minimum(places + step, len(block) - 1)].astype(np.uint64)
        code |= letter << np.uint64(8 * step)
    found = np.zeros(len(places), np.bool_)
    for size, codes in _prefixes().items():
        found |= np.isin(code & np.uint64((1 << 8 * size) - 1), codes)
    return found


def _outside(block: _Bytes, letters: bytes) -> _Places:
    """Where bytes that are not among the letters are, and the end of the block."""
    return np.append(np.flatnonzero(_flags(letters, True)[block]), len(block))


def _skip(block: _Bytes, letters: bytes, places: _Places, most: int) -> _Places:
    """From each place the next byte that is not among the letters, up to a limit of bytes further."""
    places = places.copy()
    going = np.arange(len(places))
    for _ in range(most):
        at = places[going]
        going = going[(at < len(block)) & _flags(letters)[block[np.minimum(at, len(block) - 1)]]]
        if not len(going):
            break
        places[going] += 1
    return places


# --- long runs ----------------------------------------------------------------------------------------


def _long_runs(others: _Places, count: int) -> Bits:
    """For each piece whether a run of letters and digits that is long enough for a token reaches into it."""
    edges = np.concatenate(([-1], others))
    long = np.flatnonzero(np.diff(edges) > _LONG_RUN)
    first = np.minimum((edges[long] + 1) // PIECE, count - 1)
    last = np.minimum((edges[long + 1] - 1) // PIECE, count - 1)
    out = np.bincount(first, minlength=count + 1) - np.bincount(last + 1, minlength=count + 1)
    found: Bits = np.where(np.cumsum(out)[:count] > 0, np.uint32(RUNS), np.uint32(0))
    return found


# --- tables -------------------------------------------------------------------------------------------

_LETTERS = b"abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ"
_DIGITS = b"0123456789"
_NAME_LETTERS = _LETTERS + _DIGITS + b"_-"
_CLOSERS = b"\\\"'`]) \t\n\r\f\v"  # between a name and its sign
_SIGNS = _CLOSERS + b"=:>"  # between a name and its value
_QUOTES = b"\"'`"
_LINKS = b"?&#."
_ENDS_QUOTED = _QUOTES + b"\r\n\0"
_ENDS_BARE = _QUOTES + b"<>,;&|(){}[]\0\\ \t\n\r\f\v"
_MOST_CLOSERS, _LONGEST_VALUE = 24, 64  # one that goes on is searched
_LONGEST_TAIL = 64  # from a stem to the end of its name: more than the patterns take


@functools.cache
def _flags(letters: bytes, others: bool = False) -> _Flags:
    """For each byte whether it is one of the letters, or one of the ``others``."""
    table = np.full(256, others, np.bool_)
    table[np.frombuffer(letters, np.uint8)] = not others
    return table


@functools.cache
def _common_codes() -> npt.NDArray[np.uint64]:
    codes = []
    for word in _COMMON:
        code = 0
        for letter in word.ljust(_LONGEST_COMMON, b"\0"):
            code = code * 131 + letter
        codes.append(code % (1 << 64))
    return np.array(codes, np.uint64)


@functools.cache
def _classes() -> npt.NDArray[np.uint16]:
    """A class for each letter whatever its case, one for digits, and a few for what prefixes have."""
    classes = np.zeros(256, np.uint16)
    for number, group in enumerate([*_LETTERS[:26], *_LETTERS[26:]]):
        classes[group] = 1 + number % 26
    for number, others in enumerate((_DIGITS, b"-_", b":", b"/", b".")):
        classes[np.frombuffer(others, np.uint8)] = 27 + number
    return classes


@functools.cache
def _triggers() -> dict[int, tuple[bytes, ...]]:
    kinds: dict[int, Iterable[bytes]] = {NAMES: contexts.STEMS, URLS: (b"://",)}
    kinds |= {pattern_bit(n): pattern.triggers or () for n, pattern in enumerate(secret_patterns.patterns())}
    return {bit: tuple(triggers) for bit, triggers in kinds.items() if triggers}


@functools.cache
def _table() -> Bits:
    """What the classes of the first three letters of each trigger may begin."""
    table = np.zeros(1 << 15, np.uint32)
    for bit, triggers in _triggers().items():
        for trigger in triggers:
            a, b, c = (int(_classes()[byte]) for byte in trigger[:3])
            table[a << 10 | b << 5 | c] |= np.uint32(bit)
    return table


def _bits_of_table() -> tuple[int, ...]:
    return tuple(_triggers())


@functools.cache
def _bit_of_prefixes() -> int:
    return next(pattern_bit(n) for n, pattern in enumerate(secret_patterns.patterns()) if pattern.random)


@functools.cache
def _prefixes() -> dict[int, npt.NDArray[np.uint64]]:
    """By how many letters are compared, the prefixes as numbers."""
    sizes: dict[int, list[int]] = {}
    for prefix in _triggers()[_bit_of_prefixes()]:
        head = prefix[:_PREFIX]
        sizes.setdefault(len(head), []).append(int.from_bytes(head, "little"))
    return {size: np.array(codes, np.uint64) for size, codes in sizes.items()}

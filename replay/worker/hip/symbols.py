"""Symbols of a code object's file: variables that the loader knows nothing of, as their names stay inside.

Source: the ELF-64 object file format. An address in the file and one in memory differ by the same number
for all symbols of a code object.
"""

from __future__ import annotations

import struct

from .metadata import Malformed

_SYMTAB = 2
_DYNSYM = 11
_OBJECT = 1
_MOST = 1 << 20

Symbols = dict[str, tuple[int, int]]  # name -> (address in the file, size)


def read(data: bytes) -> Symbols:
    """Objects (variables and kernel descriptors) by name; of a name that several have, none.

    Raises Malformed.
    """
    try:
        return _read(data)
    except struct.error as error:
        raise Malformed(f"its symbols can't be read: {error}") from error


def _read(data: bytes) -> Symbols:
    (headers,) = struct.unpack_from("<Q", data, 40)
    size, count = struct.unpack_from("<HH", data, 58)
    sections = [struct.unpack_from("<IIQQQQIIQQ", data, headers + i * size) for i in range(count)]
    found: Symbols = {}
    twice = set()
    for section in sections:
        if section[1] not in (_SYMTAB, _DYNSYM) or section[6] >= count or not section[9]:
            continue
        names = sections[section[6]][4]
        for number in range(min(_MOST, section[5] // section[9])):
            name, info, _, where, value, length = struct.unpack_from(
                "<IBBHQQ", data, section[4] + number * section[9]
            )
            if info & 0xF != _OBJECT or not where:
                continue
            end = data.find(b"\0", names + name)
            text = data[names + name : end].decode(errors="replace")
            if found.setdefault(text, (value, length)) != (value, length):
                twice.add(text)
    return {name: found[name] for name in found.keys() - twice}

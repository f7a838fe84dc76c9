"""Cubins and fatbins put together by hand: small, and with what a compiler would never write."""

from __future__ import annotations

import struct
from collections.abc import Mapping, Sequence

import zstandard

PTX_TEXT = b""".version 9.0
.target sm_80
.address_size 64
// .global .u32 commented_out;
.extern .global .u32 elsewhere;
.const .align 4 .b8 coef[16];
.visible .global .align 4 .u32 counter = 5;
.global .attribute(.managed) .align 8 .f64 both;
.global .align 1 .b8 $str[7] = {104, 105, 32, 37, 100, 10};
.weak .global .v4 .f32 wide;
.visible .entry _Z3addPf(
    .param .u64 _Z3addPf_param_0
)
{
    .shared .align 4 .b8 tile[64];
    ld.global.u32 %r1, [counter];
    ret;
}
"""


def cubin(
    arch: int = 90,
    kernels: Mapping[str, Sequence[tuple[int, int]]] | None = None,
    variables: Sequence[tuple[str, str]] = (),
    abi: int = 8,
    calls: str = "vprintf",
    code: bytes = bytes(16),
    content: bytes = bytes(8),
    functions: Sequence[str] = (),
    numbered: Sequence[str] = (),
) -> bytes:
    """An ELF file for CUDA; ``variables`` are (name, section) and hold ``content``, ``calls`` a function of
    the device, ``code`` what each kernel consists of. For each of ``functions`` a word of each variable is
    relocated; without variables, each kernel takes its address. Those that are ``numbered`` are in each
    kernel's code, behind its first 16 bytes, and in its table.
    """
    kernels = {"_Z3addPf": [(0, 8)]} if kernels is None else kernels
    sections: list[tuple[str, int, bytes, int]] = [("", 0, b"", 0)]
    symbols = [struct.pack("<IBBHQQ", 0, 0, 0, 0, 0, 0)]
    strings = b"\0"

    def name_at(name: str) -> int:
        nonlocal strings
        strings += name.encode() + b"\0"
        return len(strings) - len(name.encode()) - 1

    for name, layout in kernels.items():
        info = b"\x04\x0a\x08\x00" + bytes(8)  # an attribute of another kind before
        for ordinal, (offset, size) in reversed(list(enumerate(layout))):
            info += struct.pack("<BBHIHHI", 4, 0x17, 12, 0, ordinal, offset, size << 18)
        sections.append((f".nv.info.{name}", 0x70000000, info, 0))
        sections.append((f".text.{name}", 1, code, 0))
        symbols.append(struct.pack("<IBBHQQ", name_at(name), 0x12, 0x10, len(sections) - 1, 0, len(code)))
        for number, function in enumerate(numbered):
            place = name_at(f"${name}${function}")
            symbols.append(struct.pack("<IBBHQQ", place, 0x02, 0, len(sections) - 1, 16 + number, 1))
        table = struct.pack(f"<{len(numbered) + 1}Q", 1, *range(16, 16 + len(numbered)))
        sections += [(f".nv.constant2.{name}", 1, table, 0)] if numbered else []
    first = len(symbols)
    for name in functions:
        sections.append((f".text.{name}", 1, code, 0))
        symbols.append(struct.pack("<IBBHQQ", name_at(name), 0x12, 0, len(sections) - 1, 0, len(code)))
    for name in kernels if functions and not variables else ():
        words = [struct.pack("<QIIq", 16 * n, 56, first + n, 0) for n in range(len(functions))]
        sections.append((f".rela.text.{name}", 4, b"".join(words), 0))
    for name, section in variables:
        sections.append((section, 8 if section == ".nv.global" else 1, content, 0))
        symbols.append(struct.pack("<IBBHQQ", name_at(name), 0x01, 0, len(sections) - 1, 0, len(content)))
        words = [struct.pack("<QIIq", 8 * n, 2, first + n, 0) for n in range(len(functions))]
        sections += [(f".rela{section}", 4, b"".join(words), 0)] if words else []
    symbols.append(struct.pack("<IBBHQQ", name_at(calls), 0x12, 0, 0, 0, 0))  # defined elsewhere
    sections.append((".strtab", 3, strings, 0))
    sections.append((".symtab", 2, b"".join(symbols), len(sections) - 1))
    names = b""
    places = []
    for name, *_ in (*sections, (".shstrtab",)):
        places.append(len(names))
        names += name.encode() + b"\0"
    sections.append((".shstrtab", 3, names, 0))
    body, headers = b"", b""
    for (_, kind, content, link), place in zip(sections, places, strict=True):
        headers += struct.pack("<IIQQQQIIQQ", place, kind, 0, 0, 64 + len(body), len(content), link, 0, 1, 0)
        body += content + bytes(-len(content) % 8) if kind != 8 else b""
    ident = b"\x7fELF\x02\x01\x01" + bytes((0x41, abi)) + bytes(7)
    flags = arch << 8 if abi >= 8 else arch
    head = struct.pack(
        "<16sHHIQQQIHHHHHH",
        *(ident, 2, 190, 1, 0, 0, 64 + len(body), flags),
        *(64, 56, 0, 64, len(sections), len(sections) - 1),
    )
    return head + body + headers


def entry(
    payload: bytes,
    arch: int,
    kind: int = 2,
    packing: str = "none",
    flags: int = 0x11,
    unpacked: int | None = None,
) -> bytes:
    """One program of a fatbin; ``payload`` is what it unpacks to, for LZ4 the block itself."""
    stored, size = payload, unpacked if unpacked is not None else len(payload)
    if packing == "zstd":
        stored, flags = zstandard.ZstdCompressor().compress(payload), flags | 0x8000
    elif packing == "lz4":
        flags |= 0x2000
    padded = stored + bytes(-len(stored) % 8)
    packed = len(stored) if packing != "none" else 0
    fields = (kind, 0x101, 64, len(padded), packed, 0, 8, 1, arch, 0, 0, flags, 0, size if packed else 0)
    return struct.pack("<HHIQIIHHIIIQQQ", *fields) + padded


def fatbin(*entries: bytes) -> bytes:
    body = b"".join(entries)
    return struct.pack("<IHHQ", 0xBA55ED50, 1, 16, len(body)) + body

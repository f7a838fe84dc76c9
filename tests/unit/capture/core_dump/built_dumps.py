"""Core dumps of a GPU made by hand: one device, one grid, warps on two SMs, an image with the kernel's lines.

The layouts are written out here once more, after cudacoredump.h, so that a mistake in the reader's shows.
"""

from __future__ import annotations

import struct
from collections.abc import Sequence
from dataclasses import dataclass, field

from tests.unit.source.native.conftest import line_program

USER = 0x80000000
GLOBAL, LOCAL, SHARED, REGISTERS, IMAGE, LOADED, FRAMES = (USER + n for n in range(2, 9))
DEVICES, CONTEXTS, SMS, GRIDS, BLOCKS, WARPS, LANES, MODULES, PREDICATES, PARAMETERS = (
    USER + n for n in range(9, 19)
)
UNIFORM, METADATA = USER + 19, USER + 22
ENTRY = 0x7F1000000200
GRID, MODULE = 0x55, 0xABC
LDG = bytes.fromhex("817900040400000000191e0c00a20e00")  # LDG.E R0, desc[UR4][R4.64+0x0], sm_90


@dataclass
class Built:
    """Sections in order; ``add`` gives the number, as the headers count."""

    sections: list[tuple[str, int, bytes, int, int, int, int, int]] = field(default_factory=list)

    def add(
        self, kind: int, content: bytes = b"", link: int = 0, info: int = 0, address: int = 0,
        stride: int = 0, name: str = "", flags: int = 0,
    ) -> int:  # fmt: skip
        self.sections.append((name, kind, content, link, info, address, stride, flags))
        return len(self.sections)

    def elf(self, kind: int = 4, abi: int = 0x33, flags: int = 0x5A055A, most: int = 0xFF00) -> bytes:
        names = b"\0" + b"".join(each[0].encode() + b"\0" for each in self.sections)
        data, headers, at_name = bytearray(64), bytearray(64), 1
        for name, type_, content, link, info, address, stride, section_flags in [
            *self.sections, ("", 3, names, 0, 0, 0, 0, 0)
        ]:  # fmt: skip
            data += bytes(-len(data) % 16)
            headers += struct.pack(
                "<IIQQQQIIQQ",
                at_name,
                type_,
                section_flags,
                address,
                len(data),
                len(content),
                link,
                info,
                1,
                stride,
            )
            at_name += len(name) + 1
            data += content
        data += bytes(-len(data) % 16)
        ident = b"\x7fELF\x02\x01\x01" + bytes([abi, 7]) + bytes(7)
        count = len(headers) // 64
        names_in = count - 1
        if count >= most:  # the numbers are in the first header
            struct.pack_into("<Q", headers, 32, count)
            struct.pack_into("<I", headers, 40, names_in)
            count, names_in = 0, 0xFFFF
        data[:64] = struct.pack(
            "<16sHHIQQQIHHHHHH", ident, kind, 190, 1, 0, 0, len(data), flags, 64, 56, 0, 64, count, names_in
        )
        return bytes(data + headers)


def image(start: int = ENTRY, lines: bool = True, kernel: str = "_Z5scalePfi") -> bytes:
    """A cubin with one kernel of 64 bytes, an LDG at 16; loaded at ``start``, or not yet (0)."""
    built = Built()
    code = bytes(16) + LDG + bytes(32)
    names = b"\0" + kernel.encode() + b"\0"
    text = built.add(1, code, link=2, address=start, name=f".text.{kernel}", flags=6)
    strings = built.add(3, names, name=".strtab")
    symbols = bytes(24) + struct.pack("<IBBHQQ", 1, 0x12, 0, text, start, len(code))
    table = built.add(2, symbols, link=strings, stride=24, name=".symtab")
    info = struct.pack("<BBHIHHI", 4, 0x17, 12, 0, 1, 8, 4 << 18) + struct.pack(
        "<BBHIHHI", 4, 0x17, 12, 0, 0, 0, 8 << 18
    )
    built.add(0x70000000, info, link=table, name=f".nv.info.{kernel}")
    if lines:
        program, [place] = line_program(["/src"], [("scale.cu", 1)], [[(1, 7), (1, 9), (1, 11)]])
        program = program[:place] + struct.pack("<Q", start) + program[place + 8 :]
        built.add(1, program, name=".debug_line")
        built.add(
            4, struct.pack("<QQq", place, 1 << 32 | 2, 0), link=table, stride=24, name=".rela.debug_line"
        )
    return built.elf(2)


def dump(
    exception: int = 14,
    flags: int = 0,
    trapped: bool = False,
    warps: int = 2,
    shorter: int = 0,
    longer: int = 0,
    memory: Sequence[tuple[int, int]] = ((0x7F2000000000, 1024),),
    lines: bool = True,
) -> Built:
    """Warp 0 of the last block has the exception; its lane 3 loads from 0x10000000000.

    ``shorter``: rows lack the fields that newer drivers added. ``longer``: each row has more bytes.
    """

    def row(format_: str, *values: int, least: int) -> bytes:
        whole = struct.pack(format_, *values)
        return (whole[:least] if shorter else whole) + b"\xee" * longer

    built = Built()
    strings = b"\0NVIDIA H100\0GH100\0sm_90\0"
    device = row("<3Q16I", 1, 13, 19, 0, 1, 0, 132, 64, 32, 255, 7, 9, 0, 16, 0, 63, 7, 16, 0, least=72)
    devices = built.add(DEVICES, device, stride=len(device))
    context = row("<4QII", 1, 0x7F0000000000, 0x7F0100000000, 0, 0, 99, least=40)
    contexts = built.add(CONTEXTS, context, devices, 0, stride=len(context))
    module = row("<Q", MODULE, least=8)
    modules = built.add(MODULES, module, contexts, 0, stride=len(module))
    built.add(LOADED, image(lines=lines), modules, 0)
    if not flags & 1:
        built.add(IMAGE, image(0, lines), modules, 0)
    grid = row(
        "<7Q20I",
        GRID,
        1,
        0x99,
        ENTRY,
        MODULE,
        0,
        0x210,
        1,
        0,
        2,
        24,
        4,
        1,
        1,
        32,
        2,
        1,
        0,
        7,
        *[0] * 8,
        least=104,
    )
    grids = built.add(GRIDS, grid, devices, 0, stride=len(grid))
    built.add(PARAMETERS, struct.pack("<QI", 0x7F2000000000, 256), grids, 0)
    sm = [row("<IIIIQ", 2 * n, 0, exception * n, n, ENTRY + 16, least=8) for n in range(2)]
    sms = built.add(SMS, b"".join(sm), devices, 0, stride=len(sm[0]))
    for n in range(2):
        block = row("<Q12I", GRID, n, 0, 0, 0, *[0] * 8, least=24)
        blocks = built.add(BLOCKS, block, sms, n, stride=len(block))
        if not flags & 4:
            built.add(SHARED, bytes(256), blocks, 0)
        faulty = [n == 1 and w == 0 for w in range(warps)]
        warp = [
            row(
                "<Q10I", ENTRY + 16 if bad and not trapped else 0, w, 0xFFFFFFFF, 0xFF if bad else 0xFFFFFFFF,
                int(bad and trapped), int(bad and not trapped and exception > 0), 0, 24, 0, 256, 0, least=32,
            )
            for w, bad in enumerate(faulty)
        ]  # fmt: skip
        table = built.add(WARPS, b"".join(warp), blocks, 0, stride=len(warp[0]) if warp else 72)
        for w, bad in enumerate(faulty):
            built.add(UNIFORM, struct.pack("<4I", 5, 6, 7, 8), table, w, stride=4)
            lanes = [
                row(
                    "<QQ10I", ENTRY + (16 if bad else 48), 16 if bad else 48, lane, lane, w, 0,
                    exception if bad and lane < 8 and exception > 0 else 0, 0, 0, 0, 0, 0, least=48,
                )
                for lane in range(32)
            ]  # fmt: skip
            lane_table = built.add(LANES, b"".join(lanes), table, w, stride=len(lanes[0]))
            for lane in range(32 if bad else 0):
                address = 0x10000000000 if lane == 3 else 0x7F2000000000 + 4 * lane
                words = [100 + r for r in range(24)]
                words[4], words[5] = address & 0xFFFFFFFF, address >> 32
                built.add(REGISTERS, struct.pack("<24I", *words), lane_table, lane, stride=4)
                built.add(PREDICATES, struct.pack("<7I", 1, 0, 0, 0, 0, 0, 1), lane_table, lane, stride=4)
    if not flags & 2:
        for address, size in memory:
            built.add(GLOBAL, bytes(size), address=address)
    if not shorter:
        meta = struct.pack("<Q6I", 0, 580, 95, 13, 0, flags, 1_764_160_000) + b"\xee" * longer
        built.add(METADATA, meta, stride=len(meta))
    built.add(3, strings, name=".strtab")
    return built

"""The kernels of the measurement, as PTX text.

Each is one entry named ``measure`` with the parameters u64 buffer, u64 other, u64 words, u32 rounds: the
memory kernels move ``words`` units of 16 bytes ``rounds`` times, the others loop so often in registers.
What they compute can't be left out by the compiler: it decides whether a word is stored at the end.

Source: NVIDIA's PTX ISA: mma.sync, wgmma.mma_async and the layout of its shared-memory descriptors.
"""

from __future__ import annotations

import struct
from collections.abc import Callable
from dataclasses import dataclass

_CHAINS = 16  # independent accumulators of a vector kernel: more than its instructions are deep
_UNROLL = 8
_MMA_CHAINS = 8
_MMA_UNROLL = 4
_WGMMA_COLUMNS = 256
_WGMMA_UNROLL = 8
_TILE_BYTES = 2048 + 8192  # A: 64 rows of 32 bytes; B: 256 rows of 32 bytes


@dataclass(frozen=True)
class Kernel:
    """``per_round``: operations of one round of one warp (memory kernels: bytes per unit and round).

    ``least``: the compute capability that it needs, times ten; ``only``: it runs on that one alone.
    """

    text: str
    per_round: int
    least: int = 80
    only: bool = False


def _entry(body: str, version: str = "7.0", target: str = "sm_80", shared: str = "") -> str:
    return f""".version {version}
.target {target}
.address_size 64
.visible .entry measure(.param .u64 buffer, .param .u64 other, .param .u64 words, .param .u32 rounds)
{{
{shared}
    .reg .b64 %buffer, %other, %words, %at, %end, %step, %here, %there, %wide;
    .reg .b32 %rounds, %own, %size, %cta, %ctas, %thread, %threads, %sum, %bits;
    .reg .pred %more, %odd;
    ld.param.u64 %buffer, [buffer];
    ld.param.u64 %other, [other];
    ld.param.u64 %words, [words];
    ld.param.u32 %rounds, [rounds];
    cvta.to.global.u64 %buffer, %buffer;
    cvta.to.global.u64 %other, %other;
    mov.u32 %own, %tid.x;
    mov.u32 %size, %ntid.x;
    mov.u32 %cta, %ctaid.x;
    mov.u32 %ctas, %nctaid.x;
    mad.lo.u32 %thread, %cta, %size, %own;
    mul.lo.u32 %threads, %ctas, %size;
    mov.u32 %sum, 0;
{body}
    setp.eq.u32 %odd, %sum, 0x9E3779B9;
    @%odd st.global.u32 [%other], %sum;
    ret;
}}
"""


# --- memory ------------------------------------------------------------------------------------------


def memory(loads: bool, stores: bool) -> Kernel:
    """Reads ``buffer``, writes ``other``, or copies one to the other: 16 bytes a thread, four in flight.

    ``words`` is a multiple of four times the number of threads.
    """
    lines = ["    .reg .b32 %v<16>;"]
    lines += [f"    mov.u32 %v{i}, %thread;" for i in range(16)]
    lines += [
        "    mul.wide.u32 %step, %threads, 16;",
        "ROUND:",
        "    mul.wide.u32 %at, %thread, 16;",
        "    shl.b64 %end, %words, 4;",
        "LOOP:",
        "    add.u64 %here, %buffer, %at;",
        "    add.u64 %there, %other, %at;",
    ]
    for part in range(4):
        four = "{" + ", ".join(f"%v{4 * part + i}" for i in range(4)) + "}"
        if loads:
            lines += [f"    ld.global.cg.v4.u32 {four}, [%here];", "    add.u64 %here, %here, %step;"]
    for part in range(4):
        four = "{" + ", ".join(f"%v{4 * part + i}" for i in range(4)) + "}"
        if stores:
            lines += [f"    st.global.v4.u32 [%there], {four};", "    add.u64 %there, %there, %step;"]
    if loads and not stores:
        lines += [f"    xor.b32 %sum, %sum, %v{i};" for i in range(16)]
    lines += [
        "    shl.b64 %wide, %step, 2;",
        "    add.u64 %at, %at, %wide;",
        "    setp.lt.u64 %more, %at, %end;",
        "    @%more bra LOOP;",
        "    sub.u32 %rounds, %rounds, 1;",
        "    setp.ne.u32 %more, %rounds, 0;",
        "    @%more bra ROUND;",
    ]
    return Kernel(_entry("\n".join(lines)), 16 * (int(loads) + int(stores)))


def empty() -> Kernel:
    """Does nothing: what a launch costs by itself."""
    return Kernel(
        ".version 7.0\n.target sm_80\n.address_size 64\n.visible .entry measure(.param .u64 buffer, "
        ".param .u64 other, .param .u64 words, .param .u32 rounds)\n{\n    ret;\n}\n",
        1,
    )


# --- vector units ------------------------------------------------------------------------------------


def vector(kind: str) -> Kernel:
    """Chains of one instruction: ``fp32``, ``fp64``, ``fp16``, ``bf16`` (two in a word), ``special``."""
    wide = kind == "fp64"
    register = ".f64" if wide else ".b32"
    lines = [f"    .reg {register} %x<{_CHAINS}>, %a, %b;"]
    if wide:
        lines += ["    mov.f64 %a, 0d3FEFFFFF00000000;", "    cvt.rn.f64.u32 %b, %thread;"]
    else:
        constant = {"fp16": "0x3BF03BF0", "bf16": "0x3F7E3F7E"}.get(kind, "0x3F7FFF00")
        lines += [f"    mov.b32 %a, {constant};", f"    and.b32 %b, %thread, {_small(kind)};"]
    # Each chain starts elsewhere: equal ones would be made one.
    lines += [
        f"    add.f64 %x{i}, %b, {_double(i)};" if wide else f"    xor.b32 %x{i}, %b, {i};"
        for i in range(_CHAINS)
    ]
    instruction = {
        "fp32": "fma.rn.f32 {x}, {x}, %a, %b;", "fp64": "fma.rn.f64 {x}, {x}, %a, %b;",
        "fp16": "fma.rn.f16x2 {x}, {x}, %a, %b;", "bf16": "fma.rn.bf16x2 {x}, {x}, %a, %b;",
        "special": "ex2.approx.ftz.f32 {x}, {x};",
    }[kind]  # fmt: skip
    lines.append("LOOP:")
    for _ in range(_UNROLL):
        lines += [f"    {instruction.format(x=f'%x{i}')}" for i in range(_CHAINS)]
    lines += _loop_end()
    for i in range(_CHAINS):
        lines += (
            [f"    cvt.rn.f32.f64 %f, %x{i};", "    mov.b32 %bits, %f;"]
            if wide
            else [f"    mov.b32 %bits, %x{i};"]
        )
        lines.append("    xor.b32 %sum, %sum, %bits;")
    if wide:
        lines.insert(0, "    .reg .f32 %f;")
    each = {"fp32": 2, "fp64": 2, "fp16": 4, "bf16": 4, "special": 1}[kind]
    return Kernel(_entry("\n".join(lines)), 32 * _CHAINS * _UNROLL * each)


def _double(number: int) -> str:
    return "0d" + struct.pack(">d", float(number)).hex().upper()


def _single(number: int) -> str:
    return "0f" + struct.pack(">f", float(number)).hex().upper()


def _small(kind: str) -> str:
    """Bits that are small numbers in each half of a word, or in all of it."""
    return {"fp16": "0x00FF00FF", "bf16": "0x007F007F"}.get(kind, "0x0000FFFF")


def _loop_end() -> list[str]:
    return ["    sub.u32 %rounds, %rounds, 1;", "    setp.ne.u32 %more, %rounds, 0;", "    @%more bra LOOP;"]


# --- tensor cores: mma.sync --------------------------------------------------------------------------

# shape, types, a thread's registers of A, B and C, products, compute capability, PTX version
_MMA = {
    "fp16": ("m16n8k16", "f32.f16.f16.f32", 4, 2, 4, 16 * 8 * 16, 80, "7.0"),
    "bf16": ("m16n8k16", "f32.bf16.bf16.f32", 4, 2, 4, 16 * 8 * 16, 80, "7.0"),
    "tf32": ("m16n8k8", "f32.tf32.tf32.f32", 4, 2, 4, 16 * 8 * 8, 80, "7.0"),
    "int8": ("m16n8k32", "s32.s8.s8.s32", 4, 2, 4, 16 * 8 * 32, 80, "7.0"),
    "fp8": ("m16n8k32", "f32.e4m3.e4m3.f32", 4, 2, 4, 16 * 8 * 32, 89, "8.4"),
    "fp64": ("m8n8k4", "f64.f64.f64.f64", 1, 1, 2, 8 * 8 * 4, 80, "7.0"),
}
MMA_KINDS = tuple(_MMA)
# Random numbers of moderate size in all words: what toggles few wires runs faster than real data.
_FILL = {
    "fp16": (0x83FF83FF, 0x38003800), "bf16": (0x807F807F, 0x3F003F00), "tf32": (0x807FE000, 0x3F000000),
    "int8": (0xFFFFFFFF, 0), "fp8": (0x87878787, 0x30303030),
}  # fmt: skip


def mma(kind: str) -> Kernel:
    """Matrix products of one warp, from registers."""
    shape, types, a, b, c, products, least, version = _MMA[kind]
    accumulator = "f64" if kind == "fp64" else "s32" if kind == "int8" else "f32"
    factor = "f64" if kind == "fp64" else "b32"
    lines = [
        f"    .reg .{factor} %a<{a}>, %b<{b}>;",
        f"    .reg .{accumulator} %c<{c * _MMA_CHAINS}>;",
        *(
            []
            if kind == "fp64"
            else _random(kind, [f"%a{i}" for i in range(a)] + [f"%b{i}" for i in range(b)])
        ),
    ]
    if kind == "fp64":
        lines += [
            "    .reg .f32 %f;",
            "    cvt.rn.f64.u32 %a0, %thread;",
            "    mov.f64 %b0, 0d3EB0C6F7A0B5ED8D;",
        ]
    number: Callable[[int], str] = _double if kind == "fp64" else str if kind == "int8" else _single
    # Other ones in each: equal chains become one.
    lines += [f"    mov.{accumulator} %c{i}, {number(i)};" for i in range(c * _MMA_CHAINS)]
    lines.append("LOOP:")
    for _ in range(_MMA_UNROLL):
        for chain in range(_MMA_CHAINS):
            d = _list("%c", chain * c, c)
            factors = f"{_list('%a', 0, a)}, {_list('%b', 0, b)}"
            lines.append(f"    mma.sync.aligned.{shape}.row.col.{types} {d}, {factors}, {d};")
    lines += _loop_end()
    lines += _fold(accumulator, c * _MMA_CHAINS)
    target = f"sm_{least}"
    text = _entry("\n".join(lines), version, target)
    return Kernel(text, 2 * products * _MMA_CHAINS * _MMA_UNROLL, least)


def _random(kind: str, registers: list[str]) -> list[str]:
    """Other bits in every thread and register."""
    keep, one = _FILL[kind]
    lines = ["    mov.u32 %bits, %thread;"]
    for number, register in enumerate(registers):
        lines += [
            f"    xor.b32 %bits, %bits, {0x9E3779B9 * (number + 1) & 0xFFFFFFFF};",
            "    mul.lo.u32 %bits, %bits, 0x85EBCA6B;",
            "    shr.u32 %sum, %bits, 15;",
            "    xor.b32 %bits, %bits, %sum;",
            f"    and.b32 {register}, %bits, {keep};",
            f"    or.b32 {register}, {register}, {one};",
        ]
    return [*lines, "    mov.u32 %sum, 0;"]


def _list(prefix: str, start: int, count: int) -> str:
    return "{" + ", ".join(f"{prefix}{start + i}" for i in range(count)) + "}"


def _fold(accumulator: str, count: int) -> list[str]:
    lines = []
    for i in range(count):
        if accumulator == "f64":
            lines += [f"    cvt.rn.f32.f64 %f, %c{i};", "    mov.b32 %bits, %f;"]
        else:
            lines.append(f"    mov.b32 %bits, %c{i};")
        lines.append("    xor.b32 %sum, %sum, %bits;")
    return lines


# --- tensor cores: wgmma (compute capability 9.0 alone) ----------------------------------------------

_WGMMA = {
    "fp16": ("k16", "f32.f16.f16", 16, ", 1, 1, 0, 0"), "bf16": ("k16", "f32.bf16.bf16", 16, ", 1, 1, 0, 0"),
    "tf32": ("k8", "f32.tf32.tf32", 8, ", 1, 1"), "fp8": ("k32", "f32.e4m3.e4m3", 32, ", 1, 1"),
    "int8": ("k32", "s32.s8.s8", 32, ""),
}  # fmt: skip
WGMMA_KINDS = tuple(_WGMMA)


def wgmma(kind: str) -> Kernel:
    """Products of 64 x 256 results by four warps, both factors in shared memory, the results in registers.

    The tiles lie in shared memory as blocks of 8 rows of 16 bytes, 128 bytes each: with no swizzle, two
    blocks that follow each other along the depth are 128 bytes apart, along the rows 256.
    """
    depth_name, types, depth, scales = _WGMMA[kind]
    count = _WGMMA_COLUMNS // 2  # a thread's share of 64 x 256 results
    accumulator = "s32" if kind == "int8" else "f32"
    zero = "0" if kind == "int8" else "0f00000000"
    keep, one = _FILL[kind]
    lines = [
        "    .reg .b32 %word, %place;",
        "    .reg .b64 %left, %right;",
        "    .reg .pred %add;",
        f"    .reg .{accumulator} %c<{count}>;",
        "    mov.u32 %place, tiles;",
        "    mov.u32 %word, %own;",
        "FILL:",
        "    mul.lo.u32 %bits, %word, 0x9E3779B9;",
        "    shr.u32 %sum, %bits, 15;",
        "    xor.b32 %bits, %bits, %sum;",
        "    mul.lo.u32 %bits, %bits, 0x85EBCA6B;",
        "    shr.u32 %sum, %bits, 13;",
        "    xor.b32 %bits, %bits, %sum;",
        f"    and.b32 %bits, %bits, {keep};",
        f"    or.b32 %bits, %bits, {one};",
        "    mad.lo.u32 %sum, %word, 4, %place;",
        "    st.shared.u32 [%sum], %bits;",
        "    add.u32 %word, %word, %size;",
        f"    setp.lt.u32 %more, %word, {_TILE_BYTES // 4};",
        "    @%more bra FILL;",
        "    fence.proxy.async;",
        "    bar.sync 0;",
        "    mov.u32 %sum, 0;",
        "    shr.u32 %word, %place, 4;",
        "    and.b32 %word, %word, 0x3FFF;",
        "    cvt.u64.u32 %left, %word;",
        f"    or.b64 %left, %left, {(128 >> 4) << 16 | (256 >> 4) << 32};",
        f"    add.u64 %right, %left, {2048 >> 4};",
        "    setp.ne.u32 %add, %rounds, 0;",
    ]
    lines += [f"    mov.{accumulator} %c{i}, {zero};" for i in range(count)]
    operands = f"{_list('%c', 0, count)}, %left, %right, %add{scales};"
    multiply = f"    wgmma.mma_async.sync.aligned.m64n{_WGMMA_COLUMNS}{depth_name}.{types} {operands}"
    lines += [
        "LOOP:",
        '    .pragma "nounroll";',  # unrolled further, it takes the driver seconds to assemble
        "    wgmma.fence.sync.aligned;",
        *([multiply] * _WGMMA_UNROLL),
        "    wgmma.commit_group.sync.aligned;",
        "    wgmma.wait_group.sync.aligned 0;",
        *_loop_end(),
        *_fold(accumulator, count),
    ]
    shared = f"    .shared .align 1024 .b8 tiles[{_TILE_BYTES}];"
    text = _entry("\n".join(lines), "8.0", "sm_90a", shared)
    # A quarter of the product to each of the four warps that make it together.
    return Kernel(text, 2 * 64 * _WGMMA_COLUMNS * depth * _WGMMA_UNROLL // 4, 90, only=True)

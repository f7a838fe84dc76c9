"""Small kernels for the instruction tests: assembled, run by isa_runner, their registers looked at."""

from __future__ import annotations

import atexit
import os
import shutil
import struct
import subprocess
import tempfile
from functools import cache
from pathlib import Path
from typing import NamedTuple

import numpy as np
import pytest

from tests.native.building import ROOT, build

LANES = 64
ARCHS = ("gfx90a", "gfx942", "gfx950")  # as `targets` of gpu.h
FAULTS = ("none", "memory", "aperture", "illegal", "unsupported", "trap", "code_object", "cancelled")
# MODE for kernels as compilers set it: denormals are kept, DX10_CLAMP and IEEE are on.
RSRC1 = 0xF << 16 | 1 << 21 | 1 << 23
WORKGROUP_ID_X = 1 << 7


class Result(NamedTuple):
    fault: str
    text: str
    pc: int
    address: int
    seconds: float
    data: bytes


def rocm_prefix() -> Path | None:
    """The newest ROCm user space that ``make amd-gpu`` unpacked: its libLLVM is 21 or, of ROCm 7, 22."""
    chosen = os.environ.get("AMD_GPU_ROCM")
    builds = [ROOT / "build" / name / "rocm" for name in ("amd-gpu-7", "amd-gpu")]
    for prefix in [Path(chosen)] if chosen else builds:
        if (prefix / "usr/lib64/ld-linux-x86-64.so.2").exists():
            return prefix
    return None


@cache
def runner_command() -> tuple[str, ...]:
    runner = build(Path(__file__).parent, ROOT / "build" / "native-amd-gpu") / "isa_runner"
    prefix = rocm_prefix()
    if prefix is None:
        return (str(runner),)
    loader = prefix / "usr/lib64/ld-linux-x86-64.so.2"
    return (str(loader), "--library-path", str(prefix / "usr/lib/x86_64-linux-gnu"), str(runner))


@cache
def _server() -> subprocess.Popen[bytes]:
    process = subprocess.Popen(runner_command(), stdin=subprocess.PIPE, stdout=subprocess.PIPE)
    atexit.register(_stop, process)
    return process


def _stop(process: subprocess.Popen[bytes]) -> None:
    """Its input's end is the runner's end."""
    process.communicate()


@cache
def assemble(text: str, arch: str) -> bytes:
    """Machine code of an assembler text; skips where nothing here assembles for ``arch``.

    Triton's assembler is in this process, and so the faster one.
    """
    source = f"{text}\ns_endpgm\n"
    try:
        from triton.backends.amd.compiler import assemble_amdgcn
    except ImportError:
        return _assemble_by_llvm_mc(source, arch)
    return _text_section(assemble_amdgcn(source, arch, ""))


def _assemble_by_llvm_mc(source: str, arch: str) -> bytes:
    mc = shutil.which("llvm-mc-15") or shutil.which("llvm-mc")
    if arch != "gfx90a" or mc is None:
        pytest.skip(f"needs an assembler for {arch}: Triton (or, for gfx90a, llvm-mc)")
    with tempfile.TemporaryDirectory() as folder:
        out = Path(folder) / "code.o"
        command = [mc, "-triple=amdgcn-amd-amdhsa", f"-mcpu={arch}", "-filetype=obj", "-o", str(out)]
        subprocess.run(command, input=source.encode(), check=True)
        return _text_section(out.read_bytes())


def _text_section(elf: bytes) -> bytes:
    (section_offset,) = struct.unpack_from("<Q", elf, 40)
    size, count, names = struct.unpack_from("<HHH", elf, 58)
    headers = [struct.unpack_from("<IIQQQQ", elf, section_offset + k * size) for k in range(count)]
    strings = headers[names][4]
    for name, _, _, _, offset, length in headers:
        if elf[strings + name :].startswith(b".text\0"):
            return elf[offset : offset + length]
    raise AssertionError("the assembler wrote no .text")


def run_code(
    text: str | bytes,
    arch: str = "gfx90a",
    data: bytes = b"",
    workgroup: int = 64,
    workgroups: int = 1,
    lds: int = 0,
    private: int = 0,
    rsrc1: int = RSRC1,
) -> Result:
    """Runs a text or machine code.

    s[0:1] points at the address of ``data``, s2 is the workgroup, v0 the lane.
    """
    code = assemble(text, arch) if isinstance(text, str) else text
    server = _server()
    assert server.stdin is not None and server.stdout is not None
    sizes = (len(code), len(data), workgroup, workgroups, lds, private, rsrc1, WORKGROUP_ID_X)
    server.stdin.write(struct.pack("<9I", ARCHS.index(arch), *sizes) + code + data)
    server.stdin.flush()
    kind, length, pc, address, seconds = struct.unpack("<IIQQd", server.stdout.read(32))
    words = server.stdout.read(length).decode()
    result = Result(FAULTS[kind], words, pc, address, seconds, server.stdout.read(len(data)))
    if "libLLVM" in words:
        pytest.skip(f"{words}: make amd-gpu unpacks one that does")
    return result


# Inputs are in v[10+2k:11+2k], results from v40 on, the data's address in s[4:5], four times the lane in v1.
def lanes(
    snippet: str,
    inputs: list[np.ndarray],
    words: int = 1,
    arch: str = "gfx90a",
    lds: int = 0,
    private: int = 0,
    rsrc1: int = RSRC1,
) -> np.ndarray:
    """What a snippet leaves in v40 and the ``words - 1`` registers behind it, as uint32[words, 64].

    Input k, 64 elements of 4 or 8 bytes, is in v10+2k (and the next).
    """
    columns = [_columns(array) for array in inputs]
    text = ["s_load_dwordx2 s[4:5], s[0:1], 0x0", "s_waitcnt lgkmcnt(0)", "v_lshlrev_b32_e32 v1, 2, v0"]
    offset = 0
    blob = b""
    for k, column in enumerate(columns):
        for word in range(column.shape[0]):
            text.append(f"global_load_dword v{10 + 2 * k + word}, v1, s[4:5] offset:{offset}")
            blob += column[word].tobytes()
            offset += 256
            if offset == 3840:
                raise AssertionError("too many inputs")
    text += ["s_waitcnt vmcnt(0)", snippet, "s_mov_b64 exec, -1"]
    text += [
        f"global_store_dword v1, v{40 + word}, s[4:5] offset:{256 * (len(blob) // 256 + word)}"
        if len(blob) + 256 * word < 4096
        else f"v_add_u32_e32 v2, {len(blob) + 256 * word}, v1\nglobal_store_dword v2, v{40 + word}, s[4:5]"
        for word in range(words)
    ]
    result = run_code("\n".join(text), arch, blob + bytes(256 * words), lds=lds, private=private, rsrc1=rsrc1)
    assert result.fault == "none", f"{result.fault}: {result.text}\n" + "\n".join(text)
    return np.frombuffer(result.data[len(blob) :], np.uint32).reshape(words, LANES).copy()


def registers(
    text: str, inputs: np.ndarray, words: int, arch: str, lds: int = 0, rsrc1: int = RSRC1
) -> np.ndarray:
    """What a text leaves in v128 and the ``words - 1`` registers behind it: uint32[words, 64].

    ``inputs``, uint32[n, 64], are in v64 and the n - 1 registers behind it; four times the lane is in v1.
    """
    lines = ["s_load_dwordx2 s[4:5], s[0:1], 0x0", "v_lshlrev_b32_e32 v1, 2, v0"]
    for row in range(len(inputs)):
        lines += [f"v_add_u32_e32 v2, {256 * row}, v1", f"global_load_dword v{64 + row}, v2, s[4:5]"]
    lines += [text, "s_mov_b64 exec, -1"]
    for row in range(words):
        lines += [f"v_add_u32_e32 v2, {256 * (len(inputs) + row)}, v1"]
        lines += [f"global_store_dword v2, v{128 + row}, s[4:5]"]
    data = np.ascontiguousarray(inputs, np.uint32).tobytes()
    result = run_code("\n".join(lines), arch, data + bytes(256 * words), lds=lds, rsrc1=rsrc1)
    assert result.fault == "none", f"{result.fault}: {result.text}\n{text}"
    return np.frombuffer(result.data[len(data) :], np.uint32).reshape(words, LANES).copy()


def _columns(array: np.ndarray) -> np.ndarray:
    """Words of 64 elements: [1, 64] or [2, 64]."""
    array = np.ascontiguousarray(array)
    if array.dtype.itemsize == 2:
        array = array.view(np.uint16).astype(np.uint32)
    assert array.shape == (LANES,) and array.dtype.itemsize in (4, 8)
    return np.ascontiguousarray(array.view(np.uint32).reshape(LANES, -1).T)


def floats(words: np.ndarray) -> np.ndarray:
    return words.view(np.float32)


def pairs(words: np.ndarray, dtype: type) -> np.ndarray:
    """64 elements of 8 bytes from two rows of words."""
    return np.ascontiguousarray(words.T).view(dtype).reshape(LANES)

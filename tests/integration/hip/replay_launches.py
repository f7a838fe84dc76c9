"""HIP reproducers made by hand: a code object of hipcc's, and an oracle of numpy's.

Nothing was captured for them, so that they say of replay alone whether it is right.
"""

from __future__ import annotations

import os
import shutil
import struct
import subprocess
import sys
from dataclasses import dataclass, field
from functools import cache
from pathlib import Path
from typing import Any

import msgspec
import pytest

from kerncap.format import schema
from kerncap.replay.amd_devices import EMULATOR_VARIABLE
from tests.rigs.amd_gpu import find
from tests.unit.replay.native import Native

_BUNDLE = b"__CLANG_OFFLOAD_BUNDLE__"
HERE = Path(__file__).parent
ARCH = "gfx90a"  # what the system's compiler knows


def emulator() -> Path:
    """The folder of the emulated GPU that the environment names, else the project's; skips without one."""
    named = os.environ.get(EMULATOR_VARIABLE)
    if named:
        return Path(named)
    found = find()
    if isinstance(found, str):
        pytest.skip(found, allow_module_level=True)
    return Path(found.run_prefix[0]).parent


def code_object(source: Path, folder: Path, *flags: str) -> bytes:
    """What hipcc makes of a file for `ARCH`: the code object alone. Skips where there is no hipcc."""
    if shutil.which("hipcc") is None:
        pytest.skip("needs hipcc")
    folder.mkdir(parents=True, exist_ok=True)
    out = folder / f"{source.stem}{''.join(flags)}.bundle"
    subprocess.run(
        ["env", "HIP_PLATFORM=amd", "hipcc", "--genco", f"--offload-arch={ARCH}", "-O2", "-w", *flags,
         str(source), "-o", str(out)],
        check=True,
    )  # fmt: skip
    return _unbundled(out.read_bytes())


@cache
def kernels(folder: Path) -> bytes:
    return code_object(HERE / "replay_kernels.hip", folder)


_HIPRTC = """
import ctypes, sys
rtc = ctypes.CDLL("libhiprtc.so.6")
program, size = ctypes.c_void_p(), ctypes.c_size_t()
given = [f"--offload-arch={sys.argv[2]}", *sys.argv[4:]]
options = (ctypes.c_char_p * len(given))(*map(str.encode, given))
text = open(sys.argv[1], "rb").read()
assert not rtc.hiprtcCreateProgram(ctypes.byref(program), text, b"test", 0, None, None)
status = rtc.hiprtcCompileProgram(program, len(given), options)
if status:
    rtc.hiprtcGetProgramLogSize(program, ctypes.byref(size))
    log = ctypes.create_string_buffer(size.value)
    rtc.hiprtcGetProgramLog(program, log)
    sys.exit(log.value.decode())
assert not rtc.hiprtcGetCodeSize(program, ctypes.byref(size))
code = ctypes.create_string_buffer(size.value)
assert not rtc.hiprtcGetCode(program, code)
open(sys.argv[3], "wb").write(code.raw)
"""


def by_hiprtc(text: str, arch: str, emulator: Path, folder: Path, *flags: str) -> bytes:
    """What hiprtc of the emulated GPU's ROCm makes of a kernel: a newer code object than the system's."""
    source, out = folder / "hiprtc.hip", folder / "hiprtc.co"
    source.write_text(text)
    subprocess.run(
        [emulator / "run", sys.executable, "-c", _HIPRTC, source, arch, out, *flags], check=True,
        env={**os.environ, "AMD_GPU_GFX": arch},
    )  # fmt: skip
    return out.read_bytes()


def _unbundled(data: bytes) -> bytes:
    """The entry for an AMD GPU. Source: clang's documentation of clang-offload-bundler."""
    assert data.startswith(_BUNDLE)
    at = len(_BUNDLE)
    (count,) = struct.unpack_from("<Q", data, at)
    at += 8
    for _ in range(count):
        offset, size, length = struct.unpack_from("<QQQ", data, at)
        name = data[at + 24 : at + 24 + length]
        at += 24 + length
        if name.startswith(b"hip"):
            return data[offset : offset + size]
    raise AssertionError("the bundle has nothing for an AMD GPU")


@dataclass
class HipLaunch(Native):
    """A HIP launch under construction. ``work_items``: of which the last workgroup may be partial."""

    block: tuple[int, int, int] = (64, 1, 1)
    work_items: tuple[int, int, int] | None = None
    group_bytes: int = 0  # of LDS, static and dynamic
    arch: str = ARCH
    dimensions: int = 1
    dispatch: bool = True
    hidden: bytes = field(default=b"\xa5" * 256)  # stale, as if it were another process's

    def finished(self, manifest: schema.Manifest) -> schema.Manifest:
        items = self.work_items or tuple(g * b for g, b in zip(self.grid, self.block, strict=True))
        launch = msgspec.structs.replace(
            manifest.launch,
            dispatch=schema.Dispatch(
                work_items=items, group_bytes=self.group_bytes, dimensions=self.dimensions
            )
            if self.dispatch
            else None,
            parameters=schema.Parameters(
                bytes=(self._explicit() + self.hidden).hex(), layout=self.layout if self.with_layout else None
            ),
        )
        return msgspec.structs.replace(
            manifest,
            device=schema.Device(kind="hip", name=self.device_name or "AMD GPU", arch=self.arch),
            kernel=msgspec.structs.replace(manifest.kernel, language="hip"),
            launch=launch,
        )

    def _explicit(self) -> bytes:
        packed = self.packed()
        return packed + bytes(-len(packed) % 8)


def launch(kernel: str, code: bytes, **options: Any) -> HipLaunch:
    return HipLaunch(kernel, code={"hsaco": code}, **options)

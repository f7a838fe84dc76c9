"""One NVRTC compilation in a separate process: a `Request` on stdin, a `Reply` on stdout, one line each.

Run as a file by any Python; imports nothing of kerncap. A compiler that crashes takes only this process.
"""

from __future__ import annotations

import ctypes
import glob
import importlib
import json
import os
import sys
import types
from dataclasses import dataclass
from typing import Any


@dataclass(frozen=True)
class Request:
    """A program; headers as (name, text). The compiled files are written into ``folder``.

    ``library`` is NVRTC's file, of this ``version``; ``bindings`` the folder of the package `cuda`.
    """

    library: str
    version: str
    bindings: str
    folder: str
    source: str
    name: str
    headers: list[tuple[str, str]]
    options: list[str]
    expressions: list[str]


@dataclass(frozen=True)
class Reply:
    """NVRTC's log; ``error`` is empty if it compiled. ``available``: NVRTC was there and took the program."""

    available: bool
    error: str = ""
    log: str = ""


def main() -> None:
    request = Request(**json.load(sys.stdin))
    reply = os.dup(1)
    os.dup2(2, 1)  # the library's own prints must not come into the reply
    try:
        answer = compile_program(request)
    except OSError as error:
        answer = Reply(False, f"{request.library} can't be loaded: {error}")
    os.write(reply, json.dumps(vars(answer)).encode())


def compile_program(request: Request) -> Reply:
    nvrtc = load(request)
    major = nvrtc.nvrtcVersion()[1]
    if str(major) != request.version.partition(".")[0]:
        return Reply(False, f"these cuda-bindings load NVRTC {major}, not {request.library}")
    status, program = nvrtc.nvrtcCreateProgram(
        encoded(request.source),
        encoded(request.name),
        len(request.headers),
        [encoded(text) for _, text in request.headers],
        [encoded(name) for name, _ in request.headers],
    )
    if status:
        return Reply(False, f"nvrtcCreateProgram: {message(nvrtc, status)}")
    for expression in request.expressions:
        nvrtc.nvrtcAddNameExpression(program, expression.encode())
    [status] = nvrtc.nvrtcCompileProgram(program, len(request.options), list(map(encoded, request.options)))
    log = text_of(nvrtc, "ProgramLog", program)
    if status:
        return Reply(True, message(nvrtc, status), log)
    for kind in ("CUBIN", "PTX"):
        with open(os.path.join(request.folder, "made." + kind.lower()), "wb") as file:
            file.write(bytes_of(nvrtc, kind, program))
    return Reply(True, log=log)


def load(request: Request) -> Any:
    """`cuda.bindings.nvrtc` over the library that is named: what is loaded already, it takes.

    The library's builtins come before it, which it would look for in the loader's folders alone.
    """
    for builtins in sorted(
        glob.glob(os.path.join(os.path.dirname(request.library), "libnvrtc-builtins.so*"))
    ):
        if ".alt." not in builtins:
            try:
                ctypes.CDLL(builtins)
            except OSError:
                pass  # of another version; the library says what it misses
    ctypes.CDLL(request.library)
    package = sys.modules["cuda"] = types.ModuleType("cuda")
    package.__path__ = [request.bindings]
    return importlib.import_module("cuda.bindings.nvrtc")


def encoded(text: str) -> bytes:
    return text.encode("utf-8", "surrogateescape")


def message(nvrtc: Any, status: Any) -> str:
    return str(nvrtc.nvrtcGetErrorString(status)[1].decode())


def bytes_of(nvrtc: Any, what: str, program: Any) -> bytes:
    status, size = getattr(nvrtc, f"nvrtcGet{what}Size")(program)
    data = bytearray(size or 0)
    if status or not data or getattr(nvrtc, f"nvrtcGet{what}")(program, data)[0]:
        return b""
    return bytes(data)


def text_of(nvrtc: Any, what: str, program: Any) -> str:
    return bytes_of(nvrtc, what, program).rstrip(b"\0").decode("utf-8", "replace")


if __name__ == "__main__":
    main()

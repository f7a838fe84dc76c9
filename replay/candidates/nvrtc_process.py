"""One NVRTC compilation in a process of its own: a `Request` on stdin, a `Reply` on stdout, one line each.

Run as a file by any Python; imports nothing of kerncap. A compiler that crashes takes only this process.
"""

from __future__ import annotations

import ctypes
import glob
import json
import os
import sys
from dataclasses import dataclass
from typing import Any


@dataclass(frozen=True)
class Request:
    """A program; headers as (name, text). The compiled files are written into ``folder``."""

    library: str
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
    library = load(request.library)
    program = ctypes.c_void_p()
    status = library.nvrtcCreateProgram(
        ctypes.byref(program),
        request.source.encode("utf-8", "surrogateescape"),
        request.name.encode("utf-8", "surrogateescape"),
        len(request.headers),
        strings([text for _, text in request.headers]),
        strings([name for name, _ in request.headers]),
    )
    if status:
        return Reply(False, f"nvrtcCreateProgram: {message(library, status)}")
    for expression in request.expressions:
        library.nvrtcAddNameExpression(program, expression.encode())
    status = library.nvrtcCompileProgram(program, len(request.options), strings(request.options))
    log = text_of(library, "ProgramLog", program)
    if status:
        return Reply(True, message(library, status), log)
    for kind in ("CUBIN", "PTX"):
        data = bytes_of(library, kind, program)
        with open(os.path.join(request.folder, "made." + kind.lower()), "wb") as file:
            file.write(data)
    return Reply(True, log=log)


def load(path: str) -> ctypes.CDLL:
    """The library; its builtins first, which it would look for in the loader's folders alone."""
    for builtins in sorted(glob.glob(os.path.join(os.path.dirname(path), "libnvrtc-builtins.so*"))):
        if ".alt." not in builtins:
            try:
                ctypes.CDLL(builtins)
            except OSError:
                pass  # of another version; the library says what it misses
    return ctypes.CDLL(path)


def strings(values: list[str]) -> Any:
    array = (ctypes.c_char_p * max(1, len(values)))()
    array[: len(values)] = [value.encode("utf-8", "surrogateescape") for value in values]
    return array


def message(library: ctypes.CDLL, status: int) -> str:
    library.nvrtcGetErrorString.restype = ctypes.c_char_p
    return str(library.nvrtcGetErrorString(status).decode())


def bytes_of(library: ctypes.CDLL, what: str, program: ctypes.c_void_p) -> bytes:
    size = ctypes.c_size_t()
    if getattr(library, f"nvrtcGet{what}Size")(program, ctypes.byref(size)) or not size.value:
        return b""
    data = ctypes.create_string_buffer(size.value)
    if getattr(library, f"nvrtcGet{what}")(program, data):
        return b""
    return data.raw


def text_of(library: ctypes.CDLL, what: str, program: ctypes.c_void_p) -> str:
    return bytes_of(library, what, program).rstrip(b"\0").decode("utf-8", "replace")


if __name__ == "__main__":
    main()

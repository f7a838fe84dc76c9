"""One NVRTC compilation in a process of its own: a request on stdin, a reply on stdout, both JSON.

Run as a file by whatever Python; knows nothing of kerncap. A compiler that crashes takes this process only.
"""

from __future__ import annotations

import ctypes
import glob
import json
import os
import sys
from typing import Any


def main() -> None:
    request = json.load(sys.stdin)
    reply = os.dup(1)
    os.dup2(2, 1)  # the library's own prints must not come into the reply
    try:
        answer = compile_program(request)
    except OSError as error:
        answer = {"error": f"{request['library']} can't be loaded: {error}"}
    os.write(reply, json.dumps(answer).encode())


def compile_program(request: dict[str, Any]) -> dict[str, Any]:
    library = load(request["library"])
    program = ctypes.c_void_p()
    headers = request["headers"]
    status = library.nvrtcCreateProgram(
        ctypes.byref(program),
        request["source"].encode("utf-8", "surrogateescape"),
        request["name"].encode("utf-8", "surrogateescape"),
        len(headers),
        strings([text for _, text in headers]),
        strings([name for name, _ in headers]),
    )
    if status:
        return {"error": f"nvrtcCreateProgram: {message(library, status)}"}
    for expression in request["expressions"]:
        library.nvrtcAddNameExpression(program, expression.encode())
    options = request["options"]
    status = library.nvrtcCompileProgram(program, len(options), strings(options))
    answer = {"status": status, "log": text_of(library, "ProgramLog", program)}
    if status:
        answer["message"] = message(library, status)
        return answer
    answer["lowered"] = lowered_names(library, program, request["expressions"])
    for kind in ("CUBIN", "PTX"):
        data = bytes_of(library, kind, program)
        with open(os.path.join(request["folder"], "made." + kind.lower()), "wb") as file:
            file.write(data)
    return answer


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


def lowered_names(library: ctypes.CDLL, program: ctypes.c_void_p, expressions: list[str]) -> dict[str, str]:
    found = {}
    for expression in expressions:
        name = ctypes.c_char_p()
        if not library.nvrtcGetLoweredName(program, expression.encode(), ctypes.byref(name)) and name.value:
            found[expression] = name.value.decode()
    return found


if __name__ == "__main__":
    main()

"""One HIPRTC compilation in a separate process: a `Request` on stdin, a `Reply` on stdout, one line each.

Run as a file by a Python that has hip-python; imports nothing of kerncap. A compiler that crashes takes only
this process.
"""

from __future__ import annotations

import json
import os
import sys
from dataclasses import dataclass
from typing import Any


@dataclass(frozen=True)
class Request:
    """A program; headers as (name, text). The code object is written to ``out``."""

    out: str
    source: str
    name: str
    headers: list[tuple[str, str]]
    options: list[str]
    expressions: list[str]


@dataclass(frozen=True)
class Reply:
    """HIPRTC's log; ``error`` is empty if it compiled. ``available``: HIPRTC took the program."""

    available: bool
    error: str = ""
    log: str = ""


class _Failed(Exception):
    """A call of HIPRTC returned an error."""


def main() -> None:
    request = Request(**json.load(sys.stdin))
    reply = os.dup(1)
    os.dup2(2, 1)  # the library's own prints must not come into the reply
    os.write(reply, json.dumps(vars(answer(request))).encode())


def answer(request: Request) -> Reply:
    try:
        from hip import hiprtc as bindings
    except ImportError as error:
        return Reply(False, f"hip-python can't be imported: {error}")
    hiprtc: Any = bindings
    names = [_bytes(name) for name, _ in request.headers]
    texts = [_bytes(text) for _, text in request.headers]
    try:  # the first call loads the library
        program = _value(
            hiprtc.hiprtcCreateProgram(
                _bytes(request.source), _bytes(request.name), len(names), texts or None, names or None
            )
        )
    except (RuntimeError, _Failed) as error:
        return Reply(False, f"hiprtcCreateProgram: {error}")
    try:
        for expression in request.expressions:
            _value(hiprtc.hiprtcAddNameExpression(program, _bytes(expression)))
        options = [_bytes(option) for option in request.options]
        status = hiprtc.hiprtcCompileProgram(program, len(options), options)[0]
        log = bytearray(_value(hiprtc.hiprtcGetProgramLogSize(program)))
        if log:
            _value(hiprtc.hiprtcGetProgramLog(program, log))
        text = log.rstrip(b"\0").decode("utf-8", "replace")
        if status.value:
            return Reply(True, status.name, text)
        code = bytearray(_value(hiprtc.hiprtcGetCodeSize(program)))
        _value(hiprtc.hiprtcGetCode(program, code))
    except _Failed as error:
        return Reply(True, str(error))
    with open(request.out, "wb") as file:
        file.write(code)
    return Reply(True, log=text)


def _value(result: tuple[Any, ...]) -> Any:
    if result[0].value:
        raise _Failed(result[0].name)
    return result[1] if len(result) > 1 else None


def _bytes(text: str) -> bytes:
    return text.encode("utf-8", "surrogateescape")


if __name__ == "__main__":
    main()

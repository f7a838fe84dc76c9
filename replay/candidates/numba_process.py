"""One compilation by Numba in a process of its own: a `Request` on stdin, a `Reply` on stdout, one line each;
with ``version`` as argument, which Numba there is.

Run as a file by the Python that has Numba; imports nothing of kerncap. The module's own code runs here.
"""

from __future__ import annotations

import importlib.metadata
import importlib.util
import json
import os
import re
import sys
import traceback
import types as python_types
from dataclasses import dataclass
from typing import Any


@dataclass(frozen=True)
class Request:
    """``types`` are the kernel's: a name, ["array", dtype, ndim, layout, mutable, aligned], ["tuple", …].

    The PTX is written to ``out``.
    """

    module: str
    entry: str
    types: list[Any]
    capability: tuple[int, int]
    out: str


@dataclass(frozen=True)
class Reply:
    """``error`` is empty if it compiled, ``kernel`` then the name in the PTX. ``line``: of the error."""

    available: bool
    error: str = ""
    log: str = ""
    line: int | None = None
    kernel: str = ""


def main() -> None:
    if sys.argv[1:] == ["version"]:
        print(version())
        return
    request = Request(**json.load(sys.stdin))
    reply = os.dup(1)
    os.dup2(2, 1)  # what the module prints must not come into the reply
    os.write(reply, json.dumps(vars(answer(request))).encode())


def version() -> str:
    """Of Numba's CUDA part, else Numba's; empty if there is neither. Imports nothing of them."""
    found = (each for name in ("numba-cuda", "numba") for each in importlib.metadata.distributions(name=name))
    return next((each.version for each in found), "")


def answer(request: Request) -> Reply:
    try:
        from numba import cuda
        from numba.cuda import dispatcher
    except Exception as error:
        return Reply(False, f"numba.cuda can't be imported: {error}")
    # Device functions are compiled for the current device, of which a compiler has no need.
    device = python_types.SimpleNamespace(compute_capability=tuple(request.capability))
    dispatcher.get_current_device = lambda: device
    entry: Any = None
    try:
        entry = _module(request.module)
        for name in request.entry.split("."):
            entry = getattr(entry, name)
        options = dict(getattr(entry, "targetoptions", {}))
        kept = {name: options[name] for name in _OPTIONS if options.get(name) is not None}
        ptx, _ = cuda.compile(
            getattr(entry, "py_func", entry), tuple(map(_type, request.types)), device=False, abi="numba",
            cc=tuple(request.capability), **kept,
        )  # fmt: skip
    except Exception as error:
        what = f"{type(error).__name__}: {_first_line(str(error))}"[:2000]
        line = _line(error, request.module)
        function = getattr(entry, "py_func", None)
        if line is None and function is not None:  # Numba often does not say: the kernel's own, then
            line = function.__code__.co_firstlineno
        return Reply(True, what, traceback.format_exc(), line)
    if not isinstance(ptx, str):
        ptx = ptx.decode()
    ptx = ptx.rstrip("\0")
    with open(request.out, "w", encoding="utf-8") as file:
        file.write(ptx)
    found = re.search(r"\.entry\s+([\w$]+)", ptx)
    return Reply(True, kernel=found[1] if found is not None else "")


_OPTIONS = ("debug", "lineinfo", "fastmath", "opt", "launch_bounds")


def _module(path: str) -> Any:
    spec = importlib.util.spec_from_file_location("_kerncap_candidate", path)
    assert spec is not None and spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    sys.modules[spec.name] = module
    sys.dont_write_bytecode = True
    spec.loader.exec_module(module)
    return module


def _type(given: Any) -> Any:
    from numba import types

    if isinstance(given, str):
        return getattr(types, given)
    kind, *rest = given
    if kind == "tuple":
        return types.Tuple(tuple(map(_type, rest)))
    dtype, ndim, layout, mutable, aligned = rest
    return types.Array(_type(dtype), ndim, layout, readonly=not mutable, aligned=aligned)


def _first_line(text: str) -> str:
    """What is wrong, without the terminal's colours and without the step of Numba's that says it."""
    plain = re.sub(r"\x1b\[[0-9;]*m", "", text)
    lines = [line.strip() for line in plain.splitlines() if line.strip()]
    return next((line for line in lines if not line.startswith("Failed in ")), lines[0] if lines else "")


def _line(error: BaseException, module: str) -> int | None:
    """The line of the module that the error is about: Numba's own place, the parser's, or the innermost."""
    if isinstance(error, SyntaxError) and error.filename == module:
        return error.lineno
    base = os.path.basename(module)
    said = re.findall(rf'File "(?:[^"]*/)?{re.escape(base)}", line (\d+)', str(error))
    if said:
        return int(said[-1])
    frames = traceback.extract_tb(error.__traceback__)
    return next((frame.lineno for frame in reversed(frames) if frame.filename == module), None)


if __name__ == "__main__":
    main()

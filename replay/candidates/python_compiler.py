"""An edited kernel in Python: compiled by the language's own compiler in the Python that replays."""

from __future__ import annotations

import dataclasses
import json
import os
import re
from pathlib import Path
from typing import Any

from kerncap import child
from kerncap.errors import BackendUnavailable
from kerncap.format import numba_names
from kerncap.format.numba_names import ArrayType, TupleType, Type
from kerncap.replay.candidates import python_process, symbols
from kerncap.replay.candidates.compilers import Compiled, Compiler, readable_log, run_tool
from kerncap.replay.candidates.errors import BuildError
from kerncap.replay.candidates.tools import PYTHON_COMPILERS
from kerncap.replay.worker import typed_json

CALL = "source/call.json"  # the call that CuTe DSL compiled


class PythonCompiler(Compiler):
    """Numba, numba-cuda-mlir, cuTile or CuTe DSL."""

    def image(self, mangled: str, entry: str) -> Compiled:
        """PTX or a cubin with the kernel under its captured name. Raises BuildError with the compiler's own
        words."""
        language = self.tool.name
        made = self.folder / "made.image"
        if re.fullmatch(r"sm_\d+[af]?", self.arch) is None:
            raise BuildError(f"{self.arch}: {PYTHON_COMPILERS[language].name} compiles for no such device")
        request = python_process.Request(
            language=language,
            module=str(self.folder / self.staged.unit),
            entry=entry,
            kernel=mangled,
            arch=self.arch,
            out=str(made),
            types=_numba_types(mangled) if language.startswith("numba") else [],
        )
        if language == "cute-dsl":  # compiled is the function that launches the kernel
            request = dataclasses.replace(request, entry=self._host(), call=str(self.folder / CALL))
        what = f"{PYTHON_COMPILERS[language].name} {self.tool.version}"
        command = child.python(str(self.tool.path), Path(os.path.abspath(python_process.__file__)))
        text = typed_json.line(request).decode()
        caches = {"NUMBA_CACHE_DIR": str(self.folder), "CUDA_TILE_CACHE_DIR": "off"}
        done = run_tool(command, self.folder, what, text, caches, confined=self.confined)
        try:
            reply = typed_json.read(python_process.Reply, done.stdout)
        except typed_json.Unreadable:
            raise BuildError(f"{what}'s process ended with no answer", done.stderr[-65536:]) from None
        if not reply.available:
            raise BackendUnavailable(PYTHON_COMPILERS[language].name, reply.error)
        if reply.error:
            unit = self.staged.unit.rpartition("/")[2]
            place = f"{unit}({reply.line}): error: {reply.error}\n" if reply.line is not None else ""
            log = readable_log(place + reply.log, self.folder)
            raise BuildError(f"{what} does not compile the candidate: {reply.error}", log)
        data = made.read_bytes()
        log = readable_log(done.stderr, self.folder)
        if data.startswith(b"\x7fELF"):
            return Compiled(data, log)
        ptx = symbols.rename_in_ptx(data.decode("utf-8", "replace"), {reply.kernel: mangled})
        return Compiled(ptx.encode(), log, ptx)

    def _host(self) -> str:
        try:
            host: str = json.loads(self.staged.files[CALL])["host"]["name"]
        except (KeyError, ValueError, TypeError) as error:
            raise BuildError(f"{CALL}: it does not say what CuTe DSL compiled") from error
        return host


def _numba_types(mangled: str) -> list[Any]:
    name = numba_names.parse(mangled)
    if name is None or name.types is None:
        raise BuildError(f"{mangled}: the argument types can't be read from that name")
    return [_described(each) for each in name.types]


def _described(type_: Type) -> Any:
    if isinstance(type_, TupleType):
        return ["tuple", *map(_described, type_.items)]
    if isinstance(type_, ArrayType):
        return [
            "array", _described(type_.dtype), type_.ndim, type_.layout, type_.mutable, type_.aligned,
        ]  # fmt: skip
    return type_.name

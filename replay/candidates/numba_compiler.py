"""An edited Numba kernel: compiled by the Numba of the Python that replays."""

from __future__ import annotations

import os
import re
from pathlib import Path
from typing import Any

from kerncap import child
from kerncap.errors import BackendUnavailable
from kerncap.format import numba_names
from kerncap.format.numba_names import ArrayType, TupleType, Type
from kerncap.replay.candidates import numba_process, symbols
from kerncap.replay.candidates.compilers import Compiled, Compiler, readable_log, run_tool
from kerncap.replay.candidates.errors import BuildError
from kerncap.replay.worker import typed_json


class NumbaCompiler(Compiler):
    """Numba."""

    def ptx(self, mangled: str, entry: str) -> Compiled:
        """PTX with the kernel under its captured name. Raises BuildError with Numba's own words."""
        name = numba_names.parse(mangled)
        number = re.fullmatch(r"sm_(\d+)(\d)[af]?", self.arch)
        if name is None or name.types is None or number is None:
            raise BuildError(f"{mangled}: the argument types can't be read from that name")
        made = self.folder / "made.ptx"
        request = numba_process.Request(
            module=str(self.folder / self.staged.unit),
            entry=entry,
            types=[_described(each) for each in name.types],
            capability=(int(number[1]), int(number[2])),
            out=str(made),
        )
        what = f"Numba {self.tool.version}"
        command = child.python(str(self.tool.path), Path(os.path.abspath(numba_process.__file__)))
        text = typed_json.line(request).decode()
        environment = {"NUMBA_CACHE_DIR": str(self.folder)}
        done = run_tool(command, self.folder, what, text, environment, confined=self.confined)
        try:
            reply = typed_json.read(numba_process.Reply, done.stdout)
        except typed_json.Unreadable:
            raise BuildError(f"{what}'s process ended with no answer", done.stderr[-65536:]) from None
        if not reply.available:
            raise BackendUnavailable("Numba", reply.error)
        if reply.error:
            unit = self.staged.unit.rpartition("/")[2]
            place = f"{unit}({reply.line}): error: {reply.error}\n" if reply.line is not None else ""
            log = readable_log(place + reply.log, self.folder)
            raise BuildError(f"{what} does not compile the candidate: {reply.error}", log)
        ptx = symbols.rename_in_ptx(made.read_text(encoding="utf-8"), {reply.kernel: mangled})
        return Compiled(ptx.encode(), readable_log(done.stderr, self.folder), ptx)


def _described(type_: Type) -> Any:
    if isinstance(type_, TupleType):
        return ["tuple", *map(_described, type_.items)]
    if isinstance(type_, ArrayType):
        return [
            "array", _described(type_.dtype), type_.ndim, type_.layout, type_.mutable, type_.aligned,
        ]  # fmt: skip
    return type_.name

"""A staged unit through a compiler: one call each, its words kept."""

from __future__ import annotations

import os
import re
import subprocess
import sys
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path

from kerncap import child
from kerncap.errors import BackendUnavailable
from kerncap.replay.candidates.errors import BuildError
from kerncap.replay.candidates.tools import Tool
from kerncap.replay.candidates.unit import StagedUnit
from kerncap.replay.worker.protocol import Place

TIMEOUT_S = 900.0
_BOOTSTRAP = Path(__file__).parents[1] / "worker" / "bootstrap.py"
MAX_LOG = 64 * 1024
_NOT_STARTED = (126, 127)  # of a shell


@dataclass(frozen=True)
class Compiled:
    """``data`` is a cubin, PTX or code object; ``ptx`` the PTX of the same compilation, if there is one."""

    data: bytes
    log: str
    ptx: str = ""
    read: tuple[str, ...] = ()  # files outside of the unit that it was made of


@dataclass(frozen=True)
class Confined:
    """What a compiler of a stranger's source does not read (``hidden``: results), and what it does."""

    source: Path
    hidden: tuple[Path, ...]
    readable: tuple[str, ...] = ()

    def prefix(self, folder: Path) -> list[str]:
        """The words before its command line: a Python that gives up all other rights, and becomes it."""
        words = [str(folder), str(self.source), *map(str, self.hidden), "--", *self.readable, "--"]
        return child.python(sys.executable, _BOOTSTRAP, "confined_program", *words)


@dataclass
class Compiler:
    """A compiler of a unit that was written below ``folder``; ``confined`` as for `run_tool`."""

    tool: Tool
    staged: StagedUnit
    folder: Path
    arch: str
    confined: Confined | None


def outside_files(rules: Path, folder: Path) -> tuple[str, ...]:
    """The files that a dependency file names, those below ``folder`` left out."""
    text = rules.read_text(errors="replace").partition(":")[2].replace("\\\n", " ")
    names = (name.replace("\\ ", " ") for name in re.split(r"(?<!\\)\s+", text) if name)
    paths = dict.fromkeys(os.path.normpath(os.path.join(folder, name)) for name in names)
    return tuple(path for path in paths if not path.startswith(f"{folder}/"))


_PLACE = re.compile(
    r"^(?P<file>[^\s():][^():\n]*?)(?:\((?P<line>\d+)\)|:(?P<gcc>\d+)(?::(?P<column>\d+))?)\s*:"
    r"\s*(?:catastrophic |fatal )?error",
    re.MULTILINE,
)
_PTXAS_PLACE = re.compile(r"(?P<file>[^\s,]+), line (?P<line>\d+);\s*(?:fatal|error)")


def first_place(log: str) -> Place:
    """The place of the first error in a compiler's log.

    Forms: nvcc's and NVRTC's ``file(12): error``, the host compiler's ``file:12:5: error``, and
    ``file, line 12;`` of ptxas.
    """
    found = _PLACE.search(log)
    if found is not None:
        column = int(found["column"]) if found["column"] else None
        return Place(found["file"], int(found["line"] or found["gcc"]), column)
    assembled = _PTXAS_PLACE.search(log)
    return Place() if assembled is None else Place(assembled["file"], int(assembled["line"]))


def first_error(log: str) -> str:
    """The line of a compiler's output that says what is wrong."""
    lines = [line.strip() for line in log.splitlines() if line.strip()]
    for mark in ("error", "fatal"):
        for line in lines:
            if mark in line.lower():
                return line[:400]
    return lines[-1][:400] if lines else ""


# Of clang, of nvcc's preprocessor and of NVRTC; of lld, for AMD GPUs, and of ptxas.
_NO_HEADER = re.compile(
    r"'([^'\n]+)' file not found|fatal error: (\S+): No such file|cannot open source file \"([^\"\n]+)\""
)
_UNDEFINED = re.compile(r"error: undefined (?:\w+ )?symbol: (.+)|Unresolved extern \w+ '([^']+)'")


def headers_not_found(log: str) -> frozenset[str]:
    return frozenset("".join(each) for each in _NO_HEADER.findall(log))


def undefined_names(log: str) -> frozenset[str]:
    """The functions and variables of device code that a linker or assembler did not find."""
    return frozenset("".join(each) for each in _UNDEFINED.findall(log))


def run_tool(
    command: list[str],
    folder: Path,
    what: str,
    text: str | None = None,
    environment: Mapping[str, str] | None = None,
    confined: Confined | None = None,
) -> subprocess.CompletedProcess[str]:
    """A compiler to its end, working in ``folder``, without any rights that it does not need if ``confined``.

    Raises BuildError if it has no end.
    """
    environment = {**os.environ, **(environment or {}), "TMPDIR": str(folder)}
    if confined is not None:
        command = [*confined.prefix(folder), child.program(command[0]), *command[1:]]
    try:
        done = child.run_text(command, cwd=folder, env=environment, data=text, timeout=TIMEOUT_S)
    except subprocess.TimeoutExpired as error:
        raise BuildError(f"{what} did not end within {TIMEOUT_S:g} s") from error
    except OSError as error:
        raise BackendUnavailable(what, str(error)) from error
    if confined is not None and (done.returncode in _NOT_STARTED or "PermissionError" in done.stderr):
        said = (done.stderr.strip().splitlines() or [f"status {done.returncode}"])[-1]
        raise BackendUnavailable(
            what, f"confined, a part of it can't be started ({said}); name it in CUDA_HOME or ROCM_PATH"
        )
    return done


def readable_log(text: str, folder: Path) -> str:
    """A log without the temporary folder's name: paths as the reproducer has them."""
    return text.replace(f"{folder}/", "")[-MAX_LOG:]

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
from kerncap.format.build_options import is_plain_path
from kerncap.replay.candidates import nvrtc_process
from kerncap.replay.candidates.errors import BuildError
from kerncap.replay.candidates.tools import Tool
from kerncap.replay.candidates.unit import GIVEN_HEADERS, StagedUnit
from kerncap.replay.worker import typed_json
from kerncap.replay.worker.protocol import Place

TIMEOUT_S = 900.0
_BOOTSTRAP = Path(__file__).parents[1] / "worker" / "bootstrap.py"
_MAX_LOG = 64 * 1024
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


# Where nobody wrote down how the unit was compiled: these change no code, they only allow more.
_WITHOUT_RECORD = ("--extended-lambda", "--expt-relaxed-constexpr")


@dataclass
class Compiler:
    """A compiler of a unit that was written below ``folder``; ``confined`` as for `run_tool`."""

    tool: Tool
    staged: StagedUnit
    folder: Path
    arch: str
    confined: Confined | None


@dataclass
class NvccCompiler(Compiler):
    """nvcc."""

    def __post_init__(self) -> None:
        if not is_plain_path(str(self.folder)):
            raise BuildError(f"{self.folder}: nvcc can't work in a folder of that name; set TMPDIR")

    def cubin(self) -> Compiled:
        """Compile the unit for the captured architecture alone. Raises BuildError with nvcc's own words."""
        unit = str(self.folder / self.staged.unit)
        rules = self.folder / "made.d"
        words = [*self._words(), "-MD", "-MF", str(rules)]
        log, data = self._run("-cubin", [unit], "made.cubin", words)
        return Compiled(data, log, read=outside_files(rules, self.folder))

    def ptx(self) -> Compiled:
        """The unit's PTX."""
        log, data = self._run("-ptx", [str(self.folder / self.staged.unit)], "made.ptx", self._words())
        return Compiled(data, log, data.decode("utf-8", "replace"))

    def assemble(self, ptx: str) -> Compiled:
        """A cubin of PTX, with those of the options that the assembler has."""
        path = self.folder / "renamed.ptx"
        path.write_text(ptx, encoding="utf-8")
        kept = [
            word
            for word in self.staged.options(self.folder, "nvcc")
            if word.startswith(("-Xptxas", "--ptxas-options", "-G", "-lineinfo", "-maxrregcount"))
        ]
        log, data = self._run("-cubin", [str(path)], "assembled.cubin", kept)
        return Compiled(data, log)

    def _words(self) -> list[str]:
        words = self.staged.options(self.folder, "nvcc")
        if self.staged.build.directory is None:  # no compile command was found: the image told the rest
            words += [word for word in _WITHOUT_RECORD if word not in words]
        if any(path.startswith(GIVEN_HEADERS) for path in self.staged.files):
            words.append(f"-I{self.folder / GIVEN_HEADERS}")
        for form, path in self.staged.include_folders(self.folder):
            words += ["-isystem", path] if form == "system" else [f"-I{path}"]
        if not self.staged.unit.endswith(".cu"):
            words += ["-x", "cu"]
        return words

    def _run(self, mode: str, inputs: list[str], name: str, words: list[str]) -> tuple[str, bytes]:
        made = self.folder / name
        command = [str(self.tool.path), mode, f"-arch={self.arch}", *words, *inputs, "-o", str(made)]
        done = run_tool(command, self.folder, f"nvcc {self.tool.version}", confined=self.confined)
        log = readable_log(done.stdout + done.stderr, self.folder)
        if done.returncode or not made.is_file():
            raise BuildError(
                f"nvcc {self.tool.version} does not compile the candidate: {first_error(log)}", log
            )
        return log, made.read_bytes()


class NvrtcCompiler(Compiler):
    """NVRTC, in a process that it may take down."""

    def cubin(self, expressions: tuple[str, ...]) -> Compiled:
        """Compile the program. Raises BuildError with NVRTC's log."""
        answer = self._ask(expressions)
        if not answer.available:
            raise BackendUnavailable("NVRTC", answer.error)
        log = readable_log(answer.log, self.folder)
        if answer.error:
            what = first_error(log) or answer.error
            raise BuildError(f"NVRTC {self.tool.version} does not compile the candidate: {what}", log)
        ptx = (self.folder / "made.ptx").read_bytes().rstrip(b"\0").decode("utf-8", "replace")
        return Compiled((self.folder / "made.cubin").read_bytes(), log, ptx)

    def _ask(self, expressions: tuple[str, ...]) -> nvrtc_process.Reply:
        build = self.staged.build
        given = [
            (name, _text(self.staged.files[path]))
            for name, path in build.headers.items()
            if path.startswith(GIVEN_HEADERS)
        ]
        request = nvrtc_process.Request(
            library=str(self.tool.path),
            folder=str(self.folder),
            source=_text(self.staged.files[build.unit]),
            name=build.name or "candidate.cu",
            headers=given,
            options=[f"--gpu-architecture={self.arch}", *self._words()],
            expressions=list(expressions),
        )
        command = [sys.executable, "-I", "-S", os.path.abspath(nvrtc_process.__file__)]
        text = typed_json.line(request).decode()
        done = run_tool(command, self.folder, "NVRTC", text, confined=self.confined)
        try:
            return typed_json.read(nvrtc_process.Reply, done.stdout)
        except typed_json.Unreadable:
            how = f"signal {-done.returncode}" if done.returncode < 0 else f"status {done.returncode}"
            detail = done.stderr[-_MAX_LOG:]
            raise BuildError(f"NVRTC's process ended with {how} and no answer", detail) from None

    def _words(self) -> list[str]:
        folders = [path for _, path in self.staged.include_folders(self.folder)]
        if self.tool.include is not None:
            folders.append(str(self.tool.include))
            folders += [str(path) for path in (self.tool.include / "cccl",) if path.is_dir()]
        words = self.staged.options(self.folder, "nvrtc")
        return words + [f"--include-path={path}" for path in dict.fromkeys(folders)]


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


def run_tool(
    command: list[str],
    folder: Path,
    what: str,
    text: str | None = None,
    environment: Mapping[str, str] | None = None,
    confined: Confined | None = None,
) -> subprocess.CompletedProcess[str]:
    """A compiler to its end, working in ``folder``, without any rights that it does not need if ``confined``.

    Raises BuildError where it has no end.
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
    return text.replace(f"{folder}/", "")[-_MAX_LOG:]


def _text(data: bytes) -> str:
    return data.decode("utf-8", "surrogateescape")

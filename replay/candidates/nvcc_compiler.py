"""A unit of CUDA C++ through nvcc."""

from __future__ import annotations

from dataclasses import dataclass

from kerncap.format.build_options import is_plain_path
from kerncap.replay.candidates import reach, symbols
from kerncap.replay.candidates.compilers import (
    Compiled,
    Compiler,
    first_error,
    outside_files,
    readable_log,
    run_tool,
)
from kerncap.replay.candidates.errors import BuildError
from kerncap.replay.candidates.unit import GIVEN_HEADERS

# Where nobody wrote down how the unit was compiled: these change no code, they only allow more.
_WITHOUT_RECORD = ("--extended-lambda", "--expt-relaxed-constexpr")


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

    def ptx(self, *more: str) -> Compiled:
        """The unit's PTX. ``more``: options beyond the unit's."""
        words = [*self._words(), *more]
        log, data = self._run("-ptx", [str(self.folder / self.staged.unit)], "made.ptx", words)
        return Compiled(data, log, data.decode("utf-8", "replace"))

    def cubin_of_kernel_alone(self, names: tuple[str, ...]) -> Compiled:
        """The kernel of `symbols.captured_names` (``names``) and what it leads to. Raises as `cubin`."""
        rules = self.folder / "made.d"
        text = self.ptx("-MD", "-MF", str(rules)).ptx
        read = outside_files(rules, self.folder)
        alone = reach.kernel_alone(text, symbols.entry_in_ptx(text, names) or names[0])
        made = self.assemble(alone)
        return Compiled(made.data, made.log, alone, read)

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

"""A unit of CUDA C++ as PTX in which functions of the math library are calls, for a proof."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path

from kerncap.errors import BackendUnavailable
from kerncap.format import Reproducer
from kerncap.format.kernel_names import parse
from kerncap.replay.candidates import symbols, tools
from kerncap.replay.candidates.build import check_ptx, confined_by, exact_arch, explicit_instantiation
from kerncap.replay.candidates.errors import BuildError
from kerncap.replay.candidates.nvcc_compiler import NvccCompiler
from kerncap.replay.candidates.unit import StagedUnit, private_folder, stage, stage_stored

# LLVM bitcode of a module with nothing in it but its version. nvcc takes it for the math library, which it
# would compile into the kernel otherwise: expf would be fifteen instructions on the bits of a float.
_NO_LIBRARY = bytes.fromhex("4243c0de210c0000010000000b820000")


@dataclass(frozen=True)
class Ptx:
    """``entry``: the kernel's name in ``text``; ``maker``: "nvcc 13.0"."""

    text: str
    entry: str
    maker: str


_TOOLS = ("nvcc", "nvrtc")


def has_unit(reproducer: Reproducer) -> bool:
    """Whether it says how nvcc compiles its source."""
    source = reproducer.manifest.source
    return source is not None and source.build is not None and source.build.tool in _TOOLS


def ptx_of(
    reproducer: Reproducer, candidate: Path | None, python: str | None = None, *, hostile: bool = False
) -> Ptx:
    """PTX of a candidate, or of the reproducer's own source. A candidate that is PTX comes back as it is.

    ``hostile``: nvcc is confined, and reads nothing of the reproducer but the unit.
    Raises BuildError with the compiler's words, BackendUnavailable if there is no nvcc.
    """
    if candidate is not None and candidate.suffix == ".ptx":
        check_ptx(reproducer, candidate)
        entry = symbols.captured_names(reproducer.manifest)[0]
        return Ptx(candidate.read_text(encoding="utf-8", errors="replace"), entry, candidate.name)
    staged = stage_stored(reproducer) if candidate is None else stage(reproducer, candidate)
    if staged.build.tool not in _TOOLS:
        raise BackendUnavailable("PTX", f"its source is compiled by {staged.build.tool}, not by nvcc")
    tool = tools.nvcc(python)
    if isinstance(tool, str):
        raise BackendUnavailable("nvcc", tool)
    arch = exact_arch(reproducer.manifest.device.arch or "sm_90", staged.build.arch)
    with private_folder() as name:
        folder = Path(name)
        staged.write(folder)
        confined = None
        if hostile and candidate is not None:
            confined = confined_by(staged, tool, candidate, (reproducer.path,))
        return _compiled(reproducer, staged, NvccCompiler(tool, staged, folder, arch, confined), folder)


def _compiled(reproducer: Reproducer, staged: StagedUnit, nvcc: NvccCompiler, folder: Path) -> Ptx:
    library = folder / "no_library.bc"
    library.write_bytes(_NO_LIBRARY)
    words = ("-Xcicc", "-nvvmir-library", "-Xcicc", str(library))
    captured = symbols.captured_names(reproducer.manifest)
    name = parse(captured[0], reproducer.manifest.kernel.qualified_name)
    text = nvcc.ptx(*words).ptx
    if (
        symbols.entry_in_ptx(text, captured) is None
        and (instance := explicit_instantiation(name)) is not None
    ):
        unit = folder / staged.unit
        unit.write_bytes(staged.files[staged.unit] + b"\n" + instance.encode() + b"\n")
        text = nvcc.ptx(*words).ptx
    entry = symbols.entry_in_ptx(text, captured)
    if entry is None:
        found = symbols.listing(symbols.kernels_of_ptx(text))
        raise BuildError(f"no kernel {symbols.readable(captured[0])} in the source, it has {found}")
    # Names with a hash of the file's path, as they were captured.
    variables = symbols.renames([*_words(text)], captured)
    text = symbols.rename_in_ptx(text, variables)
    return Ptx(text, variables.get(entry, entry), f"nvcc {nvcc.tool.version}")


def _words(text: str) -> set[str]:
    return {*symbols.kernels_of_ptx(text), *symbols.variables_of_ptx(text)}

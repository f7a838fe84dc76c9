"""An edited source file made into an image that has the captured kernel, under its captured name."""

from __future__ import annotations

import hashlib
import os
import re
from collections.abc import Callable, Collection, Sequence
from dataclasses import dataclass
from pathlib import Path

import msgspec

from kerncap.errors import BackendUnavailable, UsageError
from kerncap.format import Reproducer
from kerncap.format.code_object import CodeObject, CodeObjectProblem
from kerncap.format.elf import Elf
from kerncap.format.kernel_names import KernelName, parse
from kerncap.replay.candidates import cache, reach, symbols, tools
from kerncap.replay.candidates.compilers import (
    Compiled,
    Compiler,
    Confined,
    headers_not_found,
    undefined_names,
)
from kerncap.replay.candidates.errors import BuildError
from kerncap.replay.candidates.hip_compiler import HipCompiler
from kerncap.replay.candidates.hiprtc_compiler import HiprtcCompiler
from kerncap.replay.candidates.nvcc_compiler import NvccCompiler
from kerncap.replay.candidates.nvrtc_compiler import NvrtcCompiler
from kerncap.replay.candidates.python_compiler import PythonCompiler
from kerncap.replay.candidates.tools import PYTHON_COMPILERS, Tool
from kerncap.replay.candidates.unit import (
    BuildTool,
    StagedUnit,
    private_folder,
    stage,
    stage_new,
    stage_stored,
)
from kerncap.replay.worker import cuda_bindings

SUFFIXES = frozenset(
    (".cu", ".cuh", ".hip", ".cpp", ".cc", ".cxx", ".h", ".hpp", ".hh", ".hxx", ".inl", ".inc", ".ptx")
)
MODULES = frozenset((".py",))  # of a launch whose source is Python
HIP_TOOLS = ("hipcc", "hiprtc")
_GIVE_IMAGE = "give the image that the application's build links as the candidate"
_EXTERN_VARIABLE = re.compile(r"extern declaration of the entity (\S+) is treated as a static definition")
# Of a hash of the compiler's own command line. Source: clang, CodeGenModule::printPostfixForExternalizedDecl.
_NAMED_BY_UNIT = re.compile(r"\.(?:static|intern)\.[0-9a-f]+$")
_CACHE_VERSION = 2
# Variables that change what compilers make of the same words.
_READ_BY_COMPILERS = (
    "NVCC_PREPEND_FLAGS", "NVCC_APPEND_FLAGS", "NVCC_CCBIN", "CPATH", "CPLUS_INCLUDE_PATH", "ROCM_PATH",
    "HIP_PATH", "HIP_CLANG_PATH", "HIP_DEVICE_LIB_PATH", "DEVICE_LIB_PATH", "HIPCC_COMPILE_FLAGS_APPEND",
)  # fmt: skip


@dataclass(frozen=True)
class Built:
    """``path``: a cubin, code object or PTX, by its suffix (a PTX candidate itself); ``log``: its words."""

    path: Path
    tool: str
    log: str = ""
    cached: bool = False
    edited: tuple[str, ...] = ()  # the stored files that the candidate changes


def suffixes(reproducer: Reproducer) -> frozenset[str]:
    """Of the files that can be made into this reproducer's kernel."""
    source = reproducer.manifest.source
    build = source.build if source is not None else None
    is_python = build is not None and build.tool in PYTHON_COMPILERS
    return MODULES | {".ptx"} if is_python else SUFFIXES


def build(reproducer: Reproducer, path: Path, arch: str, out: Path, python: str | None = None) -> Path:
    """An image of the candidate ``path`` for ``arch`` ("sm_90", "gfx90a"), in the folder (or file) ``out``.

    The captured kernel is in it under its captured name. PTX comes back as it is: the driver assembles it.
    Raises BuildError with the compiler's own words, BackendUnavailable if there is no compiler here,
    FormatError for a damaged reproducer, UsageError for a file that is no source.
    """
    return compile_candidate(reproducer, path, arch, out, python).path


def compile_candidate(
    reproducer: Reproducer,
    path: Path,
    arch: str,
    out: Path,
    python: str | None = None,
    hidden: tuple[Path, ...] | None = None,
    prefix: tuple[str, ...] = (),
    options: tuple[str, ...] | None = None,
) -> Built:
    """As `build`, with what the compiler said. ``python``: whose site-packages may hold NVIDIA's wheels.

    ``hidden``: the source is a stranger's. The compiler is confined, and reads nothing of these folders.
    ``prefix``: the words that start a program where ROCm is (an emulator's).
    ``options``: in place of the recorded ones.
    """
    accepted = suffixes(reproducer)
    if path.suffix not in accepted:
        raise UsageError(f"{path}: a candidate to build is one of {', '.join(sorted(accepted))}")
    if path.suffix == ".ptx":
        return check_ptx(reproducer, path)
    names = (symbols.captured_names(reproducer.manifest), reproducer.manifest.kernel.qualified_name)

    def made(staged: StagedUnit, out: Path) -> Built:
        if options is not None:
            staged.build = msgspec.structs.replace(staged.build, options=options)
        return _built(
            staged, path, arch, out, python, hidden, names,
            lambda compiler: _Builder(reproducer, compiler, prefix).make(),
        )  # fmt: skip

    try:
        return made(stage(reproducer, path), out)
    except BuildError as error:
        _check_that_headers_were_found(error, lambda folder: made(stage_stored(reproducer), folder))
        raise


def _check_that_headers_were_found(error: BuildError, build_stored: Callable[[Path], Built]) -> None:
    """Raise BackendUnavailable if the captured unit lacks the headers that the candidate lacks."""
    headers = headers_not_found(error.detail)
    if not headers:
        return
    with private_folder() as folder:
        try:
            build_stored(Path(folder))
        except BuildError as stored:
            if headers <= headers_not_found(stored.detail):
                reason = f"the capture found no {', '.join(sorted(headers))}"
                raise BackendUnavailable(
                    "a rebuild", f"{reason}; capture it with a compile_commands.json"
                ) from error


def compile_new(
    like: Reproducer | None,
    on_hip: bool,
    path: Path,
    text: bytes,
    arch: str,
    out: Path,
    python: str | None = None,
    hidden: tuple[Path, ...] | None = None,
    prefix: tuple[str, ...] = (),
) -> Built:
    """The image of a unit that no application had: ``text``, of the file ``path``.

    ``like``: a launch whose source it is compiled like, if there is one; the rest is as of
    `compile_candidate`.
    """
    tool: BuildTool
    if on_hip:
        tool = "hipcc" if isinstance(tools.hipcc(python), Tool) else "hiprtc"
    else:
        tool = "nvcc" if isinstance(tools.nvcc(python), Tool) else "nvrtc"
    staged = stage_new(like, tool, path, text)
    return _built(
        staged, path, arch, out, python, hidden, (), lambda compiler: _compiled(compiler, (), prefix)
    )


def _built(
    staged: StagedUnit, path: Path, arch: str, out: Path, python: str | None, hidden: tuple[Path, ...] | None,
    names: tuple[object, ...], make: Callable[[Compiler], Compiled],
) -> Built:  # fmt: skip
    """A unit made into an image, or out of the cache; ``names``: what else decides what ``make`` makes."""
    exact = exact_arch(arch, staged.build.arch)
    tool = _compiler(staged, python)
    on_hip = staged.build.tool in HIP_TOOLS
    target = out / f"{path.stem}.{'hsaco' if on_hip else 'cubin'}" if out.is_dir() else out
    key = _key(staged, exact, tool, names)
    # NVRTC doesn't say which headers it read: only what can't depend on any is kept.
    # A Python module may import anything, and which ROCm hip-python finds is not known here.
    keeps = tool.name not in (*PYTHON_COMPILERS, "hiprtc") and (tool.name != "nvrtc" or staged.is_closed)
    data = cache.get(key) if keeps else None
    log, cached = "", data is not None
    if data is None:
        with private_folder() as folder:
            staged.write(Path(folder))
            confined = None if hidden is None else confined_by(staged, tool, path, hidden)
            compiler = _COMPILERS[tool.name](tool, staged, Path(folder), exact, confined)
            made = make(compiler)
        data, log = made.data, made.log
        if keeps:
            cache.put(key, data, made.read)
    if not data.startswith(b"\x7fELF"):  # PTX, if only the driver can assemble it
        target = target.with_suffix(".ptx")
    target.parent.mkdir(parents=True, exist_ok=True)
    target.write_bytes(data)
    return Built(target, f"{tool.name} {tool.version}", log, cached, tuple(staged.edited))


_COMPILERS: dict[str, type[Compiler]] = {
    "nvcc": NvccCompiler,
    "nvrtc": NvrtcCompiler,
    "hipcc": HipCompiler,
    "clang": HipCompiler,
    "hiprtc": HiprtcCompiler,
    **dict.fromkeys(PYTHON_COMPILERS, PythonCompiler),
}


def _compiled(compiler: Compiler, expressions: tuple[str, ...], prefix: tuple[str, ...]) -> Compiled:
    """``expressions``: kernels that a compiler at run time has to be asked for."""
    if isinstance(compiler, HipCompiler):
        return compiler.code_object()
    if isinstance(compiler, NvccCompiler):
        return compiler.cubin()
    if isinstance(compiler, HiprtcCompiler):
        return compiler.code_object(expressions, prefix)
    assert isinstance(compiler, NvrtcCompiler)
    return compiler.cubin(expressions)


class _Builder:
    """Tries what may give the captured kernel's name, the plain way first."""

    def __init__(self, reproducer: Reproducer, compiler: Compiler, prefix: tuple[str, ...]) -> None:
        manifest = reproducer.manifest
        self.captured = symbols.captured_names(manifest)
        self.mangled = self.captured[0]
        self.name = parse(self.mangled, manifest.kernel.qualified_name)
        self.compiler = compiler
        self.staged = compiler.staged
        self.prefix = prefix
        self.entry = manifest.source.entry if manifest.source is not None else ""
        self.parameters = manifest.launch.parameters

    def make(self) -> Compiled:
        if isinstance(self.compiler, PythonCompiler):
            made = self.compiler.image(self.mangled, self.entry)
            return made if made.ptx else self._checked(made)
        made = self._compile()
        found = self._named(made)
        if found is None and self.name.template_arguments is not None:
            # The edited unit may no longer use the template as the application did.
            found = self._instantiated(made)
        if found is None:
            raise BuildError(self._why_not(made), made.log)
        return found

    def _checked(self, made: Compiled) -> Compiled:
        """``made``, if it is a cubin with the captured kernel."""
        found = self._named(made)
        if found is None:
            raise BuildError(self._why_not(made), made.log)
        return found

    def _compile(self) -> Compiled:
        expressions = self.staged.build.name_expressions
        if self.name.template_arguments and not self.name.has_lambda and not expressions:
            expressions = (self.name.qualified,)
        try:
            return _compiled(self.compiler, expressions, self.prefix)
        except BuildError as error:
            names = undefined_names(error.detail)
            if not names:
                raise
            return self._kernel_alone(error, names)

    def _kernel_alone(self, error: BuildError, names: frozenset[str]) -> Compiled:
        """Without what only other kernels of the unit lead to.

        Raises BackendUnavailable if the kernel leads to some of ``names``: another unit may define them, and
        no image says for certain that it is of one unit (with -dlto, ptxas makes it as it does without).
        """
        try:
            if isinstance(self.compiler, HipCompiler):
                names = self.compiler.undefined(self.mangled)
                if not names:
                    return self.compiler.code_object_with_undefined()
            elif isinstance(self.compiler, NvccCompiler):
                return self.compiler.cubin_of_kernel_alone(self.captured)
        except BuildError as alone:
            names = undefined_names(alone.detail) or names
        raise self._needs(names) from error

    def _named(self, made: Compiled) -> Compiled | None:
        """``made`` with every captured name as it was captured; None if the kernel is not in it."""
        if isinstance(self.compiler, HipCompiler | HiprtcCompiler):
            return self._in_code_object(made)
        try:
            kernels = symbols.kernels_of_cubin(made.data)
            present = (*kernels, *symbols.variables_of_cubin(made.data))
        except ValueError as error:
            raise BuildError(f"the compiler made no cubin that can be read: {error}", made.log) from error
        changed = symbols.renames(present, self.captured)
        if self.mangled not in kernels and self.mangled not in changed.values():
            return None
        self._check_variables_of_other_units(made, present)
        if not changed:
            return made
        return self._renamed(made, changed)

    def _check_variables_of_other_units(self, made: Compiled, present: Sequence[str]) -> None:
        """Raise BackendUnavailable if the kernel uses one whose content was not captured.

        In a unit that is compiled alone it is a variable of the unit's own, all zeros.
        """
        declared = _EXTERN_VARIABLE.findall(made.log)
        unknown = {name for name in present if symbols.readable(name) in declared} - {*self.captured}
        if unknown and isinstance(self.compiler, NvccCompiler):
            text = made.ptx or self.compiler.ptx().ptx
            entry = symbols.entry_in_ptx(text, self.captured)
            unknown &= reach.names_in_ptx(text, entry or self.mangled)
        if unknown:
            raise self._needs(unknown)

    def _needs(self, names: Collection[str]) -> BackendUnavailable:
        listed = symbols.listing(sorted(names))
        return BackendUnavailable(
            "a rebuild", f"{self.name.base} needs {listed}, which its unit does not define; {_GIVE_IMAGE}"
        )

    def _in_code_object(self, made: Compiled) -> Compiled | None:
        try:
            kernel = CodeObject(made.data).kernel(self.mangled)
        except CodeObjectProblem as error:
            raise BuildError(
                f"the compiler made no code object that can be read: {error}", made.log
            ) from error
        self._check_names_of_unit(made.data)
        if kernel is None:
            return None
        captured = self.parameters.layout if self.parameters is not None else None
        layout = tuple((each.offset, each.size) for each in kernel.explicit)
        if captured is not None and layout != captured:  # a C name does not say its parameters
            raise BuildError(
                f"the candidate's {self.name.base} takes other parameters than the captured one: "
                f"{_sizes(layout)} bytes, captured were {_sizes(captured)}"
            )
        return made

    def _check_names_of_unit(self, data: bytes) -> None:
        """Raise BackendUnavailable for static names that -fgpu-rdc made in the application's build."""
        present = {symbol.name for symbol in Elf(data).symbols()}
        for name in self.captured:
            plain = _NAMED_BY_UNIT.sub("", name)
            if plain in present and name not in present:
                raise BackendUnavailable(
                    "a rebuild", f"-fgpu-rdc named {plain} {name} for its unit in the build; {_GIVE_IMAGE}"
                )

    def _renamed(self, made: Compiled, changed: dict[str, str]) -> Compiled:
        """Names that hold a hash of the file's path are put back as they were: memory is restored by name."""
        if not isinstance(self.compiler, NvccCompiler):
            text = symbols.rename_in_ptx(made.ptx, changed)
            return Compiled(text.encode(), made.log, text)  # the driver assembles it
        text = symbols.rename_in_ptx(made.ptx or self.compiler.ptx().ptx, changed)
        done = self.compiler.assemble(text)
        return Compiled(done.data, made.log + done.log, text, made.read)

    def _instantiated(self, made: Compiled) -> Compiled | None:
        text = explicit_instantiation(self.name)
        if isinstance(self.compiler, NvrtcCompiler | HiprtcCompiler) or text is None:
            return None
        unit = self.staged.files[self.staged.unit]
        path = self.compiler.folder / self.staged.unit
        path.write_bytes(unit + b"\n" + text.encode() + b"\n")
        try:
            again = self._compile()
        except BuildError as error:
            raise BuildError(
                f"{self._why_not(made)}; nor can it be instantiated: {error}", error.detail
            ) from error
        return self._named(again)

    def _why_not(self, made: Compiled) -> str:
        kernels = symbols.kernels_of(made.data)
        wanted = self.name.base
        same = [name for name in kernels if parse(name).base == wanted]
        if same:
            return (
                f"the candidate's {wanted} is not the captured one: its parameters, template arguments or "
                f"namespaces differ ({self.mangled} was captured, here: {', '.join(same[:4])})"
            )
        return (
            f"the candidate has no kernel {symbols.readable(self.mangled)}, "
            f"it has {symbols.listing(kernels)}: "
            "a candidate keeps its name and parameters"
        )


def _sizes(layout: Sequence[tuple[int, int]]) -> str:
    return ", ".join(str(size) for _, size in layout) or "no"


def explicit_instantiation(name: KernelName) -> str | None:
    """The C++ line that makes a template's instance; None if the name has parts that C++ can't say."""
    if name.template_arguments is None or name.parameters is None:
        return None
    text = f"template __global__ void {name.qualified}({', '.join(name.parameters)});"
    text = text.replace("(anonymous namespace)::", "")
    if re.search(r"lambda|\{|#\d|\bauto\b|'", text):
        return None
    return text


def check_ptx(reproducer: Reproducer, path: Path) -> Built:
    try:
        text = path.read_text(encoding="utf-8", errors="replace")
    except OSError as error:
        raise BuildError(f"{path}: {error.strerror or error}") from error
    wanted = symbols.captured_names(reproducer.manifest)[0]
    entries = symbols.kernels_of_ptx(text)
    if wanted not in entries:
        raise BuildError(f"{path}: no .entry {wanted}; it has {symbols.listing(entries)}")
    return Built(path, "the driver's assembler")


def _compiler(staged: StagedUnit, python: str | None) -> Tool:
    """The recipe's compiler; nvcc serves for an NVRTC program too, hipcc for one of HIPRTC."""
    if staged.build.tool in HIP_TOOLS:
        hipcc = tools.hipcc(python)
        if isinstance(hipcc, Tool):
            return hipcc
        if staged.build.tool == "hipcc":
            raise BackendUnavailable("hipcc", hipcc)
        hiprtc = tools.hiprtc(python)
        if isinstance(hiprtc, Tool):
            return hiprtc
        raise BackendUnavailable("HIPRTC", f"{hiprtc}; {hipcc}")
    if staged.build.tool in PYTHON_COMPILERS:
        compiler = tools.python_compiler(staged.build.tool, python)
        if isinstance(compiler, Tool):
            return compiler
        raise BackendUnavailable(PYTHON_COMPILERS[staged.build.tool].name, compiler)
    found = tools.nvrtc(python) if staged.build.tool == "nvrtc" else tools.nvcc(python)
    if isinstance(found, Tool):
        return found
    if staged.build.tool == "nvrtc":
        second = tools.nvcc(python)
        if isinstance(second, Tool):
            return second
    raise BackendUnavailable(staged.build.tool if staged.build.tool == "nvcc" else "NVRTC", found)


def confined_by(staged: StagedUnit, tool: Tool, path: Path, hidden: tuple[Path, ...]) -> Confined:
    """The toolkit, the headers that the application was built with, and what is installed may be read."""
    named = [os.environ.get(name, "") for name in (*tools.PREFIXES, *tools.ROCM_PREFIXES)]
    toolkit = [str(tool.path), str(tool.path.resolve().parent.parent), str(tool.include or ""), *named]
    toolkit.append(
        str(Path(__file__).resolve().parent)
    )  # the scripts that speak to NVRTC, HIPRTC and Python's compilers
    if tool.name == "nvrtc":
        toolkit.append(cuda_bindings.folder() or "")
    if tool.name in (*PYTHON_COMPILERS, "hiprtc"):  # the virtual environment
        toolkit.append(str(tool.path.parent.parent))
    headers = [folder for _, folder in staged.include_folders(Path("/nowhere")) if os.path.isdir(folder)]
    files = [os.path.expanduser(name) for name in (*staged.build.headers, staged.build.name or "")]
    originals = [os.path.dirname(file) for file in files if os.path.isabs(file)]
    return Confined(path, hidden, tuple(dict.fromkeys(filter(None, [*toolkit, *headers, *originals]))))


def exact_arch(arch: str, recorded: str | None) -> str:
    """ "sm_90a" if that was captured: its instructions exist for it alone; "gfx90a:xnack-" likewise."""
    if re.fullmatch(r"gfx[0-9a-z-]{1,32}", arch):
        same = recorded is not None and re.fullmatch(rf"{arch}(?::[a-z]{{1,16}}[+-]){{1,8}}", recorded)
        return recorded if same and recorded is not None else arch
    if not re.fullmatch(r"sm_\d{2,3}[af]?", arch):
        raise UsageError(f"{arch}: expected an architecture such as sm_90 or gfx90a")
    return recorded if recorded is not None and re.fullmatch(rf"{arch}[af]", recorded) else arch


def _key(staged: StagedUnit, arch: str, tool: Tool, names: tuple[object, ...]) -> str:
    """All that decides what is built: files, recipe, names, compiler, and original headers that are here."""
    folders = staged.include_folders(Path("/"))
    stat = tool.path.stat()
    environment = [os.environ.get(name) for name in _READ_BY_COMPILERS]
    parts = (
        _CACHE_VERSION, staged.digest(), arch, tool.name, str(tool.path), tool.version, stat.st_mtime_ns,
        stat.st_size, *names, folders, environment,
    )  # fmt: skip
    return hashlib.sha256(msgspec.json.encode(parts)).hexdigest()

"""What is asked about a kernel's source, and what is answered."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field
from pathlib import Path
from typing import Literal

from kerncap.format import schema

Parameter = tuple[str | None, str | None]  # its name and its C++ type, each None if not known


@dataclass(frozen=True)
class SourceRequest:
    """A kernel and where it came from. ``kind``, ``origin`` and ``mapped_from`` are the image's.

    ``cubin`` is the image's code for the captured device, ``ptx`` its PTX if it has any, ``program`` the file
    in which the shim wrote what was compiled at run time; ``graph`` reads the Triton hook's source graph;
    ``session`` is the folder in which the hook wrote what CuTe DSL compiled;
    ``python_stack`` has the frames (file, line, function) that launched it, innermost last. The rest is the
    process's.
    """

    mangled: str
    demangled: str = ""
    kind: str = "unknown"
    origin: str = ""
    mapped_from: str | None = None
    cubin: bytes | None = field(default=None, repr=False)
    ptx: str | None = field(default=None, repr=False)
    hsaco: bytes | None = field(default=None, repr=False)  # the code object, on an AMD GPU
    program: Path | None = None
    session: Path | None = None
    graph: Callable[[], bytes] | None = None
    python_stack: tuple[tuple[str, int, str], ...] = ()
    cwd: Path | None = None
    argv: tuple[str, ...] = ()
    executable: str | None = None
    source_dirs: tuple[Path, ...] = ()
    arch: str | None = None

    @property
    def tool(self) -> Literal["nvcc", "hipcc"]:
        """The compiler that made the image, as far as its architecture tells."""
        return "hipcc" if self.on_amd else "nvcc"

    @property
    def on_amd(self) -> bool:
        return self.hsaco is not None or (self.arch or "").startswith("gfx")


@dataclass(frozen=True)
class FoundFile:
    """A file for the reproducer: ``path`` below source/, ``original`` where it was or how it was included."""

    path: str
    original: str
    data: bytes = field(repr=False)


@dataclass(frozen=True)
class FoundSource:
    """The files of a kernel's source and how to compile them; or, in ``missing``, why there are none.

    ``file`` is the path (below source/) of the file that defines the kernel. ``functions`` are its names of
    the functions that the kernel was passed, ``unresolved`` those that have no value, ``parameters`` the
    kernel's own as the source declares them.
    """

    entry: str
    language: Literal["python", "numba", "python-dsl", "cuda", "hip", "ptx"] = "cuda"
    files: tuple[FoundFile, ...] = ()
    file: str | None = None
    build: schema.SourceBuild | None = None
    origins: tuple[schema.SourceOrigin, ...] = ()
    kernel_file: str | None = None
    kernel_line: int | None = None
    functions: tuple[str, ...] = ()
    parameters: tuple[Parameter, ...] = ()
    notes: tuple[str, ...] = ()
    unresolved: tuple[str, ...] = ()
    missing: str | None = None

    def store(self, add_source: Callable[[str, bytes], schema.StoredFile]) -> schema.Source | None:
        """Give every file to ``add_source`` (name below source/, bytes); None if there are none."""
        if self.file is None:
            return None
        stored = {each.path: add_source(each.path, each.data) for each in self.files}
        return schema.Source(
            file=stored[self.file],
            entry=self.entry[:4096],
            language=self.language,
            build=self.build,
            origins=self.origins,
            originals=tuple(file for path, file in stored.items() if path != self.file),
            missing=(*self.unresolved, *((self.missing[:4096],) if self.missing else ())),
        )

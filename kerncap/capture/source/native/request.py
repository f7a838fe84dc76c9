"""What is asked about a native kernel's source, and what is answered."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field
from pathlib import Path
from typing import Literal

from kerncap.format import schema


@dataclass(frozen=True)
class NativeRequest:
    """A kernel and where it came from. ``kind``, ``origin`` and ``mapped_from`` are the image's.

    ``cubin`` is the image's code for the captured device, ``ptx`` its PTX if it has any, ``nvrtc`` the file
    in which the shim wrote the NVRTC program; the rest is the process's.
    """

    mangled: str
    demangled: str = ""
    kind: str = "unknown"
    origin: str = ""
    mapped_from: str | None = None
    cubin: bytes | None = field(default=None, repr=False)
    ptx: str | None = field(default=None, repr=False)
    hsaco: bytes | None = field(default=None, repr=False)  # the code object, on an AMD GPU
    nvrtc: Path | None = None
    cwd: Path | None = None
    argv: tuple[str, ...] = ()
    executable: str | None = None
    source_dirs: tuple[Path, ...] = ()
    arch: str | None = None

    @property
    def tool(self) -> Literal["nvcc", "hipcc"]:
        """The compiler that made the image, as far as its architecture tells."""
        return "hipcc" if self.hsaco is not None or (self.arch or "").startswith("gfx") else "nvcc"


@dataclass(frozen=True)
class FoundFile:
    """A file for the reproducer: ``path`` below source/, ``original`` where it was or how it was included."""

    path: str
    original: str
    data: bytes = field(repr=False)


@dataclass(frozen=True)
class FoundSource:
    """The files of a kernel's source and how to compile them; or, in ``missing``, why there are none.

    ``file`` is the path (below source/) of the file that defines the kernel. ``source_known`` is False where
    only PTX was found. ``parameters`` are the kernel's (type, name) as its definition says them, None where
    it was not parsed: a template's types are its own names for them.
    """

    entry: str
    language: Literal["cuda", "hip", "ptx"] = "cuda"
    files: tuple[FoundFile, ...] = ()
    file: str | None = None
    build: schema.SourceBuild | None = None
    origins: tuple[schema.SourceOrigin, ...] = ()
    kernel_file: str | None = None
    kernel_line: int | None = None
    parameters: tuple[tuple[str, str], ...] | None = None
    notes: tuple[str, ...] = ()
    missing: str | None = None

    @property
    def source_known(self) -> bool:
        return self.file is not None and self.language != "ptx"

    def store(self, add_source: Callable[[str, bytes], schema.StoredFile]) -> schema.Source | None:
        """Give every file to ``add_source`` (name below source/, bytes); None where there are none."""
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
            missing=(self.missing[:4096],) if self.missing else (),
        )

"""Lines of the process that compiles ahead (`torch_backend/compile_ahead.py`), both ways."""

from __future__ import annotations

from dataclasses import dataclass

from .protocol import Config, Failure


@dataclass(frozen=True)
class Target:
    """What is compiled for: a capability (90), or that of CUDA device ``device``."""

    device: int
    capability: int | None = None


@dataclass(frozen=True)
class Compilation:
    """What is asked: a configuration of the job of that number."""

    id: int
    job: int
    config: Config
    limit_s: float


@dataclass(frozen=True)
class Compiling:
    """The first line: what is compiled for, and the shared memory that a block may ask for."""

    capability: int
    shared_bytes: int | None


@dataclass(frozen=True)
class CompilationEnded:
    """How a compilation ended; ``error`` is empty if it went well."""

    id: int
    error: str = ""
    detail: str = ""
    shared_bytes: int = 0
    ms: float = 0.0


CompilerReply = Compiling | CompilationEnded | Failure

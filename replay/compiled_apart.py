"""Modules of a Triton launch as images, from processes that are confined: each is compiled once."""

from __future__ import annotations

import contextlib
import hashlib
import itertools
import threading
from collections.abc import Sequence
from concurrent.futures import Future
from pathlib import Path
from typing import TYPE_CHECKING

from kerncap.errors import KerncapError
from kerncap.replay.process import Program
from kerncap.replay.staging import Job
from kerncap.replay.worker.protocol import Image, Variation

if TYPE_CHECKING:
    from kerncap.replay.candidates.triton_image import Made


class CompiledApart:
    """What modules became, by their text and what they were compiled for."""

    def __init__(self, job: Job, python: str, limit_s: float, program: Program) -> None:
        """``program`` starts a compiler, by ``python`` or another one that has Triton."""
        self._job = job
        self._python = python
        self._limit_s = limit_s
        self._program = program
        self._made: dict[str, Future[Made]] = {}
        self._numbers = itertools.count()
        self._lock = threading.Lock()

    def image(self, path: Path, variation: Variation, arch: str) -> tuple[str, Image]:
        """The image of a module, and what its compiler says of it; from any thread.

        Raises CandidateError where it does not compile, BackendUnavailable where there is no compiler.
        """
        from kerncap.replay.candidates.triton_image import compile_triton

        key = repr((hashlib.sha256(path.read_bytes()).hexdigest(), variation, arch))
        with self._lock:
            is_new = key not in self._made
            built = self._made.setdefault(key, Future())
        if is_new:
            out = self._job.folder / f"apart-{next(self._numbers)}"
            try:
                out.mkdir()
                built.set_result(compile_triton(
                    self._job.path, path, arch, out, self._python, self._limit_s, self._program, variation
                ))  # fmt: skip
            except BaseException as error:
                self._made.pop(key, None)
                built.set_exception(error)
        made = built.result()
        return str(made.path), made.said

    def begin(self, paths: Sequence[Path], arch: str) -> None:
        """Begin to compile modules, which `image` will be asked for."""

        def ahead(path: Path) -> None:
            with contextlib.suppress(KerncapError, OSError):  # whoever asks for it is told
                self.image(path, Variation(), arch)

        for path in paths:
            threading.Thread(target=ahead, args=(path,), daemon=True).start()

    def clear(self) -> None:
        """Forget all: what a module imports may be another text by now."""
        self._made.clear()

"""Modules of a Triton launch as images, from processes that are confined: each is compiled once."""

from __future__ import annotations

import contextlib
import hashlib
import itertools
import threading
from pathlib import Path
from typing import TYPE_CHECKING

from kerncap.errors import KerncapError
from kerncap.replay.staging import Job
from kerncap.replay.worker.protocol import Image, Variation
from kerncap.replay.worker_process import Program

if TYPE_CHECKING:
    from concurrent.futures import Future

    from kerncap.replay.candidates.triton_image import Made


class CompiledApart:
    """What modules became, by their text and what they were compiled for."""

    def __init__(self, job: Job, python: str, limit_s: float, program: Program) -> None:
        """``program`` starts a compiler, by ``python`` or another one that has Triton."""
        self._job = job
        self._python = python
        self._limit_s = limit_s
        self._program = program
        self._made: dict[tuple[str, str, str], Future[Made]] = {}
        self._numbers = itertools.count()
        self._lock = threading.Lock()

    def image(self, path: Path, variation: Variation, arch: str) -> tuple[str, Image]:
        """The image of a module, and what its compiler says of it; from any thread.

        Raises CandidateError if it does not compile, BackendUnavailable if there is no compiler.
        """
        from concurrent.futures import Future

        from kerncap.replay.candidates.triton_image import compile_triton

        key = (hashlib.sha256(path.read_bytes()).hexdigest(), repr(variation), arch)
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

    def begin(self, path: Path, variation: Variation, arch: str) -> None:
        """Begin to compile a module, which `image` will be asked for."""

        def ahead() -> None:
            with contextlib.suppress(KerncapError, OSError):  # raised again when the image is asked for
                self.image(path, variation, arch)

        threading.Thread(target=ahead, daemon=True).start()

    def forget_but(self, path: Path) -> None:
        """Forget all but what one module became: what others import may be another text by now."""
        kept = _text(path)
        self._made = {key: made for key, made in self._made.items() if key[0] == kept}


def _text(path: Path) -> str:
    try:
        return hashlib.sha256(path.read_bytes()).hexdigest()
    except OSError:  # of a launch with no source
        return ""

"""A program of NVRTC, compiled in a process that it may take down."""

from __future__ import annotations

import os
import sys

from kerncap.errors import BackendUnavailable
from kerncap.replay.candidates import nvrtc_process
from kerncap.replay.candidates.compilers import (
    MAX_LOG,
    Compiled,
    Compiler,
    first_error,
    readable_log,
    run_tool,
)
from kerncap.replay.candidates.errors import BuildError
from kerncap.replay.candidates.unit import GIVEN_HEADERS
from kerncap.replay.worker import cuda_bindings, typed_json


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
        bindings = cuda_bindings.folder()
        if bindings is None:
            raise BackendUnavailable("NVRTC", cuda_bindings.Missing().mended)
        given = [
            (name, _text(self.staged.files[path]))
            for name, path in build.headers.items()
            if path.startswith(GIVEN_HEADERS)
        ]
        request = nvrtc_process.Request(
            library=str(self.tool.path),
            version=self.tool.version,
            bindings=bindings,
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
            detail = done.stderr[-MAX_LOG:]
            raise BuildError(f"NVRTC's process ended with {how} and no answer", detail) from None

    def _words(self) -> list[str]:
        folders = [path for _, path in self.staged.include_folders(self.folder)]
        if self.tool.include is not None:
            folders.append(str(self.tool.include))
            folders += [str(path) for path in (self.tool.include / "cccl",) if path.is_dir()]
        words = self.staged.options(self.folder, "nvrtc")
        return words + [f"--include-path={path}" for path in dict.fromkeys(folders)]


def _text(data: bytes) -> str:
    return data.decode("utf-8", "surrogateescape")

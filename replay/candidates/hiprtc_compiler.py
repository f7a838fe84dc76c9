"""A program of HIPRTC, compiled by hip-python in a process that it may take down."""

from __future__ import annotations

import os
import re
from pathlib import Path

from kerncap import child
from kerncap.errors import BackendUnavailable
from kerncap.replay.candidates import hiprtc_process
from kerncap.replay.candidates.compilers import Compiled, Compiler, first_error, readable_log, run_tool
from kerncap.replay.candidates.errors import BuildError
from kerncap.replay.candidates.unit import GIVEN_HEADERS
from kerncap.replay.worker import typed_json

_COMGR = re.compile(r"comgr-[0-9a-f]+/(?:input|include)/")  # where HIPRTC lays out a program and its headers


class HiprtcCompiler(Compiler):
    """HIPRTC. The tool's ``path`` is the Python that has hip-python, ``prefix`` the words that start it."""

    def code_object(self, expressions: tuple[str, ...], prefix: tuple[str, ...]) -> Compiled:
        """Compile the program. Raises BuildError with HIPRTC's log, BackendUnavailable without HIPRTC."""
        build, made = self.staged.build, self.folder / "made.hsaco"
        folders = [path for _, path in self.staged.include_folders(self.folder)]
        request = hiprtc_process.Request(
            out=str(made),
            source=_text(self.staged.files[build.unit]),
            name=build.name or "candidate.hip",
            headers=[
                (name, _text(self.staged.files[path]))
                for name, path in build.headers.items()
                if path.startswith(GIVEN_HEADERS)
            ],
            options=[
                f"--offload-arch={self.arch}",
                *self.staged.options(self.folder, "hiprtc"),
                *(f"-I{path}" for path in dict.fromkeys(folders)),
            ],
            expressions=list(expressions),
        )
        what = f"HIPRTC of hip-python {self.tool.version}"
        script = Path(os.path.abspath(hiprtc_process.__file__))
        command = [*prefix, *child.python(str(self.tool.path), script)]
        text = typed_json.line(request).decode()
        done = run_tool(command, self.folder, what, text, confined=self.confined)
        try:
            reply = typed_json.read(hiprtc_process.Reply, done.stdout)
        except typed_json.Unreadable:
            how = f"signal {-done.returncode}" if done.returncode < 0 else f"status {done.returncode}"
            raise BuildError(f"{what}: its process ended with {how} and no answer", done.stderr) from None
        if not reply.available:
            raise BackendUnavailable("HIPRTC", reply.error)
        log = _COMGR.sub("", readable_log(reply.log, self.folder))
        if reply.error:
            said = first_error(log) or reply.error
            raise BuildError(f"{what} does not compile the candidate: {said}", log)
        return Compiled(made.read_bytes(), log)


def _text(data: bytes) -> str:
    return data.decode("utf-8", "surrogateescape")

"""The session folder: made before the target starts, removed when everything in it is sealed."""

from __future__ import annotations

import json
import os
import secrets
import shutil
import tempfile
from pathlib import Path
from typing import Any

from kerncap import unexpected_error
from kerncap.capture import answer_process, armed, session_file
from kerncap.capture.answers import Answers
from kerncap.capture.options import CaptureOptions
from kerncap.capture.session_file import SessionFile, SessionFileError
from kerncap.capture.session_socket import SessionServer, remove_abandoned_socket
from kerncap.errors import UsageError

CONTEXT_FILE = "context.json"  # what `kerncap seal` needs to know of the run


class Session:
    """One run's session folder and the memfds that its hooks handed over."""

    def __init__(self, folder: Path, server: SessionServer | None, context: dict[str, Any]) -> None:
        self.folder = folder
        self.server = server
        self._answering: answer_process.AnsweringProcess | None = None
        self.context = context

    @classmethod
    def create(cls, options: CaptureOptions, context: dict[str, Any]) -> Session:
        """A new folder (mode 0700) in the output's file system, with session.json and a live socket.

        ``context`` holds what a later ``kerncap seal`` needs: command line, environment, time.
        Raises UsageError if the output folder can't be made or written.
        """
        output = options.run.output
        try:
            output.mkdir(parents=True, exist_ok=True)
            folder = Path(tempfile.mkdtemp(prefix=session_file.FOLDERS, dir=output.resolve()))
        except OSError as error:
            raise unexpected_error.about(f"output folder {output}", error, "can't be written") from error
        session = cls(folder, None, context)
        try:
            session._fill(options)
        except OSError as error:
            session.remove()
            raise unexpected_error.about(f"output folder {output}", error, "can't be written") from error
        return session

    @classmethod
    def reopen(cls, folder: Path) -> Session:
        """A session that its kerncap left behind; its memfds went with that process."""
        if not session_file.is_in(folder):
            raise UsageError(f"{folder}: no session.json in it; give the folder that kerncap capture named")
        try:
            os.listdir(folder)
        except OSError as error:
            raise SessionFileError(folder, error, "can't be read") from error
        try:
            context = json.loads((folder / CONTEXT_FILE).read_bytes())
        except (OSError, ValueError):
            context = {}
        return cls(folder, None, context if isinstance(context, dict) else {})

    def memfd(self, process: str, number: int) -> int | None:
        """The descriptor that process ``<pid>-<n>`` handed over as ``number``; it stays the session's."""
        return self.server.descriptor(process, number) if self.server is not None else None

    def release_memfd(self, process: str, number: int) -> None:
        """Give back a memfd whose launch is sealed."""
        if self.server is not None:
            self.server.release(process, number)

    def say_ended(self) -> None:
        """The target has ended and everything is sealed: `kerncap arm --wait` reads it now."""
        if (self.folder / armed.PAGE).exists():
            armed.say_ended(self.folder)

    def close(self) -> None:
        """Stop the sockets and let the memfds go; the folder stays."""
        if self._answering is not None:
            self._answering.close()
        if self.server is not None:
            self.server.close()

    def remove(self) -> None:
        """Close, and delete the folder."""
        self.close()
        if self.server is None:
            remove_abandoned_socket(self.folder)
        shutil.rmtree(self.folder, ignore_errors=True)

    def _fill(self, options: CaptureOptions) -> None:
        token = secrets.token_hex(16)
        answer = Answers(self.folder, options).answer
        self._answering = answer_process.start(self.folder, token, answer)  # before there are threads
        self.server = SessionServer(self.folder, token, answer)
        questions = self._answering.path if self._answering is not None else ""
        self._write(CONTEXT_FILE, json.dumps(self.context, indent=1).encode())
        self._write(session_file.NAME, SessionFile.of(options, token, self.server.path, questions).encode())
        if options.run.dormant:
            self._write(armed.PAGE, bytes(armed.PAGE_BYTES))

    def _write(self, name: str, data: bytes) -> None:
        descriptor = os.open(self.folder / name, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600)
        with os.fdopen(descriptor, "wb") as file:
            file.write(data)

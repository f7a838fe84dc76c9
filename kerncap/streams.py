"""The streams of kerncap's own process: every line of ours goes through here, none of a target's does.

While the command line runs, `sys.stdout` and `sys.stderr` are a `Shown` each: whatever is printed, by any
call, is `printable` then, and what the stream's encoding has no letter for is escaped. A target has the
descriptors themselves. If stdout can't be written, that is one line on stderr and status 2; a stderr
that can't be written changes nothing.
"""

from __future__ import annotations

import io
import os
import signal
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any, TextIO

from kerncap.errors import KerncapError
from kerncap.exit_status import ExitStatus
from kerncap.printable import printable

_ENCODING = "kerncap-encoding"  # of our own streams, among the interpreter's -X options


class OutputError(KerncapError):
    """What was asked for can't be written to stdout."""

    exit_status = ExitStatus.USAGE

    def __init__(self, reason: str) -> None:
        super().__init__(f"stdout: {reason}; the output is incomplete: send it to a file or a pipe")


class NobodyReads(Exception):
    """Who read stdout has gone, as ``head`` does: no error that anybody wants to hear of.

    No OSError, for click makes the status 1 of EPIPE, which is an answer.
    """

    exit_status = 128 + signal.SIGPIPE  # what a shell shows for a program that this ends


class Shown(io.TextIOBase):
    """A text stream that escapes what is written to it; ``stream`` is None if it was closed at the start.

    It has no ``buffer``, so that no library finds a way around it. `protocol` is the one that there is.
    """

    # click takes ASCII for a mistake, and looks for the buffer. The true encoding is the matter of `stream`.
    encoding = "utf-8"
    errors = "backslashreplace"

    def __init__(self, stream: TextIO | None, is_result: bool) -> None:
        self.stream = stream
        self._is_result = is_result

    def write(self, text: str, /) -> int:
        if not isinstance(text, str):
            raise TypeError(f"expected text, found {type(text).__name__}")
        self.write_styled(printable(text))
        return len(text)

    def write_styled(self, text: str) -> None:
        """``text`` in which escapes are kerncap's own: colours."""
        try:
            if self.stream is None:
                raise OSError("it is closed")
            self.stream.write(text)
        except (OSError, ValueError) as error:
            self._failed(error)

    def flush(self) -> None:
        try:
            if self.stream is not None:
                self.stream.flush()
        except (OSError, ValueError) as error:
            self._failed(error)

    def writable(self) -> bool:
        return True

    def isatty(self) -> bool:
        return self.stream is not None and self.stream.isatty()

    def fileno(self) -> int:
        if self.stream is None:
            raise io.UnsupportedOperation("the stream is closed")
        return self.stream.fileno()

    def close(self) -> None:
        """Nothing: the stream below belongs to the process."""

    def _failed(self, error: OSError | ValueError) -> None:
        """A result has to arrive; what is said beside it need not."""
        if not self._is_result:
            return
        if isinstance(error, BrokenPipeError):
            raise NobodyReads from error
        raise OutputError(getattr(error, "strerror", None) or str(error)) from error


class _Styled:
    def __init__(self, stream: Shown) -> None:
        self._stream = stream

    def write(self, text: str) -> int:
        self._stream.write_styled(text)
        return len(text)

    def __getattr__(self, name: str) -> Any:
        return getattr(self._stream, name)


def styled(stream: Any) -> Any:
    """``stream`` for a library that colours; text has to be `printable` before it gets that."""
    return _Styled(stream) if isinstance(stream, Shown) else stream


@contextmanager
def escaped() -> Iterator[None]:
    """`sys.stdout` and `sys.stderr` are escaped inside it."""
    out, err = sys.stdout, sys.stderr
    before = [(stream, stream.errors) for stream in (out, err) if isinstance(stream, io.TextIOWrapper)]
    for stream, _ in before:
        stream.reconfigure(errors="backslashreplace")
    sys.stdout, sys.stderr = Shown(out, is_result=True), Shown(err, is_result=False)
    try:
        yield
    finally:
        sys.stdout, sys.stderr = out, err
        for stream, errors in before:
            if _settled(stream):
                stream.reconfigure(errors=errors)


@contextmanager
def protocol() -> Iterator[None]:
    """Inside of it `sys.stdin` and `sys.stdout` are for another program, not for people. OutputError."""
    shown = sys.stdout
    below = shown.stream if isinstance(shown, Shown) else shown
    if sys.stdin is None or below is None:
        raise OutputError("it is closed, or stdin is")
    sys.stdout = below
    try:
        yield
    finally:
        sys.stdout = shown


def write_data(text: str) -> None:
    """``text`` to stdout as it is if that is a file or a pipe: a patch that is escaped can't be applied."""
    if isinstance(sys.stdout, Shown) and not sys.stdout.isatty():
        sys.stdout.write_styled(text)
    else:
        sys.stdout.write(text)
    sys.stdout.flush()


def _settled(stream: TextIO) -> bool:
    """Whether everything has gone out; what can't is dropped.

    The interpreter would try again at its end, and make a message and a status of its own of it.
    """
    try:
        stream.flush()
        return True
    except (OSError, ValueError):
        pass
    try:
        nowhere = os.open(os.devnull, os.O_WRONLY)
        os.dup2(nowhere, stream.fileno(), inheritable=False)
        os.close(nowhere)
        stream.flush()
    except (OSError, ValueError):
        pass
    return False


def reserve() -> None:
    """If 0, 1 or 2 is closed, nothing else that is opened gets its number.

    What is put there can't be read or written to any use, and no child inherits it: a target finds the
    descriptor closed, as it would without kerncap.
    """
    for number in (0, 1, 2):
        try:
            os.fstat(number)
        except OSError:
            os.open(os.devnull, os.O_RDONLY | os.O_CLOEXEC)


def in_utf8() -> None:
    """Start again in Python's UTF-8 mode if the locale's encoding is another one, as a child would be.

    File names and texts of a reproducer are UTF-8 whatever the locale is. The streams keep their encoding,
    and a target's environment is not touched: the mode is an option of this interpreter alone.
    """
    wanted = sys._xoptions.get(_ENCODING)
    if isinstance(wanted, str):
        for stream in (sys.stdout, sys.stderr):
            if isinstance(stream, io.TextIOWrapper):
                stream.reconfigure(encoding=wanted)
    elif sys.getfilesystemencoding() != "utf-8" and sys.executable:
        first = sys.stdout or sys.stderr
        options = ["-X", "utf8"] + (["-X", f"{_ENCODING}={first.encoding}"] if first is not None else [])
        from kerncap import child  # costs some milliseconds, and hardly anybody needs it here

        python, *words = child.kerncap("kerncap.cli", *sys.argv[1:])
        os.execve(python, [python, *options, *words], child.for_kerncap())

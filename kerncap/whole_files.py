"""What a user asked for is written whole or not at all, and what keeps it from that is one line.

Nothing that was there before is touched until all of the new is on the disk.
"""

from __future__ import annotations

import contextlib
import os
from collections.abc import Iterator
from pathlib import Path
from typing import BinaryIO

from kerncap import scratch, unexpected_error
from kerncap.errors import UsageError
from kerncap.streams import NobodyReads


@contextlib.contextmanager
def writing(target: Path) -> Iterator[None]:
    """An OSError inside, of a file that has no name yet, is a UsageError about ``target``."""
    try:
        yield
    except NobodyReads:
        raise
    except OSError as error:
        if not _is_of(error.filename, target):
            raise unexpected_error.explained(error) from error
        raise unexpected_error.about(target, error, "can't be written") from error


@contextlib.contextmanager
def output_folder(folder: Path) -> Iterator[None]:
    """``folder`` is there in the block; if it was made for that and nothing is in it, it goes again.

    Raises UsageError if it can't be written: before the work, not after it.
    """
    was_there = folder.exists()
    with writing(folder):
        folder.mkdir(parents=True, exist_ok=True)
        scratch.file("file", folder, hidden=True).remove()
    try:
        yield
    finally:
        if not was_there:
            with contextlib.suppress(OSError):  # it holds something, as it should
                folder.rmdir()


def _is_of(name: object, target: Path) -> bool:
    """Whether an error's file is the target, a folder above it, or what is to become it."""
    if not isinstance(name, str):
        return name is None
    whole = Path(os.path.abspath(target))
    return scratch.is_scratch(name) or Path(os.path.abspath(name)) in (whole, *whole.parents)


@contextlib.contextmanager
def new_file(target: Path, *, replace: bool, mode: int = 0o644, durable: bool = True) -> Iterator[BinaryIO]:
    """A file to write, which is ``target`` once the block has ended without an error.

    ``durable``: it is on the disk by then; what is written at every save of an editor need not be.

    Without ``replace`` one that is there stays. A link is followed. What is there and is no regular file (a
    FIFO, a terminal) is written as it is. Raises UsageError.
    """
    with writing(target), contextlib.ExitStack() as stack:
        if replace:
            if os.path.exists(target) and not os.path.isfile(target):
                yield stack.enter_context(open(target, "wb"))
                return
            target = Path(os.path.realpath(target))
        made = stack.enter_context(scratch.file("file", target.parent, hidden=True, mode=mode))
        with os.fdopen(made.writer(), "wb") as file:
            yield file
            file.flush()
            if durable:
                os.fsync(file.fileno())
        try:
            made.name(target, replace=replace, durable=durable)
        except FileExistsError:
            raise UsageError(f"{target}: already there; give another name with -o") from None


def write(target: Path, data: bytes | str, *, durable: bool = True) -> None:
    """Put ``data`` (text as UTF-8) where ``target`` is, in one step. Raises UsageError."""
    with new_file(target, replace=True, durable=durable) as file:
        file.write(data.encode() if isinstance(data, str) else data)

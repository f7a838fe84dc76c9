"""A session that was started dormant: the page that its processes read, and the selections behind it.

`kerncap arm` writes what it selects as ``session-<g>.json`` and then raises the page's
generation to g (docs/session.md, Arming). Only one arms at a time; who waits holds ``waiting``.
"""

from __future__ import annotations

import contextlib
import fcntl
import mmap
import os
import socket
import time
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

from kerncap.capture import session_file
from kerncap.capture.options import Selection
from kerncap.capture.session_file import SessionFile, SessionFileError
from kerncap.errors import CaptureError, UsageError

PAGE = "arm"
PAGE_BYTES = 4096
LOCK = "arm.lock"
WAITING = "waiting"
ENDED = "ended"
LAST_LOOK_S = 3.0  # how long the end of a session waits for those who wait for it
_OPEN_FLAGS = os.O_NOFOLLOW | os.O_NONBLOCK | os.O_CLOEXEC


@dataclass(frozen=True)
class DormantSession:
    """A session folder that can be armed: its target runs, and was started with ``--dormant``."""

    folder: Path
    file: SessionFile  # what a selection is put into

    @classmethod
    def open(cls, folder: Path) -> DormantSession:
        """Raises UsageError for what is no such session, CaptureError for one that is over."""
        if not session_file.is_in(folder):
            raise UsageError(f"{folder}: no session.json in it; give the folder that kerncap capture named")
        stored = SessionFile.read(folder / session_file.NAME)
        if not stored.dormant or not (folder / PAGE).is_file():
            raise UsageError(
                f"{folder}: it was not started with --dormant; start capture with --dormant to arm it"
            )
        _check_alive(folder, stored.socket)
        return cls(folder, stored)

    def arm(self, selection: Selection) -> int:
        """Make ``selection`` the session's, and give its generation.

        Raises CaptureError if another `kerncap arm` is at work, or the session is over.
        """
        with self._lock():
            _check_alive(self.folder, self.file.socket)
            generation = generation_of(self.folder) + 1
            self._put(session_file.name_of(generation), self.file.armed(selection, generation).encode())
            with _page(self.folder, write=True) as words:
                words[0] = generation
        return generation

    @contextlib.contextmanager
    def _lock(self) -> Iterator[None]:
        with _opened(self.folder / LOCK) as descriptor:
            try:
                fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
            except BlockingIOError:
                raise CaptureError(f"{self.folder}: another kerncap arm is using it; try again") from None
            yield

    def _put(self, name: str, data: bytes) -> None:
        """Complete under another name, then renamed: a process may read it at once."""
        unfinished = self.folder / f".{name}.tmp-{os.getpid()}"
        try:
            descriptor = os.open(unfinished, os.O_WRONLY | os.O_CREAT | os.O_EXCL | _OPEN_FLAGS, 0o600)
            with os.fdopen(descriptor, "wb") as file:
                file.write(data)
            os.rename(unfinished, self.folder / name)
        except OSError as error:
            raise SessionFileError(self.folder / name, error, "can't be written") from error


def find_session(place: Path) -> Path:
    """``place`` itself, or the one dormant session in the output folder that it is."""
    if session_file.is_in(place):
        return place
    if not os.path.isdir(place):  # also what can't be asked: a name that is too long, a closed folder
        raise UsageError(
            f"{place}: no such folder: the session is over, or it is another one "
            "(kerncap capture --dormant prints its path)"
        )
    try:
        names = sorted(os.listdir(place))
    except OSError as error:
        raise SessionFileError(place, error, "can't be read") from error
    folders = [place / name for name in names if name.startswith(session_file.FOLDERS)]
    found = [folder for folder in folders if os.path.exists(folder / PAGE)]
    if len(found) > 1:
        some = ", ".join(str(folder) for folder in found[:5])
        raise UsageError(f"{place}: {len(found)} dormant sessions in it, name one: {some}")
    if not found:
        raise UsageError(
            f"{place}: no dormant session in it; give the folder that kerncap capture --dormant named"
        )
    return found[0]


def session_file_of(folder: Path, generation: int) -> SessionFile:
    """What a generation selects. Raises CaptureError for one that there is not."""
    return SessionFile.read(folder / session_file.name_of(generation))


def generation_of(folder: Path) -> int:
    """Of the page; 0 for a session without one, or one that is gone."""
    try:
        with _page(folder) as words:
            return words[0]
    except CaptureError:
        return 0


@contextlib.contextmanager
def waiting(folder: Path) -> Iterator[None]:
    """While this holds, the end of the session leaves its folder a little longer."""
    with _opened(folder / WAITING) as descriptor:
        fcntl.flock(descriptor, fcntl.LOCK_SH)
        yield


def has_ended(folder: Path) -> bool:
    """Whether everything of the session is sealed, or the folder is gone."""
    return (folder / ENDED).exists() or not folder.is_dir()


def say_ended(folder: Path) -> None:
    """Leave ``ended``, and let those who wait have their last look."""
    deadline = time.monotonic() + LAST_LOOK_S
    with contextlib.suppress(OSError, CaptureError):
        (folder / ENDED).touch(mode=0o600)
        with _opened(folder / WAITING) as descriptor:
            while time.monotonic() < deadline:
                with contextlib.suppress(BlockingIOError):
                    return fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
                time.sleep(0.05)


def _check_alive(folder: Path, path: str) -> None:
    """The command line of a session serves its socket until the end."""
    over = f"{folder}: the session is over: its kerncap capture has ended"
    if has_ended(folder):
        raise CaptureError(over)
    with socket.socket(socket.AF_UNIX, socket.SOCK_STREAM) as connection:
        connection.settimeout(2.0)
        try:
            connection.connect(path)
        except OSError:
            raise CaptureError(f"{over} (kerncap seal makes reproducers of what is left in it)") from None


@contextlib.contextmanager
def _opened(path: Path, flags: int = os.O_RDWR | os.O_CREAT) -> Iterator[int]:
    try:
        descriptor = os.open(path, flags | _OPEN_FLAGS, 0o600)
    except OSError as error:
        raise SessionFileError(path, error, "can't be opened") from error
    try:
        yield descriptor
    finally:
        os.close(descriptor)


@contextlib.contextmanager
def _page(folder: Path, write: bool = False) -> Iterator[memoryview]:
    """The page as words; a word is read and written whole."""
    with _opened(folder / PAGE, os.O_RDWR if write else os.O_RDONLY) as descriptor:
        if os.fstat(descriptor).st_size < PAGE_BYTES:
            raise CaptureError(f"{folder / PAGE}: shorter than {PAGE_BYTES} bytes")
        access = mmap.PROT_READ | (mmap.PROT_WRITE if write else 0)
        with mmap.mmap(descriptor, PAGE_BYTES, mmap.MAP_SHARED, access) as page, memoryview(page) as view:
            words = view.cast("Q")
            try:
                yield words
            finally:
                words.release()

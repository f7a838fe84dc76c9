"""Temporary folders and files of kerncap's own processes: what a killed one leaves, the next one removes.

Each is locked (flock) by the process that made it, for as long as that lives: no child inherits the lock
over an exec, and the kernel gives it back whatever ends the process. A name of ours whose lock is free
belongs to nobody any more. The next process that makes something in the same place removes it, and what
lies in the usual temporary folder and in shared memory; only if its owner is this user, never through a link.

What is asked for by a user and made here first gets its final name by `Scratch.name`.
"""

from __future__ import annotations

import atexit
import contextlib
import fcntl
import os
import re
import stat
import tempfile
from collections.abc import Callable, Iterator
from pathlib import Path
from types import TracebackType

SHARED_MEMORY = Path("/dev/shm")
# Hidden beside what a user asked for, plain in a temporary folder. A session's folder has another ending:
# `kerncap seal` still makes reproducers of one whose process was killed.
_NAME = re.compile(r"\.?kerncap-[a-z]+-[0-9a-f]{16}")

_living: dict[int, Scratch] = {}  # each call on it is atomic: a signal's handler may come in between
_swept: set[tuple[int, str]] = set()  # by process: a fork begins with none of its own


class Scratch:
    """One folder or file, removed at the latest when its process ends; a context manager.

    ``path`` is absolute. Made by `folder` and `file`.
    """

    def __init__(self, place: Path, name: str, mode: int, is_folder: bool) -> None:
        """Raises OSError that names ``place``; FileExistsError if the name is taken."""
        self.path = place / name
        self._name = name
        self._pid = os.getpid()
        self._lock = -1
        with _about(place):
            self._parent = os.open(place, os.O_PATH | os.O_DIRECTORY | os.O_CLOEXEC)
        # Known before it is made: a signal that ends the process may come right after.
        _living[id(self)] = self
        try:
            with _about(place):
                self._make(mode, is_folder)
        except FileExistsError:
            self._forget()  # somebody else's
            raise
        except BaseException:
            self.remove()
            raise

    def _make(self, mode: int, is_folder: bool) -> None:
        flags = os.O_CLOEXEC | os.O_NOFOLLOW
        if is_folder:
            os.mkdir(self._name, mode, dir_fd=self._parent)
            flags |= os.O_RDONLY | os.O_DIRECTORY
        else:
            flags |= os.O_RDWR | os.O_CREAT | os.O_EXCL
        try:
            self._lock = os.open(self._name, flags, mode, dir_fd=self._parent)
        except FileNotFoundError:
            if is_folder:
                raise FileExistsError from None  # swept between its making and its opening
            raise
        with contextlib.suppress(OSError):  # a file system without locks: nobody else gets one there either
            fcntl.flock(self._lock, fcntl.LOCK_EX)
        if not _has_name(self._lock, self._name, self._parent):
            raise FileExistsError  # swept between its making and its locking

    def __enter__(self) -> Scratch:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.remove()

    @property
    def is_there(self) -> bool:
        """Whether it was neither removed nor named."""
        return id(self) in _living

    def writer(self) -> int:
        """A descriptor that writes the file; the caller closes it."""
        return os.dup(self._lock)

    def name(self, target: Path, *, replace: bool, durable: bool = True) -> None:
        """Give it its final name, and with that out of hand; ``durable``: the name is on the disk by then.

        Without ``replace`` a file that is there stays, FileExistsError. A folder never replaces a full one.
        """
        if replace or stat.S_ISDIR(os.fstat(self._lock).st_mode):
            os.rename(self._name, target, src_dir_fd=self._parent)
        else:
            _name_new(self._name, target, self._parent)
        self._forget()
        if durable:
            _sync_folder(target.parent)

    def remove(self) -> None:
        """Take it away with all that is in it; nothing happens the second time, or in a fork."""
        if not self.is_there or self._pid != os.getpid():
            return
        if self._lock >= 0:
            _delete(self._lock, self._name, self._parent)
        else:  # a signal came while it was being made
            _remove_abandoned(self._name, self._parent)
        self._forget()

    def _forget(self) -> None:
        if _living.pop(id(self), None) is not None:
            for descriptor in (self._lock, self._parent):
                if descriptor >= 0:
                    os.close(descriptor)


def folder(what: str, place: Path | None = None, *, hidden: bool = False, mode: int = 0o700) -> Scratch:
    """A folder in ``place``, by default the usual one for temporary files. Raises OSError.

    ``what`` is a word in small letters. ``hidden``: beside what a user asked for, where it does not belong.
    """
    return _new(what, place, hidden, mode, is_folder=True)


@contextlib.contextmanager
def temporary(what: str, place: Path | str | None = None, *, hidden: bool = False) -> Iterator[str]:
    """The path of a `folder`, for a block."""
    with folder(what, None if place is None else Path(place), hidden=hidden) as made:
        yield str(made.path)


def file(what: str, place: Path | None = None, *, hidden: bool = False, mode: int = 0o600) -> Scratch:
    """An empty file, as `folder`."""
    return _new(what, place, hidden, mode, is_folder=False)


def _new(what: str, place: Path | None, hidden: bool, mode: int, is_folder: bool) -> Scratch:
    place = Path(os.path.abspath(place if place is not None else tempfile.gettempdir()))
    _sweep_once(place)
    _sweep_once(SHARED_MEMORY)
    with contextlib.suppress(OSError):  # it can't be written
        _sweep_once(Path(tempfile.gettempdir()))
    while True:
        name = f"{'.' if hidden else ''}kerncap-{what}-{os.urandom(8).hex()}"
        assert _NAME.fullmatch(name), name
        try:
            return Scratch(place, name, mode, is_folder)
        except FileExistsError:
            continue


def place_of(name: str, made: Path) -> Path:
    """Where the file ``name`` (a plain relative path) of the folder ``made`` goes, the folders in it made.

    Never ``made`` itself: if something deleted that, it would come back as a folder that nobody removes.
    Raises OSError.
    """
    *folders, last = name.split("/")
    for folder in folders:
        made = made / folder
        made.mkdir(exist_ok=True)
    return made / last


def remove_all() -> None:
    """Take away everything that this process has made and not yet given a name."""
    for each in list(_living.values()):
        each.remove()


atexit.register(remove_all)


# --- what others have left ---------------------------------------------------------------------------


def _sweep_once(place: Path) -> None:
    key = (os.getpid(), str(place))
    if key not in _swept:
        _swept.add(key)
        sweep(place)


def sweep(place: Path) -> None:
    """Remove what processes of this user that are gone have left in ``place``; what can't be is no error."""
    try:
        parent = os.open(place, os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC)
    except OSError:
        return
    try:
        with contextlib.suppress(OSError), os.scandir(parent) as entries:
            names = [entry.name for entry in entries if _NAME.fullmatch(entry.name)]
            for name in names:
                _remove_abandoned(name, parent)
    finally:
        os.close(parent)


def is_scratch(path: str | bytes | int | None) -> bool:
    """Whether a path leads into something that is made here."""
    return isinstance(path, str) and any(_NAME.fullmatch(part) for part in path.split(os.sep))


def _remove_abandoned(name: str, parent: int) -> None:
    """Remove an entry unless it is somebody's: another user's, or locked by a process that lives."""
    flags = os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK | os.O_CLOEXEC  # a FIFO is not waited for
    try:
        descriptor = os.open(name, flags, dir_fd=parent)
    except OSError:
        return
    try:
        found = os.fstat(descriptor)
        ours = found.st_uid == os.geteuid() and (stat.S_ISDIR(found.st_mode) or stat.S_ISREG(found.st_mode))
        if ours:
            fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
            # It may have got its final name before its lock was had.
            if _has_name(descriptor, name, parent):
                _delete(descriptor, name, parent)
    except OSError:
        pass  # in use
    finally:
        os.close(descriptor)


def _has_name(descriptor: int, name: str, parent: int) -> bool:
    try:
        there = os.stat(name, dir_fd=parent, follow_symlinks=False)
    except FileNotFoundError:
        return False
    return os.path.samestat(os.fstat(descriptor), there)


def _delete(descriptor: int, name: str, parent: int) -> None:
    """Remove what is open as ``descriptor``, by that: the name may lead elsewhere by now."""
    with contextlib.suppress(OSError):
        if not stat.S_ISDIR(os.fstat(descriptor).st_mode):
            if _has_name(descriptor, name, parent):
                os.unlink(name, dir_fd=parent)
            return
        for _, folders, files, at in os.fwalk(".", topdown=False, dir_fd=descriptor):
            for each in files:
                _ignoring(os.unlink, each, at)
            for each in folders:
                if not _ignoring(os.rmdir, each, at):
                    _ignoring(os.unlink, each, at)  # a link to a folder
        os.rmdir(name, dir_fd=parent)


def _ignoring(call: Callable[..., None], name: str, at: int) -> bool:
    try:
        call(name, dir_fd=at)
    except OSError:
        return False
    return True


# --- names -------------------------------------------------------------------------------------------


def _name_new(name: str, target: Path, parent: int) -> None:
    """Give a file that is whole its name. FileExistsError if something is there: it is never replaced."""
    try:
        os.link(name, target, src_dir_fd=parent)
    except FileExistsError:
        raise
    except OSError:  # no hard links there, as on FAT and some network file systems: the name is taken first
        os.close(os.open(target, os.O_CREAT | os.O_EXCL | os.O_WRONLY | os.O_CLOEXEC, 0o600))
        try:
            os.replace(name, target, src_dir_fd=parent)
        except BaseException:
            target.unlink()
            raise
    else:
        os.unlink(name, dir_fd=parent)


def _sync_folder(folder: Path) -> None:
    with contextlib.suppress(OSError):  # some file systems have no such thing
        descriptor = os.open(folder, os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC)
        try:
            os.fsync(descriptor)
        finally:
            os.close(descriptor)


@contextlib.contextmanager
def _about(place: Path) -> Iterator[None]:
    """An OSError of a name that nobody has seen is one of the place."""
    try:
        yield
    except OSError as error:
        while is_scratch(place.name):
            place = place.parent
        error.filename = str(place)
        raise

"""What an unexpected exception is to a user: one line with a remedy, and an exit status.

The command line, the MCP server and the pytest plugin ask here, so that all three say the same. The status 1
is an answer ("no"): what goes wrong by a mistake of kerncap's own must never end in it.
"""

from __future__ import annotations

import errno
import os
import traceback

from kerncap.errors import BackendUnavailable, InternalError, KerncapError, OutOfMemory, UsageError
from kerncap.log import one_line
from kerncap.printable import printable

DEBUG_VARIABLE = "KERNCAP_DEBUG"  # set: the traceback of an internal error is printed
_LONGEST = 2000
_NO_ROOM = "failed to map segment from shared object"  # of the loader, if the address space is limited

_OF_A_PATH = {
    errno.EACCES: "change its permissions, or run as the user who owns it",
    errno.EPERM: "change its permissions, or run as the user who owns it",
    errno.ENOENT: "check the path; if it was there a moment ago, something removed it",
    errno.ENOTDIR: "give another path",
    errno.EISDIR: "give the path of a file",
    errno.ELOOP: "give a path without links",
    errno.ENAMETOOLONG: "give a shorter path",
}
_OF_THE_MACHINE = {
    errno.EROFS: "choose a place that can be written",
    errno.ENOSPC: "make room there, or choose another place",
    errno.EDQUOT: "make room in your quota, or choose another place",
    errno.EFBIG: "raise the limit of a file's size (ulimit -f)",
    errno.EIO: "the device fails: check the system's log, or choose another place",
    errno.EMFILE: "raise the limit of open files (ulimit -n)",
    errno.ENFILE: "end programs that hold many files open",
    errno.ESTALE: "mount the file system again",
}


def explained(error: BaseException) -> KerncapError:
    """``error`` as one of ours; what has none of the causes below is an InternalError."""
    if isinstance(error, KerncapError):
        return error
    if isinstance(error, MemoryError) or (isinstance(error, ImportError) and _NO_ROOM in str(error)):
        return OutOfMemory()
    if isinstance(error, RuntimeError) and str(error) == "can't start new thread":
        return _no_process()
    if isinstance(error, OSError) and (found := _of_system(error)) is not None:
        return found
    if isinstance(error, ModuleNotFoundError) and (error.name or "kerncap").partition(".")[0] != "kerncap":
        return BackendUnavailable(f"the Python module {one_line(error.name)}", "install kerncap again")
    text = one_line(error, 300)
    raised = type(error).__name__ + (f": {text}" if text else "")
    return InternalError(raised + _place(error))


def about(path: os.PathLike[str] | str, error: OSError, what: str) -> KerncapError:
    """What ``error`` is to the user who named ``path``; ``what``: "can't be read" or "can't be written"."""
    if _is_of_tmpdir(error):
        return explained(error)
    return explained(OSError(error.errno, f"{what}: {error.strerror or error}", os.fspath(path)))


def details(error: BaseException) -> list[str]:
    """The lines of the traceback if KERNCAP_DEBUG is set; else none."""
    return debugged("".join(traceback.format_exception(error)))


def debugged(trace: str) -> list[str]:
    """The lines of a traceback, of a worker's too, if KERNCAP_DEBUG is set; else none."""
    if not trace or not os.environ.get(DEBUG_VARIABLE):
        return []
    return printable(trace).rstrip("\n").split("\n")


def _of_system(error: OSError) -> KerncapError | None:
    """None for an error that tells a user nothing: it names no path, and no state of the machine."""
    if error.errno == errno.ENOMEM:
        return OutOfMemory()
    if error.errno == errno.EAGAIN:
        return _no_process()
    named = [_text(path) for path in (error.filename, error.filename2) if path is not None]
    if error.errno == errno.ENOENT:
        if not any(map(os.path.isabs, named)) and _working_folder_is_gone():
            return UsageError("the working folder: it was deleted; change to one that exists")
        if _is_of_tmpdir(error):
            return UsageError("TMPDIR: no folder for temporary files can be written; set it to one that can")
    if not named and error.errno not in _OF_THE_MACHINE:
        return None
    remedy = {**_OF_A_PATH, **_OF_THE_MACHINE}.get(error.errno or 0, "check the path, and run it again")
    reason = error.strerror or type(error).__name__
    return UsageError(f"{' to '.join(named) or 'a file'}: {reason}; {remedy}")


def _is_of_tmpdir(error: OSError) -> bool:
    """Whether the module tempfile has found no place."""
    return error.filename is None and "temporary directory" in str(error)


def _no_process() -> KerncapError:
    return BackendUnavailable(
        "another process or thread",
        "the system refuses one; raise the limits of processes (ulimit -u) and memory (ulimit -v)",
    )


def _text(path: object) -> str:
    if isinstance(path, int):
        return f"file descriptor {path}"
    return one_line(os.fsdecode(path) if isinstance(path, bytes) else path, _LONGEST)


def _working_folder_is_gone() -> bool:
    try:
        os.getcwd()
    except OSError:
        return True
    return False


def _place(error: BaseException) -> str:
    """The innermost line that is kerncap's own."""
    own = os.path.dirname(os.path.abspath(__file__))
    for frame in reversed(traceback.extract_tb(error.__traceback__)):
        if frame.filename.startswith(own + os.sep):
            return f" ({os.path.relpath(frame.filename, os.path.dirname(own))}:{frame.lineno})"
    return ""

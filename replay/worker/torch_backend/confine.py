"""Gives up rights of this process and of all that it starts, for good, before a stranger's code runs in it.

Landlock takes away files, TCP and the reach into other processes; a seccomp filter takes away other sockets,
memory that outlives the process, and marks on files that Landlock does not see. Both need no privilege.
Source: landlock(7), include/uapi/linux/landlock.h; seccomp(2), include/uapi/linux/{seccomp,filter,audit}.h.
"""

from __future__ import annotations

import contextlib
import ctypes
import os
import platform
import resource
import runpy
import struct
import sys
from collections.abc import Sequence
from pathlib import Path

_LANDLOCK_CREATE, _LANDLOCK_ADD, _LANDLOCK_RESTRICT = 444, 445, 446  # the same on every architecture
_ABI = 1  # a flag: ask for the version
_PATH_BENEATH = 1
_EXECUTE, _WRITE_FILE, _READ_FILE, _READ_DIR = (1 << bit for bit in range(4))
_OLDEST_RIGHTS = (1 << 13) - 1  # ABI 1; then one more bit each with 2 (refer), 3 (truncate), 5 (ioctl)
_NEWER_RIGHTS = {2: 1 << 13, 3: 1 << 14, 5: 1 << 15}
_OF_FILES = _EXECUTE | _WRITE_FILE | _READ_FILE | 1 << 14 | 1 << 15
_TCP = 3  # bind and connect, with ABI 4
_SCOPES = 3  # abstract sockets and signals, with ABI 6
_READING = _EXECUTE | _READ_FILE | _READ_DIR

_PR_SET_NO_NEW_PRIVS, _PR_SET_SECCOMP, _SECCOMP_MODE_FILTER = 38, 22, 2
_ALLOW, _ERRNO, _KILL = 0x7FFF0000, 0x00050000, 0x80000000
_EPERM = 1
_LOAD, _EQUAL, _AT_LEAST, _RETURN = 0x20, 0x15, 0x35, 0x06
# Numbers of the calls that are refused. In this order: ptrace, process_vm_readv, process_vm_writev, kcmp,
# pidfd_open, pidfd_getfd, socket, socketpair, io_uring_setup, bpf, perf_event_open, userfaultfd; what
# outlives a process: shmget, shmat, msgget, semget, mq_open, add_key, request_key, keyctl; other views of the
# files: mount, umount2, pivot_root, unshare, setns; marks on files: fchmod, fchmodat, fchown, fchownat,
# utimensat, setxattr, lsetxattr, fsetxattr, fchmodat2.
_REFUSED = {
    "x86_64": (0xC000003E, (
        101, 310, 311, 312, 434, 438, 41, 53, 425, 321, 298, 323, 29, 30, 68, 64, 240, 248, 249, 250,
        165, 166, 155, 272, 308, 91, 268, 93, 260, 280, 188, 189, 190, 452,
        90, 92, 94, 132, 235, 261,  # chmod, chown, lchown, utime, utimes, futimesat
    )),
    "aarch64": (0xC00000B7, (
        117, 270, 271, 272, 434, 438, 198, 199, 425, 280, 241, 282, 194, 196, 186, 190, 180, 217, 218, 219,
        40, 39, 41, 97, 268, 52, 53, 55, 54, 88, 5, 6, 7, 452,
    )),
}  # fmt: skip
_X32 = 0x40000000  # of x86-64: the same calls under other numbers

_SYSTEM = (
    "/usr", "/lib", "/lib64", "/bin", "/opt", "/etc/passwd", "/etc/ld.so.cache", "/etc/ld.so.conf",
    "/etc/ld.so.conf.d", "/proc/self", "/proc/cpuinfo", "/proc/meminfo", "/proc/stat",
    "/sys/devices/system/cpu", "/dev/urandom",
)  # fmt: skip

_COMPILERS_BYTES = 32 << 30
LANDLOCK = "Landlock (Linux 5.13)"
SECCOMP = "seccomp's filters"


class _Ruleset(ctypes.Structure):
    _fields_ = (("fs", ctypes.c_uint64), ("net", ctypes.c_uint64), ("scoped", ctypes.c_uint64))


class _Beneath(ctypes.Structure):
    _pack_ = 1
    _layout_ = "ms"
    _fields_ = (("allowed", ctypes.c_uint64), ("parent_fd", ctypes.c_int32))


def confine(
    readable: Sequence[str] | None, writable: Sequence[str] = (), memory_bytes: int | None = None
) -> list[str]:
    """Take away all but these rights; what could not be taken away, for lack of what in the system.

    ``readable``: files and folders that may still be read and executed; None: all. ``writable`` folders are
    readable, too. ``memory_bytes`` more than is mapped now may be. This process has to have one thread.
    """
    libc = ctypes.CDLL(None, use_errno=True)
    libc.syscall.restype = ctypes.c_long
    resource.setrlimit(resource.RLIMIT_CORE, (0, 0))
    if memory_bytes is not None:
        limit = _mapped_bytes() + memory_bytes
        with contextlib.suppress(ValueError):  # a lower one may be set already
            resource.setrlimit(resource.RLIMIT_AS, (limit, limit))
    missing = []
    if libc.prctl(_PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0):
        return [LANDLOCK, SECCOMP]
    if not _landlock(libc, readable, writable):
        missing.append(LANDLOCK)
    if not _seccomp(libc):
        missing.append(SECCOMP)
    return missing


def run_script(out: str, source: str, *given: str) -> None:
    """Run a script that can write to ``out`` only; ``given`` are hidden folders, --, the script."""
    end = given.index("--")
    hidden, script, arguments = given[:end], given[end + 1], given[end + 1 :]
    use_only(Path(source), out, hidden, [str(Path(script).parent)])
    sys.argv = list(arguments)
    runpy.run_path(script, run_name="__main__")


def run_program(out: str, source: str, *given: str) -> None:
    """Become a program that can write to ``out`` only.

    ``given``: hidden folders, --, what it may read beside what a compiler needs, --, its command line.
    """
    end = given.index("--")
    hidden, rest = given[:end], given[end + 1 :]
    end = rest.index("--")
    kept = [Path(folder).resolve() for folder in hidden]
    more = [each for path in rest[:end] for each in _without(Path(path).resolve(), kept)]
    use_only(Path(source), out, hidden, more)
    os.execv(rest[end + 1], rest[end + 1 :])


def use_only(source: Path, out: str, hidden: Sequence[str], more: Sequence[str] = ()) -> None:
    """Give up all but what compiling ``source`` needs; caches and temporary files go to ``out``.

    Before torch is imported: what is given up, a thread that is there already would keep.
    """
    for name in ("TMPDIR", "TRITON_CACHE_DIR", "TRITON_HOME", "HOME"):
        os.environ[name] = out
    confine([*readable_by(source, hidden), *more], [out], _COMPILERS_BYTES)


def readable_by(source: Path, hidden: Sequence[str]) -> list[str]:
    """What Python and a source module need: the system, what is installed, and modules beside the source.

    Nothing of it lies in one of the ``hidden`` folders, or has one in it.
    """
    kept = [Path(folder).resolve() for folder in hidden]
    found = [*_SYSTEM, str(source), str(Path(__file__).parents[1])]
    places = [sys.prefix, sys.base_prefix, sys.exec_prefix, *(entry for entry in sys.path if entry)]
    for place in dict.fromkeys(places):
        found += _without(Path(place).resolve(), kept)
    with contextlib.suppress(OSError):
        for path in source.parent.iterdir():
            if path.suffix == ".py" or (path / "__init__.py").is_file():
                found += _without(path.resolve(), kept)
    return found


def _without(path: Path, hidden: Sequence[Path]) -> list[str]:
    """``path``, with its links resolved, or what of it does not lead into ``hidden``.

    A rule on a link is one on its target. A link to a folder above a hidden one is left out: by its own name
    that folder may be gone through without end.
    """
    if not any(path == other or path in other.parents for other in hidden):
        return [] if any(other in path.parents for other in hidden) else [str(path)]
    if path in hidden or not path.is_dir():
        return []
    found = []
    try:
        for child in path.iterdir():
            target = child.resolve()
            if target == child or not any(target in other.parents for other in hidden):
                found += _without(target, hidden)
    except OSError:
        pass
    return found


def missing() -> list[str]:
    """What `confine` could not take away here, for lack of it in the system. Changes nothing."""
    libc = ctypes.CDLL(None, use_errno=True)
    libc.syscall.restype = ctypes.c_long
    found = [] if libc.syscall(_LANDLOCK_CREATE, None, 0, _ABI) > 0 else [LANDLOCK]
    return found + ([] if platform.machine() in _REFUSED and _has_seccomp() else [SECCOMP])


def _has_seccomp() -> bool:
    try:
        return "\nSeccomp:" in Path("/proc/self/status").read_text()
    except OSError:
        return False


def _landlock(libc: ctypes.CDLL, readable: Sequence[str] | None, writable: Sequence[str]) -> bool:
    abi = libc.syscall(_LANDLOCK_CREATE, None, 0, _ABI)
    if abi < 1:
        return False
    everything = _OLDEST_RIGHTS | sum(bit for since, bit in _NEWER_RIGHTS.items() if abi >= since)
    handled = everything if readable is not None else everything & ~_READING
    # A kernel takes no field that is newer than itself.
    rules = _Ruleset(handled, _TCP if abi >= 4 else 0, _SCOPES if abi >= 6 else 0)
    size = 8 * (1 + (abi >= 4) + (abi >= 6))
    ruleset = libc.syscall(_LANDLOCK_CREATE, ctypes.byref(rules), size, 0)
    if ruleset < 0:
        return False
    try:
        for path in readable or ():
            _allow(libc, ruleset, path, _READING & handled)
        for path in writable:
            _allow(libc, ruleset, path, handled & ~_EXECUTE)
        for path in ("/dev/null", "/dev/zero"):
            _allow(libc, ruleset, path, (_READ_FILE | _WRITE_FILE) & handled)
        return libc.syscall(_LANDLOCK_RESTRICT, ruleset, 0) == 0
    finally:
        os.close(ruleset)


def _allow(libc: ctypes.CDLL, ruleset: int, path: str, rights: int) -> None:
    try:
        fd = os.open(path, os.O_PATH | os.O_CLOEXEC)
    except OSError:
        return  # what is not there needs no rule
    try:
        if not os.path.isdir(path):
            rights &= _OF_FILES
        if rights:
            rule = _Beneath(rights, fd)
            libc.syscall(_LANDLOCK_ADD, ruleset, _PATH_BENEATH, ctypes.byref(rule), 0)
    finally:
        os.close(fd)


def _seccomp(libc: ctypes.CDLL) -> bool:
    if platform.machine() not in _REFUSED:
        return False
    arch, refused = _REFUSED[platform.machine()]
    # (code, jump if true, jump if false, operand): 4 is the architecture in seccomp_data, 0 the number.
    program = [(_LOAD, 0, 0, 4), (_EQUAL, 1, 0, arch), (_RETURN, 0, 0, _KILL), (_LOAD, 0, 0, 0)]
    if platform.machine() == "x86_64":
        program += [(_AT_LEAST, 0, 1, _X32), (_RETURN, 0, 0, _ERRNO | _EPERM)]
    for number in refused:
        program += [(_EQUAL, 0, 1, number), (_RETURN, 0, 0, _ERRNO | _EPERM)]
    program.append((_RETURN, 0, 0, _ALLOW))
    code = ctypes.create_string_buffer(b"".join(struct.pack("HBBI", *step) for step in program))
    filters = struct.pack("HxxxxxxQ", len(program), ctypes.addressof(code))
    return libc.prctl(_PR_SET_SECCOMP, _SECCOMP_MODE_FILTER, ctypes.c_char_p(filters), 0, 0) == 0


def _mapped_bytes() -> int:
    return int(Path("/proc/self/statm").read_text().split()[0]) * resource.getpagesize()

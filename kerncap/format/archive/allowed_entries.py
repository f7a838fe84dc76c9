"""Which entries an archive may have: plain names below one folder, each once, regular files, no overlaps."""

from __future__ import annotations

import stat
import struct
import zipfile
from pathlib import Path

from kerncap.format.allowed_names import MANIFEST_PATH, MAX_FOLDER_ENTRIES
from kerncap.format.stored_files import format_error, path_problem
from kerncap.printable import visible

_LOCAL = struct.Struct("<4s5H3L2H")
_ENCRYPTED = 0x1
Entries = dict[str, zipfile.ZipInfo]


def allowed_entries(archive: Path, found: list[zipfile.ZipInfo], size: int) -> tuple[Entries, Entries]:
    """The archive's files, and its folders, by their name below the one folder that holds them all."""
    if len(found) > MAX_FOLDER_ENTRIES:
        message = f"{len(found)} entries; a reproducer has at most {MAX_FOLDER_ENTRIES}"
        raise format_error(archive, size, message)
    files: Entries = {}
    folders: Entries = {}
    for info in found:
        _check_entry(archive, info, size)
        if info.filename.endswith("/"):
            folders[info.filename.rstrip("/")] = info
            continue
        key = info.filename.casefold()  # some file systems know no other
        if key in files:
            raise format_error(archive, info.header_offset, f"{visible(info.filename)} is listed twice")
        files[key] = info
    _refuse_overlaps(archive, files, size)
    prefix = _prefix(archive, files)
    folders.pop(prefix.rstrip("/"), None)
    return (
        _below(archive, prefix, {info.filename: info for info in files.values()}),
        _below(archive, prefix, folders),
    )


def _check_entry(archive: Path, info: zipfile.ZipInfo, size: int) -> None:
    name = info.filename
    # zipfile itself cuts a name at NUL and turns the separator around: what was written counts.
    problem = path_problem(info.orig_filename.rstrip("/"))
    mode = info.external_attr >> 16
    if problem is None and info.orig_filename != name:
        problem = "its name is not plain"
    if problem is None and stat.S_IFMT(mode) not in (0, stat.S_IFREG, stat.S_IFDIR):
        problem = "not a regular file (a link?)"
    if problem is None and info.flag_bits & _ENCRYPTED:
        problem = "it is encrypted"
    if problem is None and info.compress_type not in (zipfile.ZIP_STORED, zipfile.ZIP_DEFLATED):
        problem = f"its compression (method {info.compress_type}) is neither store nor deflate"
    if problem is None and info.compress_size > size:
        problem = f"it claims {info.compress_size} packed bytes in a file of {size}"
    if problem is not None:
        raise format_error(archive, info.header_offset, f"{visible(name, 200)}: {problem}")


def _refuse_overlaps(archive: Path, files: dict[str, zipfile.ZipInfo], size: int) -> None:
    """Entries that share bytes make a small archive endless."""
    end = 0
    for info in sorted(files.values(), key=lambda one: one.header_offset):
        if info.header_offset < end:
            raise format_error(archive, info.header_offset, f"{visible(info.filename)} overlaps another file")
        end = info.header_offset + _LOCAL.size + info.compress_size
    if end > size:
        raise format_error(archive, size, "truncated: a file ends beyond its end")


def _prefix(archive: Path, files: Entries) -> str:
    """The folder that the reproducer lies in, with its ``/``; nothing if it lies at the top."""
    tops = [i.filename.rpartition("/")[0] for i in files.values() if _last(i.filename) == MANIFEST_PATH]
    shallow = [top for top in tops if "/" not in top]
    if not shallow:
        raise format_error(archive, 0, f"no reproducer: there is no {MANIFEST_PATH} in it")
    if len(shallow) > 1:
        raise format_error(archive, 0, f"{len(shallow)} reproducers in one archive; expected one")
    return f"{shallow[0]}/" if shallow[0] else ""


def _below(archive: Path, prefix: str, entries: Entries) -> Entries:
    for name, info in entries.items():
        if not name.startswith(prefix):
            message = f"{visible(name, 200)}: not in the folder of the reproducer, {visible(prefix, 200)}"
            raise format_error(archive, info.header_offset, message)
    return {name[len(prefix) :]: info for name, info in entries.items()}


def _last(name: str) -> str:
    return name.rpartition("/")[2]

"""A folder built next to its final name, made durable and renamed: a final name means a whole folder."""

from __future__ import annotations

import errno
import hashlib
import os
from collections.abc import Callable
from pathlib import Path

from kerncap import scratch, writable_by_others
from kerncap.errors import KerncapError
from kerncap.format import schema
from kerncap.format.allowed_names import MANIFEST_DIGEST_PATH, MANIFEST_PATH
from kerncap.format.final_name import file_stem, final_names
from kerncap.format.stored_files import path_problem


class SealedFolder:
    """A hidden folder in ``final_parent``, until `seal` renames it or `remove` takes it away.

    ``is_whole``: whether a folder that exists has a manifest of this SHA-256 and is undamaged.
    """

    def __init__(self, final_parent: Path, name_stem: str, is_whole: Callable[[Path, str], bool]) -> None:
        self._parent = Path(final_parent)
        self._stem = file_stem(name_stem)
        self._is_whole = is_whole
        self._parent.mkdir(parents=True, exist_ok=True)
        self._made = scratch.folder("seal", self._parent, hidden=True, mode=0o755)
        self.path = self._made.path
        self.files: dict[str, schema.StoredFile] = {}

    @property
    def is_there(self) -> bool:
        """Whether it is neither sealed nor removed."""
        return self._made.is_there

    def add_file(self, relpath: str, data: bytes) -> schema.StoredFile:
        """Store ``data`` under a plain relative path. The same path again must have the same bytes."""
        problem = path_problem(relpath)
        if problem:
            raise ValueError(problem)
        stored = schema.StoredFile(path=relpath, size=len(data), sha256=hashlib.sha256(data).hexdigest())
        if self.files.get(relpath) == stored:
            return stored
        with open(scratch.place_of(relpath, self.path), "xb") as file:
            file.write(data)
            file.flush()
            os.fsync(file.fileno())
        self.files[relpath] = stored
        return stored

    def seal(self, manifest: bytes) -> Path:
        """Write the manifest, make all of it durable, and give the folder its final name.

        The name is ``<stem>-<8 hex of the manifest's SHA-256>``. A whole folder with the same manifest is
        returned as it is; other content under that name is left alone and more digits are used.
        """
        digest = hashlib.sha256(manifest).hexdigest()
        self.add_file(MANIFEST_PATH, manifest)
        self.add_file(MANIFEST_DIGEST_PATH, f"{digest}  {MANIFEST_PATH}\n".encode())
        writable_by_others.shut_out(self.path)
        for folder, _, _ in os.walk(self.path, topdown=False):
            _sync_folder(Path(folder))
        return self._rename(digest)

    def remove(self) -> None:
        self._made.remove()

    def _rename(self, digest: str) -> Path:
        for final in final_names(self._parent, self._stem, digest):
            if not os.path.lexists(final):
                try:
                    self._made.name(final, replace=False)
                except OSError as error:  # somebody else was quicker
                    if error.errno not in (errno.ENOTEMPTY, errno.EEXIST, errno.ENOTDIR):
                        raise
                else:
                    return final
            if self._is_whole(final, digest):
                return final
        raise KerncapError(f"{final}: already there with other content; give another output folder with -o")


def _sync_folder(folder: Path) -> None:
    fd = os.open(folder, os.O_RDONLY | os.O_DIRECTORY)
    try:
        os.fsync(fd)
    finally:
        os.close(fd)
